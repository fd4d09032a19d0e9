// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// pingpong: two fibers hand a token back and forth 500,000 times: by two events (ns_per_roundtrip), two semaphores
// (ns_per_roundtrip_semaphore), and by one mutex and one condition variable (ns_per_roundtrip_cv). A round trip is two
// hand-offs: two blocks, two wakes, two switches.
//
// The figure shows whether the two fibers stay on one core: across cores each hand-off costs a cache line or more.
#ifndef WEFT_BENCH_WORKLOAD_PINGPONG_H_
#define WEFT_BENCH_WORKLOAD_PINGPONG_H_

#include <cstdint>
#include <mutex>

#include "weft/bench/workload/harness.h"

namespace weft::bench {

// Runs `ping` in the calling fiber and `pong` in a second one until both are done.
template <class Runtime, class Ping, class Pong>
void RunPair(Ping ping, Pong pong) {
  typename Runtime::Latch done(1);
  auto other = [&] {
    pong();
    done.CountDown();
  };
  Require(Runtime::Spawn(other), "the second fiber can be started");
  ping();
  done.Wait();
}

// Signal: given by one fiber, taken by the other, in turn.
template <class Runtime, class Signal>
void RunSignals(Round& round, const char* figure) {
  const std::int64_t trips = round.Scaled(500'000, 1, Runtime::kBlockDivisor);
  Runtime::RunInside([&] {
    std::int64_t token = 0;  // Handed over with the signals: no atomic needed, and the check that they order memory.
    Signal to_ping;
    Signal to_pong;
    auto ping = [&] {
      for (std::int64_t i = 0; i < trips; ++i) {
        ++token;
        to_pong.Give();
        to_ping.Take();
      }
    };
    auto pong = [&] {
      for (std::int64_t i = 0; i < trips; ++i) {
        to_pong.Take();
        ++token;
        to_ping.Give();
      }
    };
    Stopwatch watch;
    RunPair<Runtime>(ping, pong);
    round.Report(figure, watch.NanosecondsPer(trips), "ns");
    Require(token == 2 * trips, "the token was handed over exactly as often as asked");
  });
}

template <class Runtime>
void RunPingPong(Round& round) {
  struct Signal {
    void Give() { event.Set(); }
    void Take() {
      event.Wait();
      event.Reset();
    }
    typename Runtime::Event event;
  };
  RunSignals<Runtime, Signal>(round, "ns_per_roundtrip");
}

template <class Runtime>
void RunPingPongSemaphore(Round& round) {
  struct Signal {
    void Give() { semaphore.release(); }
    void Take() { semaphore.acquire(); }
    typename Runtime::Semaphore semaphore{0};
  };
  RunSignals<Runtime, Signal>(round, "ns_per_roundtrip_semaphore");
}

template <class Runtime>
void RunPingPongConditionVariable(Round& round) {
  const std::int64_t trips = round.Scaled(500'000, 1, Runtime::kBlockDivisor);
  Runtime::RunInside([&] {
    typename Runtime::Mutex mutex;
    typename Runtime::ConditionVariable changed;
    std::int64_t token = 0;  // Even: ping's turn.
    auto play = [&](std::int64_t parity) {
      for (std::int64_t i = 0; i < trips; ++i) {
        {
          std::unique_lock lock(mutex);
          changed.wait(lock, [&] { return token % 2 == parity; });
          ++token;
        }
        changed.notify_one();
      }
    };
    Stopwatch watch;
    RunPair<Runtime>([&] { play(0); }, [&] { play(1); });
    round.Report("ns_per_roundtrip_cv", watch.NanosecondsPer(trips), "ns");
    Require(token == 2 * trips, "the token was handed over exactly as often as asked");
  });
}

}  // namespace weft::bench

#endif  // WEFT_BENCH_WORKLOAD_PINGPONG_H_
