// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/timer/queue/timer_slab.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

#include "weft/base/report/log.h"
#include "weft/numa/memory/affinity.h"

#if WEFT_ASAN
#include <sanitizer/lsan_interface.h>
#endif

namespace weft::timer {

// In the .bss: pages of unused numbers cost nothing.
std::atomic<TimerChunk*> weft_timer_chunks[kMaxTimerChunks];

namespace {

std::atomic<std::uint32_t> next_chunk_number{0};

constexpr std::uint32_t kPlacesPerPage = 4096 / sizeof(TimerEntry);
// 16 KiB take 5 us if the kernel has free pages, ten times that if a virtual machine's host must find them first.
constexpr std::uint32_t kPlacesPerStep = 4 * kPlacesPerPage;

// Maps an aligned piece of memory, or returns nullptr.
void* MapChunk() {
  // Twice the size holds an aligned chunk somewhere.
  void* mapping =
      mmap(nullptr, 2 * kTimerChunkBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return nullptr;
  const auto begin = reinterpret_cast<std::uintptr_t>(mapping);
  const std::uintptr_t aligned = (begin + kTimerChunkBytes - 1) & ~(kTimerChunkBytes - 1);
  // A failure costs only address space.
  if (aligned != begin) munmap(mapping, aligned - begin);
  munmap(reinterpret_cast<void*>(aligned + kTimerChunkBytes), begin + kTimerChunkBytes - aligned);
  return reinterpret_cast<void*>(aligned);
}

}  // namespace

TimerChunk* TimerSlab::NewChunk(TimerShard* shard, EntryWidth width, int node) noexcept {
  void* memory = MapChunk();
  // relaxed: a number, nothing else.
  const std::uint32_t number =
      memory != nullptr ? next_chunk_number.fetch_add(1, std::memory_order_relaxed) : kMaxTimerChunks;
  if (number >= kMaxTimerChunks) {
    if (memory != nullptr) {
      munmap(memory, kTimerChunkBytes);
      next_chunk_number.fetch_sub(1, std::memory_order_relaxed);  // Only numbers beyond the end go back.
    }
    WEFT_LOG_EVERY_SECOND(WARNING, "no memory for another timer");
    return nullptr;
  }
  if (const std::error_code error = numa::BindMemory(memory, kTimerChunkBytes, node)) {
    WEFT_LOG_EVERY_SECOND(WARNING, "timers of node ", node, " are kept elsewhere: ", error.message());
  }
  // A huge page would stall the setter. Advice only: a refusal does no harm.
  madvise(memory, kTimerChunkBytes, MADV_NOHUGEPAGE);
#if WEFT_ASAN
  __lsan_register_root_region(memory, kTimerChunkBytes);  // Callbacks own heap memory.
#endif
  auto* chunk = ::new (memory) TimerChunk;
  chunk->populated = kPlacesPerPage;
  chunk->shard = shard;
  chunk->width = width;
  chunk->number = number;
  // release: the header. Pairs with the acquire in Find().
  weft_timer_chunks[number].store(chunk, std::memory_order_release);
  return chunk;
}

std::uint32_t TimerSlab::NextStep(std::uint32_t populated) noexcept {
  return std::min<std::uint32_t>(populated + std::min<std::uint32_t>(populated, kPlacesPerStep), kPlacesPerChunk);
}

void TimerSlab::Populate(TimerChunk* chunk, std::uint32_t from, std::uint32_t to) noexcept {
  // Advice too: it fails before Linux 5.14 and without memory; then the first touch gets the page.
  madvise(chunk->entry(from), (to - from) * sizeof(TimerEntry), MADV_POPULATE_WRITE);
}

void TimerSlab::Adopt(TimerChunk* chunk) noexcept {
  chunk->next_of_slab = chunks_;
  chunks_ = chunk;
  AddWithoutMemory(chunk);
}

void TimerSlab::AddWithoutMemory(TimerChunk* chunk) noexcept {
  chunk->is_partial = false;
  chunk->next_partial = without_memory_;
  without_memory_ = chunk;
}

void TimerSlab::AddPartial(TimerChunk* chunk) noexcept {
  chunk->is_partial = true;
  chunk->next_partial = partial_;
  partial_ = chunk;
}

TimerEntry* TimerSlab::AllocateFresh(TimerChunk* chunk) noexcept {
  TimerEntry* entry = chunk->entry(chunk->used);
  chunk->used += Lines();
  entry->next = nullptr;
  // relaxed: as in Free().
  entry->word.store(chunk->fresh_generation << TimerEntry::kGenerationShift, std::memory_order_relaxed);
  ++chunk->live;
  return entry;
}

TimerEntry* TimerSlab::AllocateFromAnother() noexcept {
  if (current_ != nullptr) current_->is_partial = false;
  current_ = partial_;
  if (current_ != nullptr) {
    partial_ = current_->next_partial;
    return Allocate();
  }
  if (growing_ == nullptr || growing_->used == kPlacesPerChunk) {
    growing_ = without_memory_;
    if (growing_ == nullptr) return nullptr;
    without_memory_ = growing_->next_partial;
  }
  if (growing_->used == growing_->populated) return nullptr;
  current_ = growing_;
  current_->is_partial = true;
  return AllocateFresh(current_);
}

TimerChunk* TimerSlab::TakeUnused() noexcept {
  // current_ is not among them: one chunk stays warm.
  TimerChunk** link = &partial_;
  for (TimerChunk* chunk = partial_; chunk != nullptr; link = &chunk->next_partial, chunk = *link) {
    if (chunk->live != 0 || chunk->used == TimerChunk::kFirstPlace) continue;
    *link = chunk->next_partial;
    if (chunk == growing_) growing_ = nullptr;
    chunk->free = nullptr;
    chunk->used = TimerChunk::kFirstPlace;
    chunk->populated = kPlacesPerPage;
    return chunk;
  }
  return nullptr;
}

void TimerSlab::ReturnMemory(TimerChunk* chunk) noexcept {
  // The first page stays: it holds the header. The next use of its entries overwrites them.
  constexpr std::size_t kKept = kPlacesPerPage * sizeof(TimerEntry);
  if (madvise(reinterpret_cast<std::byte*>(chunk) + kKept, kTimerChunkBytes - kKept, MADV_DONTNEED) != 0) {
    WEFT_LOG_EVERY_SECOND(WARNING, "memory of timers could not be given back to the system");
  }
}

std::size_t TimerSlab::live() const noexcept {
  std::size_t live = 0;
  for (const TimerChunk* chunk = chunks_; chunk != nullptr; chunk = chunk->next_of_slab) live += chunk->live;
  return live;
}

std::size_t TimerSlab::chunks_in_memory() const noexcept {
  std::size_t count = 0;
  for (const TimerChunk* chunk = chunks_; chunk != nullptr; chunk = chunk->next_of_slab) {
    count += chunk->used > TimerChunk::kFirstPlace;
  }
  return count;
}

}  // namespace weft::timer
