// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// A sick program: a thread starts a fiber for each row of a file, faster than two workers can import them. The run queue
// is full, and starts are refused.
//
//   what is wrong    nothing stops ReadRows() when the importers fall behind, and it ignores what StartFiberDetached()
//                    returns
//   what shows it    the line "refused to start a fiber, the run queue of 64 is full"; a dump (kill -QUIT <pid>): the ready
//                    fibers stand together, with their name
//   what to do       a FiberChannel between reader and importers, or a FiberSemaphore: both make the reader wait
//
// docs/diagnosing.md shows what the outputs look like.

#include <gflags/gflags.h>

#include <chrono>
#include <csignal>
#include <iostream>
#include <thread>

#include "weft/observe/dump_on_signal.h"
#include "weft/weft.h"

namespace {

using namespace std::chrono_literals;

[[gnu::noinline]] void Import(int row) {
  const auto until = std::chrono::steady_clock::now() + 300ms;
  while (std::chrono::steady_clock::now() < until) {
    if (row < 0) return;
  }
}

[[gnu::noinline]] void ReadRows() {
  for (int row = 0;; ++row) static_cast<void>(weft::StartFiberDetached({.name = "importer"}, [row] { Import(row); }));
}

}  // namespace

int main(int argc, char** argv) {
  gflags::SetCommandLineOption("fiber_run_queue_size", "64");
  gflags::SetCommandLineOption("fiber_start_timeout_ms", "100");
  gflags::ParseCommandLineFlags(&argc, &argv, /*remove_flags=*/true);
  static_cast<void>(weft::DumpFibersOnSignal(SIGQUIT));
  weft::StartRuntime();

  std::thread reader(&ReadRows);
  reader.join();

  return weft::TerminateRuntime() == 0 ? 0 : 1;
}
