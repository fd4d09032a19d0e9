// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// The linker takes these functions instead of the library's, whose object files then go unused.

#include "weft/bench/count/counted_entity_pool.h"

// Everything that the files below include, so that the #define affects only these files.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <bitset>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <new>
#include <system_error>
#include <utility>
#include <vector>

#include "weft/base/report/check.h"
#include "weft/base/report/log.h"
#include "weft/base/thread/cpu.h"
#include "weft/base/thread/exit.h"
#include "weft/base/thread/spin_lock.h"
#include "weft/base/thread/thread_annotations.h"
#include "weft/numa/memory/affinity.h"
#include "weft/scheduling_group/fiber/entity_pool.h"
#include "weft/scheduling_group/fiber/node_arena.h"
#include "weft/scheduling_group/queue/run_queue.h"

namespace weft::base {
namespace {

// relaxed: statistics.
constinit std::atomic<std::uint64_t> taken{0};
constinit std::atomic<std::uint64_t> waited{0};

class WEFT_SCOPED_CAPABILITY CountingGuard {
 public:
  explicit CountingGuard(SpinLock& lock) noexcept WEFT_ACQUIRE(lock) : lock_(lock) {
    taken.fetch_add(1, std::memory_order_relaxed);
    if (lock_.try_lock()) return;
    waited.fetch_add(1, std::memory_order_relaxed);
    lock_.lock();
  }
  ~CountingGuard() WEFT_RELEASE() { lock_.unlock(); }
  CountingGuard(const CountingGuard&) = delete;
  CountingGuard& operator=(const CountingGuard&) = delete;

 private:
  SpinLock& lock_;
};

}  // namespace
}  // namespace weft::base

#define SpinLockGuard CountingGuard
#include "weft/scheduling_group/fiber/entity_pool.cc"
#include "weft/scheduling_group/fiber/node_arena.cc"
#undef SpinLockGuard

namespace weft::bench {

EntityPoolLocks ReadEntityPoolLocks() {
  return {.taken = base::taken.load(std::memory_order_relaxed), .waited = base::waited.load(std::memory_order_relaxed)};
}

}  // namespace weft::bench
