// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// program exit|return|return_beside_parking|return_beside_others|exit_in_fiber|terminate|leak: ends while fibers hold
// memory that nobody else refers to.

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/thread/cpu.h"
#include "weft/scheduling_group/fiber/fiber_entity.h"
#include "weft/scheduling_group/fiber/park.h"
#include "weft/scheduling_group/worker/current_worker.h"
#include "weft/weft.h"

namespace {

using namespace std::chrono_literals;

struct Node {
  std::unique_ptr<Node> next;
  std::vector<char> bytes = std::vector<char>(100);
};

// Keeps pointers in frames of its own.
template <class Wait>
[[gnu::noinline]] void HoldAndWait(int depth, const Wait& wait) {
  auto list = std::make_unique<Node>();
  list->next = std::make_unique<Node>();
  if (depth > 0) {
    HoldAndWait(depth - 1, wait);
  } else {
    wait();
  }
  list.reset();
}

// On its way to park, and still on its stack, when the process begins to exit; parked when leaks are looked for.
weft::scheduling_group::FiberEntity* late_fiber = nullptr;
std::atomic<bool> is_parking{false}, may_park{false};

void LetItPark() {
  may_park.store(true);
  while (late_fiber->state().Load() != weft::scheduling_group::FiberPhase::kParked) weft::base::CpuRelax();
}

// Wakes a fiber and starts another when the leak checker has been shown what there is: both then hold what only they
// refer to.
weft::FiberLatch& wakes_at_exit = *new weft::FiberLatch(1);
weft::FiberLatch& never_at_exit = *new weft::FiberLatch(1);
std::atomic<int> hold_at_exit{0};

void WakeAndStart() {
  const auto hold = [] {
    HoldAndWait(3, [] {
      hold_at_exit.fetch_add(1);
      never_at_exit.Wait();
    });
  };
  wakes_at_exit.CountDown();
  weft::Fiber(hold).Detach();
  while (hold_at_exit.load() < 2) weft::base::CpuRelax();
}

void WaitAndHold() {
  wakes_at_exit.Wait();
  HoldAndWait(3, [] {
    hold_at_exit.fetch_add(1);
    never_at_exit.Wait();
  });
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string_view end = argv[1];
  // Registered before the runtime's functions for the end of the process, so called after them.
  if (end == "return_beside_parking") std::atexit(&LetItPark);
  if (end == "return_beside_others") std::atexit(&WakeAndStart);
  constexpr int kParked = 50;
  weft::RuntimeOptions options;
  options.concurrency_hint = 2;
  options.terminate_timeout = 100ms;
  weft::StartRuntime(options);

  // Never destroyed: fibers use them until the process is gone.
  static auto& never = *new weft::FiberLatch(1);
  static auto& holding = *new weft::FiberLatch(kParked + 3);
  static auto& local = *new weft::FiberLocal<std::string>;
  for (int i = 0; i < kParked; ++i) {
    weft::Fiber([] {
      *local = std::string(100, 'l');
      HoldAndWait(3, [] {
        holding.CountDown();
        never.Wait();
      });
    }).Detach();
  }
  // In a queue, a timer, a thread of the pool, and running.
  weft::Fiber([text = std::string(100, 't')] {
    holding.CountDown();
    weft::FiberSleepFor(1h);
  }).Detach();
  weft::SetFiberTimer(std::chrono::steady_clock::now() + 1h, [text = std::string(100, 'c')] {});
  weft::Fiber([] {
    weft::FiberBlocking([text = std::make_unique<std::string>(100, 'b')] {
      holding.CountDown();
      never.Wait();
    });
  }).Detach();
  static std::atomic<bool> stop{false};
  weft::Fiber([] {
    const auto held = std::make_unique<std::string>(100, 'r');
    holding.CountDown();
    while (!stop.load()) weft::FiberYield();
  }).Detach();
  holding.Wait();

  if (end == "return_beside_parking") {
    weft::Fiber([] {
      HoldAndWait(3, [] {
        late_fiber = weft::scheduling_group::CurrentFiber();
        weft::scheduling_group::PrepareToPark(late_fiber);
        is_parking.store(true);
        while (!may_park.load()) weft::base::CpuRelax();
        weft::scheduling_group::ParkPrepared(late_fiber);
      });
    }).Detach();
    while (!is_parking.load()) weft::base::CpuRelax();
    return 0;
  }
  if (end == "return_beside_others") weft::Fiber(&WaitAndHold).Detach();
  if (end == "exit") std::exit(0);
  if (end == "exit_in_fiber") weft::Fiber([] { std::exit(0); }).Join();
  if (end == "leak") {
    weft::Fiber([] { static_cast<void>(new std::string(1000, 'x')); }).Join();
    std::exit(0);
  }
  if (end == "terminate") {
    stop.store(true);
    return weft::TerminateRuntime() == kParked + 2 ? 0 : 1;
  }
  return 0;
}
