// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// A sick program: all work is started in one scheduling group and may not leave it. The other group's workers sleep.
//
//   what is wrong    the fibers are local to group 0 (FiberAttributes::scheduling_group_local): nobody may steal them
//   what shows it    the log, after a second: "scheduling group 0 works alone", and the fibers that wait there; a dump
//                    (kill -QUIT <pid>): all that is ready is "in group 0"; weft_fibers_ready of the metrics, by group
//   what to do       leave scheduling_group_local to fibers that use what belongs to their group; start work in
//                    kUnspecifiedSchedulingGroup
//
// docs/diagnosing.md shows what the outputs look like.

#include <gflags/gflags.h>

#include <csignal>
#include <iostream>
#include <vector>

#include "weft/observe/dump_on_signal.h"
#include "weft/weft.h"

namespace {

[[gnu::noinline]] void Compress() {
  for (;;) weft::FiberYield();
}

}  // namespace

int main(int argc, char** argv) {
  gflags::SetCommandLineOption("fiber_scheduling_group_size", "1");
  gflags::ParseCommandLineFlags(&argc, &argv, /*remove_flags=*/true);
  static_cast<void>(weft::DumpFibersOnSignal(SIGQUIT));
  weft::StartRuntime();

  std::vector<weft::Fiber> fibers;
  for (int i = 0; i < 20; ++i) {
    fibers.emplace_back(
        weft::Fiber::Attributes{.scheduling_group = 0, .scheduling_group_local = true, .name = "compressor"},
        [] { Compress(); });
  }
  std::cout << "The compressors have been started." << std::endl;
  for (weft::Fiber& fiber : fibers) fiber.Join();

  return weft::TerminateRuntime() == 0 ? 0 : 1;
}
