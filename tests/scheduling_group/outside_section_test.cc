// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/outside_section.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <vector>

#include "weft/base/parker.h"
#include "weft/tests/testing/worker_group.h"

namespace weft::scheduling_group {
namespace {

TEST(SectionSlot, ASectionThatHasEndedIsNotTheNextOne) {
  SectionSlot slot;
  SectionWaiter waiter;
  EXPECT_TRUE(slot.Ended(slot.Look())) << "there is none";
  slot.Enter(true);
  const std::uint64_t first = slot.Look();
  EXPECT_FALSE(slot.Ended(first));
  slot.Leave(true, &waiter);
  EXPECT_TRUE(slot.Ended(first));
  slot.Enter(true);
  EXPECT_TRUE(slot.Ended(first)) << "OS2: the next section has begun";
  EXPECT_FALSE(slot.Ended(slot.Look()));
}

TEST(SectionSlot, TheOutermostSectionCounts) {
  SectionSlot slot;
  SectionWaiter waiter;
  slot.Enter(true);
  const std::uint64_t outer = slot.Look();
  slot.Enter(true);
  EXPECT_TRUE(slot.inside());
  slot.Leave(true, &waiter);
  EXPECT_TRUE(slot.inside());
  EXPECT_FALSE(slot.Ended(outer)) << "only the inner one has ended";
  slot.Enter(true);
  EXPECT_FALSE(slot.Ended(outer)) << "a second inner one has begun";
  slot.Leave(true, &waiter);
  slot.Leave(true, &waiter);
  EXPECT_FALSE(slot.inside());
  EXPECT_TRUE(slot.Ended(outer));
}

TEST(OutsideSection, NestsAndMoves) {
  EXPECT_FALSE(OutsideSection::Inside());
  {
    OutsideSection outer;
    EXPECT_TRUE(OutsideSection::Inside());
    {
      const OutsideSection moved = std::move(outer);
      const OutsideSection inner;
    }
    EXPECT_FALSE(OutsideSection::Inside()) << "the section that was moved from has ended with its new owner";
  }
  EXPECT_FALSE(OutsideSection::Inside());
}

TEST(OutsideSection, AWorkerIsInNone) {
  testing::WorkerGroup group(1);
  testing::Countdown done(1);
  ASSERT_TRUE(group.Start([&] {
    const OutsideSection section;
    EXPECT_FALSE(OutsideSection::Inside());
    done.Done();
  }));
  EXPECT_TRUE(done.Wait());
}

TEST(OutsideSection, TheWaitIsForTheThreadsThatAreInOne) {
  UseHeavyFenceForOutsideSections();
  WaitForOutsideSections();  // Nobody is.
  // More threads than there are slots in a block, so that another one is made.
  constexpr int kThreads = 100;
  base::Parker all_inside;
  std::atomic<int> inside{0};
  std::atomic<int> left{0};
  std::atomic<bool> leave{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      const auto section = std::make_optional<OutsideSection>();
      if (inside.fetch_add(1) + 1 == kThreads) (void)all_inside.Unpark();
      while (!leave.load()) std::this_thread::yield();
      left.fetch_add(1);
    });
  }
  all_inside.Park();
  EXPECT_EQ(left.load(), 0);
  leave.store(true);
  WaitForOutsideSections();
  EXPECT_EQ(left.load(), kThreads);
  for (std::thread& thread : threads) thread.join();
}

TEST(OutsideSectionDeathTest, WhoIsInOneMayNotWaitForAll) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        const OutsideSection section;
        WaitForOutsideSections();
      },
      "the runtime is started or ended by a callable");
}

struct EntersWhenItEnds {
  ~EntersWhenItEnds() {
    const OutsideSection section;
    EXPECT_TRUE(OutsideSection::Inside());
    entered.fetch_add(1);
  }
  static inline std::atomic<int> entered{0};
};

TEST(OutsideSection, DestructorsOfAThreadEnterToo) {
  static pthread_key_t key;
  ASSERT_EQ(pthread_key_create(&key, [](void*) { const EntersWhenItEnds late; }), 0);
  EntersWhenItEnds::entered = 0;
  for (int i = 0; i < 200; ++i) {  // Slots are given back, or these would take three blocks.
    std::thread([] {
      thread_local EntersWhenItEnds with_the_thread;
      static_cast<void>(with_the_thread);
      pthread_setspecific(key, &key);
    }).join();
  }
  EXPECT_EQ(EntersWhenItEnds::entered.load(), 400);
  WaitForOutsideSections();
}

}  // namespace
}  // namespace weft::scheduling_group
