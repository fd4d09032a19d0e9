// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Server: answers calls of protobuf services; each request runs in a fiber of its own.
//
//     class EchoServiceImpl : public EchoService { void Echo(...) override { ...; done->Run(); } };
//     Server server({.max_in_flight = 10'000});
//     server.AddService(&echo);
//     if (auto error = server.Start(*io::SocketAddress::Parse("0.0.0.0:8000"))) ...
//     ...
//     server.Stop(5s);
//
// A connection has a fiber that reads while there are bytes, and none while it is silent (server_connection.h). It cuts
// the bytes into frames and starts the fibers for them, all of one read at once. A handler may take as long as it
// likes and call `done` from anywhere. Answers go out in the order in which they are ready; one system call sends those
// that are ready at the same time (batch_writer.h). Handlers throw nothing but FiberCancelled: any other exception that
// leaves one ends the process, as in any fiber. While the runtime starts no fibers, silent connections are not read.
//
// The server answers without calling the handler: requests over the limits (OVERLOADED: Options); requests
// whose deadline passed before their turn (DEADLINE_EXCEEDED); messages that cannot be parsed or name no service;
// requests that begin to come while the server stops (UNAVAILABLE). A malformed frame ends the connection, after the
// answers to what came before; a frame that is too large is answered first.
//
// Each call has a scope (sync/cancel_scope.h), in which the handler runs, and all that it calls and all fibers of its
// FiberScopes. The scope ends at the deadline that the client has sent; when the client cancels the call, which it does
// also when its own time is over or its caller is cancelled; when the client has gone (the end of its data counts: a
// client keeps its side open while it waits); and at the deadline of Stop(). Then waits throw FiberCancelled, and when
// that leaves the handler the server answers instead of it. A handler that has handed `done` to somebody else must not
// let it out. Handlers can also ask, or be told: RpcController::IsCanceled, NotifyOnCancel (rpc_controller.h).
//
// A client that is silent is sent pings; one that does not answer has gone (heartbeat.h). For that, and for
// idle_timeout, a sweep looks at all connections now and then.
//
// AddService(): before Start(). Start(), Stop(), the destructor: one fiber or thread, not a handler. counts(): anyone.
#ifndef WEFT_EXAMPLES_RPC_RPC_SERVER_H_
#define WEFT_EXAMPLES_RPC_RPC_SERVER_H_

#include <google/protobuf/service.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <system_error>
#include <unordered_map>
#include <vector>

#include "weft/base/deadline.h"
#include "weft/base/memory/intrusive_list.h"
#include "weft/base/memory/object_pool.h"
#include "weft/examples/rpc/batch_writer.h"
#include "weft/examples/rpc/frame.h"
#include "weft/examples/rpc/heartbeat.h"
#include "weft/fiber/periodic_task.h"
#include "weft/io/socket_address.h"
#include "weft/io/tcp_listener.h"
#include "weft/io/tcp_server.h"
#include "weft/net/budgets.h"
#include "weft/sync/fiber_condition_variable.h"
#include "weft/sync/fiber_mutex.h"

#include "examples/rpc/meta.pb.h"

namespace weft::rpc {

class ServerConnection;

class Server {
 public:
  struct Options {
    // Requests received and not yet answered. 0: no limit.
    std::size_t max_in_flight = 0;
    // The same for each connection, so that one client does not take all of max_in_flight. 0: no limit.
    std::size_t max_in_flight_per_connection = 0;
    // Bytes of the requests in flight: their frames, and for each kCallMemory. 0: no limit. A request that is larger
    // alone is never taken.
    std::size_t max_request_memory = 0;
    // Called for each request, in the fiber that reads; false: the answer is OVERLOADED. Empty: all are taken.
    std::function<bool()> admit{};
    FrameLimits limits{};
    BatchWriter::Options writing{};
    Heartbeat::Options heartbeat{};
    // Limits of connections in all and for each host, how their fibers are started, TCP's keep-alive and user time-out.
    // idle_timeout: a connection that has sent no request for so long, and has none in flight, is told to send no more,
    // and closed, up to an eighth of that time, or 5 ms, later; so it is with the heartbeat. Its Channel connects again
    // for its next call. first_request_timeout: the same for one that has sent nothing. read_timeout has no use here.
    io::TcpServer::Options connections{};
  };
  // What a call takes beside its frame: mostly the pages of its fiber's stack that are touched. Handlers that use more
  // of their stacks, or of the heap, take more.
  static constexpr std::size_t kCallMemory = 8 << 10;

  Server();
  explicit Server(Options options);
  // Stops without waiting for answers.
  ~Server();
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Outlives the server.
  void AddService(google::protobuf::Service* service);
  [[nodiscard]] std::error_code Start(const io::SocketAddress& address);
  // False: no fiber can be started.
  [[nodiscard]] bool Start(io::TcpListener listener);
  // Graceful: accepts what waits in the kernel and no more, tells clients to send no more, and answers what is in
  // flight. A request of which the server has read a part is in flight, too: it is read to its end and run. Requests
  // that begin to come later are answered with UNAVAILABLE (a Channel makes these calls again).
  // Clients close their connections when they have their answers; Stop() closes what is left after kFarewellTime. At
  // the deadline it cuts connections and cancels calls. Returns when the last handler has ended.
  void Stop(Deadline drain_until);

