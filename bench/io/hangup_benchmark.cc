// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// How to read the figures
//
// A server's requests take 50 ms: each fans out to 4 fibers, each of which works in 50 slices of 1 ms (computes for 20
// us and waits). 20 clients ask at the same time, and every other one hangs up after 5 ms. for_nobody is the number of
// slices that were done for a client after it had gone, of those of all clients that go; per mille.
//
// BM_HangUp/cancel:0   what goes on without cancellation: about 900, the 45 of 50 ms that are left
// BM_HangUp/cancel:1   with io::CancelOnHangup: what begins before the server hears of it
// BM_WatchConnection   what the watch costs a request whose client stays

#include <benchmark/benchmark.h>

#include <chrono>
#include <cstdint>

#include "weft/base/report/check.h"
#include "weft/bench/fiber/benchmark_runtime.h"
#include "weft/fiber/this_fiber.h"
#include "weft/io/cancel_on_hangup.h"
#include "weft/tests/io/work_for_nobody.h"

namespace weft::bench {
namespace {

using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

void BM_HangUp(benchmark::State& state) {
  BenchmarkRuntime runtime(state.range(1));
  std::uint64_t for_nobody = 0;
  std::uint64_t of_those_who_go = 0;
  runtime.RunInside([&] {
    const io::HangupLoad load{.cancels = state.range(0) != 0,
                              .slice =
                                  [] {
                                    for (const auto end = Steady::now() + 20us; Steady::now() < end;) {
                                    }
                                    FiberSleepFor(1ms);
                                  },
                              .patience = [](const io::ClientRequest&) { FiberSleepFor(5ms); }};
    for (auto _ : state) {
      for_nobody += io::ServeClientsThatHangUp(load).for_nobody;
      of_those_who_go += static_cast<std::uint64_t>(load.clients / 2 * load.parts * load.slices);
    }
  });
  state.counters["for_nobody"] = 1000 * static_cast<double>(for_nobody) / static_cast<double>(of_those_who_go);
}

void BM_WatchConnection(benchmark::State& state) {
  BenchmarkRuntime runtime(state.range(0));
  runtime.RunInside([&] {
    io::TcpListener listener;
    io::TcpStream client;
    io::TcpStream server;
    WEFT_CHECK(!listener.Listen(io::SocketAddress::LoopbackIpv4(0)), "no address to listen on");
    WEFT_CHECK(!client.Connect(listener.local_address()) && !listener.Accept(&server), "no connection");
    for (auto _ : state) {
      CancelScope scope;
      const io::CancelOnHangup watch(server, &scope);
      benchmark::DoNotOptimize(scope.Run([] {}));
    }
  });
}

BENCHMARK(BM_HangUp)->ArgNames({"cancel", "workers"})->ArgsProduct({{0, 1}, {1, 2}})->UseRealTime()->Iterations(5);
BENCHMARK(BM_WatchConnection)->ArgName("workers")->Arg(1)->UseRealTime();

}  // namespace
}  // namespace weft::bench
