// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// FiberSeqLock: small data that is read often and written seldom. Readers write nothing, and so do not disturb each
// other; a reader that was overtaken by a writer reads again. For fibers and threads.
// Sample:
//      unsigned seq;
//      do {
//        seq = seqlock.ReadSeqBegin();
//        a = x.load(std::memory_order_relaxed);
//        b = y.load(std::memory_order_relaxed);
//      } while (seqlock.ReadSeqRetry(seq));
// Sample:
//      seqlock.WriteSeqLock();
//      x.store(1, std::memory_order_relaxed);
//      y.store(2, std::memory_order_relaxed);
//      seqlock.WriteSeqUnlock();
//
// The data must be atomics, read and written relaxed: anything else is a data race, even if what was read is thrown
// away. No pointers to what a writer may free. What was read may be used after ReadSeqRetry() has said no (0).
//
// Who may call: any fiber and any thread. Only ReadSeqBegin() and WriteSeqLock() may switch (a thread: block). Readers
// and writers may be suspended in their sections; readers wait for a writer without occupying their workers.
// Memory ordering: a reader that was not overtaken sees all that the writers before it wrote.
// Writers exclude each other, by a FiberMutex. Writers without pause starve readers: use a FiberSharedMutex there.
//
// Invariants
//   SQ1  sequence_ is odd while a writer is between WriteSeqLock() and WriteSeqUnlock(); it changes under writer_ only.
//   SQ2  If a reader reads a value written in a section, ReadSeqRetry() sees that section's odd number or a later one.
#ifndef WEFT_SYNC_FIBER_SEQLOCK_H_
#define WEFT_SYNC_FIBER_SEQLOCK_H_

#include "weft/base/thread/atomic.h"
#include "weft/base/thread/cpu.h"
#include "weft/base/thread/thread_annotations.h"
#include "weft/scheduling_group/worker/time_slice.h"
#include "weft/sync/fiber_mutex.h"

namespace weft {

class FiberSeqLock {
 public:
  // Free. Usable before any initialisation of the program has run.
  constexpr FiberSeqLock() = default;
  FiberSeqLock(const FiberSeqLock&) = delete;
  FiberSeqLock& operator=(const FiberSeqLock&) = delete;

  // The number to give to ReadSeqRetry().
  [[nodiscard]] unsigned ReadSeqBegin() noexcept {
    scheduling_group::YieldIfSliceIsOver();
    // acquire: the reads that follow see what the writers before wrote. Pairs with the release in WriteSeqUnlock().
    const unsigned sequence = sequence_.load(std::memory_order_acquire);
    return WEFT_LIKELY((sequence & 1) == 0) ? sequence : ReadSeqBeginSlow();
  }

  // 1: a writer came in between; what was read since ReadSeqBegin() is not to be used. 0: it is good.
  [[nodiscard]] unsigned ReadSeqRetry(unsigned sequence) const noexcept {
    // Our reads before, the look at the number after: SQ2. Pairs with the fence in WriteSeqLock().
    base::ThreadFence(std::memory_order_acquire);
    return sequence_.load(std::memory_order_relaxed) != sequence ? 1 : 0;  // Ordered by the fence.
  }

  // Begins a writer's section: waits for other writers (may switch; a thread: block). Readers that have begun will read
  // again.
  void WriteSeqLock() WEFT_NO_THREAD_SAFETY_ANALYSIS {
    writer_.lock();
    // relaxed: ordered by the fence.
    sequence_.store(sequence_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
    // The odd number first, our writes after: SQ2. Pairs with the fence in ReadSeqRetry().
    base::ThreadFence(std::memory_order_release);
  }

  // Ends it. By the fiber or thread that began it. Never switches.
  void WriteSeqUnlock() WEFT_NO_THREAD_SAFETY_ANALYSIS {
    // release: our writes. Pairs with the acquire in ReadSeqBegin().
    sequence_.store(sequence_.load(std::memory_order_relaxed) + 1, std::memory_order_release);
    writer_.unlock();
  }

 private:
  unsigned ReadSeqBeginSlow() noexcept WEFT_NO_THREAD_SAFETY_ANALYSIS;

  base::Atomic<unsigned> sequence_{0};
  FiberMutex writer_;
};

}  // namespace weft

#endif  // WEFT_SYNC_FIBER_SEQLOCK_H_
