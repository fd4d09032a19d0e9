// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// two_copies <libweft.so>: Weft is linked in, and runs; then a library brings another copy.

#include <dlfcn.h>

#include <cstdio>

#include "weft/fiber/fiber.h"
#include "weft/fiber/runtime.h"

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  weft::StartRuntime();
  weft::Fiber([] {}).Join();
  weft::TerminateRuntime();
  std::puts("one copy runs");
  std::fflush(stdout);

  const bool loaded = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL) != nullptr;
  std::puts(loaded ? "two copies were not noticed" : dlerror());
  return 1;
}
