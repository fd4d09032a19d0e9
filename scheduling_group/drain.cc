// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/drain.h"

#include <atomic>

#include "weft/base/atomic.h"
#include "weft/base/parker.h"
#include "weft/scheduling_group/entity_pool.h"

namespace weft::scheduling_group {
namespace {

// Never destroyed: a worker may still be inside Unpark() when its waiter has gone on.
base::Parker& WaiterParker() {
  static auto* parker = new base::Parker;
  return *parker;
}
std::atomic<bool> waiting{false};

}  // namespace

bool WaitUntilNoFibers(base::Deadline deadline, std::size_t left_behind) {
  waiting.store(true, std::memory_order_relaxed);
  bool none = false;
  for (;;) {
    base::ThreadFence(std::memory_order_seq_cst);  // StoreLoad; pairs with the fence in TellDrainWaiter().
    none = EntityPool::LiveFibers() <= left_behind;
    if (none || deadline.expired()) break;
    if (deadline.is_infinite()) {
      WaiterParker().Park();
    } else {
      (void)WaiterParker().ParkUntil(deadline.time_point());  // Either way we look again.
    }
  }
  waiting.store(false, std::memory_order_relaxed);
  return none;
}

void TellDrainWaiter() noexcept {
  base::ThreadFence(std::memory_order_seq_cst);  // StoreLoad; pairs with the fence in WaitUntilNoFibers().
  if (waiting.load(std::memory_order_relaxed)) [[unlikely]] {
    WaiterParker().Unpark();
  }
}

}  // namespace weft::scheduling_group
