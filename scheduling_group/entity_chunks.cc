// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/entity_chunks.h"

#include <sys/mman.h>

#include <atomic>
#include <new>
#include <system_error>

#if WEFT_ASAN
#include <sanitizer/lsan_interface.h>
#endif

#include "weft/base/check.h"
#include "weft/base/log.h"
#include "weft/base/spin_lock.h"
#include "weft/numa/affinity.h"
#include "weft/scheduling_group/run_queue.h"

namespace weft::scheduling_group {
namespace {

constexpr std::size_t kMaxChunks = std::size_t{1} << 16;  // About 89 million fibers alive.

// Debuggers find the fibers by this name.
FiberEntity* weft_fiber_chunks[kMaxChunks];

constinit base::SpinLock table_lock;
constinit std::atomic<std::size_t> chunk_count{0};  // written under the lock

}  // namespace

EntityChunk* MakeEntityChunk(int node) {
  constexpr std::size_t kBytes = kEntityChunkBytes + sizeof(EntityChunk);
  void* memory = ::mmap(nullptr, kBytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return nullptr;
  WEFT_CHECK(RunQueue::FitBelow(static_cast<std::byte*>(memory) + kBytes), "EntityPool: the kernel gives memory at ",
             memory, ", an address of more than 48 bits; run queues have no room for these");
  if (const std::error_code error = numa::BindMemory(memory, kBytes, node)) {
    WEFT_LOG_EVERY_SECOND(WARNING, "fibers of node ", node, " are kept elsewhere: ", error.message());
  }
  auto* entities = static_cast<FiberEntity*>(memory);  // Zeroes are free entities (EP1).
  auto* chunk = new (static_cast<std::byte*>(memory) + kEntityChunkBytes) EntityChunk(entities);
  {
    base::SpinLockGuard guard(table_lock);
    const std::size_t count = chunk_count.load(std::memory_order_relaxed);  // Written under the lock only.
    if (count < kMaxChunks) {
      weft_fiber_chunks[count] = entities;
#if WEFT_ASAN
      __lsan_register_root_region(memory, kEntityChunkBytes);  // Memory that only a fiber refers to is not a leak.
#endif
      // release: publishes the table entry. Pairs with the acquire in EntityChunkCount().
      chunk_count.store(count + 1, std::memory_order_release);
      return chunk;
    }
  }
  ::munmap(memory, kBytes);
  return nullptr;
}

std::size_t EntityChunkCount() {
  return chunk_count.load(std::memory_order_acquire);  // Pairs with the release in MakeEntityChunk().
}

FiberEntity* EntityChunkAt(std::size_t index) { return weft_fiber_chunks[index]; }

}  // namespace weft::scheduling_group
