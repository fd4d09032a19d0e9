// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// On any machine; tests/guest/memory_test.cc checks the node where there are several.

#include "weft/numa/memory/node_memory.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <cstring>
#include <fstream>
#include <memory>
#include <set>
#include <vector>

#include "weft/base/thread/cpu.h"

namespace weft::numa {
namespace {

std::uintptr_t Address(const void* memory) { return reinterpret_cast<std::uintptr_t>(memory); }

TEST(NodeMemory, IsZeroedAndAlignedAndAllOfItCanBeWritten) {
  for (std::size_t bytes : {std::size_t{1}, std::size_t{4096}, std::size_t{100'000}}) {
    for (int node : {-1, 0, 5}) {  // 5: hardly exists; then it lies elsewhere (NM1).
      auto* memory = static_cast<unsigned char*>(AllocateOnNode(bytes, node));
      EXPECT_EQ(Address(memory) % base::kCacheLineSize, 0U);
      for (std::size_t i = 0; i < bytes; ++i) ASSERT_EQ(memory[i], 0);
      std::memset(memory, 1, bytes);
      FreeOnNode(memory, bytes);
    }
  }
}

TEST(NodeMemory, PiecesBeginAtDifferentPlacesInTheirPages) {
  std::set<std::uintptr_t> places;
  std::vector<void*> pieces;
  for (int i = 0; i < 32; ++i) {
    pieces.push_back(AllocateOnNode(64, -1));
    places.insert(Address(pieces.back()) % 4096);
  }
  EXPECT_EQ(places.size(), pieces.size());
  for (void* piece : pieces) FreeOnNode(piece, 64);
}

std::size_t MappedPages() {
  std::size_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages;
  return pages;
}

TEST(NodeMemory, WhatIsFreedIsUnmapped) {
#if WEFT_ASAN || WEFT_TSAN
  GTEST_SKIP() << "sanitizers map memory of their own";
#endif
  const std::size_t before = MappedPages();
  for (std::size_t i = 0; i < 1000; ++i) {
    void* memory = AllocateOnNode(1 + i * 64 % 10'000, -1);
    FreeOnNode(memory, 1 + i * 64 % 10'000);
  }
  EXPECT_LE(MappedPages(), before + 100);
}

TEST(NodeMemory, WhatIsTooLargeThrowsAsNewDoes) {
  EXPECT_THROW((void)AllocateOnNode(std::size_t{1} << 60, -1), std::bad_alloc);
}

TEST(NodeArray, MakesAndDestroysItsObjects) {
  auto token = std::make_shared<int>(0);
  {
    const NodeArray<std::shared_ptr<int>> array(1000, 0);
    EXPECT_EQ(array.objects().size(), 1000U);
    for (std::shared_ptr<int>& object : array.objects()) {
      EXPECT_EQ(object, nullptr);
      object = token;
    }
    EXPECT_EQ(token.use_count(), 1001);
  }
  EXPECT_EQ(token.use_count(), 1);
}

TEST(NodeArray, LeavesObjectsAloneThatAreNewWhenTheyAreZeroed) {
  struct Counted {
    Counted() { ++made(); }
    static int& made() {
      static int count = 0;
      return count;
    }
    int value = 7;
  };
  const NodeArray<Counted> zeroed(1000, -1, kZeroIsNew);
  EXPECT_EQ(Counted::made(), 0);
  for (const Counted& object : zeroed.objects()) ASSERT_EQ(object.value, 0);
  const NodeArray<Counted> constructed(1000, -1);
  EXPECT_EQ(Counted::made(), 1000);
}

class Base {
 public:
  virtual ~Base() = default;
};
class alignas(base::kCacheLineSize) Derived final : public Base, public NodeAllocated {
 public:
  explicit Derived(std::shared_ptr<int> token) : token_(std::move(token)) {}

 private:
  const std::shared_ptr<int> token_;
  [[maybe_unused]] char rest_[10'000];
};

TEST(NodeAllocated, IsDeletedThroughABaseClassAndLivesOnTheStackToo) {
  auto token = std::make_shared<int>(0);
  std::unique_ptr<Base> on_node(new (OnNode{0}) Derived(token));
  std::unique_ptr<Base> anywhere = std::make_unique<Derived>(token);
  const Derived on_stack(token);
  EXPECT_EQ(token.use_count(), 4);
  EXPECT_EQ(Address(on_node.get()) % base::kCacheLineSize, 0U);
  EXPECT_EQ(Address(anywhere.get()) % base::kCacheLineSize, 0U);
  on_node.reset();
  anywhere.reset();
  EXPECT_EQ(token.use_count(), 2);
}

}  // namespace
}  // namespace weft::numa
