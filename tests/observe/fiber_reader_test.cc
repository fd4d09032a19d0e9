// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// What FiberReader says of a fiber that runs between its two looks: the test lets it run there.

#include "weft/observe/dump/fiber_reader.h"

#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <new>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "weft/fiber/fiber.h"
#include "weft/fiber/this_fiber.h"
#include "weft/observe/dump/write_dump.h"
#include "weft/sync/fiber_semaphore.h"
#include "weft/tests/fiber/runtime_fixture.h"
#include "weft/tests/observe/dump_until.h"

namespace weft::observe {
namespace {

// Calls `between` after a stack has been copied, and before its entity is.
class InterruptedReader : public MemoryReader {
 public:
  using MemoryReader::Read;
  bool Read(std::span<const Part> parts) noexcept override {
    if (parts.size() != 3) return MemoryReader::Read(parts);
    ++stacks_copied;
    if (!MemoryReader::Read(parts.first(1))) return false;
    if (between) between();
    return MemoryReader::Read(parts.last(2));
  }

  std::function<void()> between;
  int stacks_copied = 0;
};

class FiberReaderTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!unwinder_.why_not().empty()) GTEST_SKIP() << unwinder_.why_not();
  }

  // The fiber of that name; nothing: it is not found.
  std::optional<FiberRecord> Find(const std::string& name) {
    FiberReader reader(&memory_, &stacks_);
    std::optional<FiberRecord> found;
    memory_.stacks_copied = 0;
    reader.ForEach([&](FiberRecord fiber) {
      if (fiber.name == name) found = std::move(fiber);
    });
    return found;
  }
  void AwaitParked() { static_cast<void>(DumpUntil("name=waiter,state=parked", "1 of them match")); }

  fiber::RuntimeOf runtime_{fiber::Shape{1, 1}};
  StackUnwinder unwinder_;
  StackTable stacks_{&unwinder_, 64};
  InterruptedReader memory_;
  FiberSemaphore turns_{0};
  std::atomic<int> turns_made_{0};
  std::atomic<bool> stop_{false};
};

TEST_F(FiberReaderTest, WhatIsNotAskedForIsCountedWithoutItsStack) {
  Fiber waiter({.name = "waiter"}, [&] { turns_.Acquire(); });
  AwaitParked();
  FiberReader reader(&memory_, &stacks_);
  reader.ReadOnly([](const FiberRecord& fiber) { return fiber.phase != scheduling_group::FiberPhase::kParked; });
  int counted = 0;
  memory_.stacks_copied = 0;
  EXPECT_TRUE(reader.ForEach([&](const FiberRecord& fiber) { counted += fiber.only_counted && fiber.name.empty(); }));
  EXPECT_EQ(counted, 1);
  EXPECT_EQ(memory_.stacks_copied, 0);
  std::ostringstream out;
  EXPECT_TRUE(WriteDump(out, {.filter = "state=ready", .running_stacks = false},
                        std::chrono::steady_clock::now() + std::chrono::hours(1)));
  EXPECT_EQ(out.str(),
            "weft: 1 fibers: 1 parked, 0 ready, 0 new, 0 running\n"
            "0 of them match 'state=ready'\n");
  turns_.Release();
  waiter.Join();
}

TEST_F(FiberReaderTest, AFiberThatHasRunMeanwhileIsReadAgain) {
  Fiber waiter({.name = "waiter"}, [&] {
    while (!stop_) {
      turns_.Acquire();
      ++turns_made_;
    }
  });
  AwaitParked();
  bool once = false;
  const auto make_a_turn = [&] {
    const int before = turns_made_;
    turns_.Release();
    while (turns_made_ == before) std::this_thread::yield();
    AwaitParked();
  };
  memory_.between = [&] {
    if (!std::exchange(once, true)) make_a_turn();
  };
  std::optional<FiberRecord> found = Find("waiter");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(memory_.stacks_copied, 2);
  EXPECT_EQ(found->stack_note, StackNote::kRead);
  EXPECT_TRUE(found->is_parked);

  memory_.between = make_a_turn;
  found = Find("waiter");
  ASSERT_TRUE(found.has_value());
  EXPECT_EQ(found->stack_note, StackNote::kChanging);
  EXPECT_FALSE(found->is_parked) << "nothing is said of a wait that may be over";
  EXPECT_EQ(found->stack, StackTable::kNone);

  memory_.between = nullptr;
  stop_ = true;
  turns_.Release();
  waiter.Join();
}

TEST_F(FiberReaderTest, AFiberThatHasEndedMeanwhileIsNotThere) {
  Fiber waiter({.name = "waiter"}, [&] { turns_.Acquire(); });
  AwaitParked();
  bool once = false;
  memory_.between = [&] {
    if (std::exchange(once, true)) return;
    turns_.Release();
    waiter.Join();
  };
  EXPECT_FALSE(Find("waiter").has_value());
}

