// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/find_fiber.h"

#include <utility>

#include "weft/base/report/check.h"
#include "weft/fiber/start/join_state.h"
#include "weft/scheduling_group/fiber/entity_pool.h"
#include "weft/scheduling_group/group/group_registry.h"
#include "weft/sync/fiber_cancelled.h"

namespace weft {

using fiber::detail::JoinState;

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
