// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Which group steals from which, by the kernel's distances: never across nodes if that is off, at the given rates, and
// so that no group idles while another is overloaded.

#include <gtest/gtest.h>
#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "weft/fiber/this_fiber.h"
#include "weft/scheduling_group/group/counters.h"

#include "guest/guest_fixture.h"
#include "guest/kernel_facts.h"

namespace weft::guest {
namespace {

class GuestStealing : public GuestTest {
 protected:
  // Two groups on each node.
  static RuntimeOptions TwoGroupsPerNode(std::int64_t ratio, std::int64_t cross_ratio) {
    RuntimeOptions options = OneGroupPerNode();
    options.scheduling_group_size = NodesOfKernel().size() == 2 ? 2 : 1;
    options.work_stealing_ratio = ratio;
    options.cross_numa_work_stealing_ratio = Planted("steal_across") ? 1 : cross_ratio;
    return options;
  }

  struct Counts {
    std::uint64_t attempts = 0;
    std::uint64_t stolen = 0;
    std::uint64_t idle_searches = 0;
  };
  static Counts CountsOf(const SchedulingGroup& group) {
    const scheduling_group::GroupCounts all = scheduling_group::ReadCounts(group);
    Counts counts;
    for (const scheduling_group::StealCounts& steals : all.steals) {
      counts.attempts += steals.attempts;
      counts.stolen += steals.stolen_in;
    }
    counts.idle_searches = all.Sum().idle_searches;
    return counts;
  }
  // By group.
  static std::vector<Counts> CountsOfAll() {
    std::vector<Counts> counts;
    for (SchedulingGroup* group : Groups()) counts.push_back(CountsOf(*group));
    return counts;
  }

  // A fiber of the first group starts others there, which call work(). Returns how many ended in each group.
  template <class Work>
  static std::vector<int> LoadTheFirstGroup(int fibers, Work work) {
    const std::vector<SchedulingGroup*> groups = Groups();
    std::vector<std::atomic<int>> ended(groups.size());
    FiberLatch done(fibers);
    StartIn(groups.front(), true, [&, fibers] {
      for (int i = 0; i < fibers; ++i) {
        StartIn(groups.front(), false, [&] {
          work();
          ended[static_cast<std::size_t>(scheduling_group::CurrentGroup()->id())].fetch_add(1);
          done.CountDown();
        });
      }
    });
    done.Wait();
    std::vector<int> result;
    for (const std::atomic<int>& count : ended) result.push_back(count.load());
    return result;
  }