TEST_F(FiberReaderTest, AReadyFibersStackIsCopiedTwice) {
  std::atomic<std::atomic<int>*> on_stack{nullptr};
  std::atomic<bool> runner_runs{false};
  Fiber ready({.name = "ready"}, [&] {
    // So it lies on the fiber's own stack, and not on AddressSanitizer's fake one.
    auto* const word = ::new (__builtin_alloca(sizeof(std::atomic<int>))) std::atomic<int>(0);
    on_stack = word;
    while (!runner_runs) FiberYield();  // At last to the runner, which does not let it run before the end.
    EXPECT_NE(*word, 0);
  });
  Fiber runner({.name = "runner"}, [&] {
    while (on_stack == nullptr) FiberYield();
    runner_runs = true;
    while (!stop_) continue;
  });
  while (!runner_runs) std::this_thread::yield();
  static_cast<void>(DumpUntil("name=ready,state=ready", "1 of them match"));
  while (Find("ready")->stack_note != StackNote::kRead) std::this_thread::yield();
  EXPECT_EQ(memory_.stacks_copied, 2);
  bool once = false;
  memory_.between = [&] {
    if (!std::exchange(once, true)) ++*on_stack.load();
  };
  EXPECT_EQ(Find("ready")->stack_note, StackNote::kRead);
  EXPECT_EQ(memory_.stacks_copied, 4);
  memory_.between = [&] { ++*on_stack.load(); };
  EXPECT_EQ(Find("ready")->stack_note, StackNote::kChanging);
  memory_.between = nullptr;
  stop_ = true;
  runner.Join();
  ready.Join();
}

using Image = std::array<std::byte, sizeof(scheduling_group::FiberEntity)>;

// Shows an entity as it was, or as a copy would be that took long: its images one after the other, then what is there.
class ReaderOfImages : public MemoryReader {
 public:
  using MemoryReader::Read;
  bool Read(std::span<const Part> parts) noexcept override {
    if (!MemoryReader::Read(parts)) return false;
    for (const Part& part : parts) {
      if (next == images.size() || entity < part.from || entity + sizeof(Image) > part.from + part.size) continue;
      std::memcpy(static_cast<std::byte*>(part.to) + (entity - part.from), images[next++].data(), sizeof(Image));
    }
    if (parts.size() == 3) ++stacks_copied;
    return true;
  }
  Image Look() {
    Image image;
    EXPECT_TRUE(MemoryReader::Read(image.data(), entity, sizeof(image)));
    return image;
  }

  std::uint64_t entity = 0;
  std::vector<Image> images;
  std::size_t next = 0;
  int stacks_copied = 0;
};

// The fiber was parked, ran, and parked again in the same place. A copy of its entity that took long has the phase of
// one moment and the stamp of another one. So has the first copy here, and then the third one: a copy of the stack
// between the two parks would be taken for that of a parked fiber.
TEST_F(FiberReaderTest, ACopyWithThePhaseOfOneParkAndTheStampOfAnotherIsNoProof) {
  const scheduling_group::FiberEntity any{};
  const auto place = [&](const void* member) {
    return static_cast<std::size_t>(static_cast<const char*>(member) - reinterpret_cast<const char*>(&any));
  };
  const auto stamped_as = [stamp = place(&any.ready_stamp)](Image image, const Image& other) {
    std::memcpy(image.data() + stamp, other.data() + stamp, sizeof(scheduling_group::ReadyStamp));
    return image;
  };
  Fiber waiter({.name = "waiter"}, [&] {
    while (!stop_) {
      turns_.Acquire();
      ++turns_made_;
    }
  });
  AwaitParked();
  ReaderOfImages memory;
  memory.entity = Find("waiter")->entity;
  const Image before = memory.Look();
  turns_.Release();
  while (turns_made_ == 0) std::this_thread::yield();
  AwaitParked();
  const Image after = memory.Look();
  Image leaving = after;  // It has its stamp, and is on its stack.
  leaving[place(&any.state())] = static_cast<std::byte>(scheduling_group::FiberPhase::kParking);
  StackNote note = StackNote::kNotWanted;
  const auto look = [&](std::vector<Image> images) {
    memory.images = std::move(images);
    memory.next = 0;
    memory.stacks_copied = 0;
    FiberReader(&memory, &stacks_).ForEach([&](const FiberRecord& fiber) { note = fiber.stack_note; });
  };

  look({stamped_as(before, after), leaving, after, after});
  EXPECT_EQ(note, StackNote::kRunning) << "the second copy says so";
  look({before, before, stamped_as(after, before), after});
  EXPECT_EQ(memory.stacks_copied, 2) << "the fourth copy says that the stack is another park's";
  EXPECT_EQ(note, StackNote::kRead);

  stop_ = true;
  turns_.Release();
  waiter.Join();
}

TEST_F(FiberReaderTest, AStackWhoseMemoryIsGoneIsUnreadable) {
  class NoStacks : public MemoryReader {
    bool Read(std::span<const Part> parts) noexcept override { return parts.size() != 3 && MemoryReader::Read(parts); }
  } memory;
  Fiber waiter({.name = "waiter"}, [&] { turns_.Acquire(); });
  AwaitParked();
  FiberReader reader(&memory, &stacks_);
  int found = 0;
  reader.ForEach([&](const FiberRecord& fiber) {
    ++found;
    EXPECT_EQ(fiber.stack_note, StackNote::kUnreadable);
    EXPECT_EQ(fiber.reason.kind(), scheduling_group::WaitKind::kSemaphore);
  });
  EXPECT_EQ(found, 1);
  turns_.Release();
  waiter.Join();
}

}  // namespace
}  // namespace weft::observe
