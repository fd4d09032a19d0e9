// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// For tests of stacks: a kernel that refuses on request.
#ifndef WEFT_TESTS_CONTEXT_FAULTY_MEMORY_H_
#define WEFT_TESTS_CONTEXT_FAULTY_MEMORY_H_

#include <atomic>
#include <cstddef>
#include <span>

#include "weft/context/stack/stack_memory.h"

namespace weft::context {

class FaultyMemory : public StackMemory {
 public:
  bool has_guards = true;
  std::size_t protects_left = std::size_t{1} << 30;
  std::size_t largest_map = std::size_t{1} << 40;
  std::size_t max_map_count = 65530;
  std::atomic<int> maps{0};

  void* Map(std::size_t size) override {
    ++maps;
    return size <= largest_map ? StackMemory::Map(size) : nullptr;
  }
  bool InstallGuards(std::span<const Range> ranges) override {
    return has_guards && StackMemory::InstallGuards(ranges);
  }
  bool Protect(Range range) override {
    if (protects_left == 0) return false;
    --protects_left;
    return StackMemory::Protect(range);
  }
  std::size_t MaxMapCount() override { return max_map_count; }
};

}  // namespace weft::context

#endif  // WEFT_TESTS_CONTEXT_FAULTY_MEMORY_H_
