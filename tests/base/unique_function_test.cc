// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/base/unique_function.h"

#include <gtest/gtest.h>

#include <array>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>

namespace weft::base {
namespace {

using Function = UniqueFunction<int()>;

static_assert(!std::is_copy_constructible_v<Function>);
static_assert(std::is_nothrow_move_constructible_v<Function>);
static_assert(!std::is_constructible_v<Function, std::string>);
static_assert(sizeof(Function) == 64);

// Counts live instances, pads itself to a size.
template <std::size_t kSize>
struct Counting {
  explicit Counting(int* live) : live(live) { ++*live; }
  Counting(const Counting& other) : live(other.live), calls(other.calls) { ++*live; }
  Counting(Counting&& other) noexcept : live(other.live), calls(other.calls) { ++*live; }
  ~Counting() { --*live; }
  int operator()() { return ++calls; }
  int* live;
  int calls = 0;
  std::array<char, kSize> padding{};
};

template <class Callable>
class UniqueFunctionOf : public ::testing::Test {};
using Sizes = ::testing::Types<Counting<1>, Counting<32>, Counting<33>, Counting<500>>;
TYPED_TEST_SUITE(UniqueFunctionOf, Sizes);

TYPED_TEST(UniqueFunctionOf, KeepsItsCallableOverMovesAndDestroysItOnce) {
  int live = 0;
  {
    Function a = TypeParam(&live);
    EXPECT_EQ(live, 1);
    EXPECT_EQ(a(), 1);
    Function b = std::move(a);
    EXPECT_EQ(live, 1);
    EXPECT_FALSE(a);  // NOLINT(bugprone-use-after-move): that is the point.
    EXPECT_EQ(b(), 2);
    Function c;
    c = std::move(b);
    EXPECT_EQ(c(), 3);
    Function other = TypeParam(&live);
    EXPECT_EQ(live, 2);
    c = std::move(other);
    EXPECT_EQ(live, 1);
    EXPECT_EQ(c(), 1);
    Function& alias = c;
    c = std::move(alias);
    EXPECT_EQ(c(), 2);
    c = nullptr;
    EXPECT_EQ(live, 0);
    EXPECT_FALSE(c);
  }
  EXPECT_EQ(live, 0);
}

TEST(UniqueFunction, IsEmptyWhenItIsMadeOfNothing) {
  EXPECT_FALSE(Function());
  EXPECT_FALSE(Function(nullptr));
  EXPECT_FALSE(Function(UniqueFunction<long()>()));
  EXPECT_FALSE(Function(static_cast<int (*)()>(nullptr)));
  EXPECT_FALSE(Function(std::function<int()>()));
  EXPECT_TRUE(Function(std::function<int()>([] { return 1; })));
}

int Seven() { return 7; }

TEST(UniqueFunction, CallsFunctionsMembersAndMutableLambdas) {
  EXPECT_EQ(Function(Seven)(), 7);
  EXPECT_EQ(Function(&Seven)(), 7);
  UniqueFunction<std::size_t(const std::string&)> size = &std::string::size;
  EXPECT_EQ(size("four"), 4u);
  Function count = [n = 0]() mutable { return ++n; };
  count();
  EXPECT_EQ(count(), 2);
}

TEST(UniqueFunction, OwnsWhatCannotBeCopied) {
  Function f = [p = std::make_unique<int>(5)] { return *p; };
  Function g = std::move(f);
  EXPECT_EQ(g(), 5);
}

TEST(UniqueFunction, PassesArgumentsOnWithoutACopy) {
  UniqueFunction<std::unique_ptr<int>(std::unique_ptr<int>, int&)> f = [](std::unique_ptr<int> p, int& n) {
    n = *p;
    return p;
  };
  int n = 0;
  EXPECT_EQ(*f(std::make_unique<int>(3), n), 3);
  EXPECT_EQ(n, 3);
}

TEST(UniqueFunction, DropsAResultThatNobodyWants) {
  UniqueFunction<void()> f = Seven;
  f();
}

TEST(UniqueFunction, TakesAnOveralignedCallable) {
  struct alignas(64) Aligned {
    int operator()() const { return reinterpret_cast<std::uintptr_t>(this) % 64 == 0 ? 1 : 0; }
  };
  Function f = Aligned();
  Function g = std::move(f);
  EXPECT_EQ(g(), 1);
}

TEST(UniqueFunction, LetsExceptionsThrough) {
  Function f = []() -> int { throw std::runtime_error("thrown"); };
  EXPECT_THROW(f(), std::runtime_error);
}

TEST(UniqueFunctionDeathTest, RefusesToCallNothing) {
  Function f;
  EXPECT_DEATH(f(), "an empty UniqueFunction was called");
}

}  // namespace
}  // namespace weft::base
