// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/slice_limits.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <latch>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "weft/base/report/log.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/runtime.h"
#include "weft/scheduling_group/watch/watchdog.h"
#include "weft/tests/fiber/runtime_fixture.h"

namespace weft::fiber {
namespace {

using namespace std::chrono_literals;
using Steady = std::chrono::steady_clock;

// The lines in the log about slices.
class SliceLimitsTest : public ::testing::TestWithParam<Shape> {
 protected:
  struct Line {
    base::LogSeverity severity;
    std::string text;
    Steady::time_point at;
  };

  SliceLimitsTest() {
    base::SetLogSink([this](base::LogSeverity severity, const char*, int, std::string_view text) {
      if (text.find("without a switch") == std::string_view::npos) return;
      const std::lock_guard lock(mutex_);
      lines_.push_back({severity, std::string(text), Steady::now()});
      ++(severity == base::LogSeverity::kError ? errors_ : warnings_);
    });
  }
  ~SliceLimitsTest() override {
    SetSliceErrorHook(nullptr);
    base::SetLogSink({});
  }

  static RuntimeOptions WithLimits(Shape shape, std::chrono::milliseconds warning, std::chrono::milliseconds error) {
    RuntimeOptions options = OptionsOf(shape);
    options.slice_warning = warning;
    options.slice_error = error;
    return options;
  }
  std::vector<Line> Lines() {
    const std::lock_guard lock(mutex_);
    return lines_;
  }
  // A fiber that does not suspend, until then.
  template <class Done>
  static void ComputeUntil(const Done& done) {
    const auto give_up_at = Steady::now() + 20s;
    while (!done()) {
      if (Steady::now() > give_up_at) {
        ADD_FAILURE() << "in vain";
        return;
      }
    }
  }

  std::atomic<int> warnings_{0};
  std::atomic<int> errors_{0};

