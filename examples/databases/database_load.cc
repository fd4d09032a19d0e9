// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// How many queries a second fibers get out of a client library that blocks, and what that costs other fibers: the
// figures of docs/how-to/databases.md.
//
//   database_load --client=redis --how=hook --server=127.0.0.1:6379
//   database_load --client=postgres --how=blocking --server="host=127.0.0.1 user=postgres" --fiber_blocking_threads=200
//
// --how   hook       the calls park the fiber (weft/interop/hook.h)
//         plain      the same code without: the calls block their workers
//         blocking   each query in FiberBlocking()
//
// --fibers fibers share --connections connections. A query takes --server_ms in the server, which waits that long.
// Printed: queries a second; how long a fiber waits for an answer, once it has a connection; how late a fiber is that
// sleeps for a millisecond again and again; threads of the process.

#include <gflags/gflags.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "weft/interop/hook.h"
#include "weft/io/fiber_blocking.h"
#include "weft/weft.h"

#include "databases/clients.h"

DEFINE_string(client, "redis", "redis, postgres or http (libcurl).");
DEFINE_string(how, "hook", "hook, plain or blocking.");
DEFINE_string(server, "127.0.0.1:6379", "Redis: address:port. PostgreSQL: what libpq takes.");
DEFINE_int32(fibers, 1000, "That ask.");
DEFINE_int32(connections, 200, "That they share.");
DEFINE_double(server_ms, 0, "How long the server waits before it answers.");
DEFINE_double(seconds, 5, "How long to measure.");

namespace {

using examples::DatabaseClient;
using Steady = std::chrono::steady_clock;
using Microseconds = std::vector<std::uint32_t>;

enum Phase { kWarmUp, kMeasuring, kOver };

struct Totals {
  std::atomic<Phase> phase{kWarmUp};
  std::atomic<std::uint64_t> failed{0};
  std::vector<Microseconds> waits;  // by fiber
  Microseconds late;
};

std::uint32_t MicrosecondsSince(Steady::time_point begin) {
  return static_cast<std::uint32_t>(
      std::chrono::duration_cast<std::chrono::microseconds>(Steady::now() - begin).count());
}

bool Query(DatabaseClient& client) {
  if (FLAGS_how == "blocking") return weft::FiberBlocking([&] { return client.Query(); });
  const weft::HookBlockingCalls hooked(FLAGS_how == "hook");
  return client.Query();
}

using Idle = weft::FiberChannel<std::unique_ptr<DatabaseClient>>;

void AskAgainAndAgain(Idle& idle, Totals& totals, Microseconds& waits) {
  while (totals.phase != kOver) {
    auto client = idle.Get();
    const auto begin = Steady::now();
    const bool answered = Query(**client);
    if (!answered) ++totals.failed;
    if (answered && totals.phase == kMeasuring) waits.push_back(MicrosecondsSince(begin));
    static_cast<void>(idle.TryPut(std::move(*client)));
  }
}

void SleepAgainAndAgain(Totals& totals) {
  while (totals.phase != kOver) {
    const auto begin = Steady::now();
    weft::FiberSleepFor(std::chrono::milliseconds(1));
    if (totals.phase != kWarmUp) totals.late.push_back(MicrosecondsSince(begin) - 1000);
  }
}

// In milliseconds.
double Percentile(Microseconds& sorted, double share) {
  if (sorted.empty()) return 0;
  const auto at = static_cast<std::size_t>(static_cast<double>(sorted.size() - 1) * share);
  return sorted[at] / 1000.0;
}

int ThreadsOfProcess() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("Threads:")) return std::stoi(line.substr(8));
  }
  return 0;
}

bool FillPool(Idle& idle) {
  const weft::HookBlockingCalls hooked(FLAGS_how == "hook");
  for (int i = 0; i < FLAGS_connections; ++i) {
    auto client = DatabaseClient::Connect(FLAGS_client, FLAGS_server, FLAGS_server_ms);
    if (client == nullptr) return false;
    static_cast<void>(idle.Put(std::move(client)));
  }
  return true;
}

void Print(Totals& totals, double seconds, int threads) {
  Microseconds all;
  for (Microseconds& waits : totals.waits) all.insert(all.end(), waits.begin(), waits.end());
  std::sort(all.begin(), all.end());
  std::sort(totals.late.begin(), totals.late.end());
  std::printf(
      "%s %s server_ms %g fibers %d connections %d: %.0f queries/s, answer p50 %.2f p99 %.2f ms, late p99 %.2f ms, "
      "%d threads, %llu failed\n",
      FLAGS_client.c_str(), FLAGS_how.c_str(), FLAGS_server_ms, FLAGS_fibers, FLAGS_connections,
      static_cast<double>(all.size()) / seconds, Percentile(all, 0.5), Percentile(all, 0.99),
      Percentile(totals.late, 0.99), threads, static_cast<unsigned long long>(totals.failed.load()));
}

// What sleeps here is a thread: workers that are blocked would not wake a fiber in time.
void MeasureInThread(Totals& totals, double* seconds, int* threads) {
  std::this_thread::sleep_for(std::chrono::duration<double>(FLAGS_seconds / 5));
  totals.phase = kMeasuring;
  const auto begin = Steady::now();
  std::this_thread::sleep_for(std::chrono::duration<double>(FLAGS_seconds));
  totals.phase = kOver;
  *seconds = MicrosecondsSince(begin) / 1e6;
  *threads = ThreadsOfProcess() - 1;  // Without this one.
}

int Measure() {
  Idle idle(static_cast<std::size_t>(FLAGS_connections));
  if (!FillPool(idle)) return 1;
  Totals totals;
  totals.waits.resize(static_cast<std::size_t>(FLAGS_fibers));
  double seconds = 1;
  int threads = 0;
  std::thread clock([&] { MeasureInThread(totals, &seconds, &threads); });
  weft::FiberScope scope;
  static_cast<void>(scope.Spawn([&] { SleepAgainAndAgain(totals); }));
  for (Microseconds& waits : totals.waits) {
    static_cast<void>(scope.Spawn([&] { AskAgainAndAgain(idle, totals, waits); }));
  }
  scope.Wait();
  clock.join();
  Print(totals, seconds, threads);
  return totals.failed == 0 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  return weft::Run(argc, argv, [] {
    if (FLAGS_how == "hook" || FLAGS_how == "plain" || FLAGS_how == "blocking") return Measure();
    std::cerr << "database_load: --how: expected hook, plain or blocking\n";
    return 2;
  });
}
