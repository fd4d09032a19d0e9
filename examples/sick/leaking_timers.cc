// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// A sick program: each request sets a time-out, and nobody kills it when the answer has come. Memory grows: a timer
// keeps what its callback has captured for an hour.
//
//   what is wrong    Serve() drops the id that SetFiberTimer() returns, so no timer is killed
//   what shows it    a dump (kill -QUIT <pid>), after the fibers: "20000 timers with callbacks are set", and of most of
//                    them the callback's type, whose name has the function that sets them
//   what to do       KillFiberTimer(id) when the answer is there; or FailAfter() around the wait, which does both
//
// docs/diagnosing.md shows what the outputs look like.

#include <gflags/gflags.h>

#include <chrono>
#include <csignal>
#include <iostream>
#include <memory>
#include <string>

#include "weft/observe/dump_on_signal.h"
#include "weft/weft.h"

namespace {

using namespace std::chrono_literals;

struct Request {
  std::string body = std::string(100, 'x');
  bool timed_out = false;
};

[[gnu::noinline]] void Serve(const std::shared_ptr<Request>& request) {
  static_cast<void>(weft::SetFiberTimer(1h, [request] { request->timed_out = true; }));
  weft::FiberYield();  // Here it would ask somebody, and get the answer.
}

}  // namespace

int main(int argc, char** argv) {
  gflags::ParseCommandLineFlags(&argc, &argv, /*remove_flags=*/true);
  static_cast<void>(weft::DumpFibersOnSignal(SIGQUIT));
  weft::StartRuntime();

  weft::Fiber server({.name = "server"}, [] {
    constexpr int kRequests = 20'000;
    weft::FiberScope scope;
    for (int i = 0; i < kRequests; ++i) static_cast<void>(scope.Spawn([] { Serve(std::make_shared<Request>()); }));
    scope.Wait();
    std::cout << "All requests are answered." << std::endl;
    weft::FiberSleepFor(1h);
  });
  server.Join();

  return weft::TerminateRuntime() == 0 ? 0 : 1;
}
