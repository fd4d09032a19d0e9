// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/fiber_local.h"

#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <new>

#include "weft/base/report/check.h"
#include "weft/base/thread/cpu.h"
#include "weft/base/thread/exit.h"
#include "weft/scheduling_group/fiber/fiber_entity.h"
#include "weft/scheduling_group/fiber/park.h"

namespace weft::fiber::detail {

void PinLibraryOfLocal(std::atomic<bool>* is_pinned) noexcept {
  if (is_pinned->load(std::memory_order_relaxed)) return;  // relaxed: twice does no harm.
  static_cast<void>(base::PinLibraryOf(is_pinned));
  is_pinned->store(true, std::memory_order_relaxed);
}

LocalSlot LocalSlotRegistry::Acquire() {
  const std::scoped_lock lock(mutex_);
  if (free_.empty()) return LocalSlot{.serial = ++last_serial_, .index = indices_made_++};
  std::pop_heap(free_.begin(), free_.end(), std::greater<>());
  const std::uint32_t index = free_.back();
  free_.pop_back();
  return LocalSlot{.serial = ++last_serial_, .index = index};
}

void LocalSlotRegistry::Release(LocalSlot slot) {
  const std::scoped_lock lock(mutex_);
  free_.push_back(slot.index);
  std::push_heap(free_.begin(), free_.end(), std::greater<>());
}

namespace {

// The table of a plain thread; trivial, so that it exists until the end of the thread.
constinit thread_local FiberLocalTable* table_of_thread = nullptr;

WEFT_TLS_ACCESSOR FiberLocalTable* TableOfThread() {
  base::OpaqueBarrier();
  return table_of_thread;
}

// The values end with the thread, while the table still exists.
void EndTableOfThread() {
  if (table_of_thread == nullptr) return;
  DestroyFiberLocalTable(table_of_thread);
  table_of_thread = nullptr;
}

constinit base::ThreadEnd at_thread_end([](void*) { EndTableOfThread(); });

// For the thread that calls exit() (TE1's exception in exit.h). Not for all threads: one that a pthread key's
// destructor makes after its thread's thread_locals are gone is never destroyed, and glibc's record of it leaks.
struct ThreadLocalsEnd {
  ~ThreadLocalsEnd() { EndTableOfThread(); }
};

WEFT_NOINLINE FiberLocalTable* MakeTableOfThread() {
  table_of_thread = new FiberLocalTable;
  const bool armed = at_thread_end.Arm(&table_of_thread);
  if (!armed || ::gettid() == ::getpid()) {  // No key is left, or this is the main thread.
    thread_local ThreadLocalsEnd ends;
    static_cast<void>(ends);
  }
  return table_of_thread;
}

FiberLocalTable& OfThread() {
  FiberLocalTable* const table = TableOfThread();
  return *(WEFT_LIKELY(table != nullptr) ? table : MakeTableOfThread());
}

}  // namespace

// Never destroyed: FiberLocals of static storage duration give their slots back at exit, in any order.
LocalSlotRegistry& FiberLocalSlots() {
  static auto* const registry = new LocalSlotRegistry;
  return *registry;
}

FiberLocalTable& FiberLocalTable::OfCaller() {
  scheduling_group::FiberEntity* const self = scheduling_group::CurrentFiber();
  if (self == nullptr) return OfThread();
  if (self->fiber_local_slots() == nullptr) self->set_fiber_local_slots(new FiberLocalTable);
  return *static_cast<FiberLocalTable*>(self->fiber_local_slots());
}

FiberLocalTable::~FiberLocalTable() {
  while (youngest_ != nullptr) {
    FiberLocalHeader* const header = youngest_;
    youngest_ = header->older;
    // Before its destructor: if that touches its own FiberLocal, it gets a new value.
    if (header->index != kNoIndex) slots_[header->index] = nullptr;
    Destroy(header);
  }
}

FiberLocalHeader* FiberLocalTable::Allocate(std::size_t size, std::size_t alignment) {
  const std::size_t begin = (room_used_ + alignment - 1) / alignment * alignment;
  void* memory = nullptr;
  bool on_heap = false;
  if (alignment <= alignof(std::max_align_t) && size <= kRoom && begin <= kRoom - size) {
    memory = room_ + begin;
    room_used_ = static_cast<std::uint32_t>(begin + size);
  } else {
    memory = ::operator new (size, std::align_val_t{alignment});
    on_heap = true;
  }
  auto* const header = ::new (memory) FiberLocalHeader;
  header->on_heap = on_heap;
  header->log2_alignment = static_cast<std::uint8_t>(std::countr_zero(alignment));
  return header;
}

void FiberLocalTable::Abandon(FiberLocalHeader* header) {
  if (!header->on_heap) return;  // Its memory stays unused until the table ends.
  ::operator delete (static_cast<void*>(header), std::align_val_t{std::size_t{1} << header->log2_alignment});
}

void FiberLocalTable::Adopt(LocalSlot slot, FiberLocalHeader* header) {
  WEFT_CHECK(Find(slot) == nullptr, "FiberLocal: the constructor of T uses the FiberLocal that it is made for");
  if (slot.index >= size_) Grow(slot.index);
  while (slots_[slot.index] != nullptr) DestroyLeftOver(slot.index);
  header->serial = slot.serial;
  header->index = slot.index;
  header->older = youngest_;
  youngest_ = header;
  slots_[slot.index] = header;
}

void FiberLocalTable::AdoptWithoutSlot(FiberLocalHeader* header) {
  header->serial = 0;
  header->index = kNoIndex;
  header->older = youngest_;
  youngest_ = header;
}

void FiberLocalTable::Destroy(FiberLocalHeader* header) {
  header->destroy(header);
  Abandon(header);
}

// The value in slot `index` belongs to a destroyed FiberLocal.
void FiberLocalTable::DestroyLeftOver(std::uint32_t index) {
  FiberLocalHeader* const header = slots_[index];
  FiberLocalHeader** link = &youngest_;
  while (*link != header) link = &(*link)->older;
  *link = header->older;
  slots_[index] = nullptr;
  Destroy(header);
}

void FiberLocalTable::Grow(std::uint32_t index) {
  const std::uint32_t size = std::max(index + 1, 2 * size_);
  if (more_slots_.empty()) more_slots_.assign(inline_slots_, inline_slots_ + kInlineSlots);
  more_slots_.resize(size, nullptr);
  slots_ = more_slots_.data();
  size_ = size;
}

void DestroyFiberLocalTable(FiberLocalTable* table) { delete table; }

}  // namespace weft::fiber::detail
