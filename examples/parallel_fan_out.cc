// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Fan-out and fan-in: ask 1,000 "servers" at once, and wait for all the answers with one FiberLatch.
//
// Each question takes 50 ms.  One after the other they would take 50 s, and 1,000 threads would be costly; fibers take
// little more than one question together, on as many threads as there are CPUs.

#include <chrono>
#include <cstdint>
#include <iostream>
#include <numeric>
#include <vector>

#include "weft/weft.h"

using namespace std::chrono_literals;

namespace {

constexpr int kServers = 1000;

// Stands for a remote call: the fiber sleeps, its worker thread serves other fibers.
std::int64_t AskServer(int server) {
  weft::FiberSleepFor(50ms);
  return server;
}

std::int64_t AskAll() {
  std::vector<std::int64_t> answers(kServers);
  weft::FiberLatch all_done(kServers);
  for (int i = 0; i < kServers; ++i) {
    const bool started = weft::StartFiberDetached([&answers, &all_done, i] {
      answers[i] = AskServer(i);  // Each fiber has a place of its own, so no lock is needed.
      all_done.CountDown();
    });
    if (!started) std::abort();  // Never from a fiber while the runtime runs: it waits instead.
  }
  all_done.Wait();  // May be a local variable: nobody touches it after Wait() has returned.
  return std::accumulate(answers.begin(), answers.end(), std::int64_t{0});
}

}  // namespace

int main() {
  weft::StartRuntime();

  const auto begin = std::chrono::steady_clock::now();
  std::int64_t sum = 0;
  weft::Fiber([&sum] { sum = AskAll(); }).Join();
  const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(std::chrono::steady_clock::now() - begin);

  weft::TerminateRuntime();
  std::cout << kServers << " questions of 50 ms each were answered in " << took.count() << " ms; the sum is " << sum
            << "\n";
  return sum == std::int64_t{kServers} * (kServers - 1) / 2 && took >= 50ms && took < 2s ? 0 : 1;
}
