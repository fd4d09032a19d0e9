// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// ShardedCounter, ObjectPool: what all handlers use, without a cache line that all CPUs write: each has a part for each
// CPU (for sixteen at most). Any fiber and thread.
#ifndef WEFT_EXAMPLES_SERVING_SHARDED_H_
#define WEFT_EXAMPLES_SERVING_SHARDED_H_

#include <sched.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "weft/base/thread/spin_lock.h"
#include "weft/base/thread/thread_annotations.h"

namespace examples {

inline constexpr std::size_t kShards = 16;

// A hint: the fiber may run elsewhere in the next moment.
inline std::size_t ShardOfCpu() { return static_cast<std::size_t>(::sched_getcpu()) % kShards; }

// relaxed: a statistic.
class ShardedCounter {
 public:
  void Add(std::uint64_t count) { parts_[ShardOfCpu()].count.fetch_add(count, std::memory_order_relaxed); }
  std::uint64_t Sum() const {
    std::uint64_t sum = 0;
    for (const Part& part : parts_) sum += part.count.load(std::memory_order_relaxed);
    return sum;
  }

 private:
  struct alignas(64) Part {
    std::atomic<std::uint64_t> count{0};
  };
  std::array<Part, kShards> parts_;
};

// Keeps objects that are costly to make. They come back in the order last in, first out, so most stay cold.
template <class T>
class ObjectPool {
 public:
  ObjectPool() {
    for (Shard& shard : shards_) shard.free.reserve(kMostFree);
  }

  // nullptr: there is none.
  std::unique_ptr<T> Take() {
    Shard& shard = shards_[ShardOfCpu()];
    const weft::base::SpinLockGuard guard(shard.lock);
    if (shard.free.empty()) return nullptr;
    std::unique_ptr<T> object = std::move(shard.free.back());
    shard.free.pop_back();
    return object;
  }
  // Destroys it if there are enough.
  void Put(std::unique_ptr<T> object) {
    Shard& shard = shards_[ShardOfCpu()];
    const weft::base::SpinLockGuard guard(shard.lock);
    // Never beyond what is reserved. An object that is not kept dies after the guard: it was there before.
    if (shard.free.size() < kMostFree) shard.free.push_back(std::move(object));
  }

 private:
  static constexpr std::size_t kMostFree = 8;  // of a CPU: more than the requests that it serves at a time

  struct alignas(64) Shard {
    weft::base::SpinLock lock;
    std::vector<std::unique_ptr<T>> free WEFT_GUARDED_BY(lock);
  };
  std::array<Shard, kShards> shards_;
};

}  // namespace examples

#endif  // WEFT_EXAMPLES_SERVING_SHARDED_H_
