// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/fiber/read_section.h"

#include <sys/mman.h>

#include <array>
#include <atomic>

#include "weft/base/report/check.h"
#include "weft/base/thread/exit.h"
#include "weft/scheduling_group/worker/current_worker.h"

namespace weft::scheduling_group {

namespace read_section_internal {

constinit SectionWaiter waiter;
constinit std::atomic<bool> has_heavy_fence{false};

}  // namespace read_section_internal

namespace {

using read_section_internal::has_heavy_fence;
using read_section_internal::waiter;

// A thread owns it from its first section to its end, then another thread does. Never freed.
struct OwnedSlot {
  SectionSlot slot;
  std::atomic<bool> owned{false};
};

constexpr std::size_t kSlotsPerBlock = 63;  // a block has 8 KiB

struct Block {
  std::array<OwnedSlot, kSlotsPerBlock> slots{};
  std::atomic<Block*> next{nullptr};
};

constinit Block first_block;

// The thread's own slot. Trivial, so that it can be read to the end of the thread.
constinit thread_local SectionSlot* slot_of_thread = nullptr;

WEFT_TLS_ACCESSOR void SetSlotOfThread(SectionSlot* slot) noexcept {
  base::OpaqueBarrier();
  slot_of_thread = slot;
}

void GiveSlotBack(void* slot) {
  SetSlotOfThread(nullptr);
  // release: the next owner counts on from our word. Pairs with the acquire in TakeSlotOf().
  static_cast<OwnedSlot*>(slot)->owned.store(false, std::memory_order_release);
}

constinit base::ThreadEnd at_thread_end(&GiveSlotBack);

OwnedSlot* TakeSlotOf(Block& block) noexcept {
  for (OwnedSlot& slot : block.slots) {
    if (slot.owned.load(std::memory_order_relaxed)) continue;
    if (!slot.owned.exchange(true, std::memory_order_acquire)) return &slot;
  }
  return nullptr;
}

// The block after `block`, made if there is none. By mmap(), since malloc() may have run out of memory.
Block* NextBlock(Block& block) noexcept {
  // acquire: its contents. Pairs with the release below.
  if (Block* next = block.next.load(std::memory_order_acquire)) return next;
  void* memory = ::mmap(nullptr, sizeof(Block), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  WEFT_CHECK(memory != MAP_FAILED, "no memory for another thread that calls Weft");
  auto* made = ::new (memory) Block;
  Block* next = nullptr;
  if (block.next.compare_exchange_strong(next, made, std::memory_order_acq_rel, std::memory_order_acquire)) return made;
  ::munmap(memory, sizeof(Block));
  return next;
}

WEFT_NOINLINE SectionSlot* TakeSlot() noexcept {
  OwnedSlot* own = nullptr;
  for (Block* block = &first_block; own == nullptr; block = NextBlock(*block)) own = TakeSlotOf(*block);
  // If Arm() fails, the slot is never given back: it is lost, but never marked again.
  (void)at_thread_end.Arm(own);
  SetSlotOfThread(&own->slot);
  return &own->slot;
}

WEFT_TLS_ACCESSOR SectionSlot* SlotOfThread() noexcept {
  base::OpaqueBarrier();
  return slot_of_thread;
}

template <class Visit>
void ForEachSlot(Visit visit) noexcept {
  // acquire: as in NextBlock().
  for (Block* block = &first_block; block != nullptr; block = block->next.load(std::memory_order_acquire)) {
    for (OwnedSlot& slot : block->slots) visit(slot);
  }
}

}  // namespace

SectionSlot* read_section_internal::EnterSlotOfThread() noexcept {
  base::OpaqueBarrier();
  SectionSlot* slot = slot_of_thread;
  if (WEFT_UNLIKELY(slot == nullptr)) slot = TakeSlot();
  slot->Enter(has_heavy_fence.load(std::memory_order_relaxed));
  return slot;
}

bool ReadSection::Inside() noexcept {
  const SectionSlot* slot = SlotOfThread();
  return slot != nullptr && slot->inside();
}

void UseHeavyFenceForReadSections() noexcept {
  if (base::HasHeavyFence()) has_heavy_fence.store(true, std::memory_order_relaxed);
}

void WaitForReadSections() noexcept {
  WEFT_CHECK(!ReadSection::Inside(), "the runtime is started or ended by a callable that is just being handed to it");
  SectionSlot::Wait(has_heavy_fence.load(std::memory_order_relaxed), &waiter,
                    [](auto visit) { ForEachSlot([&](const OwnedSlot& slot) { visit(slot.slot); }); });
}

void ForgetOtherThreadsSections() noexcept {
  ForEachSlot([own = SlotOfThread()](OwnedSlot& slot) {
    if (&slot.slot == own) return;
    slot.slot.Forget();
    slot.owned.store(false, std::memory_order_relaxed);
  });
}

}  // namespace weft::scheduling_group
