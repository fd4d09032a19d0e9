// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// What a switch costs beside the bare jump of Boost.Context.
//
// How to read the figures: `each` is the CPU time of one switch, everything included. In BM_BareJump and BM_SwitchPair
// two flows take turns, so every switch returns to another place than the one before: BM_SwitchPair mispredicts its
// return (one branch miss), BM_BareJump is a loop around an inlined jump that never returns. In the rings all flows
// suspend at the same place, three calls deep, as fibers do that all wait in one function: there a switch that keeps
// calls and returns paired costs no misses, and a called jump_fcontext() makes all three returns miss.

#include <benchmark/benchmark.h>

#include <boost/context/detail/fcontext.hpp>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <vector>

#include "weft/base/thread/cpu.h"
#include "weft/context/stack/stack_pool.h"
#include "weft/context/switch/context.h"

namespace weft::context {
namespace {

namespace fcontext = boost::context::detail;

void SetTimePerSwitch(benchmark::State& state, std::int64_t switches) {
  state.counters["each"] =
      benchmark::Counter(static_cast<double>(switches), benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

StackPool& Pool() {
  static StackPool pool({});
  return pool;
}

void BM_BareJump(benchmark::State& state) {
  void* top = Pool().Acquire();
  fcontext::fcontext_t other = fcontext::make_fcontext(top, Pool().usable_size(), [](fcontext::transfer_t from) {
    for (;;) from = fcontext::jump_fcontext(from.fctx, nullptr);
  });
  for (auto _ : state) other = fcontext::jump_fcontext(other, nullptr).fctx;
  SetTimePerSwitch(state, state.iterations() * 2);
  Pool().Release(top);
}
BENCHMARK(BM_BareJump);

struct Bench : ThreadState {
  Context own;
  std::vector<Context> flows;
  std::vector<fcontext::fcontext_t> bare;
  fcontext::fcontext_t bare_own = nullptr;
  std::size_t running = 0;
  std::int64_t left = 0;

  Bench() {
    InitThreadState(this);
    InitThreadContext(&own);
  }
};

void BM_SwitchPair(benchmark::State& state) {
  Bench bench;
  bench.flows.resize(1);
  void* top = Pool().Acquire();
  MakeContext(&bench.flows[0], top, Pool().usable_size(), [](ThreadState* here) {
    auto* bench = static_cast<Bench*>(here);
    for (;;) SwitchContext(&bench->flows[0], &bench->own, bench);
  });
  for (auto _ : state) SwitchContext(&bench.own, &bench.flows[0], &bench);
  SetTimePerSwitch(state, state.iterations() * 2);
  DestroyContext(&bench.flows[0]);
  Pool().Release(top);
}
BENCHMARK(BM_SwitchPair);

constexpr std::int64_t kRound = 1000;

// A blocking call, three deep: to the next flow of the ring, or to the benchmark's loop after kRound switches.
WEFT_NOINLINE Bench* WaitInner(Bench* bench) {
  Context* from = &bench->flows[bench->running];
  Context* to = &bench->own;
  if (--bench->left > 0) {
    bench->running = bench->running + 1 == bench->flows.size() ? 0 : bench->running + 1;
    to = &bench->flows[bench->running];
  }
  auto* there = static_cast<Bench*>(SwitchContext(from, to, bench));
  base::OpaqueBarrier();
  return there;
}
WEFT_NOINLINE Bench* WaitMiddle(Bench* bench) {
  bench = WaitInner(bench);
  base::OpaqueBarrier();
  return bench;
}
WEFT_NOINLINE Bench* Wait(Bench* bench) {
  bench = WaitMiddle(bench);
  base::OpaqueBarrier();
  return bench;
}

// With an exception in flight in every flow, if asked for.
template <bool kInCatch>
void RingEntry(ThreadState* here) {
  auto* bench = static_cast<Bench*>(here);
  if constexpr (kInCatch) {
    try {
      throw 1;
    } catch (int) {
      for (;;) bench = Wait(bench);
    }
  }
  for (;;) bench = Wait(bench);
}

template <bool kInCatch>
void RunRing(benchmark::State& state) {
  Bench bench;
  bench.flows.resize(static_cast<std::size_t>(state.range(0)));
  std::vector<void*> tops(bench.flows.size());
  Pool().AcquireBatch(tops.data(), tops.size());
  for (std::size_t i = 0; i < tops.size(); ++i) {
    MakeContext(&bench.flows[i], tops[i], Pool().usable_size(), RingEntry<kInCatch>);
  }
  for (auto _ : state) {
    bench.left = kRound;
    SwitchContext(&bench.own, &bench.flows[bench.running], &bench);
  }
  SetTimePerSwitch(state, state.iterations() * kRound);
  for (Context& flow : bench.flows) DestroyContext(&flow);
  Pool().ReleaseBatch(tops.data(), tops.size());
}

void BM_Ring(benchmark::State& state) { RunRing<false>(state); }
BENCHMARK(BM_Ring)->ArgName("flows")->Arg(2)->Arg(64)->Arg(1000)->Arg(10000);

void BM_RingInCatchBlocks(benchmark::State& state) { RunRing<true>(state); }
BENCHMARK(BM_RingInCatchBlocks)->ArgName("flows")->Arg(64);

// The same ring on jump_fcontext() alone, without errno and exceptions.
Bench* g_bare = nullptr;

void SaveBare(fcontext::transfer_t arrival) { *static_cast<fcontext::fcontext_t*>(arrival.data) = arrival.fctx; }
WEFT_NOINLINE void BareWaitInner(Bench* bench) {
  fcontext::fcontext_t* from = &bench->bare[bench->running];
  fcontext::fcontext_t to = bench->bare_own;
  if (--bench->left > 0) {
    bench->running = bench->running + 1 == bench->bare.size() ? 0 : bench->running + 1;
    to = bench->bare[bench->running];
  }
  SaveBare(fcontext::jump_fcontext(to, from));
  base::OpaqueBarrier();
}
WEFT_NOINLINE void BareWaitMiddle(Bench* bench) {
  BareWaitInner(bench);
  base::OpaqueBarrier();
}
WEFT_NOINLINE void BareWait(Bench* bench) {
  BareWaitMiddle(bench);
  base::OpaqueBarrier();
}

void BM_BareRing(benchmark::State& state) {
  Bench bench;
  g_bare = &bench;
  bench.bare.resize(static_cast<std::size_t>(state.range(0)));
  std::vector<void*> tops(bench.bare.size());
  Pool().AcquireBatch(tops.data(), tops.size());
  for (std::size_t i = 0; i < tops.size(); ++i) {
    bench.bare[i] = fcontext::make_fcontext(tops[i], Pool().usable_size(), [](fcontext::transfer_t arrival) {
      SaveBare(arrival);
      for (;;) BareWait(g_bare);
    });
  }
  for (auto _ : state) {
    bench.left = kRound;
    SaveBare(fcontext::jump_fcontext(bench.bare[bench.running], &bench.bare_own));
  }
  SetTimePerSwitch(state, state.iterations() * kRound);
  Pool().ReleaseBatch(tops.data(), tops.size());
}
BENCHMARK(BM_BareRing)->ArgName("flows")->Arg(2)->Arg(64)->Arg(1000)->Arg(10000);

// A flow's whole life on a warm stack: made, started, left.
void BM_MakeRunLeave(benchmark::State& state) {
  Bench bench;
  bench.flows.resize(1);
  StackCache cache(&Pool());
  for (auto _ : state) {
    void* top = cache.Pop();
    MakeContext(&bench.flows[0], top, Pool().usable_size(), [](ThreadState* here) {
      auto* bench = static_cast<Bench*>(here);
      LeaveContext(&bench->flows[0], &bench->own, bench);
    });
    SwitchContext(&bench.own, &bench.flows[0], &bench);
    DestroyContext(&bench.flows[0]);
    cache.Push(top);
  }
}
BENCHMARK(BM_MakeRunLeave);

}  // namespace
}  // namespace weft::context
