// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// ServerConnection: one connection of a Server: its reader, and the calls that came over it.
// ServerCall: one request, from the frame to its answer.
//
//      reader:        frame -> ServerCall -> a fiber
//      its fiber:     parse, time over? -> the service's method, in the call's scope
//      done->Run():   out of the connection's calls -> the answer to the writer
//
// The reader has a fiber only while there are bytes. Then it rests: the connection waits in its TcpServer without a
// fiber and a block for bytes, also while its calls run.
//
//      Greet() --> rests --bytes, the end: Serve()--> reads --no more bytes--> rests
//                    |                                  '--the end, an error--> ends, when all uses have ended
//                    '--first_request_timeout: SayGoodbye()--> tells the client, reads for kLingerFor --> ends
//
// Time passes by the server's sweep, which asks silent clients, gives up those that do not answer, and ends idle ones.
//
// Invariants
//   SC1  A connection outlives its uses: one for the connection itself, one for each call, one for the writer, and one
//        for whoever found it in the server's list. The first ends in a fiber of the connection, which then waits for
//        the others; the stream lives until then. It is in the list until it has no calls and its first use ends.
//   SC2  A call is answered once: by its `done`; or by its fiber, if a cancellation has ended the handler, and `done`
//        has not been called.
//   SC3  A canceller finds a call under the connection's lock and takes the callback out of it; the callback may run
//        after the call is gone.
//   SC4  A call lives until it is answered and its fiber has left its scope: the second of the two deletes it.
//   SC5  After CancelAll() each call is cancelled, also one that enters later: the flag and the list of calls have one
//        lock.
//   SC6  A frame of which the reader got a part before the drain is awaited by Server::Stop(): Server counts it from
//        then until its call has begun, or the connection reads no more.
//   SC7  A connection that rests is in the server's list. TcpServer ends one without a fiber of it only at the deadline
//        of its own Stop(), which Server::Stop() calls when the list is empty, and the reading of all others is ended.
//   SC8  Neither silence nor idleness counts while the reader would not read, because it waits for room for answers, or
//        while bytes wait for a reader.
//   SC9  An idle connection that the server ends loses no call: its calls run on after the end of its reading.
// Rejected: a reader that keeps its fiber and its block for a moment of silence. It saved nothing that was seen, and
// clients that spoke at the same time left the memory of as many fibers and blocks behind.
#ifndef WEFT_EXAMPLES_RPC_SERVER_CONNECTION_H_
#define WEFT_EXAMPLES_RPC_SERVER_CONNECTION_H_

#include <google/protobuf/message.h>
#include <google/protobuf/service.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weft/base/deadline.h"
#include "weft/base/memory/intrusive_list.h"
#include "weft/examples/rpc/batch_writer.h"
#include "weft/examples/rpc/frame.h"
#include "weft/examples/rpc/rpc_controller.h"
#include "weft/examples/rpc/rpc_server.h"
#include "weft/io/tcp_server.h"
#include "weft/io/tcp_stream.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_mutex.h"

#include "examples/rpc/meta.pb.h"

namespace weft::rpc {

class ServerConnection;

class ServerCall final : public google::protobuf::Closure {
 public:
  ServerCall(ServerConnection* connection, Frame frame, Deadline::TimePoint came)
      : connection_(connection), frame_(std::move(frame)), came_(came), id_(frame_.header.correlation_id) {
    controller_.scope_ = &scope_;
  }

  // In its fiber, once.
  void Begin();
  // `done`.
  void Run() override;
  // Instead of Begin().
  void Refuse(ErrorCode code, const std::string& text);

  // Under the connection's lock, in which it is found (SC3). Returns the callback to be run without it, or nullptr.
  Closure* Cancel() { return controller_.MarkCanceled(); }

  std::uint64_t id() const { return id_; }
  std::size_t memory() const;

 private:
  friend class ServerConnection;

  ~ServerCall() override = default;
  // False: the controller says why.
  bool Prepare();
  // Once for each owner (SC4).
  void EndOwner();

  ServerConnection* const connection_;
  Frame frame_;  // until it is parsed
  const Deadline::TimePoint came_;
  const std::uint64_t id_;
  google::protobuf::Service* service_ = nullptr;
  const google::protobuf::MethodDescriptor* method_ = nullptr;
  std::unique_ptr<google::protobuf::Message> request_;
  std::unique_ptr<google::protobuf::Message> answer_;
  CancelScope scope_;
  Controller controller_;
  std::atomic<int> owners_{1};  // SC4
  std::atomic<bool> answered_{false};
  base::ListHook hook_;
};

class ServerConnection final : public Server::Listed, private BatchWriter::Owner {
 public:
  // In TcpConnection::state() of the stream's connection.
  ServerConnection(Server* server, io::TcpStream* stream);
  ~ServerConnection();
  ServerConnection(const ServerConnection&) = delete;
  ServerConnection& operator=(const ServerConnection&) = delete;

