// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// How long ready fibers wait while a server is half loaded: an echo server whose connections each send a request every
// few milliseconds, and on each worker a fiber that computes all the time and yields every `slice`.
//
//   ready_p50, ready_p99   us from ready to running, of all fibers (the computing ones, too)
//   calm_p99, calm         the same over the calm part of the time, and which part that is
//   trip_p50, trip_p99     us from the write of a request to its answer, by clients that are fibers of the same runtime
//   rate                   requests answered per second
//   write                  us that the system call of such a write takes
//
// Calm: on a virtual machine with neighbours the kernel itself is ten times slower for 20 ms now and then, and no
// scheduler can help that. So the time is cut into windows of 20 ms. A window is calm if in it and in the one before it
// the requests' writes (which wait for no fiber) took less than three times what they take in the median window.
//
// BM_MachineAlone shows these moments without Weft: two plain threads write to loopback connections of their own and
// read back, with pauses of 100 us. Mean time of a write and its read in the windows of 20 ms:
//
//   median, worst          us, of the windows
//   calm                   which part of them took less than three times the median
#include <arpa/inet.h>
#include <benchmark/benchmark.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <mutex>
#include <random>
#include <thread>
#include <vector>

#include "weft/base/thread/cpu.h"
#include "weft/bench/fiber/benchmark_runtime.h"
#include "weft/fiber/this_fiber.h"
#include "weft/io/tcp_server.h"

namespace weft::bench {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

constexpr int kConnections = 100;
constexpr auto kEvery = 10ms;  // Of each connection: 10,000 requests a second in all, a tenth of what two workers can.
constexpr int kWindows = 100;
constexpr auto kWindow = 20ms;
constexpr int kSlow = 3;  // times the median

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
  // Of the window that is under way.
  std::atomic<std::int64_t> writes{0};
  std::atomic<std::int64_t> write_ns{0};
};

struct Window {
  double write_us;
  scheduling_group::WaitHistogram ready;
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
    trips->write_ns.fetch_add((steady_clock::now() - begin).count(), std::memory_order_relaxed);
    trips->writes.fetch_add(1, std::memory_order_relaxed);
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

std::vector<Window> Watch(Trips* trips) {
  std::vector<Window> windows;
  auto before = GetSchedulingCounts()[0].ready_wait;
  for (int i = 0; i < kWindows; ++i) {
    trips->writes = 0;
    trips->write_ns = 0;
    FiberSleepFor(kWindow);
    const auto now = GetSchedulingCounts()[0].ready_wait;
    const auto writes = static_cast<double>(std::max<std::int64_t>(trips->writes, 1));
    windows.push_back({static_cast<double>(trips->write_ns) / 1000 / writes, now.Since(before)});
    before = now;
  }
  return windows;
}

// workers, slice in us (0: nobody computes), policy v1 or v2
void BM_HalfLoad(benchmark::State& state) {
  const auto workers = static_cast<int>(state.range(0));
  const std::chrono::microseconds slice(state.range(1));
  google::SetCommandLineOption("fiber_scheduling_name", state.range(2) == 2 ? "v2" : "v1");
  BenchmarkRuntime runtime(workers);
  Trips trips;
  scheduling_group::WaitHistogram all;
  scheduling_group::WaitHistogram calm;
  int calm_windows = 0;
  double write_us = 0;
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
    const auto begin = steady_clock::now();
    const std::vector<Window> windows = Watch(&trips);
    stop.store(true, std::memory_order_relaxed);
    done.Wait();
    seconds += std::chrono::duration<double>(steady_clock::now() - begin).count();
    server.Stop(1s);

    std::vector<double> writes;
    for (const Window& window : windows) writes.push_back(window.write_us);
    write_us = PercentileOf(writes, 0.5);
    bool slow_before = false;
    for (const Window& window : windows) {
      all.Add(window.ready);
      const bool slow = window.write_us > kSlow * write_us;
      if (!slow && !slow_before) {
        calm.Add(window.ready);
        ++calm_windows;
      }
      slow_before = slow;
    }
  }
  const auto us = [](std::chrono::nanoseconds ns) { return static_cast<double>(ns.count()) / 1000; };
  state.counters["ready_p50"] = us(all.Percentile(0.5));
  state.counters["ready_p99"] = us(all.Percentile(0.99));
  state.counters["calm_p99"] = us(calm.Percentile(0.99));
  state.counters["calm"] = static_cast<double>(calm_windows) / kWindows;
  state.counters["write"] = write_us;
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

// Both ends of a TCP connection, blocking.
class Loopback {
 public:
  Loopback() {
    const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    auto* any = reinterpret_cast<sockaddr*>(&address);
    if (::bind(listener, any, size) != 0 || ::listen(listener, 1) != 0) std::abort();
    if (::getsockname(listener, any, &size) != 0) std::abort();
    from_ = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (::connect(from_, any, size) != 0) std::abort();
    to_ = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
    if (to_ < 0) std::abort();
    ::close(listener);
  }
  ~Loopback() {
    ::close(from_);
    ::close(to_);
  }
  Loopback(const Loopback&) = delete;
  Loopback& operator=(const Loopback&) = delete;

  void WriteAndRead() const {
    std::array<char, 16> message{};
    if (::send(from_, message.data(), message.size(), 0) != static_cast<ssize_t>(message.size())) std::abort();
    if (::recv(to_, message.data(), message.size(), MSG_WAITALL) != static_cast<ssize_t>(message.size())) std::abort();
  }

 private:
  int from_;
  int to_;
};

void BM_MachineAlone(benchmark::State& state) {
  constexpr int kThreads = 2;
  std::vector<double> means[kThreads];
  for (auto _ : state) {
    std::vector<std::thread> threads;
    const auto begin = steady_clock::now();
    for (std::vector<double>& own : means) {
      threads.emplace_back([&own, begin] {
        const Loopback connection;
        for (int window = 1; window <= kWindows; ++window) {
          double us = 0;
          int times = 0;
          while (times == 0 || steady_clock::now() < begin + window * kWindow) {
            std::this_thread::sleep_for(100us);
            const auto before = steady_clock::now();
            connection.WriteAndRead();
            us += std::chrono::duration<double, std::micro>(steady_clock::now() - before).count();
            ++times;
          }
          own.push_back(us / times);
        }
      });
    }
    for (std::thread& thread : threads) thread.join();
  }
  std::vector<double> all;
  for (const std::vector<double>& own : means) all.insert(all.end(), own.begin(), own.end());
  const double median = PercentileOf(all, 0.5);
  const auto calm = std::count_if(all.begin(), all.end(), [&](double us) { return us < kSlow * median; });
  state.counters["median"] = median;
  state.counters["worst"] = PercentileOf(all, 1);
  state.counters["calm"] = static_cast<double>(calm) / static_cast<double>(all.size());
}
BENCHMARK(BM_MachineAlone)->Iterations(1)->Unit(benchmark::kMillisecond)->UseRealTime();

}  // namespace
}  // namespace weft::bench
