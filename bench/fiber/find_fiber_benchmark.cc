// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// How to read the figures
//
// BM_FindFiber/fibers: FindFiber() of the fiber that was started last, while so many wait, by one of them. The time is
//                      that of looking through the entities of all of them; with more than the caches hold, that of
//                      memory.
// BM_FindNoFiber:      The same for an id that none has.

#include <cstdint>
#include <optional>
#include <vector>

#include "weft/bench/fiber/benchmark_runtime.h"
#include "weft/fiber/fiber.h"
#include "weft/sync/fiber_event.h"

namespace {

using weft::Fiber;
using weft::FiberEvent;
using weft::bench::BenchmarkRuntime;

void Find(benchmark::State& state, bool there) {
  BenchmarkRuntime runtime(1);
  runtime.RunInside([&] {
    FiberEvent over;
    std::vector<Fiber> fibers;
    for (std::int64_t i = 0; i < state.range(0); ++i) fibers.emplace_back([&] { over.Wait(); });
    const std::uint64_t id = there ? fibers.back().Id() : UINT64_MAX;
    for (auto _ : state) {
      std::optional<weft::FoundFiber> found = weft::FindFiber(id);
      benchmark::DoNotOptimize(found);
      if (found.has_value() != there) state.SkipWithError("the wrong result");
    }
    over.Set();
    for (Fiber& fiber : fibers) fiber.Join();
  });
}

void BM_FindFiber(benchmark::State& state) { Find(state, true); }
void BM_FindNoFiber(benchmark::State& state) { Find(state, false); }

BENCHMARK(BM_FindFiber)->ArgName("fibers")->Arg(100)->Arg(10'000)->Arg(100'000);
BENCHMARK(BM_FindNoFiber)->ArgName("fibers")->Arg(100)->Arg(10'000)->Arg(100'000);

}  // namespace
