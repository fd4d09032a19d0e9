// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// How long fibers that are ready wait while a server has something to do: an echo server, connections of which each
// sends a request every few milliseconds, and on each worker a fiber that computes all the time and yields every
// `slice`.
//
//   ready_p50, ready_p99   us from ready to running, of all fibers (the computing ones, too)
//   trip_p50, trip_p99     us from the write of a request to its answer, by clients that are fibers of the same runtime
//   rate                   requests answered per second
#include <benchmark/benchmark.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <random>
#include <vector>

#include "weft/base/cpu.h"
#include "weft/bench/fiber/benchmark_runtime.h"
#include "weft/fiber/this_fiber.h"
#include "weft/io/tcp_server.h"

namespace weft::bench {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

constexpr int kConnections = 100;
constexpr auto kEvery = 10ms;  // Of each connection: 10,000 requests a second in all, a tenth of what two workers can.
constexpr auto kHowLong = 2s;

void Compute(std::atomic<bool>* stop, std::chrono::microseconds slice) {
  while (!stop->load(std::memory_order_relaxed)) {
    const auto until = steady_clock::now() + slice;
    while (steady_clock::now() < until) base::CpuRelax();
    FiberYield();
  }
}

void Echo(io::TcpStream& stream) {
  std::array<char, 4096> buffer;
  for (;;) {
    const io::IoResult read = stream.ReadSome(buffer.data(), buffer.size());
    if (!read.ok() || read.bytes == 0) return;
    if (!stream.WriteAll(buffer.data(), read.bytes).ok()) return;
  }
}

struct Trips {
  std::mutex mutex;
  std::vector<double> us;
};

void Ask(const io::SocketAddress& address, std::atomic<bool>* stop, Trips* trips, unsigned seed) {
  std::minstd_rand random(seed);
  io::TcpStream stream;
  if (stream.Connect(address)) std::abort();
  std::vector<double> own;
  std::array<char, 16> message{};
  while (!stop->load(std::memory_order_relaxed)) {
    FiberSleepFor(kEvery / 2 + std::chrono::microseconds(random() % std::chrono::microseconds(kEvery).count()));
    const auto begin = steady_clock::now();
    if (!stream.WriteAll(message.data(), message.size()).ok()) std::abort();
    if (stream.ReadAll(message.data(), message.size()).bytes != message.size()) std::abort();
    own.push_back(std::chrono::duration<double, std::micro>(steady_clock::now() - begin).count());
  }
  const std::lock_guard guard(trips->mutex);
  trips->us.insert(trips->us.end(), own.begin(), own.end());
}

double PercentileOf(std::vector<double>& values, double part) {
  const auto at = static_cast<std::size_t>(part * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(at), values.end());
  return values[at];
}

// workers, slice in us (0: nobody computes), policy v1 or v2
void BM_HalfLoad(benchmark::State& state) {
  const auto workers = static_cast<int>(state.range(0));
  const std::chrono::microseconds slice(state.range(1));
  google::SetCommandLineOption("fiber_scheduling_name", state.range(2) == 2 ? "v2" : "v1");
  BenchmarkRuntime runtime(workers);
  Trips trips;
  scheduling_group::WaitHistogram waits;
  double seconds = 0;
  for (auto _ : state) {
    std::atomic<bool> stop{false};
    io::TcpListener listener;
    if (listener.Listen(io::SocketAddress::LoopbackIpv4(0))) std::abort();
    const io::SocketAddress address = listener.local_address();
    io::TcpServer server(std::move(listener), Echo);
    if (!server.Start()) std::abort();
    const int computing = slice.count() != 0 ? workers : 0;
    FiberLatch done(kConnections + computing);
    for (int i = 0; i < computing; ++i) {
      MustStart([&] {
        Compute(&stop, slice);
        done.CountDown();
      });
    }
    for (int i = 0; i < kConnections; ++i) {
      MustStart([&, i] {
        Ask(address, &stop, &trips, static_cast<unsigned>(i + 1));
        done.CountDown();
      });
    }
    FiberSleepFor(200ms);  // All are connected.
    const auto before = fiber::GetSchedulingCounts()[0].ready_wait;
    const auto begin = steady_clock::now();
    FiberSleepFor(kHowLong);
    waits.Add(fiber::GetSchedulingCounts()[0].ready_wait.Since(before));
    stop.store(true, std::memory_order_relaxed);
    done.Wait();
    seconds += std::chrono::duration<double>(steady_clock::now() - begin).count();
    server.Stop(base::Deadline::After(1s));
  }
  const auto us = [](std::chrono::nanoseconds ns) { return static_cast<double>(ns.count()) / 1000; };
  state.counters["ready_p50"] = us(waits.Percentile(0.5));
  state.counters["ready_p99"] = us(waits.Percentile(0.99));
  state.counters["trip_p50"] = PercentileOf(trips.us, 0.5);
  state.counters["trip_p99"] = PercentileOf(trips.us, 0.99);
  state.counters["rate"] = static_cast<double>(trips.us.size()) / seconds;
}
BENCHMARK(BM_HalfLoad)
    ->ArgNames({"workers", "slice_us", "policy"})
    ->Args({1, 20, 1})
    ->Args({2, 0, 1})
    ->Args({2, 20, 1})
    ->Args({2, 20, 2})
    ->Args({2, 50, 1})
    ->Iterations(1)
    ->Unit(benchmark::kMillisecond)
    ->UseRealTime();

}  // namespace
}  // namespace weft::bench