  io::SocketAddress local_address() const { return listening_->local_address(); }

  // Stop() has been called: new requests are not begun. A handler that was cancelled and reads false has lost its
  // client, or its time was over.
  bool draining() const { return draining_.load(std::memory_order_relaxed); }

  struct Counts {
    std::size_t connections = 0;  // now
    std::size_t in_flight = 0;    // now
    std::uint64_t requests = 0;
    std::uint64_t overloaded = 0;             // refused; of these, by
    std::uint64_t over_connection_limit = 0;  // max_in_flight_per_connection
    std::uint64_t over_memory = 0;            // max_request_memory
    std::uint64_t unavailable = 0;            // not begun, and not of `requests`: they came after Stop()
    std::uint64_t vanished = 0;               // connections given up: no answer to a ping
    std::uint64_t idle = 0;                   // connections ended: one of these two time-outs
    std::uint64_t late = 0;                   // not begun: their time was over
    std::uint64_t bad = 0;                    // frames and messages that are none
    std::uint64_t answers = 0;                // frames, and the system calls for them, of connections that have ended
    std::uint64_t writes = 0;
    std::uint64_t reads = 0;  // that brought something
    // Of io::TcpServer, whose limits are in Options::connections.
    std::uint64_t accepted_connections = 0;
    std::uint64_t refused_connections = 0;  // of these; and of the refused, by
    std::uint64_t over_host_limit = 0;      // max_connections_per_host
  };
  Counts counts() const;

 private:
  friend class ServerCall;
  friend class ServerConnection;

  // What ServerConnection is for the list of connections.
  struct Listed {
    base::ListHook hook;
  };

  // How long clients that have their answers may take to close their connections, before we do.
  static constexpr std::chrono::milliseconds kFarewellTime{1000};

  // By the readers. A part of a frame has come, and Stop() waits for the rest, until EndFrame(). False: it does not,
  // since it has been called before.
  [[nodiscard]] bool BeginFrame();
  void EndFrame();
  // By the readers, with what MemoryOf() says. Not OK: what the answer is instead. `awaited`: within BeginFrame() and
  // EndFrame().
  [[nodiscard]] ErrorCode BeginCall(std::size_t memory, bool awaited);
  static std::size_t MemoryOf(const FrameHeader& header) {
    return kCallMemory + FrameHeader::kSize + header.meta_size + header.body_size;
  }
  // Whether we, not the peer, ended a connection.
  bool cut() const { return cut_.load(std::memory_order_relaxed); }
  void EndCall(std::size_t memory);
  // Of a call that has begun and exceeds its connection's limit.
  void RefuseCall(std::size_t memory);
  void LeaveCall();
  void LeaveOne(std::atomic<std::size_t>* count);
  // False: the connections are cut. Then it is in the list all the same, but nobody will end its reading.
  [[nodiscard]] bool Enter(ServerConnection* connection);
  void Leave(ServerConnection* connection);
  std::unique_ptr<FrameReader> TakeReader();
  void GiveBack(std::unique_ptr<FrameReader> reader);
  void AddToPast(const BatchWriter::Counts& written, std::uint64_t reads);
  // Uses of connections, which end with it.
  struct UseEnder {
    void operator()(ServerConnection* connection) const noexcept;
  };
  using Use = std::unique_ptr<ServerConnection, UseEnder>;
  // Under the lock; of those in the list.
  static Use BeginUse(ServerConnection* connection);
  std::vector<Use> UseAllConnections();
  // True: there is nothing to do, or a task does it.
  [[nodiscard]] bool StartSweep();
  void Sweep();
  io::RequestHandler Handler();
  google::protobuf::Service* FindService(const std::string& name) const;

  const Options options_;
  std::unordered_map<std::string, google::protobuf::Service*> services_;
  std::unique_ptr<io::TcpServer> listening_;  // written under mutex_, for counts()

  std::atomic<std::size_t> in_flight_{0};
  std::atomic<std::size_t> half_frames_{0};  // between BeginFrame() and EndFrame()
  base::ObjectPool<FrameReader> readers_;
  io::RequestBudget memory_;
  std::atomic<bool> draining_{false};
  std::atomic<bool> cut_{false};  // written under mutex_
  mutable FiberMutex mutex_;      // guards what follows
  FiberConditionVariable changed_;
  base::IntrusiveList<Listed, &Listed::hook> listed_;  // the connections
  std::size_t connections_ = 0;
  std::uint64_t greeted_ = 0;  // those that have been in the list
  bool all_told_ = false;      // Stop() has looked for those that it tells; later ones learn it when they enter
  Counts past_;                // of connections that have ended

  // relaxed; statistics.
  std::atomic<std::uint64_t> requests_{0};
  std::atomic<std::uint64_t> overloaded_{0};
  std::atomic<std::uint64_t> over_connection_limit_{0};
  std::atomic<std::uint64_t> unavailable_{0};
  std::atomic<std::uint64_t> vanished_{0};
  std::atomic<std::uint64_t> idle_{0};
  std::atomic<std::uint64_t> late_{0};
  std::atomic<std::uint64_t> bad_{0};

  PeriodicTask sweep_;
};

}  // namespace weft::rpc

#endif  // WEFT_EXAMPLES_RPC_RPC_SERVER_H_
