// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/fiber/read_section.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <atomic>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "weft/base/thread/parker.h"
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

TEST(ReadSection, NestsAndMoves) {
  EXPECT_FALSE(ReadSection::Inside());
  {
    ReadSection outer;
    EXPECT_TRUE(ReadSection::Inside());
    {
      const ReadSection moved = std::move(outer);
      const ReadSection inner;
    }
    EXPECT_FALSE(ReadSection::Inside()) << "the section that was moved from has ended with its new owner";
  }
  EXPECT_FALSE(ReadSection::Inside());
}

TEST(ReadSection, AWorkerIsInNone) {
  testing::WorkerGroup group(1);
  testing::Countdown done(1);
  ASSERT_TRUE(group.Start([&] {
    const ReadSection section;
    EXPECT_FALSE(ReadSection::Inside());
    done.Done();
  }));
  EXPECT_TRUE(done.Wait());
}

TEST(ReadSection, TheWaitIsForTheThreadsThatAreInOne) {
  UseHeavyFenceForReadSections();
  WaitForReadSections();  // Nobody is.
  // More threads than there are slots in a block, so that another one is made.
  constexpr int kThreads = 100;
  base::Parker all_inside;
  std::atomic<int> inside{0};
  std::atomic<int> left{0};
  std::atomic<bool> leave{false};
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&] {
      const auto section = std::make_optional<ReadSection>();
      if (inside.fetch_add(1) + 1 == kThreads) (void)all_inside.Unpark();
      while (!leave.load()) std::this_thread::yield();
      left.fetch_add(1);
    });
  }
  all_inside.Park();
  EXPECT_EQ(left.load(), 0);
  leave.store(true);
  WaitForReadSections();
  EXPECT_EQ(left.load(), kThreads);
  for (std::thread& thread : threads) thread.join();
}

TEST(ReadSectionDeathTest, WhoIsInOneMayNotWaitForAll) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        const ReadSection section;
        WaitForReadSections();
      },
      "the runtime is started or ended by a callable");
}

struct EntersWhenItEnds {
  ~EntersWhenItEnds() {
    const ReadSection section;
    EXPECT_TRUE(ReadSection::Inside());
    entered.fetch_add(1);
  }
  static inline std::atomic<int> entered{0};
};

TEST(ReadSection, DestructorsOfAThreadEnterToo) {
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
  WaitForReadSections();
}

// A thread that still runs destructors though its slot was given back and is another thread's now.
struct LateThread {
  pthread_key_t key = 0;
  bool slot_given_back = false;
  std::atomic<bool> is_late{false};
  std::atomic<bool> other_inside{false};
  std::atomic<bool> has_looked{false};
  bool inside = true;

  static void Destructor(void* data) {
    auto* const self = static_cast<LateThread*>(data);
    if (!std::exchange(self->slot_given_back, true)) {  // In this round of destructors.
      pthread_setspecific(self->key, self);
      return;
    }
    self->is_late = true;
    self->is_late.notify_one();
    self->other_inside.wait(false);
    self->inside = ReadSection::Inside();
    self->has_looked = true;
    self->has_looked.notify_one();
  }
};

TEST(ReadSection, ASlotThatWasGivenBackIsTheNextThreadsAlone) {
  LateThread late;
  ASSERT_EQ(pthread_key_create(&late.key, &LateThread::Destructor), 0);
  std::thread thread([&] {
    const ReadSection section;
    pthread_setspecific(late.key, &late);
  });
  late.is_late.wait(false);
  std::thread([&] {
    const ReadSection section;
    late.other_inside = true;
    late.other_inside.notify_one();
    late.has_looked.wait(false);
  }).join();
  thread.join();
  EXPECT_FALSE(late.inside) << "it is in the section of the thread that has its slot now";
  pthread_key_delete(late.key);
}

}  // namespace
}  // namespace weft::scheduling_group
