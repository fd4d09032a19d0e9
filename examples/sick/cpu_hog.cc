// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// A sick program: a fiber computes and never suspends. It keeps its worker from all other fibers.
//
//   what is wrong    BuildIndex() has no point at which another fiber may run
//   what shows it    the line "worker 0 ... has run fiber 'indexer' ... for", with --fiber_slice_warning_ms; a dump (kill
//                    -QUIT <pid>): 'indexer' is running, and where
//   what to do       FiberYield() in the loop, now and then; or FiberBlocking(), or a group of its own, for such work
//
// docs/diagnosing.md shows what the outputs look like.

#include <gflags/gflags.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <iostream>

#include "weft/observe/dump_on_signal.h"
#include "weft/weft.h"

namespace {

std::atomic<std::uint64_t> indexed{0};

[[gnu::noinline]] void BuildIndex() {
  for (std::uint64_t hash = 1; hash != 0; hash = hash * 6'364'136'223'846'793'005 + 1) {
    indexed.store(hash, std::memory_order_relaxed);
  }
}

}  // namespace

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, /*remove_flags=*/true);
  static_cast<void>(weft::DumpFibersOnSignal(SIGQUIT));
  weft::StartRuntime();

  weft::Fiber indexer({.name = "indexer"}, [] { BuildIndex(); });
  std::cout << "The indexer has been started." << std::endl;
  indexer.Join();

  return weft::TerminateRuntime() == 0 ? 0 : 1;
}
