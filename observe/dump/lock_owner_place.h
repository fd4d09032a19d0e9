// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// LockOwnerPlace: where the lock that a fiber waits for names its owner.
#ifndef WEFT_OBSERVE_DUMP_LOCK_OWNER_PLACE_H_
#define WEFT_OBSERVE_DUMP_LOCK_OWNER_PLACE_H_

#include <cstddef>
#include <cstdint>

#include "weft/scheduling_group/fiber/wait_reason.h"
#include "weft/sync/fiber_mutex.h"
#include "weft/sync/fiber_shared_mutex.h"

namespace weft::synchronization {

struct LockOwnerPlace {
  static constexpr std::size_t kOfMutex = offsetof(FiberMutex, owner_);
  static constexpr std::size_t kOfSharedMutex = offsetof(FiberSharedMutex, writer_);
};
static_assert(LockOwnerPlace::kOfMutex == scheduling_group::kOwnerInMutex &&
              LockOwnerPlace::kOfSharedMutex == scheduling_group::kOwnerInSharedMutex);

}  // namespace weft::synchronization

namespace weft::observe {

// Its address; 0: what is waited for is no lock. There lies an address on the owner's stack, or 0.
inline std::uint64_t PlaceOfOwner(scheduling_group::WaitReason reason) noexcept {
  using scheduling_group::WaitKind;
  if (reason.kind() == WaitKind::kMutex) return reason.object() + scheduling_group::kOwnerInMutex;
  if (reason.kind() == WaitKind::kSharedMutex) return reason.object() + scheduling_group::kOwnerInSharedMutex;
  return 0;
}

}  // namespace weft::observe

#endif  // WEFT_OBSERVE_DUMP_LOCK_OWNER_PLACE_H_
