// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/sync/fiber_condition_variable.h"

#include "weft/base/report/check.h"

namespace weft {

using synchronization::Interruptible;
using synchronization::Waiter;
using synchronization::WaitKind;
using synchronization::WaitList;
using synchronization::WaitReason;
using synchronization::WaitResult;

// Unlocks and locks a mutex that the analysis does not see as locked: std::unique_lock is not annotated.
WaitResult FiberConditionVariable::WaitOnce(std::unique_lock<FiberMutex>& lock, Deadline deadline,
                                            Interruptible interruptible) noexcept WEFT_NO_THREAD_SAFETY_ANALYSIS {
  WEFT_CHECK(lock.owns_lock(), "FiberConditionVariable::wait: the caller does not hold the lock");
  FiberMutex* mutex = lock.mutex();
  if (!deadline.is_none() && deadline.expired()) {
    // A poll. Others must get a chance to change the condition.
    mutex->unlock();
    synchronization::YieldFiberOrThread();
    mutex->lock();
    return WaitResult::kTimedOut;
  }
  Waiter waiter;
  waiter.argument = mutex;
  waiter.tag = FiberMutex::OwnerTag();
  queue_.lock();
  WEFT_DCHECK(queue_.front() == nullptr || queue_.front()->argument == mutex,
              "FiberConditionVariable::wait: waiters of one time use different mutexes");
  queue_.Enqueue(&waiter, deadline, interruptible, WaitReason(WaitKind::kConditionVariable, this));  // CV1
  queue_.unlock();
  mutex->unlock();
  const WaitResult result = queue_.Await(&waiter, deadline);
  if (waiter.adopted()) {
    mutex->LockAdopted(&waiter);
  } else {
    mutex->lock();
  }
  return result;
}

void FiberConditionVariable::NotifyOneSlow() noexcept {
  queue_.lock();
  Waiter* waiter = queue_.ClaimFirst();
  queue_.unlock();
  if (waiter == nullptr) return;
  // We have claimed it and not woken it, so it lives on, and so does the mutex that it will lock.
  auto* mutex = static_cast<FiberMutex*>(waiter->argument);
  if (!mutex->locked_hint()) {
    waiter->Wake();
    return;
  }
  WaitList claimed;
  claimed.PushBack(waiter);
  mutex->Adopt(&claimed);
}

void FiberConditionVariable::NotifyAllSlow() noexcept {
  WaitList claimed;
  queue_.lock();
  queue_.ClaimAll(&claimed);
  queue_.unlock();
  if (claimed.empty()) return;
  // As above. All of them use the same mutex.
  auto* mutex = static_cast<FiberMutex*>(static_cast<Waiter*>(claimed.front())->argument);
  mutex->Adopt(&claimed);
}

}  // namespace weft
