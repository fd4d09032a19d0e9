// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/sync/fiber_seqlock.h"

namespace weft {

WEFT_NOINLINE unsigned FiberSeqLock::ReadSeqBeginSlow() noexcept {
  // A section is a few stores and ends sooner than this, unless the writer does not run.
  constexpr int kSpins = 32;
  for (int spins = 0; spins < kSpins; ++spins) {
    // acquire: as in ReadSeqBegin().
    const unsigned sequence = sequence_.load(std::memory_order_acquire);
    if ((sequence & 1) == 0) return sequence;
    base::CpuRelax();
  }
  // Wait as the writers do, until this one is done.
  writer_.lock();
  const unsigned sequence = sequence_.load(std::memory_order_relaxed);  // Even: SQ1.
  writer_.unlock();
  return sequence;
}

}  // namespace weft
