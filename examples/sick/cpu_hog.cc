// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// A sick program: fibers compute for long, and others are late.
//
//   what is wrong    a fiber keeps its worker until it waits or yields, and these do neither
//   what shows it    the log, after a second: the scheduling group stands still, and each worker "computes"; below, the
//                    fibers that run there, with their stacks
//   what to do       weft::FiberYield() now and then, or weft::FiberBlocking() for the whole computation
//
// docs/diagnosing.md shows what the outputs look like.

#include <gflags/gflags.h>

#include <atomic>
#include <vector>

#include "weft/weft.h"

namespace {

std::atomic<bool> found{false};

[[gnu::noinline]] void SearchForPrimes() {
  for (unsigned long n = 2; !found.load(std::memory_order_relaxed); ++n) {
    volatile unsigned long divisor = 2;
    while (divisor < n && n % divisor != 0) divisor = divisor + 1;
  }
}

}  // namespace

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, /*remove_flags=*/true);
  weft::StartRuntime();

  constexpr int kSearches = 100;
  std::vector<weft::Fiber> searches;
  for (int i = 0; i < kSearches; ++i) {
    searches.emplace_back(weft::Fiber::Attributes{.name = "search"}, [] { SearchForPrimes(); });
  }
  weft::Fiber request({.name = "request"}, [] {});
  request.Join();
  found = true;
  for (weft::Fiber& search : searches) search.Join();

  return weft::TerminateRuntime() == 0 ? 0 : 1;
}