  // --- What the TcpServer calls, in a fiber of the connection. After kClose all its calls have ended. ---
  io::AfterRequest Greet();
  io::AfterRequest Serve();
  void SayGoodbye();  // It has sent nothing for TcpServer::Options::first_request_timeout.

  // Tells the client to send no more. By the reader, or a holder of a use.
  void SayFarewell(FarewellReason reason);
  // The connection ends when the answers that are due have been written. By a holder of a use.
  void EndReading() { static_cast<void>(stream_->ShutdownRead()); }

  void BeginUse() noexcept override;
  void EndUse() noexcept override;

 private:
  friend class Server;
  friend class ServerCall;

  using TimePoint = Deadline::TimePoint;

  // What a fiber runs. A type of its own, for vectors of it.
  struct BeginCall {
    ServerCall* call;
    void operator()() const { call->Begin(); }
  };

  static constexpr std::size_t kBuckets = 64;  // A cancellation looks through one, where there are more than few calls.
  static constexpr std::chrono::seconds kLingerFor{1};
  static constexpr std::size_t kFewCalls = 16;
  static constexpr TimePoint kNever = TimePoint::min();
  static constexpr TimePoint kDoesNotRead = TimePoint::max();

  enum class Next { kReadOn, kSilent, kEnd, kEndAfterError };
  Next ReadOnce(Deadline until);
  // False: clients send no such frames.
  [[nodiscard]] bool OnFrame(Frame& frame, TimePoint now);
  // A part of the next frame has come.
  void BeginFrame();
  void EndFrame();
  void WaitForRoom();
  // Before it rests: gives back what it does not need meanwhile.
  void Rest();
  io::AfterRequest End(Next why);
  void AwaitCalls();
  void GiveReaderBack();
  void OnRequest(Frame frame, TimePoint now);
  // False: the connection has as many calls as it may have.
  [[nodiscard]] bool Enter(ServerCall* call);
  void StartCalls();
  void Cancel(std::uint64_t id);
  void CancelAll();
  void Forget(ServerCall* call);
  // Instead of a call.
  void Answer(std::uint64_t id, ErrorCode code, const std::string& text);
  void Linger();

  // --- By the server's sweep ---
  enum class Due { kNothing, kPing, kGiveUp, kTellIdle, kEndIdle };
  // Under the server's lock.
  Due WhatIsDue(TimePoint now);
  Due WhatSilenceMakesDue(TimePoint now);
  bool HasCalls() const { return in_flight_.load(std::memory_order_relaxed) != 0; }
  bool HasUnreadBytes() const;
  // By a holder of a use.
  void Do(Due due);
  void Ask();
  void GiveUp();
  void EndIdle(Due due);

  using Calls = base::IntrusiveList<ServerCall, &ServerCall::hook_>;
  Calls& BucketOf(std::uint64_t id) { return many_calls_ == nullptr ? few_calls_ : many_calls_[id % kBuckets]; }
  template <class F>
  void ForEachCall(F&& f);

  Server* const server_;
  io::TcpStream* const stream_;
  BatchWriter writer_;
  // The reader's.
  std::unique_ptr<FrameReader> reader_;  // of the server's pool; nullptr: it rests, at the boundary of two frames
  std::vector<BeginCall> starting_;
  std::uint64_t reads_ = 0;
  bool frame_awaited_ = false;  // Server::Stop() waits for the rest of the frame that has begun
  // For the sweep; relaxed: they decide about time limits only.
  std::atomic<TimePoint> heard_at_;  // or kDoesNotRead (SC8)
  std::atomic<TimePoint> idle_since_;
  std::atomic<bool> told_idle_{false};  // by the sweep, or by SayGoodbye()
  // The sweep's.
  TimePoint asked_at_ = kNever;      // just before the last ping was written: bytes that came later answer it
  TimePoint asked_until_ = kNever;   // when it had been written: the time-out counts from here
  TimePoint told_idle_at_ = kNever;  // when the sweep, not SayGoodbye(), told the client
  bool given_up_ = false;
  // relaxed: the end of the reading comes after it.
  std::atomic<bool> ended_idle_{false};

  FiberMutex mutex_;
  // Guarded by mutex_.
  Calls few_calls_;                        // or
  std::unique_ptr<Calls[]> many_calls_;    // buckets, since there were more than a few, until it rests without any
  std::atomic<std::size_t> in_flight_{0};  // in them; read without it for time limits
  bool all_canceled_ = false;              // SC5
  FiberEvent* no_calls_ = nullptr;         // of AwaitCalls(): to be set when none is left

  std::atomic<std::size_t> uses_{1};
  FiberEvent unused_;
};

}  // namespace weft::rpc

#endif  // WEFT_EXAMPLES_RPC_SERVER_CONNECTION_H_
