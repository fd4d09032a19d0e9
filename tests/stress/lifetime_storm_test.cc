// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// A storm of lifetimes (storm.h): fibers in nested scopes over several groups wait at every primitive and at sockets,
// and are cancelled, interrupted and given up at random. Nothing may be lost, doubled or left: wake-ups, items,
// permits, fibers, stacks, timers, descriptors.
//
//   WEFT_STORM_SECONDS=1200 WEFT_STORM_SEEDS=20 stress_lifetime_storm      a minute for each of 20 seeds
//
// Seconds in all, default 2; seeds, default 4. From a minute in all on, at least 100,000 fibers must have lived, and
// with a minute for each seed so many in each.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <iterator>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "weft/base/report/log.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/fiber_scope.h"
#include "weft/fiber/runtime.h"
#include "weft/fiber/runtime/unfinished_fibers.h"
#include "weft/scheduling_group/fiber/read_section.h"
#include "weft/scheduling_group/group/group_registry.h"
#include "weft/tests/fiber/runtime_fixture.h"
#include "weft/timer/worker/timer_worker.h"

#include "stress/storm.h"

namespace weft::fiber {
namespace {

using namespace std::chrono_literals;
using Milliseconds = std::chrono::milliseconds;

constexpr int kGroups = 2;
constexpr std::uint64_t kManyFibers = 100'000;

int FromEnvironment(const char* name, int otherwise) {
  const char* const text = std::getenv(name);
  return text != nullptr ? std::atoi(text) : otherwise;
}

// A wake-up that takes longer counts as lost. WEFT_STORM_PATIENCE sets a shorter limit, for mutants.
std::chrono::seconds Patience() { return std::chrono::seconds(FromEnvironment("WEFT_STORM_PATIENCE", 90)); }

std::size_t OpenDescriptors() {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator("/proc/self/fd"), std::filesystem::directory_iterator()));
}

// A pool whose stacks are not all back when it is destroyed says so in the log: there is no later time to ask it, and
// before, the workers' caches hold some. Lines are written on.
class LeakedStacks {
 public:
  LeakedStacks() {
    base::SetLogSink([this](base::LogSeverity, const char*, int, std::string_view text) {
      std::fprintf(stderr, "%.*s\n", static_cast<int>(text.size()), text.data());
      if (text.find("stacks are in use") != std::string_view::npos) found_ = true;
    });
  }
  ~LeakedStacks() { base::SetLogSink(nullptr); }
  LeakedStacks(const LeakedStacks&) = delete;
  LeakedStacks& operator=(const LeakedStacks&) = delete;

  bool found() const { return found_; }

 private:
  std::atomic<bool> found_{false};
};

// Wakes that no fiber of the storm is sure to make.
void Blow(Sky* sky) {
  while (!sky->over) {
    if (sky->channel.TryPut(1) == ChannelResult::kOk) ++sky->put;
    if (sky->channel.TryGet()) ++sky->got;
    if (sky->queue.TryPut(1) == ChannelResult::kOk) ++sky->put;
    if (sky->queue.TryGet()) ++sky->got;
    {
      const std::scoped_lock lock(sky->mutex);
      ++sky->version;
    }
    sky->changed.notify_all();
    sky->event.Set();
    sky->event.Reset();
    std::this_thread::sleep_for(50us);  // Its pace.
  }
}

// In a fiber: families until the time is up.
void Rage(Sky* sky, int seed, Milliseconds length) {
  FiberScope scope({.policy = ScopePolicy::kCollect, .limit = 64, .deadline = length});
  std::mt19937_64 random(static_cast<std::uint64_t>(seed));
  try {
    while (!scope.IsCancelled()) {
      if (!scope.Spawn([sky, seed_of_one = random()] { Storm(sky, seed_of_one).Live(4); })) FiberYield();
    }
  } catch (...) {
    scope.Cancel();
  }
  scope.Wait();
}

void Listen(Sky* sky, int seed) {
  ASSERT_FALSE(sky->tcp.Listen(io::SocketAddress::LoopbackIpv4(0)));
  sky->tcp_address = sky->tcp.local_address();
  const auto local =
      io::SocketAddress::Parse("unix:@weft-storm-" + std::to_string(::getpid()) + "-" + std::to_string(seed));
  ASSERT_TRUE(local);
  ASSERT_FALSE(sky->local.Listen(*local));
  sky->local_address = *local;
}

