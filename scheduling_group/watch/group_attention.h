// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// GroupAttention: a byte of a scheduling group that its workers read before they take a fiber. It is 0, but for
//
//   kStopping   the group stops: its workers take no fiber any more
//   kAbandoned  it has stopped for good, with fibers that have not ended (runtime_end.h)
//   kWatched    what fibers do before they leave their worker is watched: some fiber has a hook (fiber/this_fiber.h),
//               or there are limits for running without a switch (slice_limits.h)
//   kRecorded   each switch is recorded (events/recorder.h)
//
// Where there are no hooks and limits they cost nothing: Worker::NextFiberFor() tests this byte in any case.
//
// Invariants
//   GAT1  All groups have kWatched while WatchLeaving() has been called more often than UnwatchLeaving(). Its caller
//        finds the bit in every group from then on.
//
// Rejected: a word of the process (a load, a test and a branch more for each switch); a flag in the entity (line 0 has
// no room) or in its state word (each transition would have to mask it).
#ifndef WEFT_SCHEDULING_GROUP_WATCH_GROUP_ATTENTION_H_
#define WEFT_SCHEDULING_GROUP_WATCH_GROUP_ATTENTION_H_

#include <atomic>
#include <cstdint>

namespace weft::scheduling_group {

class FiberEntity;

class GroupAttention {
 public:
  GroupAttention();
  ~GroupAttention();
  GroupAttention(const GroupAttention&) = delete;
  GroupAttention& operator=(const GroupAttention&) = delete;

  // acquire, all: pairs with the release in the functions below. kWatched and kRecorded carry nothing.
  bool any() const noexcept { return bits_.load(std::memory_order_acquire) != 0; }
  bool recorded() const noexcept { return (bits_.load(std::memory_order_acquire) & kRecorded) != 0; }
  bool only_recorded() const noexcept { return bits_.load(std::memory_order_acquire) == kRecorded; }
  bool stopping() const noexcept { return (bits_.load(std::memory_order_acquire) & kStopping) != 0; }

  bool abandoned() const noexcept { return (bits_.load(std::memory_order_acquire) & kAbandoned) != 0; }

  // release, all: what the caller did before.
  void SetStopping() noexcept { bits_.fetch_or(kStopping, std::memory_order_release); }
  void SetAbandoned() noexcept { bits_.fetch_or(kAbandoned, std::memory_order_release); }
  void ClearStopping() noexcept { bits_.fetch_and(static_cast<std::uint8_t>(~kStopping), std::memory_order_release); }

 private:
  friend void WatchLeaving() noexcept;
  friend void UnwatchLeaving() noexcept;
  friend void RecordLeaving(bool recorded) noexcept;
  static constexpr std::uint8_t kStopping = 1;
  static constexpr std::uint8_t kWatched = 2;
  static constexpr std::uint8_t kAbandoned = 4;
  static constexpr std::uint8_t kRecorded = 8;

  std::atomic<std::uint8_t> bits_{0};
};

// Any thread; they are counted.
void WatchLeaving() noexcept;
void UnwatchLeaving() noexcept;
// Sets kRecorded in all groups, or clears it.
void RecordLeaving(bool recorded) noexcept;

// Calls the hooks of the fiber, if it has any. Set before the first WatchLeaving() for a hook.
using YieldHookRunner = void (*)(FiberEntity* self);
inline constinit std::atomic<YieldHookRunner> yield_hook_runner{nullptr};

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_WATCH_GROUP_ATTENTION_H_
