// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Isolated work: how late is a fiber that sleeps for 1 ms at a time, beside fibers that compute for 20 ms at a time?
//
//   isolate_work                                      all in the same scheduling groups
//   isolate_work --fiber_groups=latency:1,batch:1     the computing ones have a group of their own
//
// Both times the program is the same: it names the group of the computing fibers. docs/how-to/isolate-work.md.

#include <gflags/gflags.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <vector>

#include "weft/weft.h"

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

DEFINE_double(seconds, 3, "How long to measure.");

namespace {

std::vector<double> MeasureLateness(std::chrono::duration<double> duration) {
  std::vector<double> late;  // ms
  for (const auto end = Clock::now() + duration; Clock::now() < end;) {
    const auto due = Clock::now() + 1ms;
    weft::FiberSleepUntil(due);
    late.push_back(std::chrono::duration<double, std::milli>(Clock::now() - due).count());
  }
  std::sort(late.begin(), late.end());
  return late;
}

void Compute(Clock::duration duration) {
  for (const auto end = Clock::now() + duration; Clock::now() < end;) continue;
}

}  // namespace

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  weft::StartRuntime();
  std::vector<double> late;
  std::atomic<bool> over{false};
  std::atomic<std::size_t> pieces{0};
  {
    const weft::FiberAttributes batch{.scheduling_group = weft::SchedulingGroupNamed("batch"), .name = "computes"};
    std::vector<weft::Fiber> computing;
    for (std::size_t i = 0; i < 2 * weft::GetConcurrencyHint(); ++i) {
      computing.emplace_back(batch, [&] {
        for (; !over; weft::FiberYield()) {
          Compute(20ms);
          ++pieces;
        }
      });
    }
    weft::Fiber([&] {
      late = MeasureLateness(std::chrono::duration<double>(FLAGS_seconds));
      over = true;
    }).Join();
    for (weft::Fiber& fiber : computing) fiber.Join();
  }
  const std::size_t unfinished = weft::TerminateRuntime();
  const auto percentile = [&](std::size_t p) { return late[late.size() * p / 100]; };
  std::printf("%zu sleeps, late by %.2f ms (median), %.2f ms (p99), %.2f ms (longest); pieces computed: %zu\n",
              late.size(), percentile(50), percentile(99), late.back(), pieces.load());
  return unfinished == 0 ? 0 : 1;
}
