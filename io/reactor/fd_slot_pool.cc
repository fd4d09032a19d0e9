// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/reactor/fd_slot_pool.h"

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

#include "weft/base/thread/cpu.h"
#include "weft/base/thread/exit.h"
#include "weft/base/thread/spin_lock.h"
#include "weft/base/thread/thread_annotations.h"
#include "weft/io/reactor/fd_slot.h"
#include "weft/numa/memory/affinity.h"
#include "weft/numa/memory/node_memory.h"
#include "weft/scheduling_group/group/scheduling_group.h"
#include "weft/scheduling_group/worker/current_worker.h"

namespace weft::io {

using scheduling_group::kMaxNodeArenas;

// Slots linked by next_free_.
struct FdSlotPool::Batch {
  FdSlot* first = nullptr;
  std::uint32_t size = 0;

  void Push(FdSlot* slot) noexcept {
    slot->next_free_ = std::exchange(first, slot);
    ++size;
  }
  FdSlot* Pop() noexcept {
    --size;
    return std::exchange(first, first->next_free_);
  }
};

// Of a home. A batch's first slot links it to the next one, and has its size.
class alignas(base::kCacheLineSize) FdSlotPool::Store {
 public:
  constexpr Store() = default;

  // Empty: there is none.
  Batch Take() {
    base::SpinLockGuard guard(lock_);
    ++visits_;
    FdSlot* const first = batches_;
    if (first == nullptr) return {};
    batches_ = first->next_batch_;
    return {.first = first, .size = first->batch_size_};
  }
  void Put(const Batch& batch) {
    if (batch.size == 0) return;
    batch.first->batch_size_ = batch.size;
    base::SpinLockGuard guard(lock_);
    ++visits_;
    batch.first->next_batch_ = std::exchange(batches_, batch.first);
  }
  std::uint64_t Visits() {
    base::SpinLockGuard guard(lock_);
    return visits_;
  }

 private:
  base::SpinLock lock_;
  FdSlot* batches_ WEFT_GUARDED_BY(lock_) = nullptr;
  std::uint64_t visits_ WEFT_GUARDED_BY(lock_) = 0;  // In the line that a visit has anyway.
};

namespace {

WEFT_NOINLINE FdSlotPool::Home HomeOfThread() {
  // On a machine with one node all share one, as the groups do.
  return scheduling_group::NodeArenaOn(numa::HasSeveralNodes() ? numa::CurrentNode() : -1);
}

}  // namespace

// Of one thread.
class FdSlotPool::Cache {
 public:
  // The calling thread's; nullptr: no memory. A fiber must not keep it over a switch; hence never inlined.
  static WEFT_TLS_ACCESSOR Cache* OfThread() noexcept;

  FdSlot* Take(Home home) {
    Lists& lists = lists_[home];
    if (lists.hot.size == 0) [[unlikely]] {
      Fill(home, &lists);
    }
    return lists.hot.Pop();
  }
  // Of the node where the thread runs. It may move: it is asked when it has none left of the former node.
  FdSlot* TakeNearby() {
    const Lists& lists = lists_[home_];
    if (lists.hot.size + lists.cold.size == 0) [[unlikely]] {
      home_ = HomeOfThread();
    }
    return Take(home_);
  }
  void Put(FdSlot* slot) {
    Lists& lists = lists_[slot->home_];
    if (lists.hot.size == kBatch) [[unlikely]] {
      // The half that was used least recently.
      StoreOf(slot->home_).Put(std::exchange(lists.cold, std::exchange(lists.hot, {})));
    }
    lists.hot.Push(slot);
  }

 private:
  struct Lists {
    Batch hot;
    Batch cold;
  };

  static void End(void* of_thread);
  static WEFT_TLS_ACCESSOR void SetOfThread(Cache* cache) noexcept;
  WEFT_NOINLINE static Cache* Make() noexcept;
  WEFT_NOINLINE void Fill(Home home, Lists* lists);

  static constinit thread_local Cache* of_thread_;  // Trivial, and there until the thread's end.

