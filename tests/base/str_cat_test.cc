// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/base/report/str_cat.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <sstream>
#include <string>
#include <string_view>

namespace weft::base {

namespace {

enum Plain { kFour = 4 };

struct Point {
  int x;
  int y;
};

std::ostream& operator<<(std::ostream& stream, const Point& point) {
  return stream << '(' << point.x << ", " << point.y << ')';
}

template <class... Pieces>
void ExpectAsStreamed(const Pieces&... pieces) {
  std::ostringstream stream;
  static_cast<void>((stream << ... << pieces));
  EXPECT_EQ(StrCat(pieces...), stream.str());
}

TEST(StrCat, WritesEachTypeAsAStreamDoes) {
  EXPECT_EQ(StrCat(), "");
  EXPECT_EQ(StrCat("a", 1, 'c', std::string_view("d")), "a1cd");
  ExpectAsStreamed(true, ' ', false, ' ', std::int8_t{'x'}, std::uint8_t{'y'}, ' ', short{-3}, ' ', std::uint16_t{4});
  ExpectAsStreamed(-5, ' ', 6u, ' ', -7l, ' ', 8ul, ' ', -9ll, ' ', 10ull, ' ', 1.25f, ' ', 2.5, ' ', kFour);
  const int i = 0;
  char text[] = "an array";
  char* const written = text;
  ExpectAsStreamed(&i, ' ', static_cast<const void*>(&i), ' ', text, ' ', written, ' ', std::string("a string"));
}

TEST(StrCat, WritesOtherTypesByTheirOwnOperator) { EXPECT_EQ(StrCat("at ", Point{1, 2}), "at (1, 2)"); }

}  // namespace

}  // namespace weft::base
