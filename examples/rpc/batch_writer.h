// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// BatchWriter: many fibers send frames over one connection, and share the system calls.
//
// A fiber that finds no writer becomes the writer. It first lets the ready fibers run (a yield), so that their answers
// and requests come along, and then writes everything with one call. A writer never waits on behalf of others: a fiber
// started for it writes what the kernel did not take at once, and what came meanwhile.
//
// So a frame waits once behind the ready fibers. If handlers compute for long, that time is worth more than the saving:
// a writer that was held up for more than kMaxHold lets the next kAtOnce go without a yield.
//
//      head_   nullptr --Write: the caller is the writer--> a list, newest frame first
//              a list  --the writer takes it--> kTaken
//              kTaken  --Write--> a list             kTaken --the writer has written all--> nullptr
//
// Invariants
//   BW1  There is at most one writer, and while there is a frame in the list there is one.
//   BW2  Frames go out in the order in which Write() put them into the list.
//   BW3  After a failure nothing more is sent, and the connection is shut down, so that its reader learns of it.
//   BW4  The writer holds a use of the owner, and gives it back as its last touch. The owner outlives its uses, hence
//        the writer.
// Rejected: a buffer under a mutex (messages are serialised under it, one after the other); one fiber that writes all
// the time (a wake and two switches more where there is one caller).
#ifndef WEFT_EXAMPLES_RPC_BATCH_WRITER_H_
#define WEFT_EXAMPLES_RPC_BATCH_WRITER_H_

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>

#include "weft/base/deadline.h"
#include "weft/examples/rpc/frame.h"
#include "weft/io/tcp_stream.h"
#include "weft/sync/fiber_event.h"

namespace weft::rpc {

class BatchWriter {
 public:
  // The owner of the connection. Any fiber or thread may begin and end uses.
  class Owner {
   public:
    virtual void BeginUse() noexcept = 0;
    virtual void EndUse() noexcept = 0;

   protected:
    ~Owner() = default;
  };

  struct Options {
    std::size_t max_unsent = 16 << 20;  // for TooMuchUnsent()
    // A peer that takes nothing for so long is given up.
    std::chrono::milliseconds timeout{30'000};
  };

  // Both outlive it.
  BatchWriter(Owner* owner, io::TcpStream* stream, const Options& options)
      : owner_(owner), stream_(stream), options_(options) {}
  ~BatchWriter();
  BatchWriter(const BatchWriter&) = delete;
  BatchWriter& operator=(const BatchWriter&) = delete;

  // Any fiber or thread that holds a use. May switch; does not wait for the peer; no cancellation point. False: the
  // connection has failed, and the frame is not sent. True: it will be, unless the connection fails.
  // `alone`: no other frame is likely to come along, so it is not held back for the ready fibers.
  bool Write(OutFramePtr frame, bool alone = false);

  bool TooMuchUnsent() const noexcept {
    return unsent_.load(std::memory_order_relaxed) > options_.max_unsent;  // A limit, exact enough.
  }
  // Until TooMuchUnsent() is false, or the connection has failed. One fiber at a time.
  void WaitForRoom();
  bool failed() const noexcept { return failed_.load(std::memory_order_relaxed); }

  // Statistics.
  struct Counts {
    std::uint64_t frames = 0;
    std::uint64_t writes = 0;  // system calls
  };
  Counts counts() const noexcept {
    return {.frames = frames_.load(std::memory_order_relaxed), .writes = writes_.load(std::memory_order_relaxed)};
  }

 private:
  // What a writer does in the fiber that called Write(), before it leaves the rest to its own fiber.
  static constexpr int kRoundsForOthers = 1;
  static constexpr std::size_t kMaxParts = 128;
  // Some hundred short handlers, or callers that take their answer and call again.
  static constexpr std::chrono::microseconds kMaxHold{500};
  // Afterwards it yields again: at worst the answers to one of 33 batches are held up.
  static constexpr int kAtOnce = 32;

  // The writer. `borrowed`: in a caller's fiber.
  void WriteAll(bool borrowed, bool alone);
  bool WriteToDo(Deadline deadline);
  void Sent(std::size_t bytes);
  void LetOthersCome();
  void TakeAll();
  bool TryEnd();
  void HandOff();
  void Fail();
  void DropToDo();

  Owner* const owner_;
  io::TcpStream* const stream_;
  const Options options_;

  std::atomic<OutFrame*> head_{nullptr};
  std::atomic<std::size_t> unsent_{0};  // bytes in the list and with the writer
  std::atomic<bool> failed_{false};
  FiberEvent room_;

  // The writer's own; one writer sees what the last one left by head_.
  OutFrame* to_do_ = nullptr;  // oldest first
  std::size_t sent_of_first_ = 0;
  int at_once_ = 0;

  // relaxed, written by the writer; statistics.
  std::atomic<std::uint64_t> frames_{0};
  std::atomic<std::uint64_t> writes_{0};
};

}  // namespace weft::rpc

#endif  // WEFT_EXAMPLES_RPC_BATCH_WRITER_H_
