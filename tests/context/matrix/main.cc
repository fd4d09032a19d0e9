// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include <cstdio>

int RunMigrationTests();  // migration.cc

int main() {
  const int failures = RunMigrationTests();
  std::printf("%d failures\n", failures);
  return failures == 0 ? 0 : 1;
}
