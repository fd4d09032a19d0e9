// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/sync/selection.h"

#include <atomic>

#include "weft/base/cpu.h"
#include "weft/sync/fiber_cancelled.h"
#include "weft/sync/wait_access.h"

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

// The cases that have been entered: they leave.
class EnteredCases {
 public:
  EnteredCases(std::span<SelectCase* const> cases, std::size_t start) : cases_(cases), start_(start) {}
  ~EnteredCases() {
    VisitFrom(start_, cases_.size(), [&](std::size_t i) {
      if (entered_ == 0) return false;
      --entered_;
      if (!cases_[i]->was_notified()) cases_[i]->Leave();
      return true;
    });
  }
  EnteredCases(const EnteredCases&) = delete;
  EnteredCases& operator=(const EnteredCases&) = delete;
  void CountOne() noexcept { ++entered_; }

 private:
  std::span<SelectCase* const> const cases_;
  const std::size_t start_;
  std::size_t entered_ = 0;  // the first ones, from start_
};

}  // namespace

namespace {

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
  const std::size_t start = NextStart();
  // relaxed: each primitive's lock publishes it with the waiter.
  word_.store(this, std::memory_order_relaxed);
  std::size_t taken = kNone;
  SelectCase::Entered last = SelectCase::Entered::kWaits;
  {
    EnteredCases entered(cases, start);
    VisitFrom(start, cases.size(), [&](std::size_t i) {
      last = cases[i]->Enter();
      if (last == SelectCase::Entered::kWaits) {
        entered.CountOne();
        return true;
      }
      if (last == SelectCase::Entered::kTaken) taken = i;
      return false;
    });
    if (last == SelectCase::Entered::kTaken || last == SelectCase::Entered::kAnew) {
      // Decided by ourselves.
    } else {
      *result = last == SelectCase::Entered::kDecided ? WaitResult::kNotified
                                                      : WaitAccess::Wait(signalled_, deadline, HowToWait(deadline));
      if (*result == WaitResult::kNotified || !ClaimSelf()) {
        WaitAccess::WaitUncancelled(signalled_);  // SL5
        *result = WaitResult::kNotified;
        for (std::size_t i = 0; i < cases.size(); ++i) {
          if (cases[i]->was_notified()) taken = i;
        }
      }
    }
  }
  signalled_.Reset();
  if (taken == kNone || last == SelectCase::Entered::kTaken) return taken;
  return cases[taken]->Notified() ? taken : kNone;
}

}  // namespace weft::synchronization
