// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// FiberBlockingNoncontiguousBuffer: a stream of bytes between fibers, with a capacity in bytes. A producer waits
// for room, a consumer for as many bytes as it wants. The bytes are not copied (base/noncontiguous_buffer.h).
//
// Who may call: any fiber and any thread. Append*() and Cut() may switch (a thread: block); all others lock a
// FiberMutex and so may, too, for a moment.
// Results
//   Append         true: the bytes are in the buffer, in one piece. False: there was no room in time.
//   TryAppend      false: no room. Whoever hears false still has the bytes.
//   AppendAlways   puts the bytes in piece by piece, as room comes: for those larger than the capacity. The pieces of
//                  two callers may mix.
//   Cut            true: `out` has exactly as many bytes as wanted (its own are gone). False: there were fewer in time,
//                  and `out` is unchanged. TryCut: there are fewer.
// Capacity: bytes go in if they and those in the buffer are not above the capacity: with capacity 0 nothing does.
// Stop(): wakes all; nobody waits any more. Final. Append*() says false, and the caller keeps the bytes. Cut() and its
// forms give what there is, up to what is wanted, and say true even for no bytes: fewer bytes than wanted are the end
// of the stream. tRPC-Cpp's differs in this: docs/from_trpc.md.
// Memory ordering: what X did before it appended is visible to Y after it has cut those bytes.
// Waits are cancellation points.
// Lifetime: may be destroyed as soon as all calls have returned.
//
// Each change wakes all that wait: the first may want more than the second. Meant for one reader and a few writers.
#ifndef WEFT_SYNC_FIBER_BLOCKING_NONCONTIGUOUS_BUFFER_H_
#define WEFT_SYNC_FIBER_BLOCKING_NONCONTIGUOUS_BUFFER_H_

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <utility>

#include "weft/base/deadline.h"
#include "weft/base/noncontiguous_buffer.h"
#include "weft/sync/fiber_condition_variable.h"
#include "weft/sync/fiber_mutex.h"

namespace weft {

class FiberBlockingNoncontiguousBuffer {
 public:
  // `capacity`: how many bytes it may hold.
  explicit FiberBlockingNoncontiguousBuffer(std::size_t capacity) : capacity_(capacity) {}
  FiberBlockingNoncontiguousBuffer(const FiberBlockingNoncontiguousBuffer&) = delete;
  FiberBlockingNoncontiguousBuffer& operator=(const FiberBlockingNoncontiguousBuffer&) = delete;

  // Waits for room for all of `bytes`, and puts them in, in one piece. A cancellation point. False: stopped, or the
  // deadline has passed; `bytes` is unchanged.
  bool Append(NoncontiguousBuffer&& bytes, Deadline deadline = {}) {
    {
      std::unique_lock lock(mutex_);
      const auto may_go_on = [&] { return stopped_ || HasCapacityFor(bytes.ByteSize()); };
      if (!not_full_.wait(lock, may_go_on, deadline) || stopped_) return false;
      content_.Append(std::move(bytes));
    }
    not_empty_.notify_all();
    return true;
  }
  // The same without waiting for room.
  [[nodiscard]] bool TryAppend(NoncontiguousBuffer&& bytes) {
    {
      std::scoped_lock lock(mutex_);
      if (stopped_ || !HasCapacityFor(bytes.ByteSize())) return false;
      content_.Append(std::move(bytes));
    }
    not_empty_.notify_all();
    return true;
  }
  // False: stopped, or the deadline has passed; `bytes` has what was not put in.
  bool AppendAlways(NoncontiguousBuffer&& bytes, Deadline deadline = {}) {
    while (!bytes.Empty()) {
      {
        std::unique_lock lock(mutex_);
        const auto may_go_on = [this] { return stopped_ || content_.ByteSize() < capacity_; };
        if (!not_full_.wait(lock, may_go_on, deadline) || stopped_) return false;
        content_.Append(bytes.Cut(std::min(bytes.ByteSize(), capacity_ - content_.ByteSize())));
      }
      not_empty_.notify_all();
    }
    return true;
  }

  // Waits for `size` bytes, and takes them: `out` then has them, and nothing else. A cancellation point. False: the
  // deadline has passed, and `out` is unchanged. After Stop(): true, with what there is, up to `size` bytes.
  bool Cut(NoncontiguousBuffer& out, std::size_t size, Deadline deadline = {}) {
    {
      std::unique_lock lock(mutex_);
      const auto may_go_on = [&] { return CanCut(size); };
      if (!not_empty_.wait(lock, may_go_on, deadline)) return false;
      CutWhatThereIs(out, size);
    }
    not_full_.notify_all();
    return true;
  }
  // The same without waiting for bytes. False: there are fewer, and `out` is unchanged.
  [[nodiscard]] bool TryCut(NoncontiguousBuffer& out, std::size_t size) {
    {
      std::scoped_lock lock(mutex_);
      if (!CanCut(size)) return false;
      CutWhatThereIs(out, size);
    }
    not_full_.notify_all();
    return true;
  }

  // How many bytes are in it; a snapshot.
  std::size_t ByteSize() const {
    std::scoped_lock lock(mutex_);
    return content_.ByteSize();
  }
  // How many bytes it may hold.
  std::size_t Capacity() const {
    std::scoped_lock lock(mutex_);
    return capacity_;
  }
  // Less than ByteSize() is fine: nothing is let in until there is room.
  void SetCapacity(std::size_t capacity) {
    {
      std::scoped_lock lock(mutex_);
      capacity_ = capacity;
    }
    not_full_.notify_all();
  }

  // The end of the stream: no bytes go in any more, nobody waits. Final.
  void Stop() {
    {
      std::scoped_lock lock(mutex_);
      stopped_ = true;
    }
    not_full_.notify_all();
    not_empty_.notify_all();
  }

 private:
  // mutex_ is held in these. (std::scoped_lock is not annotated, so neither are they.)
  bool HasCapacityFor(std::size_t size) const {
    return content_.ByteSize() <= capacity_ && size <= capacity_ - content_.ByteSize();
  }
  bool CanCut(std::size_t size) const { return stopped_ || size <= content_.ByteSize(); }
  void CutWhatThereIs(NoncontiguousBuffer& out, std::size_t size) {
    out = content_.Cut(std::min(size, content_.ByteSize()));
  }

  mutable FiberMutex mutex_;  // guards all that follows, but for the condition variables
  FiberConditionVariable not_empty_;
  FiberConditionVariable not_full_;
  NoncontiguousBuffer content_;
  std::size_t capacity_;
  bool stopped_ = false;
};

}  // namespace weft

#endif  // WEFT_SYNC_FIBER_BLOCKING_NONCONTIGUOUS_BUFFER_H_
