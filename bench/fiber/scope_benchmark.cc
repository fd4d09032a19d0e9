// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// How to read the figures
//
// BM_PingPong:         two fibers hand a token back and forth by two FiberEvents: time per round trip. in_scope:1: both
//                      are in a CancelScope, so that each wait could be cancelled. Their ratio is what that costs.
// BM_SpawnAndWait:     a fiber starts a batch of no-ops and waits for them: time per fiber. how:0: StartFiberDetached()
//                      and a FiberLatch; how:1: a FiberScope; how:2: FiberTasks of a FiberScope, results are taken.
// BM_Select:           a fiber gets items by Select() from two rendezvous channels, into which another one puts in
//                      turn: time per item. how:0: the getter knows which comes next, and calls Get().
// BM_CancelAfter:      a scope with a deadline that does not pass: entered and left. outer: inside so many others.
//                      what:0: none of the others has a deadline; what:1: all have; what:2: all have, but not the
//                      scope itself.
// BM_SetDeadline:      the deadline of a scope with so many waiting children is moved.
// BM_Cancel:           a scope with `fibers` waiting fibers is cancelled, until all have ended: time per scope.
// BM_CancelAWait:      a CancelScope is cancelled in which a fiber waits, until the fiber has left it. throws:0: the
//                      wait returns that it was cancelled, as calls of io do; throws:1: it throws FiberCancelled.

#include <chrono>
#include <cstdint>
#include <vector>

#include "weft/bench/fiber/benchmark_runtime.h"
#include "weft/fiber/fiber_scope.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_channel.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_latch.h"
#include "weft/sync/select.h"
#include "weft/sync/wait/wait_queue.h"

