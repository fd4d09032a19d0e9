// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// select: one fiber takes 1,000,000 ints from two channels, by a select over both. First one fiber puts them into
// channels without slots, in turn (ns_per_item_rendezvous); then two fibers put them into one channel of 128 slots each
// (ns_per_item_selected). The sum is checked.
#ifndef WEFT_BENCH_WORKLOAD_SELECT_H_
#define WEFT_BENCH_WORKLOAD_SELECT_H_

#include <cstddef>
#include <cstdint>

#include "weft/bench/workload/channel.h"
#include "weft/bench/workload/harness.h"

namespace weft::bench {

template <class Runtime>
void SelectItems(Round& round, std::size_t slots, std::int64_t putters, const char* figure) {
  const std::int64_t items = round.Scaled(1'000'000, 2, Runtime::kBlockDivisor);
  Runtime::RunInside([&] {
    typename Runtime::Channel channels[2] = {typename Runtime::Channel(slots), typename Runtime::Channel(slots)};
    typename Runtime::Latch done(putters);
    std::int64_t sum = 0;
    Stopwatch watch;
    for (std::int64_t putter = 0; putter < putters; ++putter) {
      auto put_all = [&, putter] {
        for (std::int64_t i = putter; i < items; i += putters) channels[i % 2].Put(static_cast<int>(i));
        done.CountDown();
      };
      Require(Runtime::Spawn(put_all), "a putter can be started");
    }
    for (std::int64_t i = 0; i < items; ++i) sum += Runtime::TakeFromEither(channels[0], channels[1]);
    done.Wait();
    round.Report(figure, watch.NanosecondsPer(items), "ns");
    Require(sum == items * (items - 1) / 2, "every item arrived once");
  });
}

template <class Runtime>
void RunSelect(Round& round) {
  SelectItems<Runtime>(round, 0, 1, "ns_per_item_rendezvous");
  SelectItems<Runtime>(round, kChannelSlots, 2, "ns_per_item_selected");
}

}  // namespace weft::bench

#endif  // WEFT_BENCH_WORKLOAD_SELECT_H_
