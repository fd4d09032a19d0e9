// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// A program as users write them, with a flag of its own; flags_program_test.py runs it.

#include <gflags/gflags.h>

#include <chrono>
#include <string>

#include "weft/fiber/fiber.h"
#include "weft/fiber/runtime.h"
#include "weft/fiber/this_fiber.h"
#include "weft/sync/fiber_event.h"

DEFINE_string(act, "well", "What to do: well, leave (a fiber behind) or misuse.");

int main(int argc, char** argv) {
  gflags::SetUsageMessage("a program with flags");
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  weft::StartRuntime();
  static auto& never = *new weft::FiberEvent;
  if (FLAGS_act == "leave") weft::Fiber([] { never.Wait(); }).Detach();
  weft::Fiber([] {
    if (FLAGS_act == "misuse") weft::TerminateRuntime();
  }).Join();
  return weft::TerminateRuntime() == 0 ? 0 : 3;
}
