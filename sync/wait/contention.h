// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Contention: which mutex made fibers wait, for how long, who waited and who had it meanwhile: a sample of the waits,
// each with the stack of both.
//
//      waiter, in lock()                          owner, in unlock()
//      -----------------                          ------------------
//      must wait: IsNext() counts; if this one
//      is a sample: the time
//      enters the queue (its lock), parks
//                                                 claims the waiter (the queue's lock), frees the mutex
//                                                 a sample: End(): the time, the owner's stack
//                                                 wakes the waiter
//      Finish(): its own stack; adds both
//      to the table
//
// Which waits. Each thread counts the waits that begin on it, and takes one each kEvery or so: the number to the next
// one is drawn anew each time, evenly between 1 and twice what the rate of waits suggests. A sample stands for all
// waits since the one before, so that numbers and times are estimates, right on average. Where waits come more seldom
// than kEvery, each is a sample. A wait lasts until the unlock that ends it: that a fiber must wait for a worker then
// is not the mutex's fault. A fiber that loses the mutex after its wake waits anew, for another owner.
// Not counted: waits of plain threads; those behind a thread's last sample; of a condition variable's waiter, which is
// moved into the mutex's queue, the first one.
//
// The table. A Site for each mutex and pair of stacks, found by a hash, among kProbes places. Where there is no room,
// the mutex's address is left out (0: several), so that places in the code are found of programs with many mutexes,
// too; without room for that, the sample is lost, and counted. It is static: memory that was never written costs
// nothing.
//
// Invariants
//   LC1  A sample is its waiter's. The owner touches it after its claim and before its wake only; until then
//        the waiter does not return, nor touch it. (A waiter that has timed out was not claimed.)
//   LC2  Nobody waits for the table: its lock is only tried, and a sample that finds it taken is lost, and counted. So
//        a forked child, which may find it taken for ever, goes on.
// The first is checked in tests/model/primitives_model.cc, where a sample is data that the explorer watches.
//
// Cost. Without a wait: nothing. A wait: a count in a thread_local, two instructions and a branch, and a look at its
// waiter by the owner: 2 % where each lock waits (bench/workload --workload=mutex_yield). A sample, one each 5 ms of a
// thread: two clocks and two stacks, some 10 us: 0.2 % of the thread's time. The owner's stack is taken before the
// wake, and the waiter's while it owns a mutex that was handed to it: where 64 workers all wait for one mutex, that is
// up to 10 us of 12,800 samples a second, 13 % of its time. Off where the recorder is (RecordLevel::kOff). The stacks
// are those that exceptions use; glibc 2.35 and later find their tables without a lock. With an older one there are no
// samples: dlopen() might hold that lock and wait for a mutex.
// Rejected: the stack before the wait (it takes as long as a short section: the mutex would be free, and the sample no
// wait any more); every n-th wait, or those that end at a sample of ready_wait (50,000 in a second: 10 % of the time).
//
// Any thread, all of it.
#ifndef WEFT_SYNC_WAIT_CONTENTION_H_
#define WEFT_SYNC_WAIT_CONTENTION_H_

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>

#include "weft/base/thread/cpu.h"
#include "weft/scheduling_group/worker/current_worker.h"

namespace weft::synchronization {

struct ContentionStack {
  static constexpr std::size_t kMostFrames = 24;
  // Return addresses, the innermost first; then zeros.
  std::array<std::uintptr_t, kMostFrames> frames;

  bool operator==(const ContentionStack&) const = default;
};

class ContentionSample {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;
  static constexpr std::chrono::nanoseconds kEvery{5'000'000};

  // Counts a wait of the thread's. True: it is a sample.
  [[nodiscard]] WEFT_ALWAYS_INLINE static bool IsNext() noexcept {
#if WEFT_WORKER_BY_ASSEMBLER
    // weft_waits_left is in contention.cc. As CurrentWorker() does: each time anew.
    bool is_last;
    void* place;
    asm volatile("movq weft_waits_left@gottpoff(%%rip), %1\n\tsubq $1, %%fs:(%1)"
                 : "=@ccz"(is_last), "=&r"(place)
                 :
                 : "memory");
    return WEFT_UNLIKELY(is_last) && IsSampleAtEndOfChunk();
#else
    return IsLastOfChunk() && IsSampleAtEndOfChunk();
#endif
  }

  // The fiber that must wait, holding no lock, if IsNext() has just said so.
  ContentionSample() noexcept;
  // The thread that has claimed the waiter calls it, holding no lock, before it wakes the waiter.
  void End() noexcept;
  // The fiber, when it has been woken, or its time is over: since the deadline, if it had to wait for a worker then.
  void Finish(const void* mutex, TimePoint deadline = TimePoint::max()) noexcept;

 private:
  static bool IsLastOfChunk() noexcept;
  static bool IsSampleAtEndOfChunk() noexcept;

  const TimePoint since_;
  const std::uint64_t weight_;
  TimePoint until_;  // by End(), the rest
  bool has_owner_ = false;
  ContentionStack owner_;
};

// Waits for one mutex in one place, ended in one place.
struct ContentionSite {
  std::uint64_t mutex = 0;  // its address; 0: several
  std::uint64_t waits = 0;  // 0: the site is free. Estimates, both
  std::uint64_t ns = 0;
  ContentionStack waiter{};
  ContentionStack owner{};  // of its unlock(); empty: the time was over
};

// The table.
class Contention {
 public:
  static constexpr std::size_t kSites = 1024;

  static void Add(const ContentionSite& site) noexcept;
  // Copies those that there are. Returns how many: at most kSites. None: the table is taken for long (LC2). Not on a
  // worker.
  static std::optional<std::size_t> Copy(ContentionSite* out) noexcept;
  // False: the C library is too old for samples.
  static bool has_samples() noexcept;
  // The waits that found no room, or the table taken.
  static std::uint64_t lost() noexcept;
  // For tests.
  static void Clear() noexcept;
};

}  // namespace weft::synchronization

#endif  // WEFT_SYNC_WAIT_CONTENTION_H_
