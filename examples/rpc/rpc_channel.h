// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Channel: calls to one server, over a pool of connections. What a stub is made with:
//
//     Channel channel(*io::SocketAddress::Parse("127.0.0.1:8000"), {.connections = 2});
//     if (!channel.Start()) ...
//     EchoService::Stub stub(&channel);
//     stub.Echo(&controller, &request, &answer, nullptr);        returns when the call has ended: parks only the fiber
//     stub.Echo(&controller, &request, &answer, done);           returns at once; done->Run() in a fiber, at the end
//
// Not an io::ConnectionPool, which lends each connection to one call: here many calls share one.
//
// Each connection has a fiber that makes it, reads from it, and makes it anew when it is lost: at once the first time,
// then after a pause that doubles from backoff_least to backoff_most, less a random part of up to a half. Calls take
// the connections in turn. Without a connection they fail with UNAVAILABLE, unless one is being made for the first time
// or again after it has worked: then they wait for it. A server that stops says farewell; then a new connection is made
// at once, while the calls on the old one get their answers. One that says so because the connection is idle gets a new
// one with the next call.
//
// A call that has failed with UNAVAILABLE, and certainly was not begun (Controller::not_begun()), is made again after a
// pause: options.retry.most_attempts times at most, within its deadline and the channel's io::RetryBudget. A handler's
// own UNAVAILABLE is an answer. So a restart in which the next process takes the listening socket over, and the last
// one has time to answer, fails no call. Calls fail nevertheless
//     UNAVAILABLE      when no server is there for longer than the pauses last (with the options as they are 80 to
//                      155 ms), or an outage has used up the budget;
//     CONNECTION_LOST  when they had been sent, and the server ends before it reads them: it closes connections on
//                      which clients send on after its farewell.
//
// Messages above limits.max_body are not sent (TOO_LARGE). A server that sends a larger one, or a malformed frame,
// loses its connection, with the calls on it (CONNECTION_LOST).
//
// A call's deadline is no later than that of the caller's scopes (sync/cancel_scope.h), and goes to the server. A call
// that blocks is a cancellation point: it throws FiberCancelled when its caller is cancelled, and the server is told.
// An asynchronous call belongs to no scope: Controller::StartCancel() ends it.
//
// CallMethod(): any fiber and any thread, between Start() and Stop(). An asynchronous call is a blocking one in a fiber
// of its own. Start(), Stop(), the destructor: one fiber or thread.
#ifndef WEFT_EXAMPLES_RPC_RPC_CHANNEL_H_
#define WEFT_EXAMPLES_RPC_RPC_CHANNEL_H_

#include <google/protobuf/service.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "weft/base/ref_ptr.h"
#include "weft/base/time/clock.h"
#include "weft/examples/rpc/batch_writer.h"
#include "weft/examples/rpc/client_connection.h"
#include "weft/examples/rpc/frame.h"
#include "weft/examples/rpc/heartbeat.h"
#include "weft/examples/rpc/retry_pauses.h"
#include "weft/examples/rpc/rpc_controller.h"
#include "weft/io/socket_address.h"
#include "weft/io/tcp_liveness.h"
#include "weft/net/budgets.h"
#include "weft/sync/fiber_condition_variable.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_mutex.h"

namespace weft::rpc {

class Channel final : public google::protobuf::RpcChannel {
 public:
  struct Options {
    std::size_t connections = 1;
    // For calls whose controller sets none.
    std::chrono::nanoseconds timeout = std::chrono::nanoseconds::max();
    std::chrono::milliseconds connect_timeout{1000};
    std::chrono::milliseconds backoff_least{10};
    std::chrono::milliseconds backoff_most{1000};
    RetryOptions retry{};
    FrameLimits limits{};
    BatchWriter::Options writing{};
    // A server that does not answer is given up: calls in flight end with CONNECTION_LOST.
    Heartbeat::Options heartbeat{};
    // TCP's own ways to find out (io/tcp_liveness.h), beside the heartbeat or instead of it. The defaults leave both
    // off.
    io::TcpKeepAlive keep_alive{.enabled = false};
    std::chrono::milliseconds user_timeout{0};
  };

  Channel(const io::SocketAddress& server, const Options& options);
  // Stops it.
  ~Channel() override;

  // Once. False: no fibers can be started.
  [[nodiscard]] bool Start();
  // Calls in flight end with CONNECTION_LOST, others with UNAVAILABLE. Asynchronous calls may end after this returns,
  // but before the destructor does.
  void Stop();

  // The controller is a Controller.
  void CallMethod(const google::protobuf::MethodDescriptor* method, google::protobuf::RpcController* controller,
                  const google::protobuf::Message* request, google::protobuf::Message* answer,
                  google::protobuf::Closure* done) override;

  // Whether a call would find a connection.
  bool Healthy() const;
  const io::SocketAddress& server() const { return server_; }

  struct Counts {
    std::size_t connected = 0;   // now
    std::uint64_t connects = 0;  // that succeeded
    std::uint64_t failures = 0;  // connects that failed
    std::uint64_t requests = 0;  // frames and the system calls for them, of all connections
    std::uint64_t writes = 0;
    std::uint64_t answers = 0;
    std::uint64_t reads = 0;
    std::uint64_t retries = 0;  // calls that were made again
  };
  Counts counts() const;

 private:
  // kResting: the connection was idle, until a call comes.
  enum class State { kConnecting, kConnected, kBroken, kResting };
  struct Slot {
    State state = State::kConnecting;
    RefPtr<ClientConnection> connection;  // kConnected
  };

  void Keep(Slot* slot);
  void Enter(Slot* slot, RefPtr<ClientConnection> connection);
  void Rest(Slot* slot);
  // A call has come: it may need the connections that rest, and those behind it will.
  void WakeRestingLocked();
  void SetState(Slot* slot, State state, const std::string& error);
  // The connection has ended; or, `farewell`, only has calls to finish.
  void Leave(Slot* slot, State state, bool farewell);
  // Reads on in a fiber of its own.
  void Finish(RefPtr<ClientConnection> connection);
  void FinishHere(ClientConnection* connection);
  // nullptr: the controller says why.
  RefPtr<ClientConnection> Choose(Controller* controller);
  ClientConnection* ChooseLocked();
  void Call(const google::protobuf::MethodDescriptor* method, Controller* controller,
            const google::protobuf::Message* request, google::protobuf::Message* answer);
  // False: it is not to be made again.
  bool PauseBeforeRetry(Controller* controller, std::chrono::nanoseconds pause);
  static void Add(const ClientConnection& connection, Counts* counts);

  const io::SocketAddress server_;
  const Options options_;
  FiberEvent stop_;
  io::RetryBudget budget_;
  std::uint64_t seed_ = 0;  // of the pauses; since Start()
  std::atomic<std::uint64_t> retries_{0};

  mutable FiberMutex mutex_;  // guards what follows
  FiberConditionVariable changed_;
  std::vector<Slot> slots_;
  std::vector<RefPtr<ClientConnection>> leaving_;  // after a farewell
  std::size_t next_ = 0;
  std::size_t resting_ = 0;  // slots
  std::size_t users_ = 0;    // fibers that use the channel: of connections, in Finish(), of asynchronous calls
  bool stopping_ = false;
  std::string last_error_;
  Counts past_;  // of connections that have ended
};

}  // namespace weft::rpc

#endif  // WEFT_EXAMPLES_RPC_RPC_CHANNEL_H_
