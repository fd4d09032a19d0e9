// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// CancelCounts: how many scopes were cancelled since the process began, by the reason; and the flight recorder's event
// of it. Any thread.
//
// Cost: an addition for each, on a line of the process: 5 ns of a cancellation's 100 or more.
#ifndef WEFT_SYNC_CANCEL_CANCEL_COUNTS_H_
#define WEFT_SYNC_CANCEL_CANCEL_COUNTS_H_

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "weft/base/thread/cpu.h"
#include "weft/scheduling_group/events/recorder.h"

namespace weft::synchronization {

struct CancelNode;
enum class CancelReason : std::uint8_t;

class CancelCounts {
 public:
  // Of a scope that was just cancelled; nullptr: it may be gone. Without a lock: the recorder may need memory.
  static void Record(const CancelNode* node, CancelReason reason) noexcept {
    counts_[static_cast<std::size_t>(reason)].fetch_add(1, std::memory_order_relaxed);  // Statistics.
    scheduling_group::Recorder::Note(scheduling_group::EventKind::kCancelled, static_cast<std::uint64_t>(reason),
                                     reinterpret_cast<std::uintptr_t>(node));
  }
  static std::uint64_t Of(CancelReason reason) noexcept {
    return counts_[static_cast<std::size_t>(reason)].load(std::memory_order_relaxed);
  }

 private:
  alignas(base::kCacheLineSize) static inline constinit std::array<std::atomic<std::uint64_t>, 3> counts_{};
};

}  // namespace weft::synchronization

#endif  // WEFT_SYNC_CANCEL_CANCEL_COUNTS_H_
