// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/base/memory/intrusive_list.h"

#include <gtest/gtest.h>

#include <array>
#include <list>
#include <random>
#include <vector>

namespace weft::base {
namespace {

struct Item {
  virtual ~Item() = default;  // The hook is not at the start.
  int value = 0;
  ListHook other_hook;
  ListHook hook;
};
using List = IntrusiveList<Item, &Item::hook>;
using OtherList = IntrusiveList<Item, &Item::other_hook>;

class IntrusiveListTest : public ::testing::Test {
 protected:
  IntrusiveListTest() {
    for (std::size_t i = 0; i < items_.size(); ++i) items_[i].value = static_cast<int>(i);
  }

  static std::vector<int> Values(List& list) {
    std::vector<int> values;
    for (Item& item : list) values.push_back(item.value);
    return values;
  }
  static void Clear(List& list) {
    while (list.pop_front() != nullptr) continue;
  }

  std::array<Item, 8> items_;
};

using Ints = std::vector<int>;

TEST_F(IntrusiveListTest, StartsEmpty) {
  List list;
  EXPECT_TRUE(list.empty());
  EXPECT_EQ(list.front(), nullptr);
  EXPECT_EQ(list.back(), nullptr);
  EXPECT_EQ(list.pop_front(), nullptr);
  EXPECT_EQ(list.pop_back(), nullptr);
  EXPECT_EQ(list.begin(), list.end());
}

TEST_F(IntrusiveListTest, IsInTheOrderOfPushing) {
  List list;
  list.push_back(&items_[1]);
  list.push_back(&items_[2]);
  list.push_front(&items_[0]);
  EXPECT_EQ(Values(list), Ints({0, 1, 2}));
  EXPECT_EQ(list.front(), &items_[0]);
  EXPECT_EQ(list.back(), &items_[2]);
  EXPECT_EQ(list.pop_back(), &items_[2]);
  EXPECT_EQ(list.pop_front(), &items_[0]);
  EXPECT_EQ(list.pop_front(), &items_[1]);
  EXPECT_TRUE(list.empty());
}

TEST_F(IntrusiveListTest, ErasesFirstMiddleLastAndOnly) {
  List list;
  for (int i = 0; i < 5; ++i) list.push_back(&items_[static_cast<std::size_t>(i)]);
  list.erase(&items_[2]);
  EXPECT_EQ(Values(list), Ints({0, 1, 3, 4}));
  list.erase(&items_[0]);
  list.erase(&items_[4]);
  EXPECT_EQ(Values(list), Ints({1, 3}));
  list.erase(&items_[1]);
  list.erase(&items_[3]);
  EXPECT_TRUE(list.empty());
}

TEST_F(IntrusiveListTest, LinkedSaysWhetherAnElementIsInAList) {
  List list;
  EXPECT_FALSE(items_[0].hook.linked());
  list.push_back(&items_[0]);
  EXPECT_TRUE(items_[0].hook.linked());
  list.pop_front();
  EXPECT_FALSE(items_[0].hook.linked());
  list.push_back(&items_[0]);
  list.erase(&items_[0]);
  EXPECT_FALSE(items_[0].hook.linked());
}

TEST_F(IntrusiveListTest, InsertsBeforeAPosition) {
  List list;
  list.push_back(&items_[0]);
  list.push_back(&items_[2]);
  auto position = list.begin();
  ++position;
  list.insert(position, &items_[1]);
  list.insert(list.end(), &items_[3]);
  EXPECT_EQ(Values(list), Ints({0, 1, 2, 3}));
  Clear(list);
}

TEST_F(IntrusiveListTest, AnElementIsInAsManyListsAsItHasHooks) {
  List list;
  OtherList other;
  list.push_back(&items_[0]);
  other.push_back(&items_[0]);
  EXPECT_EQ(list.pop_front(), &items_[0]);
  EXPECT_EQ(other.front(), &items_[0]);
  EXPECT_EQ(other.pop_front(), &items_[0]);
}

TEST_F(IntrusiveListTest, SplicesAllOfAnotherListBehindItsOwn) {
  List a;
  List b;
  a.splice_back(b);
  EXPECT_TRUE(a.empty());
  b.push_back(&items_[0]);
  a.splice_back(b);  // Into an empty one.
  EXPECT_EQ(Values(a), Ints({0}));
  EXPECT_TRUE(b.empty());
  b.push_back(&items_[1]);
  b.push_back(&items_[2]);
  a.splice_back(b);
  EXPECT_EQ(Values(a), Ints({0, 1, 2}));
  EXPECT_TRUE(b.empty());
  a.splice_back(b);  // Of an empty one.
  EXPECT_EQ(Values(a), Ints({0, 1, 2}));
  b.push_back(&items_[3]);  // Still usable.
  EXPECT_EQ(Values(b), Ints({3}));
  Clear(a);
  Clear(b);
}

TEST_F(IntrusiveListTest, MovingTakesTheElementsAlong) {
  List a;
  a.push_back(&items_[0]);
  a.push_back(&items_[1]);
  List b(std::move(a));
  EXPECT_EQ(Values(b), Ints({0, 1}));
  EXPECT_TRUE(a.empty());  // NOLINT(bugprone-use-after-move): that is the point.
  b.erase(&items_[0]);
  EXPECT_EQ(Values(b), Ints({1}));
  Clear(b);
}

TEST_F(IntrusiveListTest, BehavesAsStdListUnderRandomOperations) {
  std::mt19937 random(7);
  List list;
  std::list<int> model;
  for (int step = 0; step < 20'000; ++step) {
    Item& item = items_[random() % items_.size()];
    if (item.hook.linked()) {
      list.erase(&item);
      model.remove(item.value);
    } else if (random() % 2 == 0) {
      list.push_back(&item);
      model.push_back(item.value);
    } else {
      list.push_front(&item);
      model.push_front(item.value);
    }
    ASSERT_EQ(Values(list), Ints(model.begin(), model.end()));
  }
  Clear(list);
}

#ifndef NDEBUG
TEST_F(IntrusiveListTest, DiesInDebugBuildsIfAnElementIsPushedTwice) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  List list;
  list.push_back(&items_[0]);
  EXPECT_DEATH(list.push_back(&items_[0]), "in a list already");
  Clear(list);
}
#endif

}  // namespace
}  // namespace weft::base
