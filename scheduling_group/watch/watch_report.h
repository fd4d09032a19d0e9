// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// What the Watchdog (watchdog.h) says of groups that do not get on: what each worker's thread does, as the kernel sees
// it, the fibers that it is about, with their stacks, and what to do. In the Watchdog's thread, without its lock.
//
// Layers above know how to read fibers and stacks: observe/dump/dump_install.cc sets `describe_fibers`. It asks running
// workers by a signal, which some system calls do not bear: poll() and sleep() fail with EINTR. Nobody has asked for
// these lines, so a worker in such a call is not asked (ThreadNow::may_be_signalled). It may begin one before the
// signal comes: there is no way to send one to a thread only if it computes.
//
// Cost: a report takes some ms, and the stacks 10 to 150 ms, in which the Watchdog does nothing else: fibers are looked
// at for 100 ms at most, and of those that are not asked for only their state. group_watch.h says how often.
#ifndef WEFT_SCHEDULING_GROUP_WATCH_WATCH_REPORT_H_
#define WEFT_SCHEDULING_GROUP_WATCH_WATCH_REPORT_H_

#include <sys/types.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace weft::scheduling_group {

class SchedulingGroup;

// The fibers for which all of `filter` holds (observe/dump_options.h), with their stacks; of those that run only if
// running_stacks. nullptr: nobody can.
using FiberDescriber = std::string (*)(std::string_view filter, bool running_stacks);
inline constinit std::atomic<FiberDescriber> describe_fibers{nullptr};
// "" if nobody can; else a new line, and them.
std::string DescribeFibers(std::string_view filter, bool running_stacks);

struct ThreadNow {
  std::string text;               // "computes", "is blocked in read()"; "" if it is not known
  bool blocked = false;           // in the kernel
  bool may_be_signalled = false;  // no system call of its fails because of that
};
// What to do: "; let it ...". Of a thread that computes, is blocked, or may do either.
std::string_view AdviceTo(bool computes, bool blocked) noexcept;
ThreadNow LookAtThread(pid_t thread);
// Of the line in /proc/<pid>/task/<tid>/syscall.
ThreadNow ParseThreadNow(std::string_view line);

// A group whose workers have not switched for a while, though fibers are ready.
struct Standstill {
  struct Worker {
    unsigned index;
    pid_t thread;
  };
  int group = 0;
  std::string label;
  std::size_t ready = 0;
  std::chrono::nanoseconds lasts{0};
  std::vector<Worker> workers;
};
void ReportStandstill(const Standstill& standstill);

// The thread that fires a group's timers, now.
struct TimerThread {
  std::chrono::nanoseconds late{0};  // since it should have looked at a timer
  pid_t thread = 0;
  std::string_view callback;  // the type of the one that it runs; "": none
};
// timer/worker/timer_worker.cc sets it. nullptr: no timers.
using TimerReader = TimerThread (*)(const SchedulingGroup& group);
inline constinit std::atomic<TimerReader> read_timers{nullptr};

struct LateTimers {
  std::string label;  // of the group
  TimerThread timers;
  ThreadNow does;
};
// A group that had more than it could do while all workers of another one slept.
struct LoneGroup {
  int group = 0;
  std::string label;
  std::string helper;      // the label of the other one
  bool may_steal = false;  // the other one, from it
  bool same_node = true;   // of both
  std::size_t ready = 0;
  std::chrono::nanoseconds lasts{0};
};
// Stacks of which ever more are in use.
struct ManyStacks {
  int group = 0;
  std::string label;
  std::size_t in_use = 0;
  std::size_t in_all = 0;  // groups
};
// Fibers that wait for long, although the workers switch.
struct LongWaits {
  int group = 0;
  std::string label;
  std::size_t ready = 0;
  std::chrono::nanoseconds oldest{0};  // at least
};
using GroupTrouble = std::variant<Standstill, LateTimers, LoneGroup, ManyStacks, LongWaits>;
void ReportTrouble(const GroupTrouble& trouble);

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_WATCH_WATCH_REPORT_H_
