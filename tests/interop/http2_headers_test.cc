// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/interop/http2_headers.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdlib>
#include <new>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/thread/cpu.h"

#if !WEFT_ASAN && !WEFT_TSAN  // They have operators of their own.

namespace {

std::size_t allocations = 0;

}  // namespace

void* operator new(std::size_t size) {
  ++allocations;
  void* memory = std::malloc(size != 0 ? size : 1);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }

#endif

namespace weft::interop {
namespace {

TEST(Http2Headers, FieldsStayInTheirOrder) {
  const Http2Headers headers{{":path", "/"}, {"accept", "a"}, {"accept", "b"}, {"x-empty", ""}};
  std::vector<std::string> seen;
  for (const Http2Field field : headers) seen.push_back(std::string(field.name) + "=" + std::string(field.value));
  EXPECT_EQ(seen, (std::vector<std::string>{":path=/", "accept=a", "accept=b", "x-empty="}));
  EXPECT_EQ(headers.size(), 4U);
  EXPECT_EQ(headers[2].value, "b");
  EXPECT_EQ(headers.bytes(), 4 * 32U + 6 + 7 + 7 + 7);
}

TEST(Http2Headers, TheFirstOfANameIsFound) {
  const Http2Headers headers{{":path", "/"}, {"accept", "a"}, {"accept", "b"}, {"accepx", "c"}, {"x-empty", ""}};
  EXPECT_EQ(headers.Find("accept"), "a");
  EXPECT_EQ(headers.Find("accepx"), "c");
  EXPECT_TRUE(headers.Has("x-empty"));
  EXPECT_EQ(headers.Find("x-empty"), "");
  for (const std::string_view none : {"", "accep", "accepted", ":pat", "Accept"}) {
    EXPECT_FALSE(headers.Has(none)) << none;
    EXPECT_EQ(headers.Find(none), "") << none;
  }
}

TEST(Http2Headers, CanBeClearedAndFilledAgain) {
  Http2Headers headers{{"a", "b"}};
  headers.clear();
  EXPECT_TRUE(headers.empty());
  EXPECT_FALSE(headers.Has("a"));
  headers.Add("c", "d");
  EXPECT_EQ(headers.Find("c"), "d");
  EXPECT_EQ(headers.size(), 1U);
}

#if !WEFT_ASAN && !WEFT_TSAN
TEST(Http2Headers, AFewFieldsTakeTwoAllocations) {
  const std::string value(24, 'v');
  const std::size_t before = allocations;
  Http2Headers headers;
  for (const std::string_view name : {"a", "b", "c", "d", "e", "f", "g", "h"}) headers.Add(name, value);
  EXPECT_EQ(allocations - before, 2U);
}
#endif

TEST(Http2Headers, ManyFieldsFindTheirPlaces) {
  Http2Headers headers;
  for (int i = 0; i < 1'000; ++i) headers.Add("x-" + std::to_string(i), std::string(static_cast<std::size_t>(i), 'v'));
  for (int i = 0; i < 1'000; ++i) EXPECT_EQ(headers.Find("x-" + std::to_string(i)).size(), static_cast<std::size_t>(i));
}

}  // namespace
}  // namespace weft::interop