namespace {

using weft::CancelScope;
using weft::FiberEvent;
using weft::bench::BenchmarkRuntime;

template <class F>
void InScopeOrNot(bool in_scope, F f) {
  if (!in_scope) return f();
  CancelScope scope;
  static_cast<void>(scope.Run(f));
}

void BM_PingPong(benchmark::State& state) {
  constexpr int kRounds = 1000;
  const bool in_scope = state.range(1) != 0;
  BenchmarkRuntime runtime(state.range(0));
  runtime.RunInside([&] {
    for (auto _ : state) {
      FiberEvent ping;
      FiberEvent pong;
      weft::FiberLatch ended(2);
      // Detached: a joinable fiber is always in a scope.
      weft::bench::MustStart([&] {
        InScopeOrNot(in_scope, [&] {
          for (int i = 0; i < kRounds; ++i) {
            ping.Wait();
            ping.Reset();
            pong.Set();
          }
        });
        ended.CountDown();
      });
      weft::bench::MustStart([&] {
        InScopeOrNot(in_scope, [&] {
          for (int i = 0; i < kRounds; ++i) {
            ping.Set();
            pong.Wait();
            pong.Reset();
          }
        });
        ended.CountDown();
      });
      ended.Wait();
    }
    state.SetItemsProcessed(state.iterations() * kRounds);
  });
}

void BM_SpawnAndWait(benchmark::State& state) {
  constexpr int kFibers = 1000;
  BenchmarkRuntime runtime(state.range(0));
  runtime.RunInside([&] {
    for (auto _ : state) {
      if (state.range(1) == 0) {
        weft::FiberLatch ended(kFibers);
        for (int i = 0; i < kFibers; ++i) {
          if (!weft::StartFiberDetached([&] { ended.CountDown(); })) return state.SkipWithError("refused");
        }
        ended.Wait();
      } else if (state.range(1) == 1) {
        weft::FiberScope scope;
        for (int i = 0; i < kFibers; ++i) {
          if (!scope.Spawn([] {})) return state.SkipWithError("refused");
        }
        scope.Wait();
      } else {
        weft::FiberScope scope;
        std::vector<weft::FiberTask<int>> tasks;
        tasks.reserve(kFibers);
        for (int i = 0; i < kFibers; ++i) tasks.push_back(scope.SpawnTask([i] { return i; }));
        for (auto& task : tasks) benchmark::DoNotOptimize(task.Get());
        scope.Wait();
      }
    }
    state.SetItemsProcessed(state.iterations() * kFibers);
  });
}

void BM_Select(benchmark::State& state) {
  constexpr int kItems = 1000;
  BenchmarkRuntime runtime(state.range(0));
  runtime.RunInside([&] {
    for (auto _ : state) {
      weft::FiberChannel<int> even(0);
      weft::FiberChannel<int> odd(0);
      weft::FiberLatch ended(1);
      const bool started = weft::StartFiberDetached([&] {
        for (int i = 0; i < kItems; ++i) static_cast<void>((i % 2 == 0 ? even : odd).Put(i));
        ended.CountDown();
      });
      if (!started) return state.SkipWithError("refused");
      int sum = 0;
      const auto take = [&](const weft::ChannelItem<int>& item) { sum += *item; };
      for (int i = 0; i < kItems; ++i) {
        if (state.range(1) == 0) {
          take((i % 2 == 0 ? even : odd).Get());
        } else {
          weft::Select(weft::OnGet(even, take), weft::OnGet(odd, take));
        }
      }
      benchmark::DoNotOptimize(sum);
      ended.Wait();
    }
    state.SetItemsProcessed(state.iterations() * kItems);
  });
}

template <class F>
void InScopes(std::int64_t count, weft::Deadline deadline, F f) {
  if (count == 0) return f();
  CancelScope scope(deadline);
  static_cast<void>(scope.Run([&] { InScopes(count - 1, deadline, f); }));
}

void BM_CancelAfter(benchmark::State& state) {
  const std::int64_t what = state.range(1);
  const weft::Deadline soon = std::chrono::hours(1);
  BenchmarkRuntime runtime(1);
  runtime.RunInside([&] {
    InScopes(state.range(0), what == 0 ? weft::Deadline() : soon, [&] {
      for (auto _ : state) {
        CancelScope scope(what == 2 ? weft::Deadline() : soon);
        benchmark::DoNotOptimize(scope.Run([] {}));
      }
    });
  });
}

void BM_SetDeadline(benchmark::State& state) {
  BenchmarkRuntime runtime(2);
  runtime.RunInside([&] {
    FiberEvent go;
    weft::FiberScope scope;
    for (std::int64_t i = 0; i < state.range(0); ++i) {
      if (!scope.Spawn([&] { go.Wait(); })) return state.SkipWithError("refused");
    }
    const weft::Deadline soon = std::chrono::hours(1);
    for (auto _ : state) weft::CancelAfter(soon);
    go.Set();
  });
}

void BM_Cancel(benchmark::State& state) {
  BenchmarkRuntime runtime(state.range(0));
  runtime.RunInside([&] {
    for (auto _ : state) {
      FiberEvent never;
      weft::FiberScope scope;
      for (std::int64_t i = 0; i < state.range(1); ++i) {
        if (!scope.Spawn([&] { never.Wait(); })) return state.SkipWithError("refused");
      }
      weft::FiberYield();
      scope.Cancel();
      scope.Wait();
    }
  });
}

void BM_CancelAWait(benchmark::State& state) {
  const bool throws = state.range(1) != 0;
  BenchmarkRuntime runtime(state.range(0));
  runtime.RunInside([&] {
    for (auto _ : state) {
      FiberEvent never;
      FiberEvent left;
      CancelScope scope;
      weft::bench::MustStart([&] {
        static_cast<void>(scope.Run([&] {
          if (throws) return never.Wait();
          using weft::synchronization::WaitAccess;
          static_cast<void>(WaitAccess::Wait(never, {}, weft::synchronization::Interruptible::kYes));
        }));
        left.Set();
      });
      for (int i = 0; i < 3; ++i) weft::FiberYield();
      const auto begin = std::chrono::steady_clock::now();
      scope.Cancel();
      left.Wait();
      state.SetIterationTime(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
    }
  });
}

BENCHMARK(BM_PingPong)->ArgNames({"workers", "in_scope"})->ArgsProduct({{1, 2}, {0, 1}})->UseRealTime();
BENCHMARK(BM_SpawnAndWait)->ArgNames({"workers", "how"})->ArgsProduct({{1, 2}, {0, 1, 2}})->UseRealTime();
BENCHMARK(BM_Select)->ArgNames({"workers", "how"})->ArgsProduct({{1, 2}, {0, 1}})->UseRealTime();
BENCHMARK(BM_CancelAfter)->ArgNames({"outer", "what"})->ArgsProduct({{0, 1, 4, 16}, {0, 1, 2}})->UseRealTime();
BENCHMARK(BM_SetDeadline)->ArgName("children")->Arg(0)->Arg(1)->Arg(100)->UseRealTime();
BENCHMARK(BM_CancelAWait)->ArgNames({"workers", "throws"})->ArgsProduct({{1, 2}, {0, 1}})->UseManualTime();
BENCHMARK(BM_Cancel)->ArgNames({"workers", "fibers"})->ArgsProduct({{1, 2}, {1, 100}})->UseRealTime();

}  // namespace
