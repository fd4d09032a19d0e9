// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// For tests of fibers and threads alike, in the layers that do not know the runtime:
//
//   TimedGroup    a scheduling group with its workers and its TimerWorker
//   Crew          actors that are fibers of the group, plain threads, or the one and the other in turn
//   OnAnyCrew     a fixture that runs each test with fibers on 1, 2, 4, 8 and 64 workers, with threads, and mixed
//
// Nothing here relies on what it tests: a thread waits for the actors on a base::Parker, with a limit.
#ifndef WEFT_TESTS_TESTING_GROUP_FIXTURE_H_
#define WEFT_TESTS_TESTING_GROUP_FIXTURE_H_

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "weft/base/deadline.h"
#include "weft/base/thread/cpu.h"
#include "weft/scheduling_group/fiber/fiber_factory.h"
#include "weft/scheduling_group/fiber/park.h"
#include "weft/scheduling_group/group/runtime_end.h"
#include "weft/scheduling_group/group/scheduling_group.h"
#include "weft/scheduling_group/worker/worker_team.h"
#include "weft/timer/worker/timer_worker.h"

#include "testing/patience.h"
#include "testing/policy.h"
#include "testing/worker_group.h"

namespace weft::testing {

class TimedGroup {
 public:
  explicit TimedGroup(unsigned workers)
      : group_(GroupOptions(workers)), timers_(TimerOptions(&group_)), team_(&group_) {
    if (!timers_.Start()) ADD_FAILURE() << "no thread for the timers";
    if (!team_.Start()) ADD_FAILURE() << "no threads for the workers";
  }

  // All fibers must end soon.
  ~TimedGroup() {
    if (!scheduling_group::WaitUntilNoFibers(std::chrono::seconds(60))) {
      std::fprintf(stderr, "TimedGroup: fibers are left\n");
      std::abort();
    }
    EXPECT_EQ(timers_.armed(), 0u) << "a timer was left";
    timers_.Stop();
    group_.Stop();
    team_.Join();
  }

  template <class F>
  void Start(F&& f) {
    auto* fiber = scheduling_group::NewFiber(&group_, {}, std::forward<F>(f));
    if (!group_.Start(fiber)) {
      scheduling_group::DiscardFiber(fiber);
      ADD_FAILURE() << "a fiber was refused";
    }
  }

  // Runs `f` in a fiber and waits for its end. A plain thread.
  template <class F>
  void Run(F&& f) {
    Countdown done(1);
    Start([&] {
      f();
      done.Done();
    });
    if (!done.Wait()) {
      std::fprintf(stderr, "TimedGroup::Run: the fiber does not end\n");
      std::abort();
    }
  }

  scheduling_group::SchedulingGroup& group() { return group_; }
  timer::TimerWorker& timers() { return timers_; }

 private:
  static scheduling_group::SchedulingGroup::Options GroupOptions(unsigned workers) {
    scheduling_group::SchedulingGroup::Options options;
    options.workers = workers;
    options.policy = PolicyUnderTest();
    options.run_queue_size = 1024;
    options.start_timeout = kPatientStart;
    return options;
  }
  static timer::TimerWorker::Options TimerOptions(scheduling_group::SchedulingGroup* group) {
    timer::TimerWorker::Options options;
    options.group = group;
    return options;
  }

  scheduling_group::SchedulingGroup group_;
  timer::TimerWorker timers_;
  scheduling_group::WorkerTeam team_;
};

enum class ActorKind { kFibers, kThreads, kMixed };

// Lets others of its kind run.
inline void YieldActor() {
  if (scheduling_group::CurrentFiber() != nullptr) {
    scheduling_group::YieldCurrentFiber();
  } else {
    std::this_thread::yield();
  }
}

// Waits for a state that another actor is about to reach. Gives up the CPU too: the other's worker may have none.
template <class Condition>
void YieldUntil(Condition&& condition) {
  for (int i = 1; !condition(); ++i) {
    YieldActor();
    if (i % 8 == 0) std::this_thread::yield();  // Beside a busy process each may take milliseconds.
  }
}

class Crew {
 public:
  Crew(TimedGroup* group, ActorKind kind) : group_(group), kind_(kind) {}
  ~Crew() { Join(); }

