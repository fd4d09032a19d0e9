// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// LocalSlot: which place in a table a FiberLocal or FiberExecutionLocal owns.  LocalSlotRegistry gives them out.
//
// Indices are used again, lowest first, so that tables stay as long as the variables alive at one time are many.
// Serials are not: a table entry made for an earlier owner of the index is told from the present owner's by its serial.
//
// Any thread.

#ifndef WEFT_FIBER_LOCAL_SLOT_H_
#define WEFT_FIBER_LOCAL_SLOT_H_

#include <cstdint>
#include <mutex>
#include <vector>

namespace weft::fiber {

struct LocalSlot {
  std::uint64_t serial = 0;  // 0: no owner.
  std::uint32_t index = 0;
};

class LocalSlotRegistry {
 public:
  LocalSlotRegistry() = default;

  LocalSlotRegistry(const LocalSlotRegistry&) = delete;
  LocalSlotRegistry& operator=(const LocalSlotRegistry&) = delete;

  LocalSlot Acquire();
  void Release(LocalSlot slot);

 private:
  // A std::mutex: variables are made and ended at the start and end of programs, and nothing waits or switches while it
  // is held.
  std::mutex mutex_;
  std::uint64_t last_serial_ = 0;
  std::uint32_t indices_made_ = 0;
  std::vector<std::uint32_t> free_;  // A heap, lowest index first.
};

}  // namespace weft::fiber

#endif  // WEFT_FIBER_LOCAL_SLOT_H_
