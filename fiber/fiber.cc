// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/fiber.h"

#include <atomic>
#include <cstdint>
#include <exception>
#include <new>
#include <optional>
#include <string>
#include <utility>

#include "weft/base/report/check.h"
#include "weft/fiber/start/join_state.h"
#include "weft/scheduling_group/fiber/entity_pool.h"
#include "weft/scheduling_group/group/group_registry.h"
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

}  // namespace fiber::detail

using fiber::detail::JoinState;

namespace {

std::string Describe(const JoinState& state) { return state.Describe(); }

// A fiber in Join() would find the state gone.
void CheckNotBeingJoined(const char* function, const std::atomic<bool>& being_joined, const JoinState* state) {
  // relaxed: a call beside a join is wrong whatever else is visible.
  WEFT_CHECK(state == nullptr || !being_joined.load(std::memory_order_relaxed), function, ": ", Describe(*state),
             " is being joined: another fiber or thread is in Join() of the same Fiber");
}

}  // namespace

Fiber::~Fiber() {
  WEFT_CHECK(
      state_ == nullptr, "Fiber::~Fiber: ", Describe(*state_), " is still joinable: call Join() or Detach() first",
      std::uncaught_exceptions() == 0 ? "" : " (an exception is leaving its block: FiberNotStarted of another?)");
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
  JoinState* const state = std::exchange(state_, nullptr);
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

FoundFiber::FoundFiber(const FoundFiber& other) noexcept : state_(other.state_) { state_->AddRef(); }

FoundFiber& FoundFiber::operator=(const FoundFiber& other) noexcept {
  FoundFiber copy(other);
  std::swap(state_, copy.state_);
  return *this;
}

FoundFiber::~FoundFiber() { state_->Release(); }

std::uint64_t FoundFiber::Id() const noexcept { return state_->id; }
const std::string& FoundFiber::Name() const noexcept { return state_->name; }
bool FoundFiber::HasEnded() const noexcept { return state_->ended.IsSet(); }

void FoundFiber::Join() const { static_cast<void>(Join(Deadline::None())); }

bool FoundFiber::Join(Deadline deadline) const {
  synchronization::BeginCancellationPoint();
  return synchronization::CheckInterruptedWithResult(state_->Await(deadline, "FoundFiber::Join")) ==
         synchronization::WaitResult::kNotified;
}

bool FoundFiber::Cancel() const noexcept { return synchronization::Cancel(&state_->scope); }

void FoundFiber::Interrupt(std::exception_ptr exception) const noexcept {
  WEFT_CHECK(exception != nullptr, "FoundFiber::Interrupt: no exception");
  synchronization::Inject(&state_->scope, std::move(exception));
}

std::optional<FoundFiber> FindFiber(std::uint64_t id) noexcept {
  // In a forked child a thread that is not there may hold the lock of a fiber.
  if (id == 0 || scheduling_group::IsForkedChild()) return std::nullopt;
  // One pass is enough: an entity has the id from before anybody could know it until it is another fiber's.
  const std::size_t chunks = scheduling_group::EntityChunkCount();
  for (std::size_t chunk = 0; chunk < chunks; ++chunk) {
    scheduling_group::FiberEntity* const entities = scheduling_group::EntityChunkAt(chunk);
    for (std::size_t i = 0; i < scheduling_group::kEntitiesPerChunk; ++i) {
      if (entities[i].id() != id) continue;
      base::RefPtr<JoinState> state = JoinState::Find(&entities[i], id);
      if (state == nullptr) return std::nullopt;
      return FoundFiber(state.Leak());
    }
  }
  return std::nullopt;
}

}  // namespace weft