  template <class F>
  void Add(F f) {
    const bool fiber = kind_ == ActorKind::kFibers || (kind_ == ActorKind::kMixed && added_ % 2 == 0);
    ++added_;
    fiber ? AddFiber(std::move(f)) : AddThread(std::move(f));
  }

  // `f(i)` for 0 <= i < count.
  template <class F>
  void AddMany(int count, F f) {
    for (int i = 0; i < count; ++i) Add([f, i]() mutable { f(i); });
  }

  template <class F>
  void AddFiber(F f) {
    alive_->fetch_add(1, std::memory_order_relaxed);
    group_->Start([f = std::move(f), alive = alive_]() mutable {
      f();
      alive->fetch_sub(1, std::memory_order_release);
    });
  }

  template <class F>
  void AddThread(F f) {
    alive_->fetch_add(1, std::memory_order_relaxed);
    threads_.emplace_back([f = std::move(f), alive = alive_]() mutable {
      f();
      alive->fetch_sub(1, std::memory_order_release);
    });
  }

  // Until all have ended. A plain thread.
  void Join() {
    const Deadline limit = std::chrono::seconds(90);
    while (alive_->load(std::memory_order_acquire) != 0) {
      if (limit.expired()) {
        std::fprintf(stderr, "Crew::Join: %d actors do not end\n", alive_->load());
        std::abort();
      }
      std::this_thread::sleep_for(std::chrono::microseconds(50));
    }
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

  int alive() const { return alive_->load(std::memory_order_acquire); }

 private:
  TimedGroup* const group_;
  const ActorKind kind_;
  int added_ = 0;
  // Shared: an actor's last touch may come after Join() has seen it.
  std::shared_ptr<std::atomic<int>> alive_ = std::make_shared<std::atomic<int>>(0);
  std::vector<std::thread> threads_;
};

struct CrewKind {
  ActorKind actors;
  unsigned workers;
};

inline std::string ToString(const CrewKind& kind) {
  switch (kind.actors) {
    case ActorKind::kFibers:
      return "FibersOn" + std::to_string(kind.workers);
    case ActorKind::kThreads:
      return "Threads";
    case ActorKind::kMixed:
      return "MixedOn" + std::to_string(kind.workers);
  }
  return "";
}

// Under AddressSanitizer some: more numbers of workers find more races, and for these ThreadSanitizer and the release
// build look in all crews.
inline std::vector<CrewKind> AllCrews() {
  if (WEFT_ASAN) {
    return {{ActorKind::kFibers, 1},
            {ActorKind::kFibers, 4},
            {ActorKind::kMixed, 2},
            {ActorKind::kMixed, 64},
            {ActorKind::kThreads, 1}};
  }
  std::vector<CrewKind> kinds;
  for (const unsigned workers : {1u, 2u, 4u, 8u, 64u}) kinds.push_back({ActorKind::kFibers, workers});
  for (const unsigned workers : {1u, 2u, 4u, 8u, 64u}) kinds.push_back({ActorKind::kMixed, workers});
  kinds.push_back({ActorKind::kThreads, 1u});
  return kinds;
}

class OnAnyCrew : public ::testing::TestWithParam<CrewKind> {
 protected:
  OnAnyCrew() : group(GetParam().workers) {}

  Crew MakeCrew() { return Crew(&group, GetParam().actors); }

  TimedGroup group;
};

#define WEFT_INSTANTIATE_ON_ANY_CREW(fixture)                                                         \
  INSTANTIATE_TEST_SUITE_P(Crews, fixture, ::testing::ValuesIn(::weft::testing::AllCrews()),          \
                           [](const ::testing::TestParamInfo<::weft::testing::CrewKind>& parameter) { \
                             return ::weft::testing::ToString(parameter.param);                       \
                           })

}  // namespace weft::testing

#endif  // WEFT_TESTS_TESTING_GROUP_FIXTURE_H_
