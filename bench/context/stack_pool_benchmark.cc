// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// What stacks cost: warm, cold and new, and the system calls behind that.
//
// How to read the figures: `each` is the CPU time of one stack. A new stack costs BM_New: its guard and the first touch
// of its top page; in a virtual machine whose host has to find the memory first the touch takes up to ten times as
// long. BM_Guards and BM_Discard show one system call for a run of stacks (argument: how many) against one each (1).

#include <benchmark/benchmark.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

#include "weft/context/stack/stack_memory.h"
#include "weft/context/stack/stack_pool.h"

namespace weft::context {
namespace {

constexpr std::size_t kStacks = 8192;
constexpr std::size_t kStackSize = 128 * 1024;
constexpr std::size_t kPage = 4096;

void SetTimePerStack(benchmark::State& state, std::size_t stacks) {
  state.counters["each"] = benchmark::Counter(static_cast<double>(state.iterations()) * static_cast<double>(stacks),
                                              benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
}

void TouchTop(void* top) { static_cast<volatile char*>(top)[-64] = 1; }

void BM_PoolAcquireRelease(benchmark::State& state) {
  StackPool pool({});
  for (auto _ : state) pool.Release(pool.Acquire());
}
BENCHMARK(BM_PoolAcquireRelease);

void BM_CachePopPush(benchmark::State& state) {
  StackPool pool({});
  StackCache cache(&pool);
  for (auto _ : state) {
    void* top = cache.Pop();
    benchmark::DoNotOptimize(top);
    cache.Push(top);
  }
}
BENCHMARK(BM_CachePopPush);

// Many at a time, so that every sixteenth visits the pool.
void BM_CacheThroughPool(benchmark::State& state) {
  constexpr std::size_t kHeld = 256;
  StackPool pool({});
  StackCache cache(&pool);
  void* held[kHeld];
  for (auto _ : state) {
    for (void*& top : held) top = cache.Pop();
    for (void* top : held) cache.Push(top);
  }
  SetTimePerStack(state, kHeld);
}
BENCHMARK(BM_CacheThroughPool);

// New stacks, each touched once, through a cache. Argument: whether the top pages of a batch are backed in one call.
void BM_New(benchmark::State& state) {
  std::vector<void*> tops(kStacks);
  for (auto _ : state) {
    StackPool pool({.populate = state.range(0) != 0});
    StackCache cache(&pool);
    for (void*& top : tops) {
      top = cache.Pop();
      TouchTop(top);
    }
    state.PauseTiming();
    pool.ReleaseBatch(tops.data(), tops.size());
    cache.Clear();
    state.ResumeTiming();
  }
  SetTimePerStack(state, kStacks);
}
BENCHMARK(BM_New)->ArgName("populate")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

// Stacks whose memory had gone back.
void BM_Cold(benchmark::State& state) {
  StackPool pool({.populate = state.range(0) != 0});
  StackCache cache(&pool);
  std::vector<void*> tops(kStacks);
  pool.AcquireBatch(tops.data(), tops.size());
  pool.ReleaseBatch(tops.data(), tops.size());
  for (auto _ : state) {
    state.PauseTiming();
    cache.Clear();
    pool.Trim(0);
    state.ResumeTiming();
    for (void*& top : tops) {
      top = cache.Pop();
      TouchTop(top);
    }
    state.PauseTiming();
    pool.ReleaseBatch(tops.data(), tops.size());
    state.ResumeTiming();
  }
  SetTimePerStack(state, kStacks);
}
BENCHMARK(BM_Cold)->ArgName("populate")->Arg(0)->Arg(1)->Unit(benchmark::kMillisecond);

void BM_Trim(benchmark::State& state) {
  StackPool pool({});
  std::vector<void*> tops(kStacks);
  for (auto _ : state) {
    state.PauseTiming();
    pool.AcquireBatch(tops.data(), tops.size());
    for (void* top : tops) TouchTop(top);
    pool.ReleaseBatch(tops.data(), tops.size());
    state.ResumeTiming();
    benchmark::DoNotOptimize(pool.Trim(0));
  }
  SetTimePerStack(state, kStacks);
}
BENCHMARK(BM_Trim)->Unit(benchmark::kMillisecond);

// One page of each stack of a new reservation.
std::vector<StackMemory::Range> PageOfEach(char* low, std::size_t offset, std::size_t length) {
  std::vector<StackMemory::Range> ranges(kStacks);
  for (std::size_t i = 0; i < kStacks; ++i) ranges[i] = {low + i * (kStackSize + kPage) + offset, length};
  return ranges;
}

template <class Function>
void InRuns(const std::vector<StackMemory::Range>& ranges, std::size_t run, Function function) {
  for (std::size_t i = 0; i < ranges.size(); i += run) {
    function(std::span(ranges).subspan(i, std::min(run, ranges.size() - i)));
  }
}

void BM_Guards(benchmark::State& state) {
  StackMemory* memory = StackMemory::System();
  for (auto _ : state) {
    state.PauseTiming();
    auto* low = static_cast<char*>(memory->Map(kStacks * (kStackSize + kPage)));
    const auto guards = PageOfEach(low, 0, kPage);
    state.ResumeTiming();
    InRuns(guards, static_cast<std::size_t>(state.range(0)), [&](std::span<const StackMemory::Range> run) {
      if (!memory->InstallGuards(run)) state.SkipWithError("this kernel has no MADV_GUARD_INSTALL");
    });
    state.PauseTiming();
    memory->Unmap(low, kStacks * (kStackSize + kPage));
    state.ResumeTiming();
  }
  SetTimePerStack(state, kStacks);
}
BENCHMARK(BM_Guards)->ArgName("run")->Arg(1)->Arg(16)->Arg(64)->Arg(512)->Unit(benchmark::kMillisecond);

void BM_GuardsByMprotect(benchmark::State& state) {
  StackMemory* memory = StackMemory::System();
  for (auto _ : state) {
    state.PauseTiming();
    auto* low = static_cast<char*>(memory->Map(kStacks * (kStackSize + kPage)));
    const auto guards = PageOfEach(low, 0, kPage);
    state.ResumeTiming();
    for (const auto& guard : guards) {
      if (!memory->Protect(guard)) state.SkipWithError("refused");
    }
    state.PauseTiming();
    memory->Unmap(low, kStacks * (kStackSize + kPage));
    state.ResumeTiming();
  }
  SetTimePerStack(state, kStacks);
}
BENCHMARK(BM_GuardsByMprotect)->Unit(benchmark::kMillisecond);

void BM_Discard(benchmark::State& state) {
  StackMemory* memory = StackMemory::System();
  auto* low = static_cast<char*>(memory->Map(kStacks * (kStackSize + kPage)));
  const auto stacks = PageOfEach(low, kPage, kStackSize);
  for (auto _ : state) {
    state.PauseTiming();
    for (const auto& stack : stacks) TouchTop(static_cast<char*>(stack.iov_base) + stack.iov_len);
    state.ResumeTiming();
    InRuns(stacks, static_cast<std::size_t>(state.range(0)),
           [&](std::span<const StackMemory::Range> run) { memory->Discard(run); });
  }
  SetTimePerStack(state, kStacks);
  memory->Unmap(low, kStacks * (kStackSize + kPage));
}
BENCHMARK(BM_Discard)->ArgName("run")->Arg(1)->Arg(16)->Arg(64)->Arg(512)->Unit(benchmark::kMillisecond);

// Why tops are coloured: visits the hot lines at the top of `stacks` stacks in turn, as a scheduler of as many fibers
// does. Arguments: how many stacks; colours (1: all tops at the page's end).
void BM_Colours(benchmark::State& state) {
  constexpr std::size_t kHotLines = 8;
  const auto stacks = static_cast<std::size_t>(state.range(0));
  const auto colours = static_cast<std::size_t>(state.range(1));
  const std::size_t stride = kStackSize + kPage;
  StackMemory* memory = StackMemory::System();
  auto* low = static_cast<char*>(memory->Map(stacks * stride));
  std::vector<char*> tops(stacks);
  for (std::size_t i = 0; i < stacks; ++i) tops[i] = low + (i + 1) * stride - i % colours * 64;
  std::mt19937 random(1);
  std::shuffle(tops.begin(), tops.end(), random);
  for (auto _ : state) {
    for (char* top : tops) {
      for (std::size_t line = 1; line <= kHotLines; ++line) {
        auto* word = reinterpret_cast<std::uint64_t*>(top - line * 64);
        *word += 1;
      }
      benchmark::ClobberMemory();
    }
  }
  SetTimePerStack(state, stacks);
  memory->Unmap(low, stacks * stride);
}
BENCHMARK(BM_Colours)->ArgNames({"stacks", "colours"})->ArgsProduct({{32, 64, 256, 1000, 4000}, {1, 16, 32}});

}  // namespace
}  // namespace weft::context
