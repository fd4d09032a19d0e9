// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// A worker that sees work and cannot get it, because the thread that could give it has no CPU, sleeps for a moment; and
// no worker yields its CPU, which makes it wait for a CPU at the next wake-up.

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>

#include "weft/scheduling_group/group/scheduling_group.h"
#include "weft/scheduling_group/scheduling_policy.h"
#include "weft/scheduling_group/worker/current_worker.h"

#include "testing/worker_group.h"

namespace {

std::atomic<bool> half_pushed{false};
std::atomic<int> yields{0};

}  // namespace

// In place of the C library's.
extern "C" int sched_yield() noexcept {
  if (weft::scheduling_group::CurrentWorker() != nullptr) ++yields;
  return static_cast<int>(::syscall(SYS_sched_yield));
}

namespace weft::scheduling_group {
namespace {

std::atomic<int> looks{0};

using weft::testing::Countdown;
using weft::testing::WorkerGroup;

// How often a thread of the process has given up its CPU to wait for something. (A yield does not count.)
std::int64_t TimesBlocked() {
  rusage usage{};
  EXPECT_EQ(::getrusage(RUSAGE_SELF, &usage), 0);
  return usage.ru_nvcsw;
}

// As the policy under test, but a push that has come half-way can be seen.
class HalfPushed final : public SchedulingPolicy {
 public:
  explicit HalfPushed(const Options& options)
      : policy_(CreateSchedulingPolicy(weft::testing::PolicyUnderTest(), options)) {}

  void Push(FiberEntity* fiber, ReadyReason reason, int worker) override { policy_->Push(fiber, reason, worker); }
  void PushBatch(FiberEntity* const* fibers, std::size_t count, ReadyReason reason, int worker) override {
    policy_->PushBatch(fibers, count, reason, worker);
  }
  bool TryPushNew(FiberEntity* fiber, int worker) override { return policy_->TryPushNew(fiber, worker); }
  FiberEntity* Pop(unsigned worker, bool* must_notify) override { return policy_->Pop(worker, must_notify); }
  FiberEntity* PopFromBusyWorkers(unsigned worker, SpinMemory* memory) override {
    return policy_->PopFromBusyWorkers(worker, memory);
  }
  FiberEntity* Steal(bool* must_notify) override { return policy_->Steal(must_notify); }
  bool HasWork() const override {
    if (!half_pushed) return policy_->HasWork();
    ++looks;
    return true;
  }
  bool HasStealable() const override { return policy_->HasStealable(); }
  bool Full() const override { return policy_->Full(); }
  bool HalfEmpty() const override { return policy_->HalfEmpty(); }
  std::size_t Size() const override { return policy_->Size(); }
  std::size_t OverflowCount() const override { return policy_->OverflowCount(); }

 private:
  const std::unique_ptr<SchedulingPolicy> policy_;
};

class IdleNap : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    ASSERT_TRUE(RegisterSchedulingPolicy(
        "half pushed", [](const SchedulingPolicy::Options& options) { return std::make_unique<HalfPushed>(options); }));
  }

  bool AllSleep() { return group_.group().idle_workers().sleepers().Count() == kWorkers; }

  static constexpr unsigned kWorkers = 4;
  WorkerGroup group_{{.workers = kWorkers, .policy = "half pushed"}};
};

// Workers went around their loop as long as they had their CPUs: with four workers and two producers on two CPUs half a
// look for each fiber that was started.
TEST_F(IdleNap, WorkersThatSeeWorkAndCannotGetItLetOthersHaveTheirCpus) {
  while (!AllSleep()) std::this_thread::yield();

  half_pushed = true;
  Countdown done(1);
  ASSERT_TRUE(group_.Start([&] { done.Done(); }));  // Wakes one, which then finds no more.
  EXPECT_TRUE(done.Wait());
  const std::int64_t blocked_before = TimesBlocked();
  const int before = looks;
  while (looks - before < 20'000) std::this_thread::yield();
  // A nap for each worker's 32 looks, and less where one finds no more to look at.
  EXPECT_GE(TimesBlocked() - blocked_before, 20'000 / 32 / 2);

  half_pushed = false;
  while (!AllSleep()) std::this_thread::yield();
}

// They yielded on their way to sleep and between failed searches, and then waited 4 ms for a CPU when they were woken
// beside a thread that kept it busy.
TEST_F(IdleNap, NoWorkerYieldsItsCpu) {
  for (int round = 0; round < 100; ++round) {
    half_pushed = round % 2 == 1;
    Countdown done(1);
    ASSERT_TRUE(group_.Start([&] { done.Done(); }));
    ASSERT_TRUE(done.Wait());
    for (const int before = looks; half_pushed && looks - before < 200;) std::this_thread::yield();
    half_pushed = false;
    while (!AllSleep()) std::this_thread::yield();
  }
  EXPECT_EQ(yields, 0);
}

}  // namespace
}  // namespace weft::scheduling_group
