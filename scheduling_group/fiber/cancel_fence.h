// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The two halves of the barrier between a cancellable wait and its canceller (base/thread/atomic.h):
// cancellations are rare, so the canceller pays for both. Without membarrier() both sides use a full fence.
#ifndef WEFT_SCHEDULING_GROUP_FIBER_CANCEL_FENCE_H_
#define WEFT_SCHEDULING_GROUP_FIBER_CANCEL_FENCE_H_

#include "weft/base/thread/atomic.h"

#ifndef WEFT_MODEL_CHECK
#include "weft/scheduling_group/fiber/read_section.h"
#endif

namespace weft::scheduling_group {

#ifdef WEFT_MODEL_CHECK
inline bool model_has_membarrier = true;
inline bool HasHeavyCancelFence() noexcept { return model_has_membarrier; }
#else
// Decided, as for ReadSection, before the first fiber of a runtime or a FiberLoop runs.
inline bool HasHeavyCancelFence() noexcept {
  return read_section_internal::has_heavy_fence.load(std::memory_order_relaxed);
}
#endif

// The waiting fiber.
inline void LightCancelFence() noexcept {
  if (HasHeavyCancelFence()) {
    base::LightFence();
  } else {
    base::ThreadFence(std::memory_order_seq_cst);
  }
}

// The canceller, any thread. One to five microseconds with two CPUs.
inline void HeavyCancelFence() noexcept {
  if (HasHeavyCancelFence()) {
    base::HeavyFence();
  } else {
    base::ThreadFence(std::memory_order_seq_cst);
  }
}

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_FIBER_CANCEL_FENCE_H_
