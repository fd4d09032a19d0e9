// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// A sick program: fibers call what blocks their thread, until no worker is left. The program does not get on.
//
//   what is wrong    each query reads its answer by read(), which knows no fibers: it stops the worker, not the fiber
//   what shows it    the log, after a second: the group stands still, and each worker "is blocked in read()";
//                    below, the fibers that run there
//   what to do       weft::FiberBlocking([&] { return ::read(...); }), or a weft::TcpStream where it is a socket
//
// docs/diagnosing.md shows what the outputs look like.

#include <gflags/gflags.h>
#include <unistd.h>

#include <array>
#include <vector>

#include "weft/weft.h"

namespace {

[[gnu::noinline]] void Query(int database) {
  char answer;
  static_cast<void>(::read(database, &answer, 1));
}

}  // namespace

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, /*remove_flags=*/true);
  weft::StartRuntime();

  std::array<int, 2> database{};  // Nobody answers.
  if (::pipe(database.data()) != 0) return 1;
  constexpr int kQueries = 100;
  std::vector<weft::Fiber> queries;
  for (int i = 0; i < kQueries; ++i) {
    queries.emplace_back(weft::Fiber::Attributes{.name = "query"}, [&] { Query(database[0]); });
  }
  for (weft::Fiber& query : queries) query.Join();

  return weft::TerminateRuntime() == 0 ? 0 : 1;
}
