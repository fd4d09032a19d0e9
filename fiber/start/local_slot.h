// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// LocalSlot: the place in a table that a FiberLocal or FiberExecutionLocal owns. LocalSlotRegistry gives it out.
//
// Indices are used again, lowest first, so a table has as many slots as variables live at a time. Serials are not used
// again: they tell an entry of an index's earlier owner from one of the present owner. Any thread.
#ifndef WEFT_FIBER_START_LOCAL_SLOT_H_
#define WEFT_FIBER_START_LOCAL_SLOT_H_

#include <atomic>
#include <cstdint>
#include <mutex>
#include <vector>

namespace weft::fiber {

struct LocalSlot {
  std::uint64_t serial = 0;  // 0: no owner.
  std::uint32_t index = 0;
};

// Whether the library in which this lies is pinned. Hidden: each library has its own, also where several share a type.
[[gnu::visibility("hidden")]] inline constinit std::atomic<bool> library_is_pinned{false};

// Values are ended by functions of the library that has made them, when fibers, threads or contexts end. That library
// stays in memory from now on (base/thread/exit.h), and so does the one that has the variable. `is_pinned`: the
// caller's own library_is_pinned.
void PinLibraryOfLocal(std::atomic<bool>* is_pinned) noexcept;

class LocalSlotRegistry {
 public:
  LocalSlotRegistry() = default;

  LocalSlotRegistry(const LocalSlotRegistry&) = delete;
  LocalSlotRegistry& operator=(const LocalSlotRegistry&) = delete;

  LocalSlot Acquire();
  void Release(LocalSlot slot);

 private:
  // A std::mutex: variables are made and ended when programs start and end, and nothing switches while it is held.
  std::mutex mutex_;
  std::uint64_t last_serial_ = 0;
  std::uint32_t indices_made_ = 0;
  std::vector<std::uint32_t> free_;  // A heap, lowest index first.
};

}  // namespace weft::fiber

#endif  // WEFT_FIBER_START_LOCAL_SLOT_H_
