// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// A worker that sees work and cannot get it, because the thread that could give it has no CPU, lets others have its
// own.

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <memory>
#include <thread>

#include "weft/scheduling_group/current_worker.h"
#include "weft/scheduling_group/policy_registry.h"
#include "weft/scheduling_group/scheduling_group.h"

#include "testing/worker_group.h"

namespace {

std::atomic<bool> half_pushed{false};
weft::testing::Countdown yields_to_come(100);

}  // namespace

// In place of the C library's.
extern "C" int sched_yield() noexcept {
  if (half_pushed && weft::scheduling_group::CurrentWorker() != nullptr) yields_to_come.Done();
  return static_cast<int>(::syscall(SYS_sched_yield));
}

namespace weft::scheduling_group {
namespace {

using weft::testing::Countdown;
using weft::testing::WorkerGroup;

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
  FiberEntity* Pop(unsigned worker, bool* in_sight_again) override { return policy_->Pop(worker, in_sight_again); }
  FiberEntity* PopFromBusyWorkers(unsigned worker, SpinMemory* memory) override {
    return policy_->PopFromBusyWorkers(worker, memory);
  }
  void EndSpin(SpinMemory* memory) override { policy_->EndSpin(memory); }
  FiberEntity* Steal(bool* in_sight_again) override { return policy_->Steal(in_sight_again); }
  bool HasWork() const override { return half_pushed || policy_->HasWork(); }
  bool HasStealable() const override { return policy_->HasStealable(); }
  bool Full() const override { return policy_->Full(); }
  bool HalfEmpty() const override { return policy_->HalfEmpty(); }
  bool FewWait() const override { return policy_->FewWait(); }
  std::size_t Size() const override { return policy_->Size(); }
  std::size_t OverflowCount() const override { return policy_->OverflowCount(); }

 private:
  const std::unique_ptr<SchedulingPolicy> policy_;
};

// Workers went around their loop as long as they had their CPUs: with four workers and two producers on two CPUs half a
// look for each fiber that was started.
TEST(IdleYield, WorkersThatSeeWorkAndCannotGetItLetOthersHaveTheirCpus) {
  ASSERT_TRUE(RegisterSchedulingPolicy(
      "half pushed", [](const SchedulingPolicy::Options& options) { return std::make_unique<HalfPushed>(options); }));
  WorkerGroup group({.workers = 4, .policy = "half pushed"});
  const auto all_sleep = [&] { return group.group().idle_workers().sleepers().Count() == 4; };
  while (!all_sleep()) std::this_thread::yield();

  half_pushed = true;
  Countdown done(1);
  ASSERT_TRUE(group.Start([&] { done.Done(); }));  // Wakes one, which then finds no more.
  EXPECT_TRUE(done.Wait());
  EXPECT_TRUE(yields_to_come.Wait(std::chrono::seconds(10)));

  half_pushed = false;
  while (!all_sleep()) std::this_thread::yield();
}

}  // namespace
}  // namespace weft::scheduling_group
