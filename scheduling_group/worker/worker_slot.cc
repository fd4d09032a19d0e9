// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/worker/worker_slot.h"

#include <sys/syscall.h>
#include <unistd.h>

#include <cstring>

#include "weft/scheduling_group/fiber/fiber_entity.h"
#include "weft/scheduling_group/worker/current_worker.h"

namespace weft::scheduling_group {
namespace {

// Of a name in the log; longer ones are cut. On the stack: nothing is allocated under the lock.
constexpr std::size_t kLongestName = 127;

}  // namespace

void WorkerLife::Begin(const RunningFiber* current) noexcept {
  const int thread_id = static_cast<int>(::syscall(SYS_gettid));
  const base::SpinLockGuard guard(lock_);
  current_ = current;
  thread_id_ = thread_id;
}

bool WorkerLife::MayRetireFiber() noexcept {
  const base::SpinLockGuard guard(lock_);
  // No other fiber comes after it, unless that had been popped before the stop: then the worker may be left in that
  // one.
  if (state_ == State::kRuns && current_ != nullptr && current_->Look() == nullptr) state_ = State::kEnds;
  return state_ != State::kLeft;
}

bool WorkerLife::BeginEnd() noexcept {
  const base::SpinLockGuard guard(lock_);
  current_ = nullptr;
  if (state_ == State::kRuns) state_ = State::kEnds;
  return state_ == State::kEnds;
}

bool WorkerLife::LeaveBehind(LeftWorker* left) noexcept {
  char name[kLongestName + 1];
  {
    const base::SpinLockGuard guard(lock_);
    const FiberEntity* const fiber = current_ != nullptr && state_ == State::kRuns ? current_->Look() : nullptr;
    if (fiber == nullptr) return false;
    state_ = State::kLeft;
    LeftThreads::Add();
    left->thread_id = thread_id_;
    left->fiber_id = fiber->id();
    const std::size_t length = ::strnlen(fiber->name(), kLongestName);
    std::memcpy(name, fiber->name(), length);
    name[length] = '\0';
  }
  left->fiber_name = name;
  return true;
}

}  // namespace weft::scheduling_group
