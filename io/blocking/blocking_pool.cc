// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/blocking/blocking_pool.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <exception>
#include <optional>
#include <thread>
#include <utility>

#include "weft/base/report/check.h"
#include "weft/base/report/log.h"
#include "weft/base/time/test_time.h"
#include "weft/numa/memory/affinity.h"
#include "weft/sync/wait/wait_queue.h"

// Last: errno follows a fiber.
#include "weft/context/switch_safe_errno.h"

namespace weft::io {

namespace {

using synchronization::Interruptible;
using synchronization::WaitAccess;
using synchronization::WaitKind;
using synchronization::WaitReason;
using synchronization::WaitResult;
using Steady = std::chrono::steady_clock;

}  // namespace

BlockingPool::BlockingPool(Options options) : options_(std::move(options)), capacity_(options_.queue_size) {
  WEFT_CHECK(options_.threads >= 1 && options_.queue_size >= 1, "BlockingPool: ", options_.threads,
             " threads and room for ", options_.queue_size, " calls: at least 1 each");
}

BlockingPool::~BlockingPool() {
  lock_.lock();
  stopping_ = true;
  const bool none = threads_ == 0;
  // One by one, so that each is woken when it is out of the list. None enters the list any more.
  while (Thread* const thread = TakeIdle()) {
    lock_.unlock();
    thread->parker.Unpark();
    lock_.lock();
  }
  lock_.unlock();
  if (!none) WaitAccess::WaitUncancelled(all_ended_);
}

BlockingCounts BlockingPool::counts() const noexcept {
  BlockingCounts counts;
  // relaxed: statistics.
  counts.waiting_for_capacity = waiting_for_capacity_.load(std::memory_order_relaxed);
  counts.longest_wait = std::chrono::nanoseconds(longest_wait_ns_.load(std::memory_order_relaxed));
  const base::SpinLockGuard guard(lock_);
  counts.calls = calls_;
  counts.threads = threads_;
  counts.idle_threads = idle_count_;
  counts.running = busy_;
  counts.abandoned = abandoned_;
  counts.queued = queued_;
  counts.threads_refused = refused_;
  return counts;
}

// ---- The caller's side ----

WaitResult BlockingPool::Execute(BlockingCall* call, Interruptible interruptible, Deadline deadline) noexcept {
  std::optional<base::TestTimeHold> holds(std::in_place);
  call->errno_ = errno;
  call->context_ = FiberExecutionContext::Capture();
  call->group_ = scheduling_group::CurrentGroup();
  call->asked_at_ = Steady::now();
  for (;;) {
    WaitResult result = AcquireCapacity(interruptible, deadline);
    if (result == WaitResult::kNotified && Enqueue(call)) {
      const WaitReason reason(WaitKind::kBlockingPool, call);
      result = WaitAccess::Wait(call->settled_, deadline, interruptible, reason);
      if (result != WaitResult::kNotified) result = GiveUp(call, result);
      if (result != WaitResult::kNotified) return result;
      // It is settled, so no other thread writes it.
      if (call->fate_ == BlockingCall::Fate::kRan) {
        errno = call->errno_;
        return WaitResult::kNotified;
      }
      call->settled_.Reset();
    }
    // There is no thread, and none can be made now.
    if (result == WaitResult::kNotified) {
      holds.reset();  // Else the time for the next attempt would not come.
      result = synchronization::SleepUntil(std::min(deadline, Deadline(kRetryAfter)), interruptible);
      holds.emplace();
      if (result == WaitResult::kTimedOut && !deadline.expired()) continue;
    }
    call->Drop();
    return result;
  }
}

WaitResult BlockingPool::Post(BlockingCall* call, Interruptible interruptible, Deadline deadline) noexcept {
  call->posted_ = true;
  call->asked_at_ = Steady::now();
  const WaitResult result = AcquireCapacity(interruptible, deadline);
  if (result != WaitResult::kNotified || !Enqueue(call)) call->Drop();
  return result;
}

WaitResult BlockingPool::AcquireCapacity(Interruptible interruptible, Deadline deadline) noexcept {
  if (capacity_.TryAcquire()) return WaitResult::kNotified;
  WEFT_LOG_EVERY_SECOND(WARNING, "blocking calls have to wait for room: ", options_.queue_size, " wait for one of the ",
                        options_.threads, " threads already (--fiber_blocking_queue_size, --fiber_blocking_threads)");
  // relaxed: statistics.
  waiting_for_capacity_.fetch_add(1, std::memory_order_relaxed);
  const WaitReason reason(WaitKind::kBlockingPool, this);
  const WaitResult result = WaitAccess::Wait(capacity_, deadline, interruptible, reason);
  waiting_for_capacity_.fetch_sub(1, std::memory_order_relaxed);
  return result;
}

// After the caller has acquired room. False: there is no thread (BP1).
bool BlockingPool::Enqueue(BlockingCall* call) noexcept {
  Thread* idle = nullptr;
  bool make = false;
  {
    const base::SpinLockGuard guard(lock_);
    WEFT_CHECK(!stopping_, "BlockingPool: a call came while the pool was being destroyed");
    if (threads_ != 0 || MayMakeThread()) {
      call->fate_ = BlockingCall::Fate::kQueued;
      queue_.push_back(call);
      ++queued_;
      if (NeedsThread()) {
        idle = TakeIdle();
        make = idle == nullptr && MayMakeThread();
        if (make) ++threads_;
      }
    } else {
      call = nullptr;
    }
  }
  if (call == nullptr) {
    capacity_.Release();
    return false;
  }
  if (idle != nullptr) idle->parker.Unpark();
  if (make) MakeThread();
  return true;
}

// The wait has ended before the call was settled. kNotified: the call has been settled since. Otherwise it was dropped,
// or left to the thread that runs it.
WaitResult BlockingPool::GiveUp(BlockingCall* call, WaitResult why) noexcept {
  lock_.lock();
  switch (call->fate_) {
    case BlockingCall::Fate::kQueued:
      queue_.erase(call);
      --queued_;
      lock_.unlock();
      capacity_.Release();
      call->Drop();
      return why;
    case BlockingCall::Fate::kRunning:
      call->abandoned_ = true;
      ++abandoned_;
      lock_.unlock();  // Our last touch of it (BP3).
      return why;
    case BlockingCall::Fate::kRan:
      lock_.unlock();
      WaitAccess::WaitUncancelled(call->settled_);  // On its way.
      return WaitResult::kNotified;
    case BlockingCall::Fate::kRejected:
      lock_.unlock();
      WaitAccess::WaitUncancelled(call->settled_);
      call->Drop();
      return why;
  }
  WEFT_UNREACHABLE();
}

// ---- Making threads ----

bool BlockingPool::MayMakeThread() const noexcept {
  return threads_ < static_cast<std::size_t>(options_.threads) &&
         (no_thread_before_ == TimePoint() || no_thread_before_ <= Steady::now());
}

BlockingPool::Thread* BlockingPool::TakeIdle() noexcept {
  Thread* const thread = idle_.pop_front();
  if (thread != nullptr) --idle_count_;
  return thread;
}

// threads_ counts it already.
void BlockingPool::MakeThread() noexcept {
  try {
    std::function<void()> body = [this] { ThreadMain(); };
    if (options_.make_thread) {
      options_.make_thread(std::move(body));
    } else {
      std::thread(std::move(body)).detach();
    }
  } catch (const std::exception& error) {
    OnThreadRefused(error.what());
  }
}

void BlockingPool::OnThreadRefused(const char* why) noexcept {
  CallQueue rejected;
  std::ptrdiff_t rejected_count = 0;
  Thread* idle = nullptr;
  std::size_t left = 0;
  {
    const base::SpinLockGuard guard(lock_);
    ++refused_;
    no_thread_before_ = Steady::now() + kRetryAfter;
    left = --threads_;
    if (left == 0) {  // BP1
      for (BlockingCall& call : queue_) call.fate_ = BlockingCall::Fate::kRejected;
      rejected_count = static_cast<std::ptrdiff_t>(std::exchange(queued_, 0));
      rejected.splice_back(queue_);
    } else if (NeedsThread()) {
      idle = TakeIdle();  // BP2: it went to sleep because we were making a thread.
    }
  }
  if (left == 0) {
    WEFT_LOG_EVERY_SECOND(ERROR, "the system gives no thread for blocking calls (", why,
                          "), and there is none: they are tried again every ", kRetryAfter.count(),
                          " ms. Is the limit of processes (ulimit -u, pids.max of the cgroup) or memory used up?");
  } else {
    WEFT_LOG_EVERY_SECOND(WARNING, "the system gives no further thread for blocking calls (", why, "): the ", left,
                          " that there are go on");
  }
  if (idle != nullptr) idle->parker.Unpark();
  capacity_.Release(rejected_count);
  while (BlockingCall* const call = rejected.pop_front()) {
    if (call->posted_) {
      call->Drop();
    } else {
      call->settled_.Set();
    }
  }
}

// ---- The threads' side ----

void BlockingPool::ThreadMain() noexcept {
  ::pthread_setname_np(::pthread_self(), "FiberBlocking");
  numa::RunWhereTheFirstThreadOf(::getpid());  // It has inherited the CPUs of the worker that made it.
  Thread self;
  while (BlockingCall* const call = Next(&self)) Run(call);
}

// Takes the oldest call. nullptr: the thread must end, and not touch the pool any more.
BlockingCall* BlockingPool::Next(Thread* self) noexcept {
  lock_.lock();
  for (;;) {
    if (BlockingCall* const call = queue_.pop_front()) {
      call->fate_ = BlockingCall::Fate::kRunning;
      --queued_;
      ++busy_;
      ++calls_;
      lock_.unlock();
      capacity_.Release();
      return call;
    }
    if (stopping_) break;
    idle_.push_front(self);
    ++idle_count_;
    lock_.unlock();
    const bool unparked = self->parker.ParkUntil(Deadline::After(options_.idle_timeout, Steady::now()).time_point());
    if (!unparked) {
      lock_.lock();
      if (self->idle_hook.linked()) {
        idle_.erase(self);
        --idle_count_;
        break;  // A call in the queue has a searching thread (BP2).
      }
      lock_.unlock();
      self->parker.Park();  // A thread took us out of the list, and its unpark is on its way.
    }
    lock_.lock();
  }
  const bool last = --threads_ == 0 && stopping_;
  lock_.unlock();
  if (last) all_ended_.Set();
  return nullptr;
}

void BlockingPool::Run(BlockingCall* call) noexcept {
  NoteWait(Steady::now() - call->asked_at_);
  scheduling_group::ServeGroup(call->group_);
  errno = call->errno_;
  if (call->context_ == nullptr) {
    call->Run();
  } else {
    call->context_->Execute([call] { call->Run(); });
  }
  call->errno_ = errno;

  lock_.lock();
  call->fate_ = BlockingCall::Fate::kRan;
  const bool abandoned = call->abandoned_;
  if (!abandoned && !call->posted_) {
    --busy_;  // Before the caller, who may make the next call, learns of it: we are searching (BP2).
    lock_.unlock();
    call->settled_.Set();
    return;
  }
  lock_.unlock();
  call->Drop();  // Runs user code, so we are still busy.
  lock_.lock();
  --busy_;
  if (abandoned) --abandoned_;
  lock_.unlock();
}

void BlockingPool::NoteWait(std::chrono::nanoseconds wait) noexcept {
  // relaxed: statistics.
  std::int64_t longest = longest_wait_ns_.load(std::memory_order_relaxed);
  while (longest < wait.count() &&
         !longest_wait_ns_.compare_exchange_weak(longest, wait.count(), std::memory_order_relaxed)) {
  }
}

}  // namespace weft::io
