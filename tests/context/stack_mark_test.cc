// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/context/stack/stack_mark.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>

namespace weft::context {
namespace {

class StackMarkTest : public ::testing::Test {
 protected:
  static constexpr std::size_t kSize = 4096;
  std::byte* top() { return memory_.data() + kSize; }

  alignas(16) std::array<std::byte, kSize + 16> memory_{};
};

TEST_F(StackMarkTest, WhatIsWrittenFarthestDownCounts) {
  FillStack(top(), kSize);
  EXPECT_EQ(MeasureStack(top(), kSize), 0U) << "nothing has been written";
  *(top() - 8) = std::byte{1};
  EXPECT_EQ(MeasureStack(top(), kSize), 8U);
  *(top() - 1000) = std::byte{1};
  EXPECT_EQ(MeasureStack(top(), kSize), 1000U);
  *(top() - 500) = std::byte{1};
  EXPECT_EQ(MeasureStack(top(), kSize), 1000U);
}

TEST_F(StackMarkTest, ItStaysWithinTheStack) {
  *top() = std::byte{7};
  FillStack(top(), kSize);
  EXPECT_EQ(*top(), std::byte{7});
}

TEST_F(StackMarkTest, OneThatWasNotFilledIsIgnored) { EXPECT_EQ(MeasureStack(top(), kSize), 0U); }

}  // namespace
}  // namespace weft::context
