// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <string>

#include "resp_server/numbers.h"

namespace examples::resp {
namespace {

TEST(Numbers, EachHasOneSpelling) {
  std::int64_t number = 77;
  for (const char* bad : {"", "-", "+1", "01", "-01", "-0", " 1", "1 ", "1.0", "1e3", "0x1", "9223372036854775808",
                          "-9223372036854775809", "99999999999999999999999", "--1"}) {
    EXPECT_FALSE(ParseNumber(bad, &number)) << bad;
    EXPECT_EQ(number, 77) << bad;
  }
  EXPECT_FALSE(ParseNumber(std::string_view("1\0", 2), &number));
}

TEST(Numbers, WhatIsWrittenIsReadBack) {
  for (const std::int64_t number :
       {std::int64_t{0}, std::int64_t{1}, std::int64_t{-1}, std::int64_t{10}, std::int64_t{-1234567890123},
        std::numeric_limits<std::int64_t>::max(), std::numeric_limits<std::int64_t>::min()}) {
    const NumberText text(number);
    EXPECT_EQ(text.view(), std::to_string(number));
    std::int64_t read = 42;
    EXPECT_TRUE(ParseNumber(text.view(), &read));
    EXPECT_EQ(read, number);
  }
}

}  // namespace
}  // namespace examples::resp
