// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// The last of a fiber and its Fiber frees what they share, and nobody touches it after that: also checked in builds
// without AddressSanitizer.

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <new>

#include "weft/base/thread/cpu.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/runtime.h"
#include "weft/tests/fiber/runtime_fixture.h"

#if !WEFT_ASAN && !WEFT_TSAN  // They find it by themselves.

namespace {

constexpr std::size_t kMaxBlocks = 100'000;

// While it is on, freed memory is cleared and kept.
struct Quarantine {
  std::atomic<bool> on{false};
  std::atomic<std::size_t> count{0};
  std::array<void*, kMaxBlocks> blocks{};
};
constinit Quarantine quarantine;

void GiveBack(void* memory) noexcept {
  if (memory == nullptr || !quarantine.on.load()) return std::free(memory);
  const std::size_t index = quarantine.count.fetch_add(1);
  if (index >= kMaxBlocks) return;  // Lost.
  std::memset(memory, 0, ::malloc_usable_size(memory));
  quarantine.blocks[index] = memory;
}

bool IsCleared(const void* memory) {
  const auto* bytes = static_cast<const char*>(memory);
  return std::all_of(bytes, bytes + ::malloc_usable_size(const_cast<void*>(memory)), [](char c) { return c == 0; });
}

}  // namespace

void* operator new(std::size_t size) {
  void* memory = std::malloc(size != 0 ? size : 1);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void operator delete(void* memory) noexcept { GiveBack(memory); }
void operator delete(void* memory, std::size_t) noexcept { GiveBack(memory); }

namespace weft::fiber {
namespace {

TEST(DetachedEnd, AFiberTouchesNothingThatItHasGivenBack) {
  {
    const RuntimeOf runtime(Shape{2, 1});
    quarantine.on = true;
    for (int i = 0; i < 200; ++i) {
      Fiber([] { FiberYield(); }).Detach();
      Fiber([] {}).Join();
    }
  }
  quarantine.on = false;
  const std::size_t count = std::min(quarantine.count.load(), kMaxBlocks);
  EXPECT_GE(count, std::size_t{400});
  for (std::size_t i = 0; i < count; ++i) ASSERT_TRUE(IsCleared(quarantine.blocks[i])) << "written after its end";
}

}  // namespace
}  // namespace weft::fiber

#endif
