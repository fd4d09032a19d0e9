// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// BlockingPool: plain threads that run blocking calls (DNS, files, a client library that knows nothing of fibers), so
// that only the calling fiber waits. Users call it through fiber_blocking.h.
//
//   caller (fiber or thread)                            a thread of the pool
//   ------------------------                            --------------------
//   Execute(call)                                       Next(): the oldest call of the queue, or sleeps
//     waits for room in the queue     (back-pressure)     gives its room back
//     puts the call into the queue                      call->Run()
//     wakes a thread or makes one     (BP2)             settles the call: wakes the caller, or, if that has gone,
//     waits until the call is settled                     destroys the call
//
// A call's fate, written under the lock:
//
//      kQueued  --Next-->  kRunning  --Run is over-->  kRan                    the caller has the call back
//         |                    +------- Abandon ----->  (kRunning, abandoned)  destroyed by the thread that runs it
//         +------ no thread can be made -->  kRejected                         the caller tries again (BP1)
//         +------ Withdraw -->  (out of the queue)                             destroyed by its caller, never run
//
// A thread is made when a call comes and none is free, up to Options::threads, and ends after Options::idle_timeout
// without a call. The thread that became idle last is woken first, so that unneeded ones end. Threads may run wherever
// the main thread may, not only on the CPUs of the worker that made them.
//
// Invariants
//   BP1  While a call is in the queue, a thread exists or is being made. If making the last one fails, all calls are
//        taken out of the queue, and their callers try again after kRetryAfter.
//   BP2  At least as many threads search for a call (just made, just woken, or just out of one) as calls are queued,
//        unless no thread is idle and no more may be made.
//   BP3  A call has one owner: its caller or, after the caller has abandoned it while it runs, the thread. A posted
//        call belongs to the pool from the moment it is in the queue.
//   BP4  No call is lost: Execute() returns when the call has run, its time has passed or it was interrupted. Neither
//        the end of a thread nor the failure to make one loses a queued call.
//
// Execute(): any fiber (switches) and any thread (blocks). It blocks a worker only while it makes a thread
// (bench/io/fiber_blocking_benchmark.cc, BM_MakeThread; once per thread and idle_timeout). Memory ordering: what the
// caller did before Execute() is visible to Run(), and what Run() did is visible after it. Lifetime: the destructor
// waits until all threads have ended, hence for abandoned calls too; no Execute() may be under way.
//
// Rejected: std::mutex and a condition variable (a worker would sleep while a stopped thread holds the mutex, and
// notify_one() cannot choose the thread that was idle last); handing a call to an idle thread (a thread just out of a
// call would sleep while another one wakes); a pool per scheduling group (the bound would not be the process's).
#ifndef WEFT_IO_BLOCKING_BLOCKING_POOL_H_
#define WEFT_IO_BLOCKING_BLOCKING_POOL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "weft/base/deadline.h"
#include "weft/base/memory/intrusive_list.h"
#include "weft/base/ref_ptr.h"
#include "weft/base/thread/parker.h"
#include "weft/base/thread/spin_lock.h"
#include "weft/base/thread/thread_annotations.h"
#include "weft/base/time/clock.h"
#include "weft/fiber/execution_context.h"
#include "weft/scheduling_group/group/group_registry.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_semaphore.h"

namespace weft::io {

// A call on its way through a pool. Lives on the caller's stack, or on the heap if its time is limited.
class BlockingCall {
 public:
  BlockingCall(const BlockingCall&) = delete;
  BlockingCall& operator=(const BlockingCall&) = delete;

 protected:
  BlockingCall() = default;
  virtual ~BlockingCall() = default;

 private:
  friend class BlockingPool;

  enum class Fate : std::uint8_t { kQueued, kRunning, kRan, kRejected };

  // By a thread of the pool, once. No exception leaves it.
  virtual void Run() noexcept = 0;
  // By the owner (BP3): destroys a call that does not go back to its caller. Only if the wait can be given up.
  virtual void Drop() noexcept = 0;

  base::ListHook hook_;
  Fate fate_ = Fate::kQueued;  // The pool's lock guards it and abandoned_.
  bool abandoned_ = false;
  bool posted_ = false;  // Written before it enters the queue.
  int errno_ = 0;        // Passed to the thread and back, as if f had run in place.
  std::chrono::steady_clock::time_point asked_at_;
  const scheduling_group::SchedulingGroup* group_ = nullptr;  // The caller's.
  base::RefPtr<FiberExecutionContext> context_;               // The caller's, since Run() is part of its work.
  FiberEvent settled_;                                        // The fate is kRan or kRejected.
};

// A snapshot. Sums start at 0 with the process (in a forked child: with the fork).
struct BlockingCounts {
  std::uint64_t calls = 0;                   // begun
  std::size_t threads = 0;                   // alive, or being made
  std::size_t idle_threads = 0;              // asleep
  std::size_t running = 0;                   // calls that run
  std::size_t abandoned = 0;                 // of these: their callers have gone
  std::size_t queued = 0;                    // calls that wait for a thread
  std::size_t waiting_for_capacity = 0;      // callers that wait for room in the queue
  std::uint64_t threads_refused = 0;         // times the system would not make a thread
  std::chrono::nanoseconds longest_wait{0};  // of a call, until it began
};

class BlockingPool {
 public:
  // For tests: makes a thread that runs `body`, or throws. Empty: std::thread.
  using ThreadMaker = std::function<void(std::function<void()> body)>;

