// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/fiber.h"

#include <atomic>
#include <cstdint>
#include <exception>
#include <new>
#include <string>
#include <utility>

#include "weft/base/report/check.h"
#include "weft/fiber/start/join_state.h"
#include "weft/sync/fiber_cancelled.h"

namespace weft {

namespace fiber::detail {

JoinState* MakeJoinable(StartPlan* plan, const FiberAttributes& attributes) {
  JoinState* state;
  try {
    state = new JoinState(attributes.name);
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  state->Join(plan);
  return state;
}

void RunCancellable(void (*procedure)(void*), void* argument) {
  try {
    procedure(argument);
  } catch (const FiberCancelled&) {
    // Fiber::Cancel().
  }
  LeaveScopesOfCaller();
}

void DropJoinState(JoinState* state) {
  state->NotStarted();
  state->Release();
}

void FailRefusedFiber(const FiberAttributes& attributes) {
  ParkForGoodIfGroupStops();
  WEFT_FATAL("Fiber: the start of fiber ",
             attributes.name.empty() ? base::kUnnamedFiber : base::StrCat("'", attributes.name, "'"),
             " was refused: too many fibers are queued, memory is exhausted or the runtime is going down "
             "(Fiber::TryStart and StartFiberDetached return instead)");
}

}  // namespace fiber::detail

namespace {

std::string Describe(const fiber::detail::JoinState& state) { return state.Describe(); }

// A fiber in Join() would find the state gone.
void CheckNotBeingJoined(const char* function, const std::atomic<bool>& being_joined,
                         const fiber::detail::JoinState* state) {
  // relaxed: a call beside a join is wrong whatever else is visible.
  WEFT_CHECK(state == nullptr || !being_joined.load(std::memory_order_relaxed), function, ": ", Describe(*state),
             " is being joined: another fiber or thread is in Join() of the same Fiber");
}

}  // namespace

Fiber::~Fiber() {
  WEFT_CHECK(state_ == nullptr, "Fiber::~Fiber: ", Describe(*state_),
             " is still joinable: call Join() or Detach() first");
}

Fiber::Fiber(Fiber&& other) noexcept {
  CheckNotBeingJoined("Fiber::Fiber(Fiber&&)", other.being_joined_, other.state_);
  state_ = std::exchange(other.state_, nullptr);
  past_ = std::exchange(other.past_, Past::kMovedFrom);
}

Fiber& Fiber::operator=(Fiber&& other) noexcept {
  CheckNotBeingJoined("Fiber::operator=", other.being_joined_, other.state_);
  WEFT_CHECK(state_ == nullptr, "Fiber::operator=: ", Describe(*state_),
             " is still joinable: call Join() or Detach() first");
  state_ = std::exchange(other.state_, nullptr);
  past_ = std::exchange(other.past_, Past::kMovedFrom);
  return *this;
}

void Fiber::Detach() {
  CheckJoinable("Fiber::Detach");
  CheckNotBeingJoined("Fiber::Detach", being_joined_, state_);
  std::exchange(state_, nullptr)->Release();
  past_ = Past::kDetached;
}

void Fiber::Join() { static_cast<void>(Join(Deadline::None())); }

bool Fiber::Join(Deadline deadline) {
  synchronization::BeginCancellationPoint();
  // acquire: the results of a finished join. Pairs with the releases below.
  const bool alone = !being_joined_.exchange(true, std::memory_order_acquire);
  CheckJoinable("Fiber::Join");
  WEFT_CHECK(alone, "Fiber::Join: ", Describe(*state_),
             " is being joined already: another fiber or thread is in Join() of the same Fiber");
  const synchronization::WaitResult result = state_->Await(deadline, "Fiber::Join");
  if (result != synchronization::WaitResult::kNotified) {
    being_joined_.store(false, std::memory_order_release);
    static_cast<void>(synchronization::CheckInterruptedWithResult(result));
    return false;
  }
  fiber::detail::JoinState* const state = std::exchange(state_, nullptr);
  past_ = Past::kJoined;
  being_joined_.store(false, std::memory_order_release);
  state->Release();
  return true;
}

bool Fiber::Cancel() noexcept {
  CheckJoinable("Fiber::Cancel");
  CheckNotBeingJoined("Fiber::Cancel", being_joined_, state_);
  return synchronization::Cancel(&state_->scope);
}

void Fiber::Interrupt(std::exception_ptr exception) noexcept {
  CheckJoinable("Fiber::Interrupt");
  CheckNotBeingJoined("Fiber::Interrupt", being_joined_, state_);
  WEFT_CHECK(exception != nullptr, "Fiber::Interrupt: no exception");
  synchronization::Inject(&state_->scope, std::move(exception));
}

std::uint64_t Fiber::Id() const noexcept { return state_ != nullptr ? state_->id : 0; }

std::string Fiber::Name() const { return state_ != nullptr ? state_->name : std::string(); }

void Fiber::CheckJoinable(const char* function) const {
  if (state_ != nullptr) [[likely]]
    return;
  switch (past_) {
    case Past::kNeverStarted:
      WEFT_FATAL(function, ": no fiber was started through this Fiber");
    case Past::kJoined:
      WEFT_FATAL(function, ": the fiber has been joined already");
    case Past::kDetached:
      WEFT_FATAL(function, ": the fiber has been detached");
    case Past::kMovedFrom:
      WEFT_FATAL(function, ": the fiber has been moved to another Fiber");
  }
}

}  // namespace weft
