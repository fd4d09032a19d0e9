// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// EntityPool where memory is exhausted: fibers end as ever, and new ones are refused. A program of its own, since it
// takes the place of operator new.

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <new>
#include <set>
#include <thread>
#include <vector>

#include "weft/base/thread/cpu.h"
#include "weft/scheduling_group/fiber/entity_pool.h"

namespace {

// Of the calling thread.
thread_local bool no_memory = false;
thread_local int allocations = 0;

void* Allocate(std::size_t size) noexcept {
  ++allocations;
  return no_memory ? nullptr : std::malloc(size);
}

}  // namespace

// Not inlined: the compiler would find that new and delete do not match.
WEFT_NOINLINE void* operator new(std::size_t size) {
  void* memory = Allocate(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
WEFT_NOINLINE void* operator new(std::size_t size, const std::nothrow_t&) noexcept { return Allocate(size); }
WEFT_NOINLINE void operator delete(void* memory) noexcept { std::free(memory); }
WEFT_NOINLINE void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
WEFT_NOINLINE void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }

namespace weft::scheduling_group {
namespace {

class NoMemory {
 public:
  NoMemory() { no_memory = true; }
  ~NoMemory() { no_memory = false; }
};

std::vector<FiberEntity*> TakeMany(std::size_t count, EntityPool::Arena arena) {
  std::vector<FiberEntity*> fibers(count);
  for (FiberEntity*& fiber : fibers) fiber = EntityPool::Take(arena);
  return fibers;
}

// An arena of a number that no other test uses.
EntityPool::Arena NewArena() {
  static int node = 1000;
  return EntityPool::ArenaOn(node++);
}

// A cache that overflowed was flushed into a vector, which grew under a spin lock, at a fiber's end.
TEST(EntityPoolMemory, FibersEndWithoutAllocating) {
  const EntityPool::Arena arenas[] = {EntityPool::kAnywhere, NewArena()};
  for (const EntityPool::Arena arena : arenas) {
    const std::vector<FiberEntity*> fibers = TakeMany(20'000, arena);
    allocations = 0;
    for (FiberEntity* fiber : fibers) EntityPool::GiveBack(fiber);
    EXPECT_EQ(allocations, 0);
  }
}

// A worker that never started one; it gives back what others have started, and ends.
TEST(EntityPoolMemory, FibersEndInAThreadThatGetsNoMemoryAtAll) {
  const std::size_t live = EntityPool::LiveFibers();
  const EntityPool::Arena arenas[] = {EntityPool::kAnywhere, NewArena()};
  for (const EntityPool::Arena arena : arenas) {
    const std::vector<FiberEntity*> fibers = TakeMany(10'000, arena);
    EXPECT_EQ(EntityPool::LiveFibers(), live + fibers.size());
    std::thread([&] {
      const NoMemory none;
      for (FiberEntity* fiber : fibers) EntityPool::GiveBack(fiber);
    }).join();
    EXPECT_EQ(EntityPool::LiveFibers(), live);
    // They are all there, each once.
    const std::vector<FiberEntity*> again = TakeMany(10'000, arena);
    EXPECT_EQ(std::set<FiberEntity*>(again.begin(), again.end()).size(), again.size());
    for (FiberEntity* fiber : again) EntityPool::GiveBack(fiber);
  }
}

TEST(EntityPoolMemory, AThreadThatGetsNoCacheIsRefused) {
  const std::size_t live = EntityPool::LiveFibers();
  FiberEntity* refused[2] = {};
  const EntityPool::Arena arena = NewArena();
  std::thread([&] {
    {
      const NoMemory none;
      refused[0] = EntityPool::Take(EntityPool::kAnywhere);
    }
    EntityPool::GiveBack(EntityPool::Take(EntityPool::kAnywhere));
    const NoMemory none;
    refused[1] = EntityPool::Take(arena);
  }).join();
  EXPECT_EQ(refused[0], nullptr);
  EXPECT_EQ(refused[1], nullptr);
  EXPECT_EQ(EntityPool::LiveFibers(), live);
}

TEST(EntityPoolMemory, TrimLosesNothing) {
  const EntityPool::Arena arena = NewArena();
  for (FiberEntity* fiber : TakeMany(20'000, arena)) EntityPool::GiveBack(fiber);
  {
    const NoMemory none;
    EXPECT_EQ(EntityPool::Trim(), 0u);
  }
  EXPECT_EQ(EntityPool::Trim(), 0u);
  const std::vector<FiberEntity*> again = TakeMany(20'000, arena);
  EXPECT_EQ(std::set<FiberEntity*>(again.begin(), again.end()).size(), again.size());
  for (FiberEntity* fiber : again) EntityPool::GiveBack(fiber);
}

}  // namespace
}  // namespace weft::scheduling_group