 private:
  std::mutex mutex_;
  std::vector<Line> lines_;
};
INSTANTIATE_TEST_SUITE_P(Shapes, SliceLimitsTest,
                         ::testing::Values(Shape{1, 1}, Shape{2, 1}, Shape{4, 1}, Shape{8, 1}, Shape{2, 2}), &NameOf);

TEST_P(SliceLimitsTest, TheWarningNamesFiberWorkerAndTime) {
  const RuntimeOf runtime(WithLimits(GetParam(), 20ms, 0ms));
  std::uint64_t id = 0;
  std::size_t group = 0;
  Fiber({.name = "stone"}, [&] {
    id = GetFiberId();
    group = GetCurrentSchedulingGroupIndex();
    ComputeUntil([&] { return warnings_ != 0; });
  }).Join();
  const auto lines = Lines();
  ASSERT_GE(lines.size(), 1U);
  EXPECT_EQ(lines[0].severity, base::LogSeverity::kWarning);
  EXPECT_NE(lines[0].text.find("of scheduling group " + std::to_string(group) + " has run fiber 'stone' (id " +
                               std::to_string(id) + ") for "),
            std::string::npos)
      << lines[0].text;
  EXPECT_NE(lines[0].text.find("--fiber_slice_warning_ms=20"), std::string::npos) << lines[0].text;
  EXPECT_EQ(errors_, 0);
}

TEST_P(SliceLimitsTest, TheErrorComesOnceForEachSliceAndCallsTheHook) {
  const RuntimeOf runtime(WithLimits(GetParam(), 0ms, 20ms));
  std::mutex mutex;
  std::vector<std::pair<std::uint64_t, std::string>> seen;
  std::atomic<int> calls{0};
  SetSliceErrorHook([&](const LongSlice& slice) {
    const std::lock_guard lock(mutex);
    seen.emplace_back(slice.fiber_id, slice.fiber_name);
    EXPECT_GE(slice.ran_for, 20ms);
    ++calls;
  });
  std::uint64_t id = 0;
  Fiber({.name = "stone"}, [&] {
    id = GetFiberId();
    ComputeUntil([&] { return calls == 1; });
    const auto checks = scheduling_group::Watchdog::Get().checks();
    ComputeUntil([&] { return scheduling_group::Watchdog::Get().checks() >= checks + 5; });
    EXPECT_EQ(calls, 1);
    FiberYield();  // Nobody else is ready, but this is another slice.
    ComputeUntil([&] { return calls == 2; });
  }).Join();
  EXPECT_EQ(errors_, 2);
  EXPECT_EQ(warnings_, 0);
  const std::lock_guard lock(mutex);
  ASSERT_EQ(seen.size(), 2U);
  for (const auto& [fiber_id, name] : seen) {
    EXPECT_EQ(fiber_id, id);
    EXPECT_EQ(name, "stone");
  }
}

TEST_P(SliceLimitsTest, TheWarningHasTheNameOfTheGroup) {
  RuntimeOptions options = NamedGroupsOf("latency:1,batch:1");
  options.slice_warning = 20ms;
  const RuntimeOf runtime(options);
  Fiber({.scheduling_group = SchedulingGroupNamed("batch")}, [&] {
    ComputeUntil([&] { return warnings_ != 0; });
  }).Join();
  ASSERT_GE(Lines().size(), 1U);
  EXPECT_NE(Lines()[0].text.find("worker 0 of scheduling group 1 (batch) has run "), std::string::npos);
}

TEST_P(SliceLimitsTest, AFiberThatBlocksItsThreadIsNamedToo) {
  const RuntimeOf runtime(WithLimits(GetParam(), 0ms, 20ms));
  std::latch called(1);
  SetSliceErrorHook([&](const LongSlice&) { called.count_down(); });
  Fiber([&] { called.wait(); }).Join();
  EXPECT_EQ(errors_, 1);
}

// The worker of a busy machine may have to wait for its CPU: it is named then, but not each time.
TEST_F(SliceLimitsTest, AFiberThatYieldsIsNotNamed) {
  const RuntimeOf runtime(WithLimits(Shape{1, 1}, 500ms, 500ms));
  std::size_t named = 0;
  for (int attempt = 0; attempt < 5; ++attempt) {
    const std::size_t before = Lines().size();
    Fiber([&] {
      const auto checks = scheduling_group::Watchdog::Get().checks();
      while (scheduling_group::Watchdog::Get().checks() < checks + 60) FiberYield();
    }).Join();
    named = Lines().size() - before;
    if (named == 0) break;
  }
  EXPECT_EQ(named, 0U);
}

// Names are freed by workers while the Watchdog reads them.
TEST_P(SliceLimitsTest, FibersThatEndMeanwhileAreNamedOrNot) {
  const RuntimeOf runtime(WithLimits(GetParam(), 1ms, 1ms));
  std::atomic<int> calls{0};
  SetSliceErrorHook([&](const LongSlice& slice) {
    EXPECT_EQ(slice.fiber_name, "storm");
    ++calls;
  });
  std::vector<Fiber> fibers;
  for (int i = 0; i < 10; ++i) {
    fibers.emplace_back(FiberAttributes{.name = "storm"}, [&, i] {
      const auto until = Steady::now() + 5ms + i * 1ms;
      while (Steady::now() < until) {
      }
    });
  }
  for (Fiber& fiber : fibers) fiber.Join();
  Fiber({.name = "storm"}, [&] { ComputeUntil([&] { return calls != 0; }); }).Join();
}

TEST_F(SliceLimitsTest, ThereIsOneWarningASecondWhileItGoesOn) {
  const RuntimeOf runtime(WithLimits(Shape{2, 1}, 10ms, 0ms));
  const auto begin = Steady::now();
  Fiber one([&] { ComputeUntil([&] { return warnings_ >= 2; }); });
  Fiber another([&] { ComputeUntil([&] { return warnings_ >= 2; }); });
  one.Join();
  another.Join();
  const auto lines = Lines();
  ASSERT_GE(lines.size(), 2U);
  EXPECT_GE(lines[1].at - begin, 1s);
}

TEST_F(SliceLimitsTest, TheNextRuntimeHasItsOwnLimits) {
  { const RuntimeOf runtime(WithLimits(Shape{1, 1}, 1ms, 1ms)); }
  const RuntimeOf runtime(OptionsOf(Shape{1, 1}));
  Fiber([&] {
    const auto checks = scheduling_group::Watchdog::Get().checks();
    ComputeUntil([&] { return scheduling_group::Watchdog::Get().checks() >= checks + 6; });
  }).Join();
  EXPECT_EQ(Lines().size(), 0U);
}

}  // namespace
}  // namespace weft::fiber
