// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "serving/heap_trim.h"

#include <malloc.h>

#include <algorithm>

#include "weft/io/fiber_blocking.h"

namespace examples {

void HeapTrim::Look(std::size_t open) {
  most_ = std::max(most_, open);
  if (most_ < kWorthIt || open > most_ / 2) return;
  most_ = open;
  // It locks and calls the system for long, where no fiber should.
  weft::FiberBlocking([] { (void)::malloc_trim(0); });
}

}  // namespace examples
