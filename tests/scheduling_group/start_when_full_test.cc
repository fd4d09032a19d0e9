// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// What a start does at a full queue, by who starts. On a group that notes what it is asked for; the test's thread is
// the worker.

#include "weft/scheduling_group/queue/start_when_full.h"

#include <chrono>
#include <string>
#include <vector>

#include "weft/scheduling_group/group/scheduling_group.h"

#include "scheduling_group/policy_fixture.h"

namespace weft::scheduling_group {
namespace {

using namespace std::chrono_literals;

class Group {
 public:
  // --- What start_when_full.h asks for ---
  std::string Label() const { return "7"; }
  const GroupOptions& options() const { return options_; }
  Group& policy() { return *this; }
  bool TryPushNew(FiberEntity*, int worker) {
    did.push_back("push by " + std::to_string(worker));
    return --pushes_until_room == 0;
  }
  void Ready(FiberEntity*, ReadyReason reason) {
    did.push_back(reason == ReadyReason::kStarted ? "queue" : "queue as another");
  }
  void Notify() { did.emplace_back("notify"); }
  bool WaitForCapacity(Deadline deadline) {
    EXPECT_FALSE(deadline.is_none());
    did.emplace_back("wait");
    return capacity_comes;
  }
  void RestartWait(FiberEntity*) { did.emplace_back("restart wait"); }
  void CountRefusedStart() { did.emplace_back("refused"); }

  const WorkerBase* its_worker = nullptr;
  bool capacity_comes = true;
  int pushes_until_room = 1;
  std::vector<std::string> did;
  GroupOptions options_{.start_timeout = 0s};
};

int WorkerOf(const WorkerBase* caller, const Group* group) {
  return caller != nullptr && caller == group->its_worker ? 3 : SchedulingPolicy::kNoWorker;
}

std::vector<std::string>* now_doing = nullptr;

class StartWhenFullTest : public PolicyFixture {
 protected:
  using Did = std::vector<std::string>;

  StartWhenFullTest() {
    now_doing = &group_.did;
    worker_.yield_current = [](WorkerBase*) { now_doing->emplace_back("yield"); };
    worker_.run_instead_of_current = [](WorkerBase*, FiberEntity*) { now_doing->emplace_back("run instead"); };
  }
  ~StartWhenFullTest() override {
    SetCurrentWorker(nullptr);
    SetThreadMayWait(true);
  }

  // From now on the test is a fiber, or an on_exit hook (after which another fiber goes on), of this group or of
  // another one.
  void BecomeWorker(bool of_this_group, bool hook = false) {
    worker_.current = New();
    worker_.must_not_switch = hook;
    group_.its_worker = of_this_group ? &worker_ : nullptr;
    SetCurrentWorker(&worker_);
  }
  bool Start() { return StartWhenFull(group_, New()); }
  bool WaitForBatch() { return WaitBeforeBatch(group_); }

  Group group_;
  WorkerBase worker_;
};

TEST_F(StartWhenFullTest, AFiberOfTheGroupLetsTheNewOneRunInItsPlace) {
  BecomeWorker(/*of_this_group=*/true);
  EXPECT_TRUE(Start());
  EXPECT_EQ(group_.did, (Did{"run instead"}));
}

TEST_F(StartWhenFullTest, AnOnExitHookQueuesIt) {
  for (const bool of_this_group : {true, false}) {
    group_.did.clear();
    BecomeWorker(of_this_group, /*hook=*/true);
    EXPECT_TRUE(Start());
    EXPECT_EQ(group_.did, (Did{"queue"}));
  }
}

TEST_F(StartWhenFullTest, AWorkerWithoutAFiberQueuesIt) {
  BecomeWorker(/*of_this_group=*/true);
  worker_.current = nullptr;
  EXPECT_TRUE(Start());
  EXPECT_EQ(group_.did, (Did{"queue"}));
}

TEST_F(StartWhenFullTest, AThreadThatMayNotWaitQueuesIt) {
  SetThreadMayWait(false);
  EXPECT_TRUE(Start());
  EXPECT_EQ(group_.did, (Did{"queue"}));
}

TEST_F(StartWhenFullTest, AThreadWaitsForCapacityThenPushesAndNotifies) {
  EXPECT_TRUE(Start());
  EXPECT_EQ(group_.did, (Did{"wait", "restart wait", "push by -1", "notify"}));
}

TEST_F(StartWhenFullTest, AThreadForWhichNoCapacityComesIsRefused) {
  group_.capacity_comes = false;
  EXPECT_FALSE(Start());
  EXPECT_EQ(group_.did, (Did{"wait", "refused"}));
}

// Others were faster, each time.
TEST_F(StartWhenFullTest, AThreadThatFindsTheQueueFullAgainIsRefusedAtItsDeadline) {
  group_.pushes_until_room = 2;
  EXPECT_FALSE(Start());
  EXPECT_EQ(group_.did, (Did{"wait", "restart wait", "push by -1", "refused"}));
  group_.did.clear();
  group_.options_.start_timeout = 1h;
  group_.pushes_until_room = 2;
  EXPECT_TRUE(Start());
  EXPECT_EQ(group_.did, (Did{"wait", "restart wait", "push by -1", "wait", "restart wait", "push by -1", "notify"}));
}

TEST_F(StartWhenFullTest, AFiberOfAnotherGroupYieldsAndBlocksNoWorker) {
  BecomeWorker(/*of_this_group=*/false);
  group_.options_.start_timeout = 1h;
  group_.pushes_until_room = 2;
  EXPECT_TRUE(Start());
  EXPECT_EQ(group_.did, (Did{"yield", "restart wait", "push by -1", "yield", "restart wait", "push by -1", "notify"}));
}

TEST_F(StartWhenFullTest, AFiberOfAnotherGroupIsRefusedAtItsDeadline) {
  BecomeWorker(/*of_this_group=*/false);
  group_.pushes_until_room = 2;
  EXPECT_FALSE(Start());
  EXPECT_EQ(group_.did, (Did{"yield", "restart wait", "push by -1", "refused"}));
}

TEST_F(StartWhenFullTest, OfABatchAThreadWaitsForCapacity) {
  EXPECT_TRUE(WaitForBatch());
  group_.capacity_comes = false;
  EXPECT_FALSE(WaitForBatch());
  EXPECT_EQ(group_.did, (Did{"wait", "wait", "refused"}));
  SetThreadMayWait(false);
  EXPECT_TRUE(WaitForBatch());
  EXPECT_EQ(group_.did.size(), 3u);
}

// SF2
TEST_F(StartWhenFullTest, OfABatchAFiberYieldsOnceAndAHookGoesOn) {
  for (const bool of_this_group : {true, false}) {
    group_.did.clear();
    BecomeWorker(of_this_group);
    EXPECT_TRUE(WaitForBatch());
    EXPECT_EQ(group_.did, (Did{"yield"}));
    BecomeWorker(of_this_group, /*hook=*/true);
    EXPECT_TRUE(WaitForBatch());
    EXPECT_EQ(group_.did.size(), 1u);
  }
}

}  // namespace
}  // namespace weft::scheduling_group
