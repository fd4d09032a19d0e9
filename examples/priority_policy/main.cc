// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Urgent fibers first: fibers with priorities, and a scheduling policy of one's own that runs them by these.
//
//   Boost.Fiber                                         here
//   a fiber_properties with a priority                  FiberAttributes::priority
//   an algo::algorithm_with_properties<>                a SchedulingPolicy: priority_policy.h
//   use_scheduling_algorithm<>() in each thread         RegisterSchedulingPolicy(), RuntimeOptions::scheduling_name
//
// Three things are tried, under v1, which ignores priorities, and under the policy:
//
//   order     one worker runs fibers that were started in the order 0, 3, 7, 0, 3, 7, ...
//   latency   two workers are kept busy by fibers of priority 0; how long does a new one of priority 7 wait?
//   shares    two workers, and fibers of 7 and of 0 that never wait: how many turns do those of 0 get?
//
// Order and shares are counted, and must be as the policy promises. Times depend on what else the machine does, and are
// only shown.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <iomanip>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "weft/examples/priority_policy/priority_policy.h"
#include "weft/scheduling_group/scheduling_policy.h"
#include "weft/weft.h"

using namespace std::chrono_literals;

namespace {

using Clock = std::chrono::steady_clock;

constexpr unsigned kUrgent = 7;
constexpr const char* kPolicies[] = {"v1", "priority"};

// Calls f() while a runtime of one group runs under the policy. Its fibers have ended when f() returns.
template <class F>
void Under(const std::string& policy, int workers, F&& f) {
  weft::RuntimeOptions options;
  options.scheduling_name = policy;
  options.concurrency_hint = workers;
  options.numa_aware = weft::NumaAware::kOff;
  weft::StartRuntime(options);
  f();
  weft::TerminateRuntime();
}

// A scope refuses a child only when there is no memory for it: the queue has room.
template <class F>
void Spawn(weft::FiberScope& scope, unsigned priority, F&& f) {
  if (!scope.Spawn({.priority = priority}, std::forward<F>(f))) std::abort();
}

// --- Order ---

struct Turn {
  unsigned priority;
  int number;  // of the fibers of this priority, as they were started
};

constexpr unsigned kPriorities[] = {0, 3, kUrgent};
constexpr int kOfEach = 24;

// One worker: the fibers run when the one that starts them waits.
std::vector<Turn> RunInOrder(const std::string& policy) {
  std::vector<Turn> turns;
  Under(policy, 1, [&] {
    weft::Fiber([&] {
      weft::FiberScope scope;
      for (int number = 0; number < kOfEach; ++number) {
        for (const unsigned priority : kPriorities) {
          Spawn(scope, priority, [&turns, priority, number] { turns.push_back({priority, number}); });
        }
      }
      scope.Wait();
    }).Join();
  });
  return turns;
}

// Each level is first in, first out. A fiber runs before one of a higher priority at most each eighth time. Each level
// has a turn in 64.
bool IsPromised(const std::vector<Turn>& turns) {
  constexpr int kTurnEvery = examples::PriorityPolicy::kTurnEvery;
  std::array<int, examples::PriorityPolicy::kLevels> run{};
  const auto all_have_run = [&run](unsigned priority) { return run[priority] == kOfEach; };
  int last_exception = -kTurnEvery;
  for (int i = 0; i < static_cast<int>(turns.size()); ++i) {
    const Turn turn = turns[static_cast<std::size_t>(i)];
    if (turn.number != run[turn.priority]++) return false;
    const auto is_passed_over = [&](unsigned other) { return other > turn.priority && !all_have_run(other); };
    if (std::any_of(std::begin(kPriorities), std::end(kPriorities), is_passed_over)) {
      if (i - last_exception < kTurnEvery) return false;
      last_exception = i;
    }
    const bool all_have_begun =
        std::all_of(std::begin(kPriorities), std::end(kPriorities), [&run](unsigned other) { return run[other] != 0; });
    if (i + 1 == kTurnEvery * examples::PriorityPolicy::kLevels && !all_have_begun) return false;
  }
  return std::all_of(std::begin(kPriorities), std::end(kPriorities), all_have_run);
}

bool TryOrder() {
  std::cout << "order, by priority, of fibers started as 037037..., one worker\n";
  bool promised = false;
  for (const char* policy : kPolicies) {
    const std::vector<Turn> turns = RunInOrder(policy);
    std::cout << "  " << std::setw(8) << std::left << policy << "  ";
    for (const Turn& turn : turns) std::cout << turn.priority;
    std::cout << '\n';
    promised = IsPromised(turns);  // Of the last one.
  }
  return promised;
}

// --- Latency ---

void Compute(Clock::duration duration) {
  for (const auto end = Clock::now() + duration; Clock::now() < end;) {
  }
}

struct Latency {
  std::vector<Clock::duration> urgent;  // sorted
  std::size_t flood_turns = 0;
};

Latency MeasureLatency(const std::string& policy) {
  constexpr std::size_t kFlood = 1000;
  constexpr std::size_t kSamples = 200;
  Latency latency{.urgent = std::vector<Clock::duration>(kSamples)};
  Under(policy, 2, [&] {
    std::atomic<bool> over{false};
    std::atomic<std::size_t> turns{0};
    weft::FiberScope scope;
    for (std::size_t i = 0; i < kFlood; ++i) {
      Spawn(scope, 0, [&] {
        for (; !over; weft::FiberYield()) {
          Compute(20us);
          ++turns;
        }
      });
    }
    for (Clock::duration& sample : latency.urgent) {
      Spawn(scope, kUrgent, [&sample, begin = Clock::now()] { sample = Clock::now() - begin; });
      std::this_thread::sleep_for(1ms);
    }
    over = true;
    scope.Wait();
    latency.flood_turns = turns;
  });
  std::sort(latency.urgent.begin(), latency.urgent.end());
  return latency;
}

void ShowLatency() {
  std::cout << "latency of a fiber of priority 7 beside 1,000 of 0 that compute for 20 us each time, two workers\n";
  for (const char* policy : kPolicies) {
    const Latency latency = MeasureLatency(policy);
    const auto percentile = [&latency](std::size_t percent) {
      const auto sample = latency.urgent[latency.urgent.size() * percent / 100];
      return std::chrono::duration<double, std::milli>(sample).count();
    };
    std::cout << "  " << std::setw(8) << std::left << policy << std::fixed << std::setprecision(2) << std::right
              << "  median " << std::setw(6) << percentile(50) << " ms, p99 " << std::setw(6) << percentile(99)
              << " ms; turns of the others: " << latency.flood_turns << '\n';
  }
}

// --- Shares ---

constexpr int kTurns = 16'000;

// Of kTurns turns in a row, those of priority 0.
int CountTurnsOfTheLowest(const std::string& policy) {
  constexpr int kOfEachLevel = 16;  // Workers hold a few of them: neither level is ever empty.
  std::atomic<int> low{0};
  Under(policy, 2, [&] {
    std::atomic<bool> counting{false};
    std::atomic<int> turns{0};
    weft::FiberScope scope;
    for (int i = 0; i < kOfEachLevel; ++i) {
      for (const unsigned priority : {0U, kUrgent}) {
        Spawn(scope, priority, [&, priority] {
          for (; turns < kTurns; weft::FiberYield()) {
            if (counting && turns++ < kTurns && priority == 0) ++low;
          }
        });
      }
    }
    counting = true;  // Now all have been started.
    scope.Wait();
  });
  return low;
}

bool TryShares() {
  std::cout << "turns of fibers of priority 0, of " << kTurns << ", beside as many of 7, two workers\n";
  int low = 0;
  for (const char* policy : kPolicies) {
    low = CountTurnsOfTheLowest(policy);
    std::cout << "  " << std::setw(8) << std::left << policy << "  " << low << '\n';
  }
  // Each eighth time 0 or 7, by turns. A worker may have left with a fiber, and counts it later than the other one
  // counts the next ones: one at either end for each worker, and one for where the sixteen begin.
  constexpr int kPromised = kTurns / 16;
  return low >= kPromised - 5 && low <= kPromised + 5;
}

}  // namespace

int main() {
  const bool registered = weft::scheduling_group::RegisterSchedulingPolicy(
      "priority", [](const auto& options) { return std::make_unique<examples::PriorityPolicy>(options); });
  if (!registered) return 1;
  const bool order = TryOrder();
  ShowLatency();
  const bool shares = TryShares();
  if (!order) std::cerr << "the order is not as promised\n";
  if (!shares) std::cerr << "the shares are not as promised\n";
  return order && shares ? 0 : 1;
}
