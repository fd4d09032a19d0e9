// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// A failed start leaves nothing behind: copying or moving the callable throws, or memory is exhausted, at each place
// where that can happen.

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "weft/base/thread/cpu.h"
#include "weft/fiber/execution_context.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/runtime.h"
#include "weft/fiber/this_fiber.h"
#include "weft/scheduling_group/group/runtime_end.h"
#include "weft/sync/fiber_latch.h"
#include "weft/tests/fiber/runtime_fixture.h"

namespace {

// The calling thread's so-many-th allocation from now on fails; 0: none does.
thread_local int fail_allocation = 0;
thread_local bool allocation_failed = false;

bool FailsNow() noexcept {
  if (fail_allocation == 0 || --fail_allocation != 0) return false;
  return allocation_failed = true;
}

}  // namespace

// Not inlined: the compiler would find that new and delete do not match.
WEFT_NOINLINE void* operator new(std::size_t size) {
  void* memory = FailsNow() ? nullptr : std::malloc(size);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
WEFT_NOINLINE void* operator new(std::size_t size, const std::nothrow_t&) noexcept {
  return FailsNow() ? nullptr : std::malloc(size);
}
WEFT_NOINLINE void* operator new[](std::size_t size) { return operator new(size); }
WEFT_NOINLINE void* operator new[](std::size_t size, const std::nothrow_t& tag) noexcept {
  return operator new(size, tag);
}
WEFT_NOINLINE void operator delete(void* memory) noexcept { std::free(memory); }
WEFT_NOINLINE void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
WEFT_NOINLINE void operator delete(void* memory, const std::nothrow_t&) noexcept { std::free(memory); }
WEFT_NOINLINE void operator delete[](void* memory) noexcept { std::free(memory); }
WEFT_NOINLINE void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }
WEFT_NOINLINE void operator delete[](void* memory, const std::nothrow_t&) noexcept { std::free(memory); }

namespace weft::fiber {
namespace {

std::atomic<int> alive{0};  // callables
std::atomic<int> ran{0};
int throw_at = 0;  // The so-many-th copy or move from now on throws; 0: none does.

struct Thrown {};

// Throws on request. kBytes: of its captures. Its move may throw, so it goes to the heap.
template <std::size_t kBytes>
class Touchy {
 public:
  Touchy() { ++alive; }
  Touchy(const Touchy&) : Touchy(MayThrow{}) {}
  Touchy(Touchy&&) : Touchy(MayThrow{}) {}
  ~Touchy() { --alive; }
  void operator()() { ++ran; }

 private:
  struct MayThrow {};
  explicit Touchy(MayThrow) {
    if (throw_at != 0 && --throw_at == 0) throw Thrown();
    ++alive;
  }
  std::array<char, kBytes> captures_{};
};

// The same in place: its moves do not throw.
class TouchyCopy {
 public:
  TouchyCopy() { ++alive; }
  TouchyCopy(const TouchyCopy&) {
    if (throw_at != 0 && --throw_at == 0) throw Thrown();
    ++alive;
  }
  TouchyCopy(TouchyCopy&&) noexcept { ++alive; }
  ~TouchyCopy() { --alive; }
  void operator()() const { ++ran; }
};

class StartExceptions : public InEachShape {
 protected:
  void SetUp() override {
    // Makes what the first start makes once.
    ASSERT_TRUE(OthersRun());
    ASSERT_TRUE(NoneIsLeft());
    ran = 0;
  }

  static bool NoneIsLeft() { return scheduling_group::WaitUntilNoFibers(std::chrono::seconds(20), 0); }

  // `start` returns what it has started, or throws.
  template <class Start>
  void EachFailureLeavesNothing(Start start) {
    for (const bool memory : {false, true}) {
      for (int n = 1;; ++n) {
        ASSERT_LT(n, 200);
        const int alive_before = alive;
        ran = 0;
        bool started = false;
        (memory ? fail_allocation : throw_at) = n;
        allocation_failed = false;
        try {
          started = start();
        } catch (const Thrown&) {
        } catch (const std::bad_alloc&) {  // By the caller's own copy of its arguments.
        }
        const bool failed = memory ? allocation_failed : throw_at == 0;
        fail_allocation = throw_at = 0;
        ASSERT_TRUE(NoneIsLeft()) << "a phantom fiber is counted";
        EXPECT_EQ(alive, alive_before);
        EXPECT_EQ(ran != 0, started);
        EXPECT_EQ(context_->UseCount(), 1U);
        if (failed) continue;
        EXPECT_TRUE(started);
        break;
      }
    }
    ASSERT_TRUE(OthersRun());
  }

