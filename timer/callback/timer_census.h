// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// TakeTimerCensus(): which timers with callbacks there are, by the type of the callback. For reports: a program that
// sets timers and forgets them shows here what sets them, since the name of a lambda's type names its function.
//
// It walks all entries of all slabs, a piece at a time under the lock of their shard, which is tried only: a forked
// child may have a lock that nobody drops. So it is no picture of one instant: a timer that ends and another one that
// is set during the walk may both be counted, or neither.
// Cost: some 100 us for 30,000 entries; a setter of the same shard waits for a piece, some 5 us, at most.
// Any thread; it allocates, and may stand still for some 20 ms for each shard whose lock is held.
#ifndef WEFT_TIMER_CALLBACK_TIMER_CENSUS_H_
#define WEFT_TIMER_CALLBACK_TIMER_CENSUS_H_

#include <cstddef>
#include <string_view>
#include <vector>

#include "weft/timer/queue/timer_node.h"

namespace weft::timer {

// The timers that have callbacks of one type.
struct TimerKind {
  std::string_view callback;  // the name of the type
  std::size_t count = 0;      // set, due, or in their callback
  std::size_t periodic = 0;   // of these
  std::size_t armed = 0;      // of these; the two below are theirs
  Tick next = kNever;
  Tick last = 0;
};

struct TimerCensus {
  std::vector<TimerKind> kinds;  // the most frequent one first
  std::size_t count = 0;         // of all
  bool complete = true;          // false: a lock was not to be had
};
TimerCensus TakeTimerCensus();

// How many entries are in use: also those that have not been enabled. Those of a shard whose lock is held for longer
// are missing. Cost: a lock for each 2 MiB of timers.
std::size_t CountCallbackTimers();

}  // namespace weft::timer

#endif  // WEFT_TIMER_CALLBACK_TIMER_CENSUS_H_
