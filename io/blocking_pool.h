// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// BlockingPool: plain threads that run calls which block (DNS, files, a client library that knows nothing of fibers),
// while only the fiber that wants the result waits. What users call is in fiber_blocking.h.
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
// Threads are made when a call comes and none is free, up to Options::threads, and end when they have had nothing to do
// for Options::idle_timeout. The one that was idle last is woken first, so that those that are not needed do end. They
// are detached, and may run wherever the process's main thread may (not on the CPUs of the worker that made them).
//
// Invariants
//   BP1  While a call is in the queue there is a thread (or one is being made): the last one to fail to be made takes
//        all calls out of the queue, and their callers come again in kRetryAfter.
//   BP2  For each call in the queue there is a thread that will look for one: threads that are neither idle nor in a
//        call ("searching": just made, just woken, just out of a call) are at least as many as queued calls; or no
//        thread is idle and no more may be made.
//   BP3  A call has one owner. That is its caller, until the caller abandons it while it runs: then the thread.
//   BP4  No call is lost: Execute() returns when the call has run, or when its time has passed or it was interrupted;
//        a call in the queue can be lost by neither the end of a thread nor the failure to make one.
//
// Execute(): any fiber and any thread; switches (a thread: blocks). Never blocks a worker but for the time that it
// takes to make a thread (bench/io/fiber_blocking_benchmark.cc, BM_MakeThread; once per thread and idle_timeout).
// Memory ordering: what the caller did before Execute() is visible to Run(), and what Run() did is visible after it.
// Lifetime: the destructor waits until all threads have ended, hence for abandoned calls too; no Execute() may be under
// way. It needs no runtime: a call may outlive the runtime whose fiber made it, and the next one uses the same pool.
//
// Rejected: std::mutex and a condition variable (a worker would sleep while a thread of the pool holds the mutex and
// does not run, and notify_one cannot choose the thread that was idle last); handing the call to an idle thread
// directly (a thread that has just ended a call would have to sleep while another one wakes); one pool for each
// scheduling group (what blocks does not profit from a node's memory, and its bound would not be the process's).
#ifndef WEFT_IO_BLOCKING_POOL_H_
#define WEFT_IO_BLOCKING_POOL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>

#include "weft/base/clocks.h"
#include "weft/base/deadline.h"
#include "weft/base/intrusive_list.h"
#include "weft/base/parker.h"
#include "weft/base/ref_ptr.h"
#include "weft/base/spin_lock.h"
#include "weft/base/thread_annotations.h"
#include "weft/fiber/execution_context.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_semaphore.h"

namespace weft::io {

// Something to run in a pool, on its way through it. Lives on the caller's stack, unless its time is limited.
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

  // A thread of the pool, once. No exception leaves it.
  virtual void Run() noexcept = 0;
  // The owner (BP3), when the call will not be given back to its caller: destroys it. Only if the wait can be given up.
  virtual void Drop() noexcept = 0;

  base::ListHook hook_;
  Fate fate_ = Fate::kQueued;  // The pool's lock guards both; abandoned_ too.
  bool abandoned_ = false;
  int errno_ = 0;  // Goes to the thread and comes back, as if f had run in place.
  std::chrono::steady_clock::time_point asked_at_;
  base::RefPtr<FiberExecutionContext> context_;  // The caller's: Run() is a part of the same work.
  FiberEvent settled_;                           // The fate is kRan or kRejected.
};

// A snapshot. Sums start at 0 with the process (in a forked child: with the fork).
struct BlockingCounts {
  std::uint64_t calls = 0;                   // begun
  std::size_t threads = 0;                   // alive, or being made
  std::size_t idle_threads = 0;              // asleep
  std::size_t running = 0;                   // calls that run
  std::size_t abandoned = 0;                 // of these: nobody waits for them any more
  std::size_t queued = 0;                    // calls that wait for a thread
  std::size_t waiting_for_capacity = 0;      // callers that wait for room in the queue
  std::uint64_t threads_refused = 0;         // times the system would not make a thread
  std::chrono::nanoseconds longest_wait{0};  // of a call, until it began
};

class BlockingPool {
 public:
  // Makes a thread that runs `body`, or throws. For tests; empty: std::thread.
  using ThreadMaker = std::function<void(std::function<void()> body)>;

  struct Options {
    // Threads at most: as many calls run at once.
    std::int64_t threads = 64;
    // Calls that wait for a thread, at most; further callers wait for room.
    std::int64_t queue_size = 1024;
    // How long a thread has nothing to do before it ends.
    std::chrono::milliseconds idle_timeout{60'000};
    ThreadMaker make_thread = nullptr;
  };

  // When no thread can be made, callers try again after this long: not so often that a process which has run out of
  // threads spends its time on clone(), and no more than a blocking call may take anyhow.
  static constexpr std::chrono::milliseconds kRetryAfter{10};

  // At least one thread and one place in the queue. Makes no thread yet.
  explicit BlockingPool(Options options);
  ~BlockingPool();

  // Runs the call in one of the threads and waits for that. kNotified: it has run, and is the caller's again. Otherwise
  // it may not be touched any more: it was destroyed without having begun, or runs on and is destroyed when it ends.
  synchronization::WaitResult Execute(BlockingCall* call, synchronization::Interruptible interruptible,
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
  base::IntrusiveList<Thread, &Thread::idle_hook> idle_ WEFT_GUARDED_BY(lock_);  // Idle last: first.
  std::size_t queued_ WEFT_GUARDED_BY(lock_) = 0;
  std::size_t idle_count_ WEFT_GUARDED_BY(lock_) = 0;
  std::size_t busy_ WEFT_GUARDED_BY(lock_) = 0;     // Threads in a call.
  std::size_t threads_ WEFT_GUARDED_BY(lock_) = 0;  // idle + busy + searching (BP2)
  std::size_t abandoned_ WEFT_GUARDED_BY(lock_) = 0;
  std::uint64_t calls_ WEFT_GUARDED_BY(lock_) = 0;
  std::uint64_t refused_ WEFT_GUARDED_BY(lock_) = 0;
  TimePoint no_thread_before_ WEFT_GUARDED_BY(lock_);  // The system has just refused one.
  bool stopping_ WEFT_GUARDED_BY(lock_) = false;
  FiberEvent all_ended_;
};

}  // namespace weft::io

#endif  // WEFT_IO_BLOCKING_POOL_H_