  struct Options {
    std::int64_t threads = 64;                       // the most, and so the most calls that run at once
    std::int64_t queue_size = 1024;                  // calls that wait for a thread; further callers wait for room
    std::chrono::milliseconds idle_timeout{60'000};  // an idle thread ends after it
    ThreadMaker make_thread = nullptr;
  };

  // When no thread can be made, callers try again after this time: seldom enough that a process without threads does
  // not spend its time on clone(), and no longer than a blocking call may take anyhow.
  static constexpr std::chrono::milliseconds kRetryAfter{10};

  // Options with at least one thread and one place in the queue. Makes no thread yet.
  explicit BlockingPool(Options options);
  ~BlockingPool();

  // Runs the call on one of the threads and waits for its end. kNotified: it has run, and is the caller's again.
  // Otherwise the caller must not touch it: it was destroyed before it began, or will be destroyed when it ends.
  synchronization::WaitResult Execute(BlockingCall* call, synchronization::Interruptible interruptible,
                                      Deadline deadline) noexcept;

  // Waits for room in the queue only, and leaves the call, which is on the heap, to the pool (BP3). The call runs
  // without the caller's context. kNotified: it will be run and dropped; or it was dropped, because no thread exists or
  // can be made (try again after kRetryAfter). Otherwise it was dropped. Post() itself may call Drop().
  synchronization::WaitResult Post(BlockingCall* call, synchronization::Interruptible interruptible,
                                   Deadline deadline) noexcept;

  BlockingCounts counts() const noexcept;

 private:
  // On its own stack.
  struct Thread {
    base::ListHook idle_hook;
    base::Parker parker;
  };
  using CallQueue = base::IntrusiveList<BlockingCall, &BlockingCall::hook_>;
  using TimePoint = std::chrono::steady_clock::time_point;

  // The caller's side.
  synchronization::WaitResult AcquireCapacity(synchronization::Interruptible interruptible, Deadline deadline) noexcept;
  bool Enqueue(BlockingCall* call) noexcept;
  synchronization::WaitResult GiveUp(BlockingCall* call, synchronization::WaitResult why) noexcept;

  // Making threads.
  bool MayMakeThread() const noexcept WEFT_REQUIRES(lock_);
  Thread* TakeIdle() noexcept WEFT_REQUIRES(lock_);
  bool NeedsThread() const noexcept WEFT_REQUIRES(lock_) { return queued_ > threads_ - busy_ - idle_count_; }
  void MakeThread() noexcept;
  void OnThreadRefused(const char* why) noexcept;

  // The threads' side.
  void ThreadMain() noexcept;
  BlockingCall* Next(Thread* self) noexcept;
  void Run(BlockingCall* call) noexcept;
  void NoteWait(std::chrono::nanoseconds wait) noexcept;

  const Options options_;
  FiberSemaphore capacity_;  // The free places in the queue.
  std::atomic<std::size_t> waiting_for_capacity_{0};
  std::atomic<std::int64_t> longest_wait_ns_{0};

  mutable base::SpinLock lock_;
  CallQueue queue_ WEFT_GUARDED_BY(lock_);
  base::IntrusiveList<Thread, &Thread::idle_hook> idle_ WEFT_GUARDED_BY(lock_);  // The last to become idle comes first.
  std::size_t queued_ WEFT_GUARDED_BY(lock_) = 0;
  std::size_t idle_count_ WEFT_GUARDED_BY(lock_) = 0;
  std::size_t busy_ WEFT_GUARDED_BY(lock_) = 0;     // Threads in a call.
  std::size_t threads_ WEFT_GUARDED_BY(lock_) = 0;  // idle + busy + searching (BP2)
  std::size_t abandoned_ WEFT_GUARDED_BY(lock_) = 0;
  std::uint64_t calls_ WEFT_GUARDED_BY(lock_) = 0;
  std::uint64_t refused_ WEFT_GUARDED_BY(lock_) = 0;
  TimePoint no_thread_before_ WEFT_GUARDED_BY(lock_);  // After the system has refused one.
  bool stopping_ WEFT_GUARDED_BY(lock_) = false;
  FiberEvent all_ended_;
};

}  // namespace weft::io

#endif  // WEFT_IO_BLOCKING_BLOCKING_POOL_H_
