// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// A sick program: one kind of request takes 200 ms of CPU, and the others, which take none, are late by as much.
//
//   what is wrong    MakeReport() computes in the fiber that serves; what is ready behind it on its worker waits
//   what shows it    the line "worker 0 ... has run fiber 'report handler' ... for 100 ms", with
//                    --fiber_slice_warning_ms=100; the histogram weft_ready_wait_seconds of the metrics
//   what to do       FiberYield() in the loop, now and then; a group of its own for reports (--fiber_groups); FiberBlocking()
//
// docs/diagnosing.md shows what the outputs look like.

#include <gflags/gflags.h>

#include <chrono>
#include <csignal>
#include <iostream>

#include "weft/observe/dump_on_signal.h"
#include "weft/weft.h"

namespace {

using namespace std::chrono_literals;
using Clock = std::chrono::steady_clock;

[[gnu::noinline]] void MakeReport() {
  const auto until = Clock::now() + 200ms;
  while (Clock::now() < until) {
  }
}

}  // namespace

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, /*remove_flags=*/true);
  static_cast<void>(weft::DumpFibersOnSignal(SIGQUIT));
  weft::StartRuntime();

  weft::Fiber acceptor({.name = "acceptor"}, [] {
    weft::FiberScope handlers;
    for (int request = 0;; ++request) {
      const auto came = Clock::now();
      if (request % 50 == 0) {
        static_cast<void>(handlers.Spawn({.name = "report handler"}, [] { MakeReport(); }));
      } else {
        static_cast<void>(handlers.Spawn({.name = "page handler"}, [came] {
          if (Clock::now() - came > 100ms) std::cout << "A page came late.\n" << std::flush;
        }));
      }
      weft::FiberSleepFor(5ms);
    }
  });
  acceptor.Join();

  return weft::TerminateRuntime() == 0 ? 0 : 1;
}