  std::array<Lists, kMaxNodeArenas> lists_{};
  Home home_ = scheduling_group::kAnyNodeArena;  // For TakeNearby().
};

FdSlotPool::Store& FdSlotPool::StoreOf(Home home) noexcept {
  static constinit Store stores[kMaxNodeArenas];  // Never destroyed, since threads may end after static destructors.
  return stores[home];
}

WEFT_COLD FdSlotPool::Batch FdSlotPool::NewChunk(Home home) {
  constexpr std::size_t kSlots = std::size_t{2} * kBatch;
  // Mapped: in the heap a chunk would keep the memory before it from going back to the system.
  void* const memory = numa::AllocateOnNode(kSlots * sizeof(FdSlot), scheduling_group::NodeArenaAt(home).node());
  auto* const chunk = static_cast<FdSlot*>(memory);
  std::uninitialized_default_construct_n(chunk, kSlots);
  Batch batch;
  for (std::size_t i = kSlots; i-- > 0;) {
    chunk[i].home_ = home;
    batch.Push(&chunk[i]);
    if (i == kBatch) StoreOf(home).Put(std::exchange(batch, {}));
  }
  return batch;
}

void FdSlotPool::Cache::Fill(Home home, Lists* lists) {
  lists->hot = std::exchange(lists->cold, {});
  if (lists->hot.size != 0) return;
  lists->hot = StoreOf(home).Take();
  if (lists->hot.size == 0) lists->hot = NewChunk(home);
}

constinit thread_local FdSlotPool::Cache* FdSlotPool::Cache::of_thread_ = nullptr;

WEFT_TLS_ACCESSOR void FdSlotPool::Cache::SetOfThread(Cache* cache) noexcept {
  base::OpaqueBarrier();
  of_thread_ = cache;
}

void FdSlotPool::Cache::End(void* of_thread) {
  const std::unique_ptr<Cache> cache(static_cast<Cache*>(of_thread));
  SetOfThread(nullptr);
  for (std::size_t home = 0; home < kMaxNodeArenas; ++home) {
    Store& store = StoreOf(static_cast<Home>(home));
    store.Put(cache->lists_[home].hot);
    store.Put(cache->lists_[home].cold);
  }
}

FdSlotPool::Cache* FdSlotPool::Cache::Make() noexcept {
  static constinit base::ThreadEnd at_thread_end(&End);
  auto* const cache = new (std::nothrow) Cache;
  if (cache == nullptr) return nullptr;
  (void)at_thread_end.Arm(cache);  // If Arm() fails, the cache stays for ever, with its slots.
  SetOfThread(cache);
  return cache;
}

WEFT_TLS_ACCESSOR FdSlotPool::Cache* FdSlotPool::Cache::OfThread() noexcept {
  base::OpaqueBarrier();
  Cache* const cache = of_thread_;
  return cache != nullptr ? cache : Make();
}

FdSlot* FdSlotPool::TakeWithoutCache(Home home) {
  Batch batch = StoreOf(home).Take();
  if (batch.size == 0) batch = NewChunk(home);
  FdSlot* const slot = batch.Pop();
  StoreOf(home).Put(batch);
  return slot;
}

FdSlot* FdSlotPool::TakeOf(Home home) {
  Cache* const cache = Cache::OfThread();
  return cache != nullptr ? cache->Take(home) : TakeWithoutCache(home);
}

FdSlot* FdSlotPool::Take() {
  const scheduling_group::WorkerBase* const worker = scheduling_group::CurrentWorker();
  const Home home = worker != nullptr ? worker->group->entity_arena() : scheduling_group::kAnyNodeArena;
  if (home != scheduling_group::kAnyNodeArena) return TakeOf(home);
  Cache* const cache = Cache::OfThread();
  return cache != nullptr ? cache->TakeNearby() : TakeWithoutCache(home);
}

void FdSlotPool::Put(FdSlot* slot) noexcept {
  if (Cache* const cache = Cache::OfThread()) [[likely]]
    return cache->Put(slot);
  Batch batch;
  batch.Push(slot);
  StoreOf(slot->home_).Put(batch);
}

FdSlotPool::Home FdSlotPool::HomeOf(const FdSlot& slot) noexcept { return slot.home_; }

std::uint64_t FdSlotPool::Visits(Home home) noexcept { return StoreOf(home).Visits(); }

// --- What io/reactor/fd_slot.cc asks for ---

FdSlot* FdSlot::TakeFree() { return FdSlotPool::Take(); }

void FdSlot::GiveBack() noexcept { FdSlotPool::Put(this); }

}  // namespace weft::io
