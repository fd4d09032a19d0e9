// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/observe/deadlock.h"

#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <new>
#include <sstream>
#include <thread>
#include <utility>

#include "weft/base/report/log.h"
#include "weft/base/report/str_cat.h"
#include "weft/base/thread/parker.h"
#include "weft/base/thread/watcher_acts.h"
#include "weft/observe/dump/memory_reader.h"
#include "weft/observe/dump_fibers.h"
#include "weft/observe/wait_cycles.h"
#include "weft/observe/waits/asleep_check.h"
#include "weft/observe/waits/std_mutex_waits.h"

namespace weft {

bool AllFibersAreAsleep(std::string* why_not) {
  observe::MemoryReader memory;
  std::string found = observe::AsleepCheck(&memory).WhyNot();
  const bool asleep = found.empty();
  if (why_not != nullptr) *why_not = std::move(found);
  return asleep;
}

namespace {

std::string DumpOfAsleep() {
  std::ostringstream dump;
  static_cast<void>(DumpFibers(dump));
  return base::StrCat("weft: all fibers are asleep: nothing can wake any\n", dump.view());
}

bool HasJoin(const WaitCycle& cycle) {
  return std::any_of(cycle.members.begin(), cycle.members.end(),
                     [](const WaitCycle::Member& member) { return member.reason == "join"; });
}

}  // namespace

std::string DeadlockFinder::LookForCycles() {
  std::set<CycleKey> cycles;
  for (const WaitCycle& cycle : FindWaitCycles(/*stacks=*/false)) {
    if (cycle.may_end) continue;
    CycleKey key;
    for (const WaitCycle::Member& member : cycle.members) key.emplace_back(member.id, member.park);
    // It may be found from another of its fibers the next time.
    std::rotate(key.begin(), std::min_element(key.begin(), key.end()), key.end());
    cycles.insert(std::move(key));
  }
  std::string report;
  const bool is_new = !std::includes(known_cycles_.begin(), known_cycles_.end(), cycles.begin(), cycles.end());
  known_cycles_ = std::move(cycles);
  if (!is_new) return report;
  for (const WaitCycle& cycle : FindWaitCycles(/*stacks=*/true)) {
    if (!cycle.may_end) report += cycle.ToString();
  }
  return report;
}

std::string DeadlockFinder::LookForStdMutexes() {
  observe::MemoryReader memory;
  std::set<std::pair<std::uint64_t, std::uint64_t>> found;
  std::string report;
  for (const observe::StdMutexWait& wait : observe::FindStdMutexWaits(&memory)) {
    const std::pair key(wait.mutex, wait.waiter.id);
    if (!known_mutexes_.contains(key)) report += observe::Describe(wait, &memory, /*stacks=*/true);
    found.insert(key);
  }
  known_mutexes_ = std::move(found);
  return report;
}

std::string DeadlockFinder::Look() {
  std::string report = LookForCycles() + LookForStdMutexes();
  const bool was_asleep = std::exchange(asleep_, AllFibersAreAsleep());
  if (asleep_ && !was_asleep) report += DumpOfAsleep();
  return report;
}

std::string DeadlockFinder::FindDeadEnd() {
  if (AllFibersAreAsleep()) return DumpOfAsleep();
  std::string report;
  for (const WaitCycle& cycle : FindWaitCycles(/*stacks=*/true)) {
    if (!cycle.may_end && !HasJoin(cycle)) report += cycle.ToString();
  }
  return report;
}

class DeadlockWatch::Thread {
 public:
  explicit Thread(DeadlockWatchOptions options) : options_(std::move(options)), of_process_(::getpid()) {
    // For the program's threads are its signals.
    sigset_t all;
    sigset_t former;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &former);
    try {
      thread_ = std::thread([this] { Main(); });
    } catch (...) {
      ::pthread_sigmask(SIG_SETMASK, &former, nullptr);
      throw;
    }
    ::pthread_sigmask(SIG_SETMASK, &former, nullptr);
  }
  Thread(const Thread&) = delete;
  Thread& operator=(const Thread&) = delete;
  ~Thread() {
    stopping_.store(true, std::memory_order_relaxed);  // The parker orders it.
    static_cast<void>(parker_.Unpark());
    thread_.join();
  }

  // In a forked child, which does not have the thread.
  bool is_the_parents() const noexcept { return ::getpid() != of_process_; }

 private:
  void Main() {
    ::pthread_setname_np(::pthread_self(), "FiberDeadlocks");
    DeadlockFinder finder;
    while (!stopping_.load(std::memory_order_relaxed)) {
      const auto begin = std::chrono::steady_clock::now();
      const std::string report = LookWith(&finder);
      const auto took = std::chrono::steady_clock::now() - begin;
      if (!report.empty()) Tell(report);
      constexpr int kPausesPerLook = 10;  // At most a tenth of a CPU.
      const auto pause = std::max<std::chrono::nanoseconds>(options_.every, kPausesPerLook * took);
      static_cast<void>(parker_.ParkUntil(std::chrono::steady_clock::now() + pause));
    }
  }
  void Tell(const std::string& report) {
    const base::WatcherActs acts;  // The user's function may, and a log sink.
    if (options_.report != nullptr) return options_.report(report);
    WEFT_LOG(ERROR, report);
  }
  // Without memory: nothing, until the next look.
  static std::string LookWith(DeadlockFinder* finder) {
    try {
      return finder->Look();
    } catch (const std::bad_alloc&) {
      return "";
    }
  }

  const DeadlockWatchOptions options_;
  const pid_t of_process_;
  base::Parker parker_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

DeadlockWatch::DeadlockWatch(DeadlockWatchOptions options) : thread_(std::make_unique<Thread>(std::move(options))) {}

DeadlockWatch::~DeadlockWatch() {
  if (thread_->is_the_parents()) static_cast<void>(thread_.release());
}

}  // namespace weft
