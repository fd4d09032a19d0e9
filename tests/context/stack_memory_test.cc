// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/context/stack/stack_memory.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstring>
#include <vector>

namespace weft::context {
namespace {

class StackMemoryTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kPages = 64;

  void SetUp() override {
    low_ = static_cast<char*>(memory_.Map(kPages * page_));
    ASSERT_NE(low_, nullptr);
  }
  void TearDown() override { memory_.Unmap(low_, kPages * page_); }

  // Every other page.
  std::vector<StackMemory::Range> EveryOtherPage() {
    std::vector<StackMemory::Range> ranges;
    for (std::size_t i = 0; i < kPages; i += 2) ranges.push_back({low_ + i * page_, page_});
    return ranges;
  }
  // Asks the kernel, so that nothing dies.
  bool IsReadable(std::size_t page_number) {
    int ends[2];
    if (pipe(ends) != 0) return false;
    const bool readable = write(ends[1], low_ + page_number * page_, 1) == 1;
    close(ends[0]);
    close(ends[1]);
    return readable;
  }

  const std::size_t page_ = StackMemory::PageSize();
  StackMemory memory_;
  char* low_ = nullptr;
};

TEST_F(StackMemoryTest, GuardsOnlyWhatItIsTold) {
  if (!memory_.InstallGuards(EveryOtherPage())) GTEST_SKIP() << "this kernel has no MADV_GUARD_INSTALL";
  for (std::size_t i = 0; i < kPages; ++i) EXPECT_EQ(IsReadable(i), i % 2 == 1) << i;
}

TEST_F(StackMemoryTest, ProtectsOnlyWhatItIsTold) {
  ASSERT_TRUE(memory_.Protect({low_ + 3 * page_, page_}));
  EXPECT_TRUE(IsReadable(2));
  EXPECT_FALSE(IsReadable(3));
  EXPECT_TRUE(IsReadable(4));
}

TEST_F(StackMemoryTest, DiscardedPagesReadAsZeroAndTheOthersAsBefore) {
  std::memset(low_, 1, kPages * page_);
  memory_.Discard(EveryOtherPage());
  for (std::size_t i = 0; i < kPages; ++i) EXPECT_EQ(low_[i * page_ + 17], i % 2) << i;
}

TEST_F(StackMemoryTest, RenewingTakesGuardsAndContentsAway) {
  std::memset(low_, 1, kPages * page_);
  ASSERT_TRUE(memory_.Protect({low_ + 8 * page_, page_}));
  static_cast<void>(memory_.InstallGuards(EveryOtherPage()));
  ASSERT_TRUE(memory_.Renew(low_ + 4 * page_, 8 * page_));
  for (std::size_t i = 4; i < 12; ++i) {
    ASSERT_TRUE(IsReadable(i)) << i;
    EXPECT_EQ(low_[i * page_], 0) << i;
  }
  EXPECT_EQ(low_[3 * page_], 1);
}

TEST_F(StackMemoryTest, PopulatingChangesNoContents) {
  low_[0] = 5;
  memory_.Populate(EveryOtherPage());
  EXPECT_EQ(low_[0], 5);
  EXPECT_EQ(low_[2 * page_], 0);
}

TEST_F(StackMemoryTest, HandsOutHalfOfTheMappingsAsGuards) {
  class Small : public StackMemory {
   public:
    std::size_t MaxMapCount() override { return 40; }
  } small;
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(small.TakeProtectedGuard());
  EXPECT_FALSE(small.TakeProtectedGuard());
  small.ReturnProtectedGuards(3);
  for (int i = 0; i < 3; ++i) EXPECT_TRUE(small.TakeProtectedGuard());
  EXPECT_FALSE(small.TakeProtectedGuard());
}

TEST_F(StackMemoryTest, KnowsTheLimitOfMappings) { EXPECT_GT(memory_.MaxMapCount(), 1000u); }

TEST_F(StackMemoryTest, ARefusedMappingIsNull) { EXPECT_EQ(memory_.Map(std::size_t{1} << 60), nullptr); }

}  // namespace
}  // namespace weft::context
