// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Replaces sync/wait/lock_owner.h in model tests: there are no stacks to identify owners by.
#ifndef WEFT_SYNC_WAIT_LOCK_OWNER_H_
#define WEFT_SYNC_WAIT_LOCK_OWNER_H_

namespace weft::synchronization {

class LockOwner {
 public:
  void Set() noexcept {}
  void Clear() noexcept {}
  bool IsCaller() const noexcept { return false; }
};

struct LockOwnerPlace;

}  // namespace weft::synchronization

#endif  // WEFT_SYNC_WAIT_LOCK_OWNER_H_
