// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// GroupStacks: the stacks of a group's fibers: a pool of those of the group's size, and custom pools for fibers that
// ask for their own size or guard.
//
// There is a custom pool for each power of two, so that fibers of many sizes share few pools; likewise for guards. It
// is made when it is first asked for, and stays.
//
// Invariants
//   CP1  A custom stack is at least as large as was asked for, and less than twice as large, or kMinStackSize; likewise
//        its guard.
//   CP2  All who ask for the same rounded size and guard get the same pool.
//
// Any thread.
#ifndef WEFT_SCHEDULING_GROUP_GROUP_STACKS_H_
#define WEFT_SCHEDULING_GROUP_GROUP_STACKS_H_

#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <mutex>

#include "weft/context/stack_pool.h"

namespace weft::scheduling_group {

class GroupStacks {
 public:
  static constexpr std::size_t kMinStackSize = std::size_t{1} << 14;
  static constexpr std::size_t kMaxStackSize = std::size_t{1} << 30;
  static constexpr std::size_t kMinGuardSize = std::size_t{1} << 12;
  static constexpr std::size_t kMaxGuardSize = std::size_t{1} << 24;

  // `options` are of the group's size; the custom pools differ in the sizes.
  explicit GroupStacks(const context::StackPool::Options& options) : options_(options), pool_(options) {}
  GroupStacks(const GroupStacks&) = delete;
  GroupStacks& operator=(const GroupStacks&) = delete;
  ~GroupStacks();

  context::StackPool& pool() noexcept { return pool_; }
  // guard_bytes 0: as the group's. nullptr: there is no memory for the pool. Aborts beyond the largest sizes.
  context::StackPool* OfSize(std::size_t bytes, std::size_t guard_bytes);

  // As StackPool::Trim(), of all pools; custom pools keep no warm stacks.
  std::size_t Trim(std::size_t keep_warm);

 private:
  // The first is the group's guard.
  static constexpr std::size_t kGuards = 1 + std::bit_width(kMaxGuardSize / kMinGuardSize);
  static constexpr std::size_t kSizes = std::bit_width(kMaxStackSize / kMinStackSize);

  context::StackPool* Make(std::atomic<context::StackPool*>& place, std::size_t bytes, std::size_t guard_bytes);

  const context::StackPool::Options options_;
  context::StackPool pool_;
  // By the binary logarithms of the size less that of kMinStackSize, and of the guard less that of kMinGuardSize.
  std::array<std::atomic<context::StackPool*>, kSizes * kGuards> custom_{};
  std::mutex making_;  // a pool; one system call and more
};

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_GROUP_STACKS_H_
