// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/observe/waits/asleep_check.h"

#include <algorithm>
#include <array>
#include <bit>
#include <mutex>
#include <string_view>
#include <utility>

#include "weft/base/report/str_cat.h"
#include "weft/base/thread/watcher_acts.h"
#include "weft/base/time/test_time.h"
#include "weft/fiber/runtime.h"
#include "weft/io/fiber_blocking.h"
#include "weft/io/reactor/epoll_reactor.h"
#include "weft/observe/dump/own_signals.h"
#include "weft/scheduling_group/fiber/read_section.h"
#include "weft/scheduling_group/group/group_registry.h"
#include "weft/scheduling_group/group/loop_groups.h"
#include "weft/scheduling_group/group/scheduling_group.h"
#include "weft/scheduling_group/worker/current_worker.h"
#include "weft/timer/worker/timer_worker.h"

namespace weft::observe {

using scheduling_group::SchedulingGroup;
using Kind = ThreadState::Kind;

namespace {

// Weft's threads that look, report and poll again and again, and wake no fiber but in a WatcherActs. One each.
constexpr std::array<std::string_view, 4> kWatchers{"FiberWatchdog", "FiberTestClock", "FiberDump", "FiberDeadlocks"};
constexpr std::string_view kBlockingThread = "FiberBlocking";

// What there is besides fibers and their threads, while it stands still.
struct Surroundings {
  std::vector<int> idle_polls;            // reactors without descriptors
  std::vector<std::string> idle_timers;   // names of timer threads that sleep
  std::size_t descriptors = 0;            // that are registered
  std::size_t timers = 0;                 // that are set
  std::size_t own_threads = 0;            // of groups: workers and timers
  bool threads_wait_for_a_clock = false;  // a test clock
  bool watchers_act = false;
};

void LookAtReactor(const SchedulingGroup& group, Surroundings* found) {
  const auto* const reactor = dynamic_cast<const io::EpollReactor*>(group.reactor());
  if (reactor == nullptr) return;
  const std::uint32_t descriptors = reactor->counts().descriptors;
  found->descriptors += descriptors;
  if (descriptors == 0) found->idle_polls.push_back(reactor->descriptor());
}

void LookAtTimers(const SchedulingGroup& group, Surroundings* found) {
  const timer::TimerWorker* const timers = timer::TimerWorker::Of(&group);
  if (timers == nullptr) return;
  found->timers += timers->armed();
  if (timers->asleep()) found->idle_timers.push_back(timers->ThreadName());
}

Surroundings LookAround() {
  Surroundings found;
  const scheduling_group::ReadSection section;
  for (const SchedulingGroup* group : scheduling_group::AllGroups()) {
    LookAtReactor(*group, &found);
    LookAtTimers(*group, &found);
    found.own_threads += group->size() + (base::HasTestTime() ? 0 : 1);
  }
  // Their timers are those of the threads that run them.
  for (const SchedulingGroup* group : scheduling_group::LoopGroups::All()) LookAtReactor(*group, &found);
  if (base::HasTestTime()) {
    const std::unique_lock<std::mutex> lock = base::TestTime::Lock();
    const base::TestTime::Standing standing = base::TestTime::Look();
    found.threads_wait_for_a_clock = standing.next_of_waits != base::TestTime::kNever || standing.holds != 0;
  }
  found.watchers_act = base::WatcherActs::Any();
  return found;
}

template <class Container, class Value>
bool Contains(const Container& container, const Value& value) {
  return std::find(container.begin(), container.end(), value) != container.end();
}

std::size_t CountOf(std::string_view name, const std::vector<ThreadState>& threads) {
  return static_cast<std::size_t>(
      std::count_if(threads.begin(), threads.end(), [name](const ThreadState& thread) { return thread.name == name; }));
}

// One that waits. A thread that somebody else has started inherits the name: then nothing is known of either.
bool IsWatcher(const ThreadState& thread, const std::vector<ThreadState>& threads) {
  const bool waits = thread.kind != Kind::kRuns && thread.kind != Kind::kStopped && thread.kind != Kind::kUnreadable;
  return waits && Contains(kWatchers, thread.name) && CountOf(thread.name, threads) == 1;
}

bool BlockingPoolIsIdle(const std::vector<ThreadState>& threads) {
  const io::BlockingCounts counts = GetFiberBlockingCounts();
  return counts.running == 0 && counts.queued == 0 && counts.idle_threads == counts.threads &&
         CountOf(kBlockingThread, threads) == counts.threads;
}

// A timer thread without timers gives memory back now and then, a thread of the pool ends after a while.
bool SleepsForNothing(const ThreadState& thread, const std::vector<ThreadState>& threads, const Surroundings& around,
                      bool pool_is_idle) {
  if (thread.name == kBlockingThread) return pool_is_idle;
  return Contains(around.idle_timers, thread.name) && CountOf(thread.name, threads) == 1;
}

bool Sleeps(const ThreadState& thread, const std::vector<ThreadState>& threads, const Surroundings& around,
            bool pool_is_idle) {
  switch (thread.kind) {
    case Kind::kForThread:
      return true;
    case Kind::kForTime:
      return SleepsForNothing(thread, threads, around, pool_is_idle);
    case Kind::kPolls:
      return Contains(around.idle_polls, thread.descriptor);
    default:
      return false;
  }
}

// "": no other process can wake one.
std::string WhoWaitsInSharedMemory(const std::vector<ThreadState>& threads) {
  for (const ThreadState& thread : threads) {
    if (thread.kind == Kind::kForThread && thread.shared_futex && !IsOwnMemory(thread.futex)) {
      return thread.ToString() + ", and may be woken by another process";
    }
  }
  return "";
}

// "": each of them sleeps for ever, unless another thread of the process wakes it.
std::string WhoIsAwake(const std::vector<ThreadState>& threads) {
  const Surroundings around = LookAround();
  if (around.timers != 0) return base::StrCat("timers are set: ", around.timers);
  if (around.threads_wait_for_a_clock) return "a thread waits for the test clock";
  if (around.watchers_act) return "a thread that watches is at work";
  if (around.descriptors != 0) return base::StrCat("descriptors may become ready: ", around.descriptors);
  const bool pool_is_idle = BlockingPoolIsIdle(threads);
  std::size_t others = 0;  // than watchers and the pool's
  const ThreadState* first = nullptr;
  for (const ThreadState& thread : threads) {
    const bool watches = IsWatcher(thread, threads);
    if (!watches && !Sleeps(thread, threads, around, pool_is_idle)) return thread.ToString();
    if (watches || (pool_is_idle && thread.name == kBlockingThread)) continue;
    ++others;
    if (first == nullptr) first = &thread;
  }
  if (std::string who = WhoWaitsInSharedMemory(threads); !who.empty()) return who;
  if (others < around.own_threads) return "the runtime starts or ends";
  if (others == around.own_threads) return "";
  const std::optional<std::uint64_t> handled = HandledSignals();
  if (!handled) return "/proc/self/status cannot be read";
  if (const std::uint64_t rest = *handled & ~OwnSignals(); rest != 0) {
    return base::StrCat("a handler of signal ", std::countr_zero(rest) + 1, " may wake a thread: ", first->ToString());
  }
  return "";
}

}  // namespace

std::string AsleepCheck::LookAtAll(Look* look) {
  ParkReader::All fibers = parks_.ReadAll();
  if (!fibers.complete) return "the fibers cannot be read";
  if (!fibers.others.empty()) return base::StrCat("the fiber with id ", fibers.others[0].id, " is ready or runs");
  if (fibers.parks.empty()) return "there are no fibers";
  look->parks = std::move(fibers.parks);
  std::optional<std::vector<ThreadState>> threads = ReadThreads();
  if (!threads) return "/proc/self/task cannot be read";
  look->threads = *std::move(threads);
  return WhoIsAwake(look->threads);
}

std::string AsleepCheck::WhyNot() {
  if (scheduling_group::CurrentFiber() != nullptr) return "a fiber asks";
  if (!IsRuntimeRunning()) return "no runtime runs";
  Look first;
  if (std::string why_not = LookAtAll(&first); !why_not.empty()) return why_not;
  Look again;
  if (std::string why_not = LookAtAll(&again); !why_not.empty()) return why_not;
  // ASC1
  if (first.parks != again.parks) return "a fiber has run meanwhile";
  const bool still = std::equal(again.threads.begin(), again.threads.end(), first.threads.begin(), first.threads.end(),
                                [](const ThreadState& now, const ThreadState& before) { return now.IsStill(before); });
  return still ? "" : "a thread has run meanwhile";
}

}  // namespace weft::observe