  // A number of steps, not a time: a processor that does not run makes none.
  static void Compute() {
    volatile std::uint64_t steps = 0;
    while (steps < 300'000) steps = steps + 1;
  }

  // How often the first group searches others when it is idle: a fiber of it sleeps again and again, and its idle
  // worker then searches its neighbours. All else is quiet, so nobody requests a steal.
  static double AttemptsPerSearch() {
    constexpr int kSleeps = 250;
    SchedulingGroup* group = Groups().front();
    const Counts before = CountsOf(*group);
    FiberLatch done(1);
    StartIn(group, true, [&] {
      for (int i = 0; i < kSleeps; ++i) FiberSleepFor(std::chrono::microseconds(200));
      done.CountDown();
    });
    done.Wait();
    const Counts after = CountsOf(*group);
    const std::uint64_t looks = after.idle_searches - before.idle_searches;
    EXPECT_GE(looks, kSleeps / 2) << "the group did not idle: nothing was measured";
    return static_cast<double>(after.attempts - before.attempts) / static_cast<double>(looks);
  }

  static bool AWorkerSleeps() {
    const std::vector<SchedulingGroup*> groups = Groups();
    return std::any_of(groups.begin(), groups.end(),
                       [](SchedulingGroup* group) { return !group->idle_workers().sleepers().Empty(); });
  }

  // Groups of other nodes than the first group's.
  static int GroupsElsewhere() {
    int count = 0;
    for (SchedulingGroup* group : Groups()) count += NodeOf(*group) != NodeOf(*Groups().front()) ? 1 : 0;
    return count;
  }
};

TEST_F(GuestStealing, IsNeverAcrossNodesIfThatIsOff) {
  Start(TwoGroupsPerNode(1, 0));
  const std::vector<SchedulingGroup*> groups = Groups();
  ASSERT_EQ(groups.size(), 2 * NodesOfKernel().size());
  const std::vector<Counts> before = CountsOfAll();
  const std::vector<int> ended = LoadTheFirstGroup(200, Compute);
  const std::vector<Counts> after = CountsOfAll();
  for (std::size_t g = 1; g < groups.size(); ++g) {
    SCOPED_TRACE("group " + std::to_string(g));
    if (NodeOf(*groups[g]) == NodeOf(*groups[0])) {
      EXPECT_GT(ended[g], 0) << "the neighbour on the same node took nothing: nothing was tried";
      EXPECT_GE(after[g].stolen - before[g].stolen, static_cast<std::uint64_t>(ended[g]));
    } else {
      EXPECT_EQ(ended[g], 0);
      EXPECT_EQ(after[g].stolen, before[g].stolen);
    }
  }
}

TEST_F(GuestStealing, IsNotEvenTriedAcrossNodesIfThatIsOff) {
  RuntimeOptions options = OneGroupPerNode();
  options.work_stealing_ratio = 1;
  options.cross_numa_work_stealing_ratio = Planted("steal_across") ? 1 : 0;
  Start(options);
  const std::vector<Counts> before = CountsOfAll();
  const std::vector<int> ended = LoadTheFirstGroup(100, Compute);
  const std::vector<Counts> after = CountsOfAll();
  EXPECT_EQ(ended[0], 100);
  for (std::size_t g = 0; g < after.size(); ++g) EXPECT_EQ(after[g].attempts, before[g].attempts) << "group " << g;
}

// Work conservation, by counting: the processors are emulated, so time says nothing; at times all of them stand still
// for seconds. Each fiber keeps its worker until every worker has one. So each worker runs the same number of them, or
// they wait in vain because a worker sleeps for good.
TEST_F(GuestStealing, EachNodeRunsAFairPartOfWhatIsStartedOnOne) {
  RuntimeOptions options = OneGroupPerNode();
  options.cross_numa_work_stealing_ratio = Planted("steal_nowhere") ? 0 : 1;
  Start(options);
  constexpr int kRounds = 25;
  const auto workers = static_cast<int>(GetConcurrencyHint());
  std::atomic<int> begun{0};
  std::atomic<bool> in_vain{false};
  const std::vector<int> ended = LoadTheFirstGroup(kRounds * workers, [&, workers] {
    const int round_is_full = (begun.fetch_add(1) / workers + 1) * workers;
    constexpr std::chrono::seconds kPatience{5};
    auto look_at = std::chrono::steady_clock::now() + kPatience;
    bool slept = false;
    while (begun.load() < round_is_full && !in_vain.load()) {
      ::sched_yield();
      if (std::chrono::steady_clock::now() < look_at) continue;
      const bool sleeps = AWorkerSleeps();
      if (sleeps && slept) in_vain.store(true);
      slept = sleeps;
      look_at = std::chrono::steady_clock::now() + kPatience;
    }
  });
  EXPECT_FALSE(in_vain.load()) << "a worker slept though fibers were ready";
  for (std::size_t g = 0; g < ended.size(); ++g) {
    EXPECT_EQ(ended[g], kRounds * static_cast<int>(Groups()[g]->size())) << "group " << g;
  }
}

TEST_F(GuestStealing, WithinANodeIsTriedAtItsRate) {
  Start(TwoGroupsPerNode(4, 0));
  EXPECT_NEAR(AttemptsPerSearch(), 1.0 / 4, 0.04);  // One neighbour.
}

TEST_F(GuestStealing, AcrossNodesIsTriedAtItsRate) {
  Start(TwoGroupsPerNode(0, 8));
  const double expected = GroupsElsewhere() / 8.0;
  EXPECT_NEAR(AttemptsPerSearch(), expected, 0.15 * expected);
}

TEST_F(GuestStealing, ByDistanceIsTriedAtTheRateOfEach) {
  Start(TwoGroupsPerNode(2, 16));
  const double expected = 1.0 / 2 + GroupsElsewhere() / 16.0;
  EXPECT_NEAR(AttemptsPerSearch(), expected, 0.15 * expected);
}

}  // namespace
}  // namespace weft::guest
