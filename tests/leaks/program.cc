// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// program exit|return|exit_in_fiber|terminate|leak: ends while fibers hold memory that nobody else refers to.

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "weft/weft.h"

namespace {

using namespace std::chrono_literals;

struct Node {
  std::unique_ptr<Node> next;
  std::vector<char> bytes = std::vector<char>(100);
};

// Keeps the pointer in a frame of its own.
[[gnu::noinline]] void HoldAndWait(weft::FiberLatch* holding, weft::FiberLatch* never, int depth) {
  auto list = std::make_unique<Node>();
  list->next = std::make_unique<Node>();
  if (depth > 0) {
    HoldAndWait(holding, never, depth - 1);
  } else {
    holding->CountDown();
    never->Wait();
  }
  list.reset();
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  const std::string_view end = argv[1];
  constexpr int kParked = 50;
  weft::fiber::Options options;
  options.concurrency_hint = 2;
  options.terminate_timeout = 100ms;
  weft::fiber::StartRuntime(options);

  // Never destroyed: fibers use them until the process is gone.
  static auto& never = *new weft::FiberLatch(1);
  static auto& holding = *new weft::FiberLatch(kParked + 3);
  static auto& local = *new weft::FiberLocal<std::string>;
  for (int i = 0; i < kParked; ++i) {
    weft::Fiber([] {
      *local = std::string(100, 'l');
      HoldAndWait(&holding, &never, 3);
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

  if (end == "exit") std::exit(0);
  if (end == "exit_in_fiber") weft::Fiber([] { std::exit(0); }).Join();
  if (end == "leak") {
    weft::Fiber([] { static_cast<void>(new std::string(1000, 'x')); }).Join();
    std::exit(0);
  }
  if (end == "terminate") {
    stop.store(true);
    return weft::fiber::TerminateRuntime() == kParked + 2 ? 0 : 1;
  }
  return 0;
}
