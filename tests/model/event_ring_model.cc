// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// scheduling_group/events/event_ring.h through all interleavings of its writer and a reader (ER1, ER2): no torn event
// is returned, and a row without gaps is, up to the last event whose count was seen.
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>

#include "weft/scheduling_group/events/event_ring.h"
#include "weft/tests/testing/interleave.h"

namespace weft::scheduling_group {
namespace {

constexpr std::size_t kCapacity = 2;

struct Shared {
  std::array<EventRing::Slot, kCapacity> slots{};
  EventRing ring{slots.data(), kCapacity};
  // Events whose end the reader knows by other means.
  base::Atomic<std::uint64_t> told{0};

  // Event n consists of three times n + 1.
  void Write(std::uint64_t n) { ring.Write(n + 1, n + 1, n + 1); }

  // Returns the number behind the last event.
  std::uint64_t Read() {
    const std::uint64_t told_before = told.load(std::memory_order_acquire);
    std::array<EventRing::Words, kCapacity> out{};
    std::size_t first = 0;
    std::uint64_t number = 0;
    const std::size_t count = ring.Copy(0, out.data(), &first, &number);
    MODEL_CHECK(first + count <= kCapacity, "not more than there is room for");
    for (std::size_t i = 0; i < count; ++i) {
      for (const std::uint64_t word : out[first + i]) MODEL_CHECK(word == number + i + 1, "no torn event (ER1)");
    }
    MODEL_CHECK(number + count >= told_before, "up to the last event that was known of (ER2)");
    return number + count;
  }
};

void Explore(const model::Options& options, void (*build)(model::Scenario&, Shared*)) {
  const model::Result result = model::Explore(options, [&](model::Scenario& scenario) {
    auto* shared = scenario.New<Shared>("ring");
    build(scenario, shared);
  });
  EXPECT_TRUE(result.passed) << result.report;
}

TEST(EventRingModel, FilledWhileItIsRead) {
  Explore({.name = "event ring: two events", .preemptions = model::kUnbounded, .weak_choices = 3},
          [](model::Scenario& scenario, Shared* shared) {
            scenario.Thread("writer", [=] {
              shared->Write(0);
              shared->told.store(1, std::memory_order_release);
              shared->Write(1);
            });
            scenario.Thread("reader", [=] { static_cast<void>(shared->Read()); });
          });
}

TEST(EventRingModel, OverwrittenWhileItIsRead) {
  Explore({.name = "event ring: overwritten", .preemptions = model::kUnbounded, .weak_choices = 3},
          [](model::Scenario& scenario, Shared* shared) {
            scenario.Thread("writer", [=] {
              for (std::uint64_t n = 0; n < 4; ++n) shared->Write(n);
            });
            scenario.Thread("reader", [=] { static_cast<void>(shared->Read()); });
          });
}

TEST(EventRingModel, ReadTwice) {
  Explore({.name = "event ring: read twice", .preemptions = 2, .weak_choices = 2},
          [](model::Scenario& scenario, Shared* shared) {
            scenario.Thread("writer", [=] {
              for (std::uint64_t n = 0; n < 3; ++n) shared->Write(n);
            });
            scenario.Thread("reader", [=] {
              const std::uint64_t end = shared->Read();
              MODEL_CHECK(shared->Read() >= end, "what was seen is not taken back");
            });
          });
}

}  // namespace
}  // namespace weft::scheduling_group
