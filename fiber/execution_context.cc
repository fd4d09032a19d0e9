// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/execution_context.h"

#include <cstdint>
#include <utility>

#include "weft/base/report/check.h"
#include "weft/base/thread/cpu.h"
#include "weft/scheduling_group/fiber/fiber_entity.h"
#include "weft/scheduling_group/fiber/park.h"

namespace weft {

namespace {

WEFT_TLS_ACCESSOR void*& ContextOfThread() {
  base::OpaqueBarrier();
  thread_local void* context = nullptr;
  return context;
}

// The caller's current context becomes another one. Returns what it was.
FiberExecutionContext* ExchangeContextOfCaller(FiberExecutionContext* context) {
  scheduling_group::FiberEntity* const self = scheduling_group::CurrentFiber();
  if (self == nullptr) return static_cast<FiberExecutionContext*>(std::exchange(ContextOfThread(), context));
  auto* const before = static_cast<FiberExecutionContext*>(self->execution_context());
  self->set_execution_context(context);
  return before;
}

}  // namespace

base::RefPtr<FiberExecutionContext> FiberExecutionContext::Create() {
  return base::MakeRefCounted<FiberExecutionContext>();
}

base::RefPtr<FiberExecutionContext> FiberExecutionContext::Capture() {
  return base::RefPtr<FiberExecutionContext>(Current());
}

FiberExecutionContext* FiberExecutionContext::Current() noexcept {
  const scheduling_group::FiberEntity* const self = scheduling_group::CurrentFiber();
  return static_cast<FiberExecutionContext*>(self != nullptr ? self->execution_context() : ContextOfThread());
}

FiberExecutionContext::Scope::Scope(FiberExecutionContext* context)
    : context_(context), outer_(ExchangeContextOfCaller(context)) {}

FiberExecutionContext::Scope::~Scope() { static_cast<void>(ExchangeContextOfCaller(outer_)); }

FiberExecutionContext::~FiberExecutionContext() {
  DestroyValues();
  // relaxed: nobody else has a reference.
  Chunk* chunk = first_chunk_.next.load(std::memory_order_relaxed);
  while (chunk != nullptr) delete std::exchange(chunk, chunk->next.load(std::memory_order_relaxed));
}

void FiberExecutionContext::Clear() {
  WEFT_CHECK(HasOneRef(), "FiberExecutionContext::Clear: others still use the context");
  DestroyValues();
}

FiberExecutionContext::Slot& FiberExecutionContext::SlotAtSlow(std::uint32_t index) {
  Chunk* chunk = &first_chunk_;
  for (; index >= Chunk::kSlots; index -= Chunk::kSlots) {
    // acquire: the chunk is whole.  Pairs with the release of the exchange below.
    Chunk* next = chunk->next.load(std::memory_order_acquire);
    if (next == nullptr) {
      auto* const made = new Chunk;
      if (chunk->next.compare_exchange_strong(next, made, std::memory_order_release, std::memory_order_acquire)) {
        next = made;
      } else {
        delete made;
      }
    }
    chunk = next;
  }
  return chunk->slots[index];
}

const void* FiberExecutionContext::Caller() noexcept {
  const void* const self = scheduling_group::CurrentFiber();
  return self != nullptr ? self : &ContextOfThread();
}

// The caller holds slot.making.
void FiberExecutionContext::Adopt(Slot& slot, Header* header) {
  // relaxed: only the holder of the last reference walks the list, and that carries all of it (RP2 in ref_ptr.h).
  header->older = youngest_.load(std::memory_order_relaxed);
  while (!youngest_.compare_exchange_weak(header->older, header, std::memory_order_relaxed)) {
  }
  // release: publishes the value.  Pairs with the acquire load in FiberExecutionLocal::Get().
  slot.value.store(header, std::memory_order_release);
}

// By the last holder.  If a destructor makes a value anew, it is destroyed too.
void FiberExecutionContext::DestroyValues() {
  for (Chunk* chunk = &first_chunk_; chunk != nullptr; chunk = chunk->next.load(std::memory_order_relaxed)) {
    for (Slot& slot : chunk->slots) slot.value.store(nullptr, std::memory_order_relaxed);
  }
  while (Header* const header = youngest_.load(std::memory_order_relaxed)) {
    youngest_.store(header->older, std::memory_order_relaxed);
    header->destroy(header);
  }
}

fiber::detail::LocalSlotRegistry& FiberExecutionContext::LocalSlots() {
  static auto* const registry = new fiber::detail::LocalSlotRegistry;
  return *registry;
}

}  // namespace weft
