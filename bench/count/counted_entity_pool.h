// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// How often EntityPool's locks are taken: its source, compiled for one program with a counting guard.
#ifndef WEFT_BENCH_COUNT_COUNTED_ENTITY_POOL_H_
#define WEFT_BENCH_COUNT_COUNTED_ENTITY_POOL_H_

#include <cstdint>

namespace weft::bench {

struct EntityPoolLocks {
  std::uint64_t taken = 0;
  std::uint64_t waited = 0;  // those of them that found the lock held
};

// Any thread. A snapshot.
EntityPoolLocks ReadEntityPoolLocks();

}  // namespace weft::bench

#endif  // WEFT_BENCH_COUNT_COUNTED_ENTITY_POOL_H_
