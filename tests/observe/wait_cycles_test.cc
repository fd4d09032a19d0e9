// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/observe/wait_cycles.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <initializer_list>
#include <mutex>
#include <span>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "weft/base/thread/cpu.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/fiber_scope.h"
#include "weft/fiber/this_fiber.h"
#include "weft/observe/deadlock.h"
#include "weft/observe/dump/memory_reader.h"
#include "weft/observe/dump/stack_unwinder.h"
#include "weft/observe/waits/wait_graph.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_barrier.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_mutex.h"
#include "weft/sync/fiber_shared_mutex.h"
#include "weft/tests/fiber/runtime_fixture.h"
#include "weft/tests/observe/dump_until.h"
#include "weft/tests/observe/in_child.h"

namespace weft::observe {
namespace {

using namespace std::chrono_literals;

class WaitCycles : public ::testing::TestWithParam<fiber::Shape> {};
INSTANTIATE_TEST_SUITE_P(Shapes, WaitCycles, ::testing::Values(fiber::Shape{1, 1}, fiber::Shape{4, 1}), &fiber::NameOf);

template <class F>
Fiber NamedFiber(std::string name, F f) {
  return Fiber({.name = std::move(name)}, std::move(f));
}

// The one that there is when these fibers are in their last waits.
WaitCycle CycleOf(std::initializer_list<std::string> names) {
  for (const std::string& name : names) {
    static_cast<void>(DumpUntil("reason=mutex|shared_mutex|join|scope,name=" + name, "\n1 of them match"));
  }
  const std::vector<WaitCycle> cycles = FindWaitCycles();
  EXPECT_EQ(cycles.size(), 1U);
  return cycles.empty() ? WaitCycle() : cycles.front();
}

// "name: reason", from the fiber of that name on.
std::vector<std::string> WaitsOf(const WaitCycle& cycle, const std::string& first) {
  std::vector<std::string> shape;
  std::size_t begin = 0;
  while (begin < cycle.members.size() && cycle.members[begin].name != first) ++begin;
  for (std::size_t i = 0; i < cycle.members.size(); ++i) {
    const WaitCycle::Member& member = cycle.members[(begin + i) % cycle.members.size()];
    shape.push_back(member.name + ": " + member.reason);
  }
  return shape;
}

using Lines = std::vector<std::string>;

WEFT_NOINLINE void LockTwo(FiberMutex* first, FiberMutex* second, FiberBarrier* both) {
  const std::scoped_lock lock(*first);
  both->ArriveAndWait();
  const std::scoped_lock other(*second);
}

std::string AddressText(const void* object) {
  char text[24];
  std::snprintf(text, sizeof(text), "%p", object);
  return text;
}

void ExpectThreeMutexes(const WaitCycle& cycle, const Fiber& a, const Fiber& b, const FiberMutex* of_b) {
  EXPECT_EQ(WaitsOf(cycle, "a"), (Lines{"a: mutex", "b: mutex", "c: mutex"}));
  EXPECT_FALSE(cycle.may_end);
  const std::string text = cycle.ToString();
  EXPECT_TRUE(Has(text, "weft: 3 fibers wait for each other in a cycle:\n")) << text;
  EXPECT_TRUE(Has(text, "  fiber 'a' (id " + std::to_string(a.Id()) + "): mutex " + AddressText(of_b) + ", for "))
      << text;
  EXPECT_TRUE(Has(text, " s, owned by fiber 'b' (id " + std::to_string(b.Id()) + ")\n")) << text;
  if (!StackUnwinder().why_not().empty()) return;
  for (const WaitCycle::Member& member : cycle.members) {
    EXPECT_TRUE(Has(text, "the stack of fiber '" + member.name + "' (id ")) << text;
    ASSERT_FALSE(member.stack.empty());
    EXPECT_TRUE(Has(member.stack.back(), "weft_context_start") || Has(text, "Worker::FiberMain")) << text;
  }
  EXPECT_TRUE(Has(text, "LockTwo(weft::FiberMutex*, weft::FiberMutex*, weft::FiberBarrier*)")) << text;
}

struct WaitsForMutex {
  std::string name;
  std::uint64_t id;
  const FiberMutex* mutex;
};

void ExpectInJson(const std::string& json, std::initializer_list<WaitsForMutex> members) {
  const std::size_t begin = json.find("\n\"cycles\": [\n{\"may_end\": false, \"fibers\": [\n  {\"id\": ");
  ASSERT_NE(begin, std::string::npos) << json;
  for (const auto& [name, id, mutex] : members) {
    EXPECT_TRUE(Has(json.substr(begin), "{\"id\": " + std::to_string(id) + ", \"name\": \"" + name +
                                            "\", \"reason\": \"mutex\", \"object\": \"" + AddressText(mutex) +
                                            "\", \"waits_for_ms\": "))
        << json;
  }
}

TEST_P(WaitCycles, ThreeFibersThatTakeThreeMutexesInACircleAreNamed) {
  InChild([] {
    fiber::RuntimeOf runtime(GetParam());
    FiberMutex one;
    FiberMutex two;
    FiberMutex three;
    FiberBarrier all(3);
    Fiber a = NamedFiber("a", [&] { LockTwo(&one, &two, &all); });
    Fiber b = NamedFiber("b", [&] { LockTwo(&two, &three, &all); });
    Fiber c = NamedFiber("c", [&] { LockTwo(&three, &one, &all); });
    Fiber behind;  // Waits, too, but nobody for it.
    ExpectThreeMutexes(CycleOf({"a", "b", "c"}), a, b, &two);
    behind = NamedFiber("behind", [&] { const std::scoped_lock lock(one); });
    EXPECT_EQ(CycleOf({"behind"}).members.size(), 3U);
    Fiber({.stack_size = 16'384}, [&] { ExpectThreeMutexes(FindWaitCycles().at(0), a, b, &two); }).Join();
    const std::string dump = DumpText({.stacks = false});
    EXPECT_TRUE(Has(dump, "\n\nweft: 3 fibers wait for each other in a cycle:\n")) << dump;
    ExpectInJson(DumpText({.format = DumpOptions::Format::kJson, .stacks = false}),
                 {{"a", a.Id(), &two}, {"b", b.Id(), &three}, {"c", c.Id(), &one}});
    EXPECT_FALSE(Has(DumpText({.format = DumpOptions::Format::kJson, .filter = "name=a", .stacks = false}), "cycles"));
    DeadlockFinder finder;
    EXPECT_TRUE(Has(finder.Look(), "weft: 3 fibers wait for each other in a cycle:\n"));
    for (int i = 0; i < 3; ++i) EXPECT_EQ(finder.Look().find("the stack of"), std::string::npos) << "not again";
    LeaveChild();
  });
}

TEST_P(WaitCycles, AFiberThatJoinsOneThatWantsItsMutexIsInACycle) {
  fiber::RuntimeOf runtime(GetParam());
  FiberMutex mutex;
  FiberEvent locked;
  Fiber wants = NamedFiber("wants", [&] {
    locked.Wait();
    const std::scoped_lock lock(mutex);
  });
  Fiber joins = NamedFiber("joins", [&] {
    {
      const std::scoped_lock lock(mutex);
      locked.Set();
      try {
        wants.Join();
        ADD_FAILURE() << "it was joined";
      } catch (const FiberCancelled&) {
      }
    }
    Shielded([&] { wants.Join(); });
  });
  Fiber sleeper([] { FiberSleepFor(1000h); });  // So that not all are asleep.
  static_cast<void>(DumpUntil("reason=sleep", "\n1 of them match"));
  const WaitCycle cycle = CycleOf({"joins", "wants"});
  EXPECT_EQ(WaitsOf(cycle, "joins"), (Lines{"joins: join", "wants: mutex"}));
  const std::string text = cycle.ToString();
  EXPECT_TRUE(Has(text, "): join, for ") && Has(text, " s, joins fiber 'wants' (id ")) << text;
  EXPECT_EQ(DeadlockFinder::FindDeadEnd().find("in a cycle"), std::string::npos) << "a cancellation ends it";
  joins.Cancel();
  joins.Join();
  EXPECT_TRUE(FindWaitCycles().empty());
  sleeper.Cancel();
  sleeper.Join();
}

TEST_P(WaitCycles, AJoinWithADeadlineMakesNone) {
  fiber::RuntimeOf runtime(GetParam());
  FiberMutex mutex;
  FiberEvent locked;
  Fiber wants = NamedFiber("wants", [&] {
    locked.Wait();
    const std::scoped_lock lock(mutex);
  });
  Fiber joins = NamedFiber("joins", [&] {
    const std::scoped_lock lock(mutex);
    locked.Set();
    EXPECT_THROW(static_cast<void>(wants.Join(1h)), FiberCancelled);
  });
  static_cast<void>(DumpUntil("name=joins", ", parked: join"));
  static_cast<void>(DumpUntil("name=wants", ", parked: mutex"));
  EXPECT_TRUE(FindWaitCycles().empty());
  joins.Cancel();
  joins.Join();
  wants.Join();
}

TEST_P(WaitCycles, AScopeWhoseChildWantsTheParentsMutexIsInACycle) {
  InChild([] {
    fiber::RuntimeOf runtime(GetParam());
    FiberMutex mutex;
    Fiber parent = NamedFiber("parent", [&] {
      const std::scoped_lock lock(mutex);
      FiberScope scope;
      EXPECT_TRUE(scope.Spawn({.name = "child"}, [&] {
        const CancelScope of_the_child;
        const std::scoped_lock wanted(mutex);
      }));
      scope.Wait();
    });
    const WaitCycle cycle = CycleOf({"parent", "child"});
    EXPECT_EQ(WaitsOf(cycle, "parent"), (Lines{"parent: scope", "child: mutex"}));
    EXPECT_FALSE(cycle.may_end);
    const std::string text = cycle.ToString();
    EXPECT_TRUE(Has(text, ", in which runs fiber 'child' (id ")) << text;
    EXPECT_TRUE(Has(DeadlockFinder::FindDeadEnd(), "2 fibers wait for each other in a cycle:\n"));
    LeaveChild();
  });
}

TEST_P(WaitCycles, OneWithADeadlineMayEnd) {
  InChild([] {
    fiber::RuntimeOf runtime(GetParam());
    FiberMutex mutex;
    FiberSharedMutex shared;
    FiberBarrier both(2);
    Fiber patient = NamedFiber("patient", [&] {
      const std::scoped_lock lock(shared);
      both.ArriveAndWait();
      const std::scoped_lock other(mutex);
    });
    Fiber hasty = NamedFiber("hasty", [&] {
      const std::scoped_lock lock(mutex);
      both.ArriveAndWait();
      EXPECT_FALSE(shared.try_lock_for(1000h));
    });
    const WaitCycle cycle = CycleOf({"patient", "hasty"});
    EXPECT_EQ(WaitsOf(cycle, "patient"), (Lines{"patient: mutex", "hasty: shared_mutex"}));
    EXPECT_TRUE(cycle.may_end);
    EXPECT_TRUE(Has(cycle.ToString(), "in a cycle, which may end by a deadline or a cancellation:\n"));
    EXPECT_EQ(DeadlockFinder().Look(), "");
    LeaveChild();
  });
}

TEST_P(WaitCycles, FibersThatWaitForAThreadMakeNone) {
  fiber::RuntimeOf runtime(GetParam());
  FiberMutex mutex;
  mutex.lock();
  Fiber first = NamedFiber("first", [&] { const std::scoped_lock lock(mutex); });
  Fiber second = NamedFiber("second", [&] { first.Join(); });
  static_cast<void>(DumpUntil("name=first", ", parked: mutex"));
  static_cast<void>(DumpUntil("name=second", ", parked: join"));
  EXPECT_TRUE(FindWaitCycles().empty());
  mutex.unlock();
  second.Join();
}

// Calls `between` once, when all parks have been read and before the first edge is.
class LetsRunBetween final : public MemoryReader {
 public:
  explicit LetsRunBetween(std::function<void()> between) : between_(std::move(between)) {}

  bool Read(std::span<const Part> parts) noexcept override {
    const bool is_chunk = parts[0].size > 100'000;
    if (!is_chunk && between_ != nullptr) std::exchange(between_, nullptr)();
    return MemoryReader::Read(parts);
  }
  bool has_called() const { return between_ == nullptr; }

 private:
  std::function<void()> between_;
};

// "late" has waited for the mutex of "early", and now owns it: only together with its former wait that is a circle.
TEST_P(WaitCycles, WhatWasTrueAtTwoMomentsIsNoCycle) {
  fiber::RuntimeOf runtime(GetParam());
  FiberMutex mutex;
  FiberEvent may_unlock;
  FiberEvent has_locked;
  FiberEvent may_end;
  Fiber early = NamedFiber("early", [&] {
    const std::scoped_lock lock(mutex);
    may_unlock.Wait();
  });
  static_cast<void>(DumpUntil("name=early", ", parked: event"));
  Fiber late = NamedFiber("late", [&] {
    const std::scoped_lock lock(mutex);
    has_locked.Set();
    may_end.Wait();
  });
  static_cast<void>(DumpUntil("name=late", ", parked: mutex"));
  LetsRunBetween memory([&] {
    may_unlock.Set();
    has_locked.Wait();
    static_cast<void>(DumpUntil("name=late", ", parked: event"));
  });
  EXPECT_TRUE(WaitGraph(&memory).FindCycles(/*with_stacks=*/false).empty());
  EXPECT_TRUE(memory.has_called());
  may_end.Set();
  late.Join();
  early.Join();
}

}  // namespace
}  // namespace weft::observe