  static bool OthersRun() {
    bool all = true;
    for (int i = 0; i < 3; ++i) {
      FiberLatch latch(1);
      all = all && StartFiberDetached([&] { latch.CountDown(); });
      latch.Wait();
    }
    return all;
  }

  Fiber::Attributes Full() {
    Fiber::Attributes attributes;
    attributes.name = "a name that is too long to be kept within a string object";
    attributes.execution_context = context_.Get();
    return attributes;
  }

  base::RefPtr<FiberExecutionContext> context_ = FiberExecutionContext::Create();
};
WEFT_INSTANTIATE_SHAPES(StartExceptions);

TEST_P(StartExceptions, ADetachedFiber) {
  EachFailureLeavesNothing([] {
    const Touchy<200> touchy;
    return StartFiberDetached(touchy);
  });
  EachFailureLeavesNothing([] { return StartFiberDetached(Touchy<8>()); });
  EachFailureLeavesNothing([] {
    const TouchyCopy touchy;
    return StartFiberDetached(touchy);
  });
}

TEST_P(StartExceptions, ADetachedFiberWithAttributes) {
  const Fiber::Attributes attributes = Full();
  EachFailureLeavesNothing([&] {
    const Touchy<200> touchy;
    return StartFiberDetached(attributes, touchy);
  });
  EachFailureLeavesNothing([&] {
    const TouchyCopy touchy;
    return StartFiberDetached(attributes, touchy);
  });
}

TEST_P(StartExceptions, AJoinableFiber) {
  const Fiber::Attributes attributes = Full();
  EachFailureLeavesNothing([&] {
    const Touchy<200> touchy;
    std::optional<Fiber> fiber = Fiber::TryStart(attributes, touchy);
    if (!fiber.has_value()) return false;
    fiber->Join();
    return true;
  });
  EachFailureLeavesNothing([&] {
    std::optional<Fiber> fiber = Fiber::TryStart(
        attributes, [](const TouchyCopy& touchy, const std::string&) { touchy(); }, TouchyCopy(),
        std::string(100, 'x'));
    if (!fiber.has_value()) return false;
    fiber->Join();
    return true;
  });
}

// It used to abort where memory was exhausted.
TEST_P(StartExceptions, AFibersConstructor) {
  const Fiber::Attributes attributes = Full();
  EachFailureLeavesNothing([&] {
    const TouchyCopy touchy;
    try {
      Fiber(attributes, touchy).Join();
    } catch (const FiberNotStarted& refused) {
      EXPECT_EQ(refused.Why(), StartRefusal::kNoMemory);
      return false;
    }
    return true;
  });
}

TEST_P(StartExceptions, ABatch) {
  EachFailureLeavesNothing([] {
    std::vector<Touchy<200>> batch(5);
    return BatchStartFiberDetached(std::move(batch));
  });
  auto context = FiberExecutionContext::Create();
  EachFailureLeavesNothing([&] {
    std::vector<Touchy<200>> batch(5);
    return BatchStartFiberDetached({.execution_context = context.Get()}, std::move(batch));
  });
  EXPECT_EQ(context.UseCount(), 1U);
  EachFailureLeavesNothing([] {
    std::vector<std::function<void()>> batch;
    batch.reserve(5);
    for (int i = 0; i < 5; ++i) batch.emplace_back(TouchyCopy());
    return BatchStartFiberDetached(std::move(batch));
  });
}

// A phantom fiber in the count made the end of the runtime wait for its full time-out.
TEST_P(StartExceptions, TheRuntimeEndsAtOnceAfterwards) {
  throw_at = 1;
  const TouchyCopy touchy;
  EXPECT_THROW(static_cast<void>(StartFiberDetached(touchy)), Thrown);
  throw_at = 0;
  EXPECT_EQ(GetFiberCount(), 0U);
  EXPECT_EQ(TerminateRuntime(), 0U);
  StartRuntime(OptionsOf(GetParam()));
}

}  // namespace
}  // namespace weft::fiber
