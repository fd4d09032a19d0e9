// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The fiber limiter: decides whether to accept new work, or to answer "overloaded" at once, while that is still cheap.
// Sample:
//   void OnRequest(Request request) {                       // in a fiber, or in the thread that accepts
//     if (weft::TryAdmit() != weft::Admission::kAdmitted) return request.Refuse();
//     ...
//   }
// Sample:
//   if (!weft::StartFiberDetached({.refuse_if_overloaded = true}, Handle(connection))) connection.Close();
//
// There are two limits, both off unless set (RuntimeOptions, flags):
//   limit_ready_wait   ready fibers of the scheduling group keep waiting longer than this for a worker: the CPUs are
//                      overloaded, or all workers are blocked. A burst of less than 100 ms refuses nobody. The Watchdog
//                      looks (scheduling_group/watch/ready_waits.h), so nobody has to run or to ask.
//   limit_fibers       so many fibers are alive: they wait for something, and memory grows. Unfinished ones of former
//                      runtimes do not count, unlike in GetFiberCount().
//
// Refused work is counted (GetAdmissionCounts()), and named in the log once a second.
//
// Only work that asks is refused: refusing the starts of admitted work would waste what has been done. A fiber asks for
// its own group. A plain thread is overloaded when all groups are, or all of the first name (--fiber_groups), since its
// fibers can go to any of these.
//
// Invariants
//   FL1  Both limits admit work again by themselves, at most 100 ms after the load has fallen, also without admissions.
//   FL2  Live fibers are counted again when a thread has admitted its share of an eighth of what was left of
//        limit_fibers. So the limit is exceeded by an eighth at most, and by what an admission starts beyond one fiber.
//   FL3  An admission writes only to a line of its thread (threads beyond 63 share one), and reads lines that change
//        only with the answer. Near limit_fibers it counts the fibers each time.
//
// All functions: any thread and any fiber, at any time; they never switch. Before the first runtime TryAdmit() and
// IsOverloaded() abort; when one has ended they refuse.
// Rejected: an admission that is given back when the work is done (neither limit counts admissions; a FiberSemaphore
// limits work in progress); refusing every start (see above); the length of the ready queue (its meaning depends on how
// long fibers run); limits that only fibers that run look at (when all workers are stuck, none does).
#ifndef WEFT_FIBER_FIBER_LIMITER_H_
#define WEFT_FIBER_FIBER_LIMITER_H_

#include <cstddef>
#include <cstdint>
#include <string_view>

namespace weft {

namespace scheduling_group {
class SchedulingGroup;
}

// What TryAdmit() answers: kAdmitted, or why not.
enum class Admission {
  // Do the work.
  kAdmitted,
  kReadyWait,      // refused: ready fibers wait too long
  kTooManyFibers,  // refused: too many are alive
  kNoRuntime,      // refused: the runtime has ended (not counted)
};

// "admitted", "ready fibers wait too long", "too many fibers", "no runtime": for the answer, or a log.
std::string_view ToString(Admission admission) noexcept;

// Asks for a piece of work, and counts the answer.
[[nodiscard]] Admission TryAdmit();

// What TryAdmit() would say; counts nothing.
[[nodiscard]] bool IsOverloaded();

// Of TryAdmit() and of starts with refuse_if_overloaded, since the runtime was started.
struct AdmissionCounts {
  // Answers kAdmitted, and starts that asked.
  std::uint64_t admitted = 0;
  // Refused because ready fibers waited too long.
  std::uint64_t refused_ready_wait = 0;
  // Refused because too many fibers were alive.
  std::uint64_t refused_fibers = 0;

  bool operator==(const AdmissionCounts&) const = default;
};
// The counts of the runtime that runs, or of the last one. A snapshot.
AdmissionCounts GetAdmissionCounts();

namespace fiber {  // docs/from_trpc.md
using weft::Admission;
using weft::AdmissionCounts;
using weft::GetAdmissionCounts;
using weft::IsOverloaded;
using weft::ToString;
using weft::TryAdmit;
}  // namespace fiber

namespace fiber::detail {

// At the start of a runtime, before its first fiber; `unfinished` by former runtimes.
void ResetLimiter(std::size_t limit_fibers, std::size_t unfinished);

// TryAdmit() for a start in `group`, or in another one of its name if any will do.  nullptr: refused.
[[nodiscard]] scheduling_group::SchedulingGroup* AdmitTo(scheduling_group::SchedulingGroup* group, bool any_group);

}  // namespace fiber::detail

}  // namespace weft

#endif  // WEFT_FIBER_FIBER_LIMITER_H_
