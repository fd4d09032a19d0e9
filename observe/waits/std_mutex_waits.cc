// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/observe/waits/std_mutex_waits.h"

#include <pthread.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "weft/base/report/str_cat.h"
#include "weft/context/stack/stack_registry.h"
#include "weft/observe/dump/stack_unwinder.h"
#include "weft/observe/waits/frame_lines.h"
#include "weft/scheduling_group/fiber/fiber_entity.h"

namespace weft::observe {
namespace {

bool WaitsForOwnMutex(const ThreadState& thread, MemoryReader* memory) {
  if (thread.kind != ThreadState::Kind::kForThread) return false;
  pthread_mutex_t mutex;
  static_assert(offsetof(pthread_mutex_t, __data.__lock) == 0, "the futex");
  if (!memory->Read(&mutex, thread.futex, sizeof(mutex))) return false;
  constexpr int kLockedAndWaitedFor = 2;
  constexpr int kKindMask = 127;
  const int kind = mutex.__data.__kind & kKindMask;
  return mutex.__data.__lock == kLockedAndWaitedFor && mutex.__data.__owner == thread.tid &&
         (kind == PTHREAD_MUTEX_TIMED_NP || kind == PTHREAD_MUTEX_ADAPTIVE_NP);
}

// Those that wait so, twice.
std::vector<ThreadState> FindThreads(MemoryReader* memory) {
  std::vector<ThreadState> found;
  const std::optional<std::vector<ThreadState>> threads = ReadThreads();
  if (!threads) return found;
  for (const ThreadState& thread : *threads) {
    if (WaitsForOwnMutex(thread, memory)) found.push_back(thread);
  }
  if (found.empty()) return found;
  const std::optional<std::vector<ThreadState>> again = ReadThreads();
  std::erase_if(found, [&](const ThreadState& thread) {  // SMW1
    return !again || std::none_of(again->begin(), again->end(), [&](const ThreadState& now) {
      return now.IsStill(thread) && now.futex == thread.futex && WaitsForOwnMutex(now, memory);
    });
  });
  return found;
}

std::optional<Park> FiberOnStack(std::uint64_t stack_pointer, const std::vector<Park>& fibers) {
  context::StackBounds bounds;
  if (!context::FindStack(reinterpret_cast<const void*>(stack_pointer), &bounds)) return std::nullopt;
  const auto found = std::find_if(fibers.begin(), fibers.end(), [&](const Park& fiber) {
    return fiber.stack_top > reinterpret_cast<std::uintptr_t>(bounds.low) &&
           fiber.stack_top <= reinterpret_cast<std::uintptr_t>(bounds.high);
  });
  return found != fibers.end() ? std::optional<Park>(*found) : std::nullopt;
}

void FindHolder(ParkReader* reader, const std::vector<Park>& parks, StdMutexWait* wait) {
  for (const Park& park : parks) {
    std::vector<std::uint64_t> stack;
    const std::optional<Park> again = reader->ReadAgain(park, &stack);
    if (!again || !(*again == park)) continue;
    if (std::find(stack.begin(), stack.end(), wait->mutex) == stack.end()) continue;
    wait->holder = park;
    wait->holders_stack = std::move(stack);
    return;
  }
}

}  // namespace

std::vector<StdMutexWait> FindStdMutexWaits(MemoryReader* memory) {
  std::vector<StdMutexWait> waits;
  const std::vector<ThreadState> threads = FindThreads(memory);
  if (threads.empty()) return waits;
  ParkReader reader(memory);
  const ParkReader::All fibers = reader.ReadAll();
  for (const ThreadState& thread : threads) {
    const std::optional<Park> waiter = FiberOnStack(thread.stack_pointer, fibers.others);
    if (!waiter) continue;  // A thread that has locked twice.
    StdMutexWait& wait = waits.emplace_back();
    wait.thread = thread;
    wait.mutex = thread.futex;
    wait.waiter = *waiter;
    FindHolder(&reader, fibers.parks, &wait);
  }
  return waits;
}

std::string Describe(const StdMutexWait& wait, MemoryReader* memory, bool stacks) {
  const auto name_of = [memory](const Park& fiber) {
    constexpr std::size_t kMostName = 256;
    return scheduling_group::DescribeFiber(fiber.name != 0 ? memory->ReadString(fiber.name, kMostName) : "", fiber.id);
  };
  std::string text =
      base::StrCat("weft: ", wait.thread.ToString(), ": ", name_of(wait.waiter), " wants the std::mutex ",
                   Hex(wait.mutex), ", which that thread has locked itself: a fiber has suspended with it");
  if (wait.holder) text += base::StrCat(", it seems ", name_of(*wait.holder));
  text += "; a FiberMutex may be held meanwhile\n";
  if (!stacks || !wait.holder) return text;
  StackUnwinder unwinder;
  return text + StackText(name_of(*wait.holder), FrameLines(&unwinder, wait.holder->stack_low, wait.holders_stack));
}

}  // namespace weft::observe
