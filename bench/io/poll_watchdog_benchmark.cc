// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// How long a request waits while the worker that polled computes and another one sleeps: what the poll watchdog
// (io/reactor/poller_lease.h) is for. Two workers are asleep, one of them in the poll. A request comes whose fiber
// computes for `compute_ms`. As soon as it has begun, a plain thread writes a byte for another fiber.
//
//   p50, p99   us from that write until the other fiber has it
//
// Without the watchdog the byte waits until the first fiber has ended.
#include <benchmark/benchmark.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <thread>
#include <vector>

#include "weft/base/thread/cpu.h"
#include "weft/bench/fiber/benchmark_runtime.h"
#include "weft/io/wait_fd.h"

namespace weft::bench {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

class EventFd {
 public:
  explicit EventFd(int flags) : fd_(::eventfd(0, flags)) {
    if (fd_ < 0) std::abort();
  }
  ~EventFd() { (void)io::CloseFd(fd_); }
  EventFd(const EventFd&) = delete;
  EventFd& operator=(const EventFd&) = delete;
  void Set() const {
    const std::uint64_t one = 1;
    if (::write(fd_, &one, sizeof(one)) != sizeof(one)) std::abort();
  }
  void Clear() const {
    std::uint64_t count;
    if (::read(fd_, &count, sizeof(count)) != sizeof(count)) std::abort();
  }
  void WaitInFiber() const {
    if (io::WaitFd(fd_, POLLIN).error) std::abort();
    Clear();
  }

 private:
  int fd_;
};

double PercentileOf(std::vector<double>& values, double part) {
  const auto at = static_cast<std::size_t>(part * static_cast<double>(values.size() - 1));
  std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(at), values.end());
  return values[at];
}

// ms that the first fiber computes
void BM_RequestBesideAFiberThatComputes(benchmark::State& state) {
  const std::chrono::milliseconds compute(state.range(0));
  BenchmarkRuntime runtime(2);
  const EventFd to_compute(EFD_NONBLOCK);
  const EventFd to_answer(EFD_NONBLOCK);
  const EventFd answered(0);
  std::atomic<bool> stop{false};
  std::atomic<int> begun{0};
  std::atomic<int> ended{0};
  std::atomic<steady_clock::rep> had_it_at{0};
  Fiber computes([&] {
    for (;;) {
      to_compute.WaitInFiber();
      if (stop) return;
      ++begun;
      const auto until = steady_clock::now() + compute;
      while (steady_clock::now() < until) base::CpuRelax();
      ++ended;
    }
  });
  Fiber answers([&] {
    for (;;) {
      to_answer.WaitInFiber();
      had_it_at = steady_clock::now().time_since_epoch().count();
      answered.Set();
      if (stop) return;
    }
  });
  std::vector<double> us;
  for (auto _ : state) {
    const int so_far = ended;
    std::this_thread::sleep_for(3ms);  // All sleep, the watchdog is off.
    to_compute.Set();
    while (begun == so_far) base::CpuRelax();
    const auto begin = steady_clock::now();
    to_answer.Set();
    answered.Clear();
    const steady_clock::time_point end(steady_clock::duration{had_it_at.load()});
    while (ended == so_far) std::this_thread::sleep_for(100us);
    us.push_back(std::chrono::duration<double, std::micro>(end - begin).count());
  }
  stop = true;
  to_compute.Set();
  to_answer.Set();
  computes.Join();
  answers.Join();
  state.counters["p50"] = PercentileOf(us, 0.5);
  state.counters["p99"] = PercentileOf(us, 0.99);
}
BENCHMARK(BM_RequestBesideAFiberThatComputes)->ArgName("compute_ms")->Arg(10)->Iterations(300)->UseRealTime();

}  // namespace
}  // namespace weft::bench
