// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// A sick program: two fibers that join each other. It dies.
//
//   what is wrong    each waits for the end of the other
//   what shows it    the last line of the log: "fibers join each other in a cycle", with both; their stacks follow
//   what to do       one that owns both joins them: a FiberScope, say
//
// docs/diagnosing.md shows what the outputs look like.

#include <gflags/gflags.h>

#include "weft/weft.h"

namespace {

struct Pair {
  weft::Fiber reader;
  weft::Fiber writer;
  weft::FiberEvent are_there;
};

[[gnu::noinline]] void EndAfter(Pair* pair, weft::Fiber* other) {
  pair->are_there.Wait();
  other->Join();
}

}  // namespace

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, /*remove_flags=*/true);
  weft::StartRuntime();

  Pair pair;
  pair.reader = weft::Fiber({.name = "reader"}, [&] { EndAfter(&pair, &pair.writer); });
  pair.writer = weft::Fiber({.name = "writer"}, [&] { EndAfter(&pair, &pair.reader); });
  pair.are_there.Set();
  weft::FiberEvent never;
  never.Wait();

  return weft::TerminateRuntime() == 0 ? 0 : 1;
}
