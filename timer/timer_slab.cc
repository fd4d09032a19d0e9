// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/timer/timer_slab.h"

#include <sys/mman.h>

#include <new>

#include "weft/base/log.h"
#include "weft/numa/affinity.h"

#if WEFT_ASAN
#include <sanitizer/lsan_interface.h>
#endif

namespace weft::timer {

// In the .bss: the pages of numbers that are not given out cost nothing.
std::atomic<TimerChunk*> weft_timer_chunks[kMaxTimerChunks];

namespace {

std::atomic<std::uint32_t> next_chunk_number{0};

// An aligned piece of fresh memory, or nullptr.
void* MapChunk() {
  // Twice the size holds an aligned chunk somewhere.
  void* mapping =
      mmap(nullptr, 2 * kTimerChunkBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapping == MAP_FAILED) return nullptr;
  const auto begin = reinterpret_cast<std::uintptr_t>(mapping);
  const std::uintptr_t aligned = (begin + kTimerChunkBytes - 1) & ~(kTimerChunkBytes - 1);
  // What does not succeed here costs address space only.
  if (aligned != begin) munmap(mapping, aligned - begin);
  munmap(reinterpret_cast<void*>(aligned + kTimerChunkBytes), begin + kTimerChunkBytes - aligned);
  return reinterpret_cast<void*>(aligned);
}

}  // namespace

TimerChunk* TimerSlab::NewChunk(TimerShard* shard, EntryWidth width, bool huge_page, int node) noexcept {
  void* memory = MapChunk();
  // relaxed: a number, nothing else.
  const std::uint32_t number =
      memory != nullptr ? next_chunk_number.fetch_add(1, std::memory_order_relaxed) : kMaxTimerChunks;
  if (number >= kMaxTimerChunks) {
    if (memory != nullptr) {
      munmap(memory, kTimerChunkBytes);
      next_chunk_number.fetch_sub(1, std::memory_order_relaxed);  // Only those beyond the end go back.
    }
    WEFT_LOG_EVERY_SECOND(WARNING, "no memory for another timer");
    return nullptr;
  }
  if (const std::error_code error = numa::BindMemory(memory, kTimerChunkBytes, node)) {
    WEFT_LOG_EVERY_SECOND(WARNING, "timers of node ", node, " are kept elsewhere: ", error.message());
  }
  // Advice: if it is not taken, small pages do as well.
  madvise(memory, kTimerChunkBytes, huge_page ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
#if WEFT_ASAN
  __lsan_register_root_region(memory, kTimerChunkBytes);  // Callbacks own heap memory.
#endif
  auto* chunk = ::new (memory) TimerChunk;  // Touches it: a huge page is made here, not under a lock.
  chunk->shard = shard;
  chunk->width = width;
  chunk->number = number;
  // release: the header. Pairs with the acquire in Find().
  weft_timer_chunks[number].store(chunk, std::memory_order_release);
  return chunk;
}

void TimerSlab::Adopt(TimerChunk* chunk) noexcept {
  chunk->next_of_slab = chunks_;
  chunks_ = chunk;
  AddWithRoom(chunk);
}

void TimerSlab::AddWithRoom(TimerChunk* chunk) noexcept {
  chunk->has_room = true;
  chunk->next_with_room = with_room_;
  with_room_ = chunk;
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
  if (current_ != nullptr) current_->has_room = false;
  current_ = with_room_;
  if (current_ == nullptr) return nullptr;
  with_room_ = current_->next_with_room;
  return Allocate();
}

TimerChunk* TimerSlab::TakeUnused() noexcept {
  // current_ is not among them: one chunk stays warm.
  TimerChunk** link = &with_room_;
  for (TimerChunk* chunk = with_room_; chunk != nullptr; link = &chunk->next_with_room, chunk = *link) {
    if (chunk->live != 0 || chunk->used == TimerChunk::kFirstPlace) continue;
    *link = chunk->next_with_room;
    chunk->free = nullptr;
    chunk->used = TimerChunk::kFirstPlace;
    return chunk;
  }
  return nullptr;
}

void TimerSlab::ReturnMemory(TimerChunk* chunk) noexcept {
  // The first small page stays: the header is in it, and what entries there hold is overwritten by their next use.
  constexpr std::size_t kKept = 4096;
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
