// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// weft_operations --operation=<name> --times=<n>: does one operation so many times. count.py runs it in two lengths
// under a counter and takes the difference. bench/workload covers operations that have a workload to themselves; here
// are the others, and the floors.
//
// The process ends as soon as the work is done, so that stopping the runtime does not count.

#include <gflags/gflags.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <string>
#include <thread>
#include <vector>

#include "weft/bench/workload/channel.h"
#include "weft/bench/workload/harness.h"
#include "weft/bench/workload/weft_runtime.h"
#include "weft/weft.h"

DEFINE_string(operation, "", "What to do; no name, or a wrong one: prints them all.");
DEFINE_int64(times, 1'000, "How often.");
DECLARE_int32(workers);  // The harness has it: worker threads, in one group.

namespace weft::bench {
namespace {

using namespace std::chrono_literals;

// --- Floors: no runtime ---

void FetchAdd() {
  static std::atomic<std::int64_t> counter = 0;
  for (std::int64_t i = 0; i < FLAGS_times; ++i) counter.fetch_add(1, std::memory_order_relaxed);
}

void FutexWakeNobody() {
  static std::atomic<std::uint32_t> word = 0;
  for (std::int64_t i = 0; i < FLAGS_times; ++i) {
    Require(syscall(SYS_futex, &word, FUTEX_WAKE_PRIVATE, 1, nullptr, nullptr, 0) == 0, "nobody waits");
  }
}

// --- In a fiber ---

void Channel() {
  WeftRuntime::Channel channel(kChannelSlots);
  // 1,000,000 items at scale 1.
  Round round(FLAGS_workers, static_cast<double>(FLAGS_times) / 1e6);
  RunBuffer<WeftRuntime>(round, channel, "unused");
}

// As of the workload scope.
void SpawnInScope() {
  constexpr std::int64_t kBatch = 1'000;
  for (std::int64_t done = 0; done < FLAGS_times; done += kBatch) {
    FiberScope scope;
    for (std::int64_t i = 0; i < kBatch; ++i) Require(scope.Spawn([] {}), "a fiber can be started");
    scope.Wait();
  }
}

// Half a round trip, as of the workload pingpong, by fibers whose waits can be cancelled.
void HandOffInScope() {
  FiberEvent ping;
  FiberEvent pong;
  FiberScope scope;
  const auto player = [&scope](FiberEvent* mine, FiberEvent* other) {
    Require(scope.Spawn([mine, other] {
      for (std::int64_t i = 0; i < FLAGS_times / 2; ++i) {
        mine->Wait();
        mine->Reset();
        other->Set();
      }
    }),
            "a fiber can be started");
  };
  ping.Set();
  player(&ping, &pong);
  player(&pong, &ping);
  scope.Wait();
}

std::vector<std::uint64_t> SetTimers() {
  std::vector<std::uint64_t> timers(static_cast<std::size_t>(FLAGS_times));
  const auto now = std::chrono::steady_clock::now();
  // Due in 100 to 110 s, in random order.
  std::uint64_t ahead = 1;
  for (std::uint64_t& timer : timers) {
    ahead = ahead * 48271 % 2147483647;  // minstd
    timer = SetFiberTimer(now + 100s + std::chrono::nanoseconds(ahead * 5), [] {});
  }
  return timers;
}

void CancelTimers() {
  for (std::uint64_t timer : SetTimers()) KillFiberTimer(timer);
}

// 100 fibers that sleep again and again: the timers of several are due together, as in a server.
void Sleep() {
  constexpr std::int64_t kSleepers = 100;
  FiberLatch done(kSleepers);
  for (std::int64_t s = 0; s < kSleepers; ++s) {
    Require(StartFiberDetached([&done] {
              for (std::int64_t i = 0; i < FLAGS_times / kSleepers; ++i) FiberSleepFor(1ms);
              done.CountDown();
            }),
            "a fiber can be started");
  }
  done.Wait();
}

struct Operation {
  std::function<void()> run;
  bool in_fiber;
};

int Main(int argc, char** argv) {
  google::SetUsageMessage("does one operation --times times and ends");
  google::ParseCommandLineFlags(&argc, &argv, true);
  const std::map<std::string, Operation> operations = {
      {"fetch_add", {FetchAdd, false}},
      {"futex_wake", {FutexWakeNobody, false}},
      {"channel", {Channel, false}},
      {"spawn_in_scope", {SpawnInScope, true}},
      {"pingpong_in_scope", {HandOffInScope, true}},
      {"timer_set", {[] { SetTimers(); }, true}},
      {"timer_set_and_cancel", {CancelTimers, true}},
      {"sleep", {Sleep, true}},
  };
  const auto found = operations.find(FLAGS_operation);
  if (found == operations.end() || FLAGS_times <= 0 || FLAGS_workers <= 0) {
    std::fprintf(stderr, "usage: %s --operation=<name> --times=<above 0> [--workers=<above 0>]; operations:", argv[0]);
    for (const auto& [name, operation] : operations) std::fprintf(stderr, " %s", name.c_str());
    std::fprintf(stderr, "\n");
    return 2;
  }
  const bool has_runtime = FLAGS_operation != "fetch_add" && FLAGS_operation != "futex_wake";
  if (has_runtime) WeftRuntime::Start(FLAGS_workers, 1);
  if (found->second.in_fiber) {
    WeftRuntime::RunInside(found->second.run);
  } else {
    found->second.run();
  }
  std::fflush(stdout);
  std::_Exit(0);
}

}  // namespace
}  // namespace weft::bench

int main(int argc, char** argv) { return weft::bench::Main(argc, argv); }
