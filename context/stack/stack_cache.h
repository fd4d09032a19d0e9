// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// StackCache: one worker's share of a StackPool, so that a fiber's start and end need no lock.
//
// The pool counts its stacks as in use. It exchanges half of them with the pool at a time. For its owner only; none of
// it switches; Pop() may make system calls.
#ifndef WEFT_CONTEXT_STACK_STACK_CACHE_H_
#define WEFT_CONTEXT_STACK_STACK_CACHE_H_

#include <array>
#include <cstddef>

#include "weft/base/thread/cpu.h"
#include "weft/context/stack/stack_pool.h"

namespace weft::context {

class StackCache {
 public:
  explicit StackCache(StackPool* pool) : pool_(pool) {}
  StackCache(const StackCache&) = delete;
  StackCache& operator=(const StackCache&) = delete;
  ~StackCache() { Clear(); }

  // As StackPool::Acquire() and Release().
  void* Pop() {
    if (WEFT_UNLIKELY(size_ == 0) && !Refill()) return nullptr;
    void* top = tops_[--size_];
    pool_->Unpoison(top);
    return top;
  }
  void Push(void* top) {
    pool_->guards_.CheckCanary(top);
    pool_->Poison(top);
    if (WEFT_UNLIKELY(size_ == kCapacity)) Spill();
    tops_[size_++] = top;
  }

  // All go back to the pool.
  void Clear();

  std::size_t size() const { return size_; }

 private:
  // A fork and join of a few fibers stays within the cache.
  static constexpr std::size_t kCapacity = 32;
  static constexpr std::size_t kExchanged = kCapacity / 2;

  bool Refill();
  void Spill();

  StackPool* const pool_;
  std::size_t size_ = 0;
  std::array<void*, kCapacity> tops_;  // The last is the warmest.
};

}  // namespace weft::context

#endif  // WEFT_CONTEXT_STACK_STACK_CACHE_H_
