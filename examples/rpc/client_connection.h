// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// ClientConnection: one connection of a Channel, with the calls that are in flight on it.
//
//     caller                                             the connection's reader
//     ------                                             -----------------------
//     enter the table of calls: an id                    read; for each answer take its call out of the table,
//     give the request to the writer                        give it the frame, wake its caller
//     wait: answer, deadline or cancellation             at the end: take all out, with CONNECTION_LOST
//     parse the answer
//
// A caller waits in its fiber; a call lives on its stack.
//
// Invariants
//   CC1  Only the thread that takes a call out of the table says how it ended, and then sets its event. So the reader,
//        a deadline and a cancellation that come at the same time do not collide.
//   CC2  An id is never used again on the connection, so an answer that comes after its call's end matches no call.
//   CC3  Closing the table ends each call in it, and no other enters: none waits for a dead connection.
// Call(), CancelCall(): any fiber and any thread. ReadAll(): one fiber.
#ifndef WEFT_EXAMPLES_RPC_CLIENT_CONNECTION_H_
#define WEFT_EXAMPLES_RPC_CLIENT_CONNECTION_H_

#include <google/protobuf/message.h>

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "weft/base/ref_ptr.h"
#include "weft/base/time/clock.h"
#include "weft/examples/rpc/batch_writer.h"
#include "weft/examples/rpc/frame.h"
#include "weft/examples/rpc/heartbeat.h"
#include "weft/examples/rpc/rpc_controller.h"
#include "weft/io/tcp_stream.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_mutex.h"

#include "examples/rpc/meta.pb.h"

namespace weft::rpc {

class ClientConnection final : public RefCounted<ClientConnection>, private BatchWriter::Owner {
 public:
  ClientConnection(io::TcpStream stream, const FrameLimits& limits, const BatchWriter::Options& writing,
                   const Heartbeat::Options& heartbeat)
      : stream_(std::move(stream)), limits_(limits), writer_(this, &stream_, writing), heartbeat_(heartbeat) {}

  // Makes a call, until the controller's deadline; the controller gets the outcome. Switches. A cancellation point. The
  // server is told when nobody waits any more.
  void Call(const google::protobuf::MethodDescriptor* method, Controller* controller,
            const google::protobuf::Message& request, google::protobuf::Message* answer);
  // By a holder of a reference. The call ends with CANCELED, unless it has ended.
  void CancelCall(std::uint64_t id);

  // Reads until the connection ends, and ends all calls.
  void ReadAll() {
    while (ReadOnce()) {
    }
    Close();
  }
  // The same, or until the server wants no more requests, which it would answer with UNAVAILABLE. Then it returns true,
  // and ReadAll() must follow: calls wait for their answers.
  [[nodiscard]] bool ReadUntilFarewell() {
    while (ReadOnce()) {
      if (farewell_.load(std::memory_order_relaxed)) return true;
    }
    Close();
    return false;
  }
  // By the same fiber, after that: the server ends connections that are idle, and is there for the next call.
  bool was_idle() const { return farewell_reason_ == static_cast<std::uint64_t>(FarewellReason::kIdle); }
  // Ends all calls and ReadAll(). Any fiber or thread.
  void Shutdown() { static_cast<void>(stream_.Shutdown()); }

  BatchWriter::Counts write_counts() const { return writer_.counts(); }
  // Answers received, and reads that brought something.
  std::uint64_t answers() const { return answers_.load(std::memory_order_relaxed); }
  std::uint64_t reads() const { return reads_.load(std::memory_order_relaxed); }

 private:
  friend class RefCounted<ClientConnection>;

  struct PendingCall {
    FiberEvent ended;
    ErrorCode code = OK;  // what ended it, if not an answer
    std::string text;
    bool not_begun = false;
    Frame answer;
  };

  // The calls in flight, by id: slot and, in the upper half, how often the slot was used.
  class CallTable {
   public:
    // 0: closed.
    std::uint64_t Enter(PendingCall* call);
    // nullptr: it is not there (any more).
    PendingCall* Take(std::uint64_t id);
    std::vector<PendingCall*> Close();
    // True: no call is in it, and none will be.
    bool CloseIfEmpty();

   private:
    struct Slot {
      PendingCall* call = nullptr;
      std::uint32_t use = 1;
      std::uint32_t next_free = 0;
    };
    static constexpr std::uint32_t kNone = UINT32_MAX;

    FiberMutex mutex_;
    std::vector<Slot> slots_;
    std::uint32_t first_free_ = kNone;
    std::size_t count_ = 0;
    bool closed_ = false;
  };

  ~ClientConnection() = default;
  void BeginUse() noexcept override { AddRef(); }
  void EndUse() noexcept override { Release(); }

  bool ReadOnce();
  // A read has brought nothing. False: the connection has ended.
  bool OnEnd(const io::IoResult& result);
  bool OnFrame(Frame* frame);
  void Close();
  void SendCancel(std::uint64_t id);
  // A call has left.
  void LeaveIfDone();
  void Finish(PendingCall* call, Controller* controller, google::protobuf::Message* answer);

  io::TcpStream stream_;
  const FrameLimits limits_;
  BatchWriter writer_;
  CallTable calls_;

  // The reader's.
  FrameReader reader_{limits_};
  Heartbeat heartbeat_;
  std::string end_text_ = "the server has closed the connection";

  std::atomic<bool> farewell_{false};
  std::uint64_t farewell_reason_ = 0;      // the reader's
  std::atomic<std::uint64_t> answers_{0};  // statistics
  std::atomic<std::uint64_t> reads_{0};
};

}  // namespace weft::rpc

#endif  // WEFT_EXAMPLES_RPC_CLIENT_CONNECTION_H_
