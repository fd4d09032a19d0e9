// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// A sick program: a fiber reads from a pipe by read(), which blocks its worker in the kernel.
//
//   what is wrong    Fetch() calls what waits for the kernel; the fiber keeps its worker, which does nothing
//   what shows it    a dump (kill -QUIT <pid>): 'fetcher' is running, its stack ends in read(); the line "worker 0 ... has run
//                    fiber 'fetcher' ... for", with --fiber_slice_warning_ms, while no CPU is busy
//   what to do       io/ for sockets and pipes; FiberBlocking([&] { return ::read(...); }) for what has no other way;
//                    weft::hook for a library that calls read() itself
//
// docs/diagnosing.md shows what the outputs look like.

#include <gflags/gflags.h>
#include <unistd.h>

#include <csignal>
#include <iostream>

#include "weft/observe/dump_on_signal.h"
#include "weft/weft.h"

namespace {

[[gnu::noinline]] char Fetch(int from) {
  char byte = 0;
  return ::read(from, &byte, 1) == 1 ? byte : '?';
}

}  // namespace

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, /*remove_flags=*/true);
  static_cast<void>(weft::DumpFibersOnSignal(SIGQUIT));
  weft::StartRuntime();

  int ends[2] = {};
  if (::pipe(ends) != 0) return 1;
  weft::Fiber fetcher({.name = "fetcher"}, [&] { std::cout << Fetch(ends[0]); });
  std::cout << "The fetcher has been started." << std::endl;
  fetcher.Join();

  return weft::TerminateRuntime() == 0 ? 0 : 1;
}
