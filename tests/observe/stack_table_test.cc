// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/observe/dump/stack_table.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weft/base/thread/cpu.h"
#include "weft/context/switch/context.h"

namespace weft::observe {
namespace {

// A flow that is suspended `depth` calls deep, on a stack of its own.
class SuspendedFlow {
 public:
  explicit SuspendedFlow(int depth) : depth_(depth) {
    context::InitThreadState(&thread_);
    context::InitThreadContext(&main_);
    context::MakeContext(&flow_, Top(), kSize, &Enter);
    current = this;
    context::SwitchContext(&main_, &flow_, &thread_);
  }
  ~SuspendedFlow() {
    context::SwitchContext(&main_, &flow_, &thread_);
    context::DestroyContext(&flow_);
    context::DestroyContext(&main_);
  }
  SuspendedFlow(const SuspendedFlow&) = delete;
  SuspendedFlow& operator=(const SuspendedFlow&) = delete;

  StackCopy Copy() {
    const auto* const low = static_cast<const std::uint64_t*>(flow_.saved_stack_pointer());
    words_.assign(low, static_cast<const std::uint64_t*>(Top()));
    return {.low = reinterpret_cast<std::uintptr_t>(low), .words = words_};
  }
  std::vector<std::uint64_t>& words() { return words_; }

 private:
  static constexpr std::size_t kSize = 64 * 1024;
  static inline SuspendedFlow* current = nullptr;

  void* Top() { return stack_.get() + kSize; }
  static void Enter(context::ThreadState* here);
  void Descend(int depth);

  const int depth_;
  struct alignas(16) Bytes {
    char bytes[16];
  };
  std::unique_ptr<char, void (*)(char*)> stack_{reinterpret_cast<char*>(new Bytes[kSize / 16]),
                                                [](char* p) { delete[] reinterpret_cast<Bytes*>(p); }};
  context::ThreadState thread_;
  context::Context main_;
  context::Context flow_;
  std::vector<std::uint64_t> words_;
};

void SuspendedFlow::Enter(context::ThreadState* here) {
  SuspendedFlow* const self = current;
  self->Descend(self->depth_);
  context::LeaveContext(&self->flow_, &self->main_, here);
}

WEFT_NOINLINE void SuspendedFlow::Descend(int depth) {
  if (depth == 0) {
    context::SwitchContext(&flow_, &main_, &thread_);
  } else {
    Descend(depth - 1);
  }
  asm volatile("");  // No tail call.
}

class StackTableTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!unwinder_.why_not().empty()) GTEST_SKIP() << unwinder_.why_not();
  }

  StackUnwinder unwinder_;
  StackTable table_{&unwinder_, 64};
};

TEST_F(StackTableTest, AFlowIsUnwoundToItsFirstFrame) {
  SuspendedFlow flow(5);
  const int number = table_.Find(flow.Copy());
  ASSERT_EQ(number, 0);
  int descents = 0;
  for (const std::uint64_t address : table_[0]) {
    descents += unwinder_.Name(address, false).function.find("Descend(int)") != std::string::npos ? 1 : 0;
  }
  EXPECT_EQ(descents, 6);
  EXPECT_NE(unwinder_.Name(table_[0].back(), false).function.find("weft_context_"), std::string::npos)
      << unwinder_.Name(table_[0].back(), false).function;
}

TEST_F(StackTableTest, EqualStacksAreUnwoundOnce) {
  SuspendedFlow one(5);
  SuspendedFlow two(5);
  SuspendedFlow deeper(6);
  EXPECT_EQ(table_.Find(one.Copy()), 0);
  EXPECT_EQ(table_.Find(two.Copy()), 0);
  EXPECT_EQ(table_.unwound(), 1u);
  EXPECT_EQ(table_.Find(deeper.Copy()), 1);
  EXPECT_EQ(table_.unwound(), 2u);
  EXPECT_EQ(table_[1].size(), table_[0].size() + 1);
}

TEST_F(StackTableTest, AnotherReturnAddressIsAnotherStack) {
  SuspendedFlow flow(5);
  StackCopy copy = flow.Copy();
  EXPECT_EQ(table_.Find(copy), 0);
  const std::uint64_t return_address = table_[0][3];
  for (std::uint64_t& word : flow.words()) {
    if (word != return_address) continue;
    word += 1;
    break;
  }
  EXPECT_NE(table_.Find(copy), 0);
  EXPECT_EQ(table_.unwound(), 2u);
}

TEST_F(StackTableTest, WhatIsNoStackHasNoFramesOrFew) {
  std::vector<std::uint64_t> zeroes(100);
  EXPECT_EQ(table_.Find({.low = 4096, .words = zeroes}), StackTable::kNone);
  std::vector<std::uint64_t> garbage(100);
  for (std::size_t i = 0; i < garbage.size(); ++i) garbage[i] = i * 0x9e3779b97f4a7c15;
  static_cast<void>(table_.Find({.low = 4096, .words = garbage}));
  EXPECT_EQ(table_.Find({.low = 4096, .words = {garbage.data(), 3}}), StackTable::kNone);
}

TEST_F(StackTableTest, NoMoreFramesThanWanted) {
  StackTable shallow(&unwinder_, 3);
  SuspendedFlow flow(20);
  ASSERT_EQ(shallow.Find(flow.Copy()), 0);
  EXPECT_EQ(shallow[0].size(), 3u);
}

TEST(StackUnwinder, OneThatIsNotWantedSaysSo) {
  StackUnwinder unwinder(/*wanted=*/false);
  EXPECT_FALSE(unwinder.why_not().empty());
  EXPECT_EQ(unwinder.Name(0, true).function, "");
}

}  // namespace
}  // namespace weft::observe
