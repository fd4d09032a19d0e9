// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/sync/select.h"

#include <atomic>

#include "weft/base/report/check.h"
#include "weft/base/thread/cpu.h"
#include "weft/sync/fiber_cancelled.h"
#include "weft/sync/wait/wait_queue.h"

namespace weft::synchronization {

namespace {

// Where to begin, so that no case is always before the others.
#ifdef WEFT_MODEL_CHECK
std::size_t NextStart() noexcept { return 0; }  // All executions begin alike.
#else
WEFT_TLS_ACCESSOR std::size_t NextStart() noexcept {
  base::OpaqueBarrier();
  static thread_local std::size_t start = 0;
  return start++;
}
#endif

// Calls visit(index) for all cases, from `start` around; until it says false.
template <class Visit>
void VisitFrom(std::size_t start, std::size_t count, Visit visit) {
  if (count == 0) return;
  start %= count;
  for (std::size_t i = start; i < count; ++i) {
    if (!visit(i)) return;
  }
  for (std::size_t i = 0; i < start; ++i) {
    if (!visit(i)) return;
  }
}

// One round of a selection: enters its cases, and lets those that were entered leave.
class Round {
 public:
  Round(std::span<SelectCase* const> cases, std::size_t start) noexcept : cases_(cases), start_(start) {}
  Round(const Round&) = delete;
  Round& operator=(const Round&) = delete;

  // One after the other, as long as they wait. What the last one said.
  SelectCase::Entered Enter() noexcept {
    SelectCase::Entered last = SelectCase::Entered::kWaits;
    VisitFrom(start_, cases_.size(), [&](std::size_t i) {
      last = cases_[i]->Enter();
      last_ = i;
      if (last != SelectCase::Entered::kWaits) return false;
      ++entered_;
      return true;
    });
    return last;
  }
  // The case that said so.
  std::size_t last() const noexcept { return last_; }

  // All that were entered leave, but for the one that was notified: that one is returned (kNone: none). The others have
  // seen nothing in this round, whatever they have seen in an earlier one (SL6).
  std::size_t Leave() noexcept {
    std::size_t notified = Selection::kNone;
    VisitFrom(start_, cases_.size(), [&](std::size_t i) {
      if (entered_ == 0) return false;
      --entered_;
      if (cases_[i]->was_notified()) {
        notified = i;
      } else {
        cases_[i]->Leave();
      }
      return true;
    });
    return notified;
  }

 private:
  std::span<SelectCase* const> const cases_;
  const std::size_t start_;
  std::size_t entered_ = 0;  // the first ones, from start_
  std::size_t last_ = Selection::kNone;
};

// Without a deadline it promises that a case was taken.
Interruptible HowToWait(Deadline deadline) noexcept {
  return deadline.is_none() ? Interruptible::kYes : Interruptible::kResult;
}

}  // namespace

void SelectCase::Begin() noexcept { waiter_.BeginShared(&selection_->word_, selection_); }

bool Selection::ClaimSelf() noexcept {
  void* undecided = this;
  // relaxed: what follows is done under the lock of a primitive. A failure is followed by the event.
  return word_.compare_exchange_strong(undecided, nullptr, std::memory_order_relaxed, std::memory_order_relaxed);
}

std::size_t Selection::Try(std::span<SelectCase* const> cases) noexcept {
  std::size_t taken = kNone;
  VisitFrom(NextStart(), cases.size(), [&](std::size_t i) {
    if (cases[i]->TryTake()) taken = i;
    return taken == kNone;
  });
  return taken;
}

std::size_t Selection::Wait(std::span<SelectCase* const> cases, Deadline deadline) {
  BeginCancellationPoint();
  for (;;) {
    const std::size_t taken = Try(cases);
    if (taken != kNone) return taken;
    if (deadline.expired()) return kNone;
    WaitResult result = WaitResult::kNotified;
    const std::size_t notified = WaitOnce(cases, deadline, &result);
    if (notified != kNone) return notified;
    result = CheckInterruptedWithResult(result);
    if (result == WaitResult::kTimedOut) return Try(cases);
  }
}

std::size_t Selection::WaitOnce(std::span<SelectCase* const> cases, Deadline deadline, WaitResult* result) noexcept {
  Round round(cases, NextStart());
  // relaxed: each primitive's lock publishes it with the waiter.
  word_.store(this, std::memory_order_relaxed);
  const SelectCase::Entered entered = round.Enter();
  bool notified = entered == SelectCase::Entered::kDecided;
  if (entered == SelectCase::Entered::kWaits) {
    *result = WaitAccess::Wait(signalled_, deadline, HowToWait(deadline), WaitReason(WaitKind::kSelect, this));
    notified = *result == WaitResult::kNotified || !ClaimSelf();
  }
  if (!notified) {  // Decided by ourselves.
    static_cast<void>(round.Leave());
    return entered == SelectCase::Entered::kTaken ? round.last() : kNone;
  }
  WaitAccess::WaitUncancelled(signalled_);  // SL5
  *result = WaitResult::kNotified;
  signalled_.Reset();  // SL6
  const std::size_t taken = round.Leave();
  WEFT_CHECK(taken != kNone, "Select: it was woken, and none of its cases was notified");
  return cases[taken]->Notified() ? taken : kNone;
}

}  // namespace weft::synchronization
