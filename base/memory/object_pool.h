// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// ObjectPool: keeps objects that are costly to make, a few for each CPU (for sixteen at most), without a cache line
// that all CPUs write. They come back in the order last in, first out, so most stay cold.
//
// Any fiber and thread.
#ifndef WEFT_BASE_MEMORY_OBJECT_POOL_H_
#define WEFT_BASE_MEMORY_OBJECT_POOL_H_

#include <sched.h>

#include <array>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "weft/base/thread/spin_lock.h"
#include "weft/base/thread/thread_annotations.h"

namespace weft::base {

template <class T>
class ObjectPool {
 public:
  ObjectPool() {
    for (Shard& shard : shards_) shard.free.reserve(kMostFree);
  }

  // nullptr: there is none.
  std::unique_ptr<T> Take() {
    Shard& shard = ShardOfCpu();
    const SpinLockGuard guard(shard.lock);
    if (shard.free.empty()) return nullptr;
    std::unique_ptr<T> object = std::move(shard.free.back());
    shard.free.pop_back();
    return object;
  }
  // Destroys it if there are enough.
  void Put(std::unique_ptr<T> object) {
    Shard& shard = ShardOfCpu();
    const SpinLockGuard guard(shard.lock);
    // Never beyond what is reserved. An object that is not kept dies after the guard: it was there before.
    if (shard.free.size() < kMostFree) shard.free.push_back(std::move(object));
  }

 private:
  static constexpr std::size_t kShards = 16;
  static constexpr std::size_t kMostFree = 8;  // of a CPU: more than the requests that it serves at a time

  struct alignas(64) Shard {
    SpinLock lock;
    std::vector<std::unique_ptr<T>> free WEFT_GUARDED_BY(lock);
  };

  // A hint: the fiber may run elsewhere in the next moment.
  Shard& ShardOfCpu() { return shards_[static_cast<std::size_t>(::sched_getcpu()) % kShards]; }

  std::array<Shard, kShards> shards_;
};

}  // namespace weft::base

#endif  // WEFT_BASE_MEMORY_OBJECT_POOL_H_
