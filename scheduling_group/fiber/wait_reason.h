// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// What a parked fiber waits for (WaitReason), and since when (ParkStamp): one word each in line 0 of its entity, for
// dumps and debuggers. Nothing in Weft acts on them.
//
//   WaitReason   in FiberEntity::next, which links a ready fiber and is free while the fiber is in no list
//                63        57   56      55                                             0
//                | WaitKind   | timed | address of the object, or number of the descriptor |
//   ParkStamp    in FiberEntity::ready_stamp, which a ready fiber has whose wait is measured
//                63   62                     32 31                       0
//                | 0 | ParkClock's tick        | its worker's count of switches |
//
// A pointer of user space has its top byte clear, so a `next` is no WaitReason, and one whose kind is kNone says
// nothing. A ReadyStamp has bit 63 set.
//
// The fiber writes its reason before it is known to a waker, and its stamp before it leaves its stack. The first push
// after the wake may overwrite both. So another thread that reads the stamp, finds the fiber kParked, reads its reason,
// finds it kParked again, and then the same stamp, has read what belongs to one park: two parks on one worker differ in
// the count, and two on different workers mostly, for their counts differ. (Why in this order, and how the stack is
// read: observe/dump/fiber_reader.h.)
//
// Cost: a store each, on the path that parks. Time: reading a clock would cost a tenth of a switch, so a tick is kept
// in one global word, which the Watchdog writes every 10 to 80 ms while a worker is up, and each worker when it
// gets up. A wait therefore seems up to 0.1 s longer than it is; longer still where the Watchdog gets no CPU.
// Rejected: a record on the fiber's stack that the entity points to (three stores, and one cold page more for each
// fiber that a dump reads); a stamp in the state word (each transition would have to keep it); one word for both (kind
// and address take 55 bits, and 9 tell neither times nor turns apart); one store of both words (the reason is written
// before a waker may come, the stamp when the worker has found its next fiber).
#ifndef WEFT_SCHEDULING_GROUP_FIBER_WAIT_REASON_H_
#define WEFT_SCHEDULING_GROUP_FIBER_WAIT_REASON_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "weft/base/thread/cpu.h"
#include "weft/base/time/clock.h"

namespace weft::scheduling_group {

// Numbers stay: debuggers know them. A new kind goes to the end, and gets a name in ToString().
enum class WaitKind : std::uint8_t {
  kNone = 0,
  kMutex,
  kSharedMutex,
  kConditionVariable,
  kLatch,
  kBarrier,
  kWaitGroup,
  kEvent,
  kSemaphore,
  kChannelPut,
  kChannelGet,
  kSelect,
  kJoin,   // the object: the entity of the fiber joined
  kScope,  // for the end of its fibers
  kSleep,
  kReadable,  // the object: the descriptor's number; these three
  kWritable,
  kDescriptor,  // for several events
  kBlockingPool,
  kNameLookUp,
  kTimerCallback,  // for the end of one
  kCount,
};

// As filters, reports and debuggers spell it.
inline constexpr const char* kWaitKindNames[] = {
    "unspecified",   "mutex",        "shared_mutex",  "condition_variable", "latch",       "barrier",
    "wait_group",    "event",        "semaphore",     "channel_put",        "channel_get", "select",
    "join",          "scope",        "sleep",         "readable",           "writable",    "descriptor",
    "blocking_pool", "name_look_up", "timer_callback"};
static_assert(sizeof(kWaitKindNames) / sizeof(kWaitKindNames[0]) == static_cast<std::size_t>(WaitKind::kCount));
constexpr const char* ToString(WaitKind kind) noexcept {
  return kind < WaitKind::kCount ? kWaitKindNames[static_cast<std::size_t>(kind)] : "unknown";
}

// Where locks keep their owners (sync/wait/lock_owner.h): in a kMutex and in a kSharedMutex. For debuggers;
// observe/dump/lock_owner_place.h asserts it.
inline constexpr std::size_t kOwnerInMutex = 16;
inline constexpr std::size_t kOwnerInSharedMutex = 24;

class WaitReason {
 public:
  constexpr WaitReason() noexcept = default;
  WaitReason(WaitKind kind, const void* object) noexcept
      : word_(static_cast<std::uint64_t>(kind) << kKindShift | reinterpret_cast<std::uintptr_t>(object)) {}
  static WaitReason OfDescriptor(WaitKind kind, int fd) noexcept {
    return FromWord(static_cast<std::uint64_t>(kind) << kKindShift | static_cast<std::uint32_t>(fd));
  }
  static constexpr WaitReason FromWord(std::uint64_t word) noexcept {
    WaitReason reason;
    reason.word_ = word;
    return reason;
  }
  // The wait has a deadline: FiberEntity::wait_storage() holds its time-out.
  WaitReason Timed(bool timed) const noexcept {
    return FromWord(word_ | static_cast<std::uint64_t>(timed) << kTimedShift);
  }

  constexpr std::uint64_t word() const noexcept { return word_; }
  constexpr WaitKind kind() const noexcept {
    const std::uint64_t kind = word_ >> kKindShift;
    return kind < static_cast<std::uint64_t>(WaitKind::kCount) ? static_cast<WaitKind>(kind) : WaitKind::kNone;
  }
  constexpr bool timed() const noexcept { return (word_ >> kTimedShift & 1) != 0; }
  constexpr std::uint64_t object() const noexcept { return word_ & ((std::uint64_t{1} << kTimedShift) - 1); }
  constexpr bool of_descriptor() const noexcept {
    return kind() == WaitKind::kReadable || kind() == WaitKind::kWritable || kind() == WaitKind::kDescriptor;
  }

 private:
  static constexpr int kTimedShift = 56;
  static constexpr int kKindShift = 57;

  std::uint64_t word_ = 0;
};

// A coarse clock of parks. Any thread, all of it.
class ParkClock {
 public:
  static constexpr std::chrono::milliseconds kTick{10};

  // Reads the system's coarse clock, 5 ns.
  static void Advance() noexcept;

  // The upper half of a ParkStamp.
  static std::uint64_t Word() noexcept { return word_.load(std::memory_order_relaxed); }  // The value is all.

  // How long ago it was that a stamp was taken; modulo 248 days.
  static std::chrono::milliseconds Since(std::uint64_t stamp) noexcept;

 private:
  static std::uint64_t Now() noexcept;

  static constinit std::atomic<std::uint64_t> word_;
};

// switches: the worker's count.
WEFT_ALWAYS_INLINE std::uint64_t ParkStamp(std::uint64_t switches) noexcept {
  return ParkClock::Word() | static_cast<std::uint32_t>(switches);
}

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_FIBER_WAIT_REASON_H_
