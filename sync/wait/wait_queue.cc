// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/sync/wait/wait_queue.h"

#include <chrono>
#include <cstddef>
#include <mutex>
#include <new>
#include <type_traits>

#include "weft/base/report/check.h"
#include "weft/base/thread/exit.h"
#include "weft/scheduling_group/fiber/fiber_entity.h"
#include "weft/scheduling_group/fiber/park.h"
#include "weft/timer/worker/timer_worker.h"

namespace weft::synchronization {

namespace {

// How many fibers WakeAll() collects for one wake-up pass: enough to share it, little on a fiber's stack.
constexpr std::size_t kWakeBatch = 32;

using timer::TimeOut;
static_assert(sizeof(TimeOut) <= FiberEntity::kWaitStorage);
static_assert(std::is_trivially_destructible_v<TimeOut>, "what lies in a fiber's wait storage is not destroyed");

}  // namespace

// A fiber in a loop of waits that end at once, and throw nothing, lets others run.
WEFT_COLD void YieldIfUnwinding() noexcept {
  if (scheduling_group::IsUnwinding()) scheduling_group::YieldCurrentFiber();
}

Waiter::Waiter() noexcept : fiber_(scheduling_group::CurrentFiber()) {}

void Waiter::Prepare(Deadline deadline, Interruptible interruptible, WaitReason reason) noexcept {
  // Before anybody can claim: a claimer may unpark at once.
  if (fiber_ != nullptr) {
    scheduling_group::PrepareToPark(fiber_, reason.Timed(!deadline.is_none()));
  } else {
    parker_.Prepare();
  }
  interruptible_ = MayBeCancelled(fiber_, interruptible);
  if (interruptible_) {
    Begin(&fiber_->current_wait);
  } else {
    Begin(deadline.is_none() ? nullptr : &own_word_);
  }
}

WaitResult Waiter::Await(Deadline deadline) noexcept {
  return fiber_ != nullptr ? AwaitFiber(deadline) : AwaitThread(deadline);
}

WaitResult Waiter::AwaitFiber(Deadline deadline) noexcept {
  if (interruptible_) {
    // Either a canceller finds the wait in current_wait, or we see kPending. Pairs with the fence in Interrupt().
    base::ThreadFence(std::memory_order_seq_cst);
    if (IsToEnd(fiber_) && Claim(WaitResult::kInterrupted)) {
      scheduling_group::Unpark(fiber_);  // Ourselves: the park is over before it has begun.
      scheduling_group::ParkPrepared(fiber_);
      YieldIfUnwinding();
      return WaitResult::kInterrupted;
    }
  }
  if (deadline.is_none()) {
    scheduling_group::ParkPrepared(fiber_);
    return result();
  }
  auto* time_out = ::new (fiber_->wait_storage()) TimeOut(fiber_, word(), static_cast<WaitNode*>(this));
  // By the present group: the fiber may wake up in another.
  timer::TimerWorker* timers = timer::TimerWorker::Of(fiber_->group());
  // The timers of a group that has ended are gone, and a fiber that was left behind in it never goes on from here.
  WEFT_CHECK(timers != nullptr || fiber_->group()->stopping(),
             "a wait with a deadline in a scheduling group that has no TimerWorker");
  if (timers != nullptr) timers->ArmBeforePark(time_out, deadline);
  scheduling_group::ParkKeeping(fiber_);
  // It has fired, or never will: WQ4. If it decided the wait there is nothing to disarm: `fire` returned before the
  // fiber was made ready, and the timer thread, which may still hold the lock for hundreds of others, does not touch
  // the node after that.
  if (time_out->has_ended_the_wait()) return WaitResult::kTimedOut;
  timers->Disarm(time_out);
  return result();
}

WaitResult Waiter::AwaitThread(Deadline deadline) noexcept {
  if (!parker_.Park(deadline)) {
    if (Claim(WaitResult::kTimedOut)) return result();
    parker_.ParkForWaker();  // A notifier was faster: its wake is coming.
  }
  return result();
}

void Waiter::Wake() noexcept {
  if (fiber_ != nullptr) {
    scheduling_group::Unpark(fiber_);
  } else {
    WakeOther();
  }
}

void Waiter::WakeOther() noexcept {
  if (target_ != nullptr) {
    target_->wake(target_);
  } else {
    parker_.Unpark();
  }
}

void SoleWaiter::AwaitAsThread() noexcept { static_cast<void>(parker_.Park(Deadline::None())); }

// SW2: a canceller may still use the waiter or its primitive.
WEFT_NOINLINE WEFT_COLD void SoleWaiter::AwaitCanceller(FiberEntity* fiber) noexcept {
  const std::lock_guard guard(fiber->cancel_word);
}

void SoleWaiter::Wake() noexcept {
  if (fiber_ != nullptr) {
    scheduling_group::UnparkPublished(fiber_);
  } else {
    parker_.Unpark();
  }
}

TakenWait TakenWait::Of(FiberEntity* fiber) noexcept {
  TakenWait taken;
  // acquire: a SoleWaiter. Pairs with the release in AwaitCancellably().
  void* found = fiber->current_wait.load(std::memory_order_acquire);
  while (found != nullptr) {
    const auto address = reinterpret_cast<std::uintptr_t>(found);
    if ((address & SoleWaiter::kTag) != 0) {
      auto* const sole = reinterpret_cast<SoleWaiter*>(address & ~SoleWaiter::kTag);
      if (!sole->withdraw_(sole, sole->argument_)) return taken;
      sole->result_ = SoleWaiter::Result::kInterrupted;
      taken.fiber_ = fiber;
      taken.published_ = true;
      return taken;
    }
    if (WaitNode::ClaimFound(&fiber->current_wait, &found, WaitResult::kInterrupted)) {
      taken.fiber_ = fiber;
      return taken;
    }
  }
  return taken;
}

void TakenWait::Wake() const noexcept {
  if (published_) {
    scheduling_group::UnparkPublished(fiber_);
  } else {
    scheduling_group::Unpark(fiber_);
  }
}

WEFT_NOINLINE WEFT_COLD void EndPendingWait(FiberEntity* fiber) noexcept {
  TakenWait taken;
  {
    const std::lock_guard guard(fiber->cancel_word);
    if (!fiber->cancel_word.pending()) return;  // The mark that the caller has seen may have gone.
    taken = TakenWait::Of(fiber);
  }
  if (taken) taken.Wake();
}

WEFT_COLD void FailWaitedFor(const char* primitive, const FiberEntity* waiter) noexcept {
  if (base::IsInExit()) return;
  if (waiter == nullptr) {
    WEFT_FATAL(primitive, "::~", primitive, ": it is destroyed while a thread waits for it");
  }
  WEFT_FATAL(primitive, "::~", primitive, ": it is destroyed while ",
             scheduling_group::DescribeFiber(waiter->name(), waiter->id()), " waits for it");
}

void WakeAll(WaitList* claimed) noexcept {
  FiberEntity* fibers[kWakeBatch];
  std::size_t count = 0;
  // PopFront() touches the neighbours, which we still own.
  while (auto* waiter = static_cast<Waiter*>(claimed->PopFront())) {
    if (waiter->fiber_ == nullptr) {
      waiter->WakeOther();
      continue;
    }
    fibers[count++] = waiter->fiber_;
    if (count == kWakeBatch) {
      scheduling_group::UnparkRemote(fibers, count);
      count = 0;
    }
  }
  // A single fiber may be handed off to on this worker: the cheapest wake-up.
  if (count == 1) {
    scheduling_group::Unpark(fibers[0]);
  } else if (count != 0) {
    scheduling_group::UnparkRemote(fibers, count);
  }
}

namespace {

// A loop of sleeps that are over at once lets others run, too.
WaitResult SleepIsOver(Interruptible interruptible) noexcept {
  YieldFiberOrThread();
  const FiberEntity* const self = scheduling_group::CurrentFiber();
  return MayBeCancelled(self, interruptible) && IsToEnd(self) ? WaitResult::kInterrupted : WaitResult::kTimedOut;
}

WaitResult Sleep(Deadline deadline, Interruptible interruptible) noexcept {
  Waiter waiter;
  // In no list: only its time-out and a canceller can find it.
  waiter.Prepare(deadline, interruptible, WaitReason(WaitKind::kSleep, nullptr));
  return waiter.Await(deadline);
}

}  // namespace

WaitResult SleepUntil(Deadline deadline, Interruptible interruptible) noexcept {
  return deadline.expired() ? SleepIsOver(interruptible) : Sleep(deadline, interruptible);
}

WaitResult SleepFor(std::chrono::nanoseconds duration, Interruptible interruptible) noexcept {
  return duration.count() <= 0 ? SleepIsOver(interruptible) : Sleep(Deadline(duration), interruptible);
}

void YieldFiberOrThread() noexcept {
  if (scheduling_group::CurrentFiber() != nullptr) {
    scheduling_group::YieldCurrentFiber();
  } else {
    scheduling_group::YieldThread();
  }
}

WaitResult WaitQueue::Wait(Waiter* waiter, Deadline deadline, Interruptible interruptible, WaitReason reason) noexcept {
  if (!deadline.is_none() && deadline.expired()) {
    unlock();
    return WaitResult::kTimedOut;
  }
  Enqueue(waiter, deadline, interruptible, reason);
  unlock();
  return Await(waiter, deadline);
}

WaitResult WaitQueue::Await(Waiter* waiter, Deadline deadline) noexcept {
  const WaitResult result = waiter->Await(deadline);
  if (result == WaitResult::kNotified) return result;
  lock();
  LeaveUnnotified(waiter);
  unlock();
  return result;
}

void WaitQueue::Drain(const char* primitive) noexcept {
  for (;;) {
    {
      base::SpinLockGuard guard(lock_);
      if (waiters_.empty() && passed_over_ == 0) return;
      const auto* const first = static_cast<Waiter*>(waiters_.front());
      if (first != nullptr && !first->decided()) FailWaitedFor(primitive, first->fiber());
    }
    // While the process ends, the waiters that should leave may never run again.
    if (base::IsInExit()) return;
    YieldFiberOrThread();
  }
}

}  // namespace weft::synchronization
