// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Lost fibers: those that were unfinished when their runtime ended. They never run again, so a wait without a deadline
// for the end of one would never return. Whoever owns fibers, and so knows whom it waits for, asks before such a wait;
// if one is lost, the process ends with one line, as in a forked child (group_registry.h). Destructors of static objects
// must not hang exit(), nor abort it: there the line is written, and the wait is left out.
//
// What fibers hold besides (a lock, the right to set an event) nobody knows: a thread that waits for that, while no
// runtime runs, writes a line once (WarnOfWait()).
//
// Any thread.
#ifndef WEFT_SCHEDULING_GROUP_FIBER_LOST_FIBERS_H_
#define WEFT_SCHEDULING_GROUP_FIBER_LOST_FIBERS_H_

#include <cstddef>
#include <cstdint>
#include <string>

namespace weft::scheduling_group {

class FiberEntity;

#ifndef WEFT_MODEL_CHECK

class LostFibers {
 public:
  // By the thread that ends a runtime, when its workers have ended: so many are unfinished, not 0; their groups say so
  // (SchedulingGroup::Abandon()).
  static void Add(std::size_t unfinished) noexcept;
  // How many runtimes have left some. One that differs from what it was at a server's start has ended since then.
  static std::uint64_t runtimes() noexcept;

  static bool Any() noexcept { return runtimes() != 0; }
  // `fiber` has not ended, as the caller knows.
  static bool Has(const FiberEntity* fiber) noexcept;

  // Ends the process. `waiter`: the public function that would wait. Returns inside exit().
  static void Fail(const char* waiter, const FiberEntity* fiber);
  static void Fail(const char* waiter, const std::string& what_it_waits_for);

  // By a plain thread before a wait without a deadline.
  static void WarnOfWait() noexcept;
};

#else

class LostFibers {
 public:
  static bool Any() noexcept { return false; }
  static bool Has(const FiberEntity*) noexcept { return false; }
  static void Fail(const char*, const FiberEntity*) {}
  static void WarnOfWait() noexcept {}
};

#endif  // WEFT_MODEL_CHECK

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_FIBER_LOST_FIBERS_H_