std::size_t ArmedTimers() {
  const scheduling_group::ReadSection section;
  std::size_t armed = 0;
  for (scheduling_group::SchedulingGroup* group : scheduling_group::AllGroups()) {
    armed += timer::TimerWorker::Of(group)->armed();
  }
  return armed;
}

// When no fiber is left, each has begun and ended once.
std::int64_t FibersNotCountedAsFinished() {
  std::int64_t left = 0;
  for (const GroupCounts& counts : GetSchedulingCounts()) {
    left += static_cast<std::int64_t>(counts.Sum().begun) - static_cast<std::int64_t>(counts.Sum().finished);
  }
  return left;
}

// A fiber that never ends would only stop the test: this says where it is.
void JoinOrSayWhere(Fiber* root, const Sky& sky, Milliseconds length) {
  if (root->Join(Deadline(length + Patience()))) return;
  std::fprintf(stderr, "A wake-up was lost. Fibers by place:%s\n", sky.WhereFibersAre().c_str());
  const scheduling_group::ReadSection section;
  const auto groups = scheduling_group::AllGroups();
  detail::WarnOfFibersAlive({groups.begin(), groups.end()}, length);
  std::abort();
}

void CheckNothingIsLost(Sky* sky) {
  while (sky->channel.TryGet()) ++sky->got;
  while (sky->queue.TryGet()) ++sky->got;
  EXPECT_EQ(sky->put, sky->got);
  EXPECT_FALSE(sky->rendezvous.TryGet());
  EXPECT_EQ(sky->holding, 0);
  int permits = 0;
  while (sky->permits.TryAcquire()) ++permits;
  EXPECT_EQ(permits, Sky::kPermits);
  EXPECT_EQ(sky->left, sky->right);
  EXPECT_EQ(sky->first, sky->second);
  EXPECT_EQ(sky->timed_sections, sky->sections);
  EXPECT_EQ(sky->WhereFibersAre(), "");
}

void RunOneSeed(Sky* sky, int seed, Milliseconds length) {
  constexpr int kWorkers[] = {2, 1, 4, 8};
  const RuntimeOf runtime(Shape{kWorkers[static_cast<std::size_t>(seed - 1) % std::size(kWorkers)], kGroups});
  ASSERT_NO_FATAL_FAILURE(Listen(sky, seed));
  std::thread wind([sky] { Blow(sky); });
  Fiber root([=] { Rage(sky, seed, length); });
  JoinOrSayWhere(&root, *sky, length);
  EXPECT_EQ(GetFiberCount(), 0U) << "something outlived its scope";
  sky->over = true;
  wind.join();
  sky->tcp.Close();
  sky->local.Close();
  const auto until = std::chrono::steady_clock::now() + Patience();
  while ((ArmedTimers() != 0 || FibersNotCountedAsFinished() != 0) && std::chrono::steady_clock::now() < until) {
    std::this_thread::yield();
  }
  EXPECT_EQ(ArmedTimers(), 0U);
  EXPECT_EQ(FibersNotCountedAsFinished(), 0);
}

TEST(LifetimeStorm, NothingIsLostDoubledOrLeft) {
  const int seeds = std::max(1, FromEnvironment("WEFT_STORM_SEEDS", 4));
  const Milliseconds total = std::chrono::seconds(FromEnvironment("WEFT_STORM_SECONDS", 2));
  const Milliseconds length = total / seeds;
  const LeakedStacks leaked_stacks;
  std::size_t descriptors = 0;
  std::uint64_t fibers = 0;
  for (int seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(seed);
    Sky sky;
    RunOneSeed(&sky, seed, length);
    CheckNothingIsLost(&sky);
    EXPECT_FALSE(leaked_stacks.found());
    EXPECT_GT(sky.cancelled, 0U);
    if (length >= 1min) {
      EXPECT_GE(sky.fibers, kManyFibers);
    }
    fibers += sky.fibers;
    // The first two rounds make what the process keeps: a reactor for each group, and the like.
    if (seed <= 2) descriptors = OpenDescriptors();
    EXPECT_EQ(OpenDescriptors(), descriptors);
    std::printf("seed %d: %llu fibers, %llu cancelled, %llu connections, %llu bytes echoed\n", seed,
                static_cast<unsigned long long>(sky.fibers), static_cast<unsigned long long>(sky.cancelled),
                static_cast<unsigned long long>(sky.accepted), static_cast<unsigned long long>(sky.echoed));
  }
  if (total >= 1min) {
    EXPECT_GE(fibers, kManyFibers);
  }
  RecordProperty("fibers", std::to_string(fibers));
}

}  // namespace
}  // namespace weft::fiber
