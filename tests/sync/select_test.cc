// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/sync/select.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "weft/sync/cancel_scope.h"

#include "testing/group_fixture.h"
#include "testing/scripted_case.h"

namespace weft {
namespace {

using namespace std::chrono_literals;
using synchronization::SelectCase;
using synchronization::Selection;
using testing::Crew;
using testing::Scaled;
using testing::ScriptedCase;
using testing::YieldUntil;

class SelectTest : public testing::OnAnyCrew {};
WEFT_INSTANTIATE_ON_ANY_CREW(SelectTest);

TEST_P(SelectTest, TakesWhatIsReady) {
  Crew crew = MakeCrew();
  crew.AddMany(2, [](int) {
    FiberChannel<int> full(1);
    FiberChannel<int> empty(1);
    ASSERT_EQ(full.Put(5), ChannelResult::kOk);
    int got = 0;
    EXPECT_EQ(Select(OnGet(empty), OnGet(full, [&](ChannelItem<int> item) { got = *item; })), 1U);
    EXPECT_EQ(got, 5);
    EXPECT_EQ(Select(OnPut(full, 6), OnGet(empty)), 0U);
    EXPECT_EQ(full.TryGet(), 6);
    FiberEvent event;
    event.Set();
    EXPECT_EQ(Select(OnGet(empty), OnSet(event)), 1U);
    FiberLatch latch(0);
    EXPECT_EQ(Select(OnOpen(latch), OnGet(empty)), 0U);
    FiberSemaphore semaphore(1);
    EXPECT_EQ(Select(OnAcquire(semaphore), OnGet(empty)), 0U);
    EXPECT_FALSE(semaphore.TryAcquire());
    empty.Close();
    ChannelResult result = ChannelResult::kOk;
    EXPECT_EQ(Select(OnGet(empty, [&](ChannelItem<int> item) { result = item.result(); })), 0U);
    EXPECT_EQ(result, ChannelResult::kClosed);
  });
  crew.Join();
}

TEST_P(SelectTest, OtherwiseIsTakenWhenNothingIsReady) {
  Crew crew = MakeCrew();
  crew.AddMany(2, [](int) {
    FiberChannel<int> channel(1);
    FiberEvent event;
    EXPECT_EQ(Select(OnGet(channel), OnSet(event), Otherwise()), 2U);
    event.Set();
    EXPECT_EQ(Select(OnGet(channel), OnSet(event), Otherwise()), 1U);
  });
  crew.Join();
}

TEST_P(SelectTest, TheEarliestDeadlineIsTaken) {
  Crew crew = MakeCrew();
  crew.AddMany(2, [](int) {
    FiberChannel<int> channel(1);
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(Select(OnGet(channel), OnDeadline(1h), OnDeadline(1ms)), 2U);
    EXPECT_GE(std::chrono::steady_clock::now() - begin, 1ms);
    EXPECT_EQ(Select(OnDeadline(0s)), 0U);
    EXPECT_EQ(channel.TryPut(1), ChannelResult::kOk) << "nobody waits there any more";
    EXPECT_EQ(channel.TryGet(), 1);
  });
  crew.Join();
}

TEST_P(SelectTest, ADeadlineAloneIsASleep) {
  Crew crew = MakeCrew();
  crew.AddMany(2, [](int) {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(Select(OnDeadline(1ms)), 0U);
    EXPECT_GE(std::chrono::steady_clock::now() - begin, 1ms);
  });
  crew.Join();
}

// Each kind of case is what ends the wait.
TEST_P(SelectTest, WaitsForTheFirst) {
  enum { kGet, kPut, kSet, kOpen, kAcquire, kClose, kCases };
  for (int which = 0; which < kCases; ++which) {
    SCOPED_TRACE(which);
    FiberChannel<std::string> empty(1);
    FiberChannel<int> full(1);
    ASSERT_EQ(full.Put(0), ChannelResult::kOk);
    FiberEvent event;
    FiberLatch latch(1);
    FiberSemaphore semaphore(0);
    std::atomic<bool> selects{false};
    Crew crew = MakeCrew();
    crew.Add([&] {
      selects = true;
      std::string got;
      const std::size_t taken =
          Select(OnGet(empty, [&](ChannelItem<std::string> item) { got = item ? *item : "closed"; }), OnPut(full, 7),
                 OnSet(event), OnOpen(latch), OnAcquire(semaphore));
      EXPECT_EQ(taken, static_cast<std::size_t>(which == kClose ? 0 : which));
      EXPECT_EQ(got, which == kGet ? "item" : which == kClose ? "closed" : "");
    });
    crew.Add([&] {
      YieldUntil([&] { return selects.load(); });
      switch (which) {
        case kGet:
          EXPECT_EQ(empty.Put("item"), ChannelResult::kOk);
          break;
        case kPut:
          EXPECT_EQ(full.Get(), 0);
          EXPECT_EQ(full.Get(), 7);
          break;
        case kSet:
          event.Set();
          break;
        case kOpen:
          latch.CountDown();
          break;
        case kAcquire:
          semaphore.Release();
          break;
        default:
          empty.Close();
      }
    });
    crew.Join();
  }
}

// Of several that are ready each has its turn.
TEST_P(SelectTest, IsFairAmongTheReady) {
  Crew crew = MakeCrew();
  crew.Add([] {
    FiberEvent first;
    FiberEvent second;
    FiberEvent third;
    first.Set();
    second.Set();
    third.Set();
    int taken[3] = {};
    for (int i = 0; i < 300; ++i) ++taken[Select(OnSet(first), OnSet(second), OnSet(third))];
    for (const int count : taken) EXPECT_GE(count, 50);
  });
  crew.Join();
}

TEST_P(SelectTest, AnItemThatIsNotPutIsUnchanged) {
  Crew crew = MakeCrew();
  crew.Add([] {
    FiberChannel<std::unique_ptr<int>> full(1);
    ASSERT_EQ(full.Put(std::make_unique<int>(1)), ChannelResult::kOk);
    auto item = std::make_unique<int>(2);
    EXPECT_EQ(Select(OnPut(full, std::move(item)), OnDeadline(1ms)), 1U);
    ASSERT_NE(item, nullptr);
    EXPECT_EQ(**full.Get(), 1);
    EXPECT_EQ(Select(OnPut(full, std::move(item)), OnDeadline(1h)), 0U);
    EXPECT_EQ(item, nullptr);
  });
  crew.Join();
}

TEST_P(SelectTest, DoesNotServeItself) {
  Crew crew = MakeCrew();
  crew.Add([] {
    FiberChannel<int> rendezvous(0);
    EXPECT_EQ(Select(OnPut(rendezvous, 1), OnGet(rendezvous), OnDeadline(2ms)), 2U);
    // And it sleeps meanwhile.
    for (int i = 0; i < 3; ++i) {  // The first case is another one each time.
      int item = 1;
      Selection selection;
      synchronization::PutCase<int> put(&selection, &rendezvous, &item);
      synchronization::GetCase<int> get(&selection, &rendezvous);
      ScriptedCase counts(&selection);
      SelectCase* const cases[] = {&put, &get, &counts};
      EXPECT_EQ(selection.Wait(cases, 2ms), Selection::kNone);
      EXPECT_LE(counts.tries, 2) << "before and after the wait";
      static_cast<void>(selection.Try({}));
    }
  });
  crew.Join();
}

// A channel is closed after it was tried and before it is entered, or right after that.
TEST_P(SelectTest, AChannelThatIsClosedMeanwhileEndsTheWait) {
  Crew crew = MakeCrew();
  crew.Add([] {
    for (int i = 0; i < 8; ++i) {  // The first case is another one each time.
      FiberChannel<int> channel(1);
      const bool full = i % 4 < 2;
      ASSERT_EQ(channel.TryPut(0), ChannelResult::kOk);
      if (!full) {
        ASSERT_TRUE(channel.TryGet());
      }
      int item = 1;
      Selection selection;
      synchronization::PutCase<int> put(&selection, &channel, &item);
      synchronization::GetCase<int> get(&selection, &channel);
      ScriptedCase closes(&selection);
      closes.on_enter = [&] {
        channel.Close();
        return closes.Waits();
      };
      SelectCase* const cases[] = {full ? static_cast<SelectCase*>(&put) : &get, &closes};
      EXPECT_EQ(selection.Wait(cases, 2s), 0U);
      EXPECT_EQ(closes.tries, 1) << "it was found when the deadline had passed";
      EXPECT_EQ(full ? put.result() : get.Take().result(), ChannelResult::kClosed);
      static_cast<void>(selection.Try({}));
    }
  });
  crew.Join();
}

// In a first round one case is given a hint. In the next one another is notified, and a third sees that before the
// first has been entered.
TEST_P(SelectTest, AHintOfAnEarlierRoundIsForgotten) {
  Crew crew = MakeCrew();
  crew.Add([] {
    for (int i = 0; i < 12; ++i) {  // The first case is another one each time.
      Selection selection;
      ScriptedCase item(&selection);
      ScriptedCase ready(&selection);
      ScriptedCase hint(&selection);
      item.on_enter = [&] { return item.entries == 1 ? item.Waits() : item.IsNotified(); };
      ready.on_enter = [&] { return ready.entries == 1 ? ready.Waits() : ready.IsReady(); };
      hint.on_enter = [&] { return hint.entries == 1 ? hint.IsNotified() : hint.Waits(); };
      hint.is_hint = true;
      SelectCase* const cases[] = {&item, &ready, &hint};
      EXPECT_EQ(selection.Wait(cases, 2s), 0U);
      EXPECT_EQ(item.wins, 1) << "an item was lost";
      EXPECT_EQ(hint.notifications, 1);
      for (const ScriptedCase* one : {&item, &ready, &hint}) EXPECT_EQ(one->left_to_leave, 0);
    }
  });
  crew.Join();
}

// After a hint it waits again, until the deadline.
TEST_P(SelectTest, TheSignalOfAnEarlierRoundIsForgotten) {
  Crew crew = MakeCrew();
  crew.Add([] {
    for (int i = 0; i < 4; ++i) {
      Selection selection;
      ScriptedCase other(&selection);
      ScriptedCase hint(&selection);
      hint.on_enter = [&] { return hint.entries == 1 ? hint.IsNotified() : hint.Waits(); };
      hint.is_hint = true;
      SelectCase* const cases[] = {&other, &hint};
      EXPECT_EQ(selection.Wait(cases, 2ms), Selection::kNone);
      EXPECT_LE(hint.tries, 3) << "before and after each wait";
      for (const ScriptedCase* one : {&other, &hint}) EXPECT_EQ(one->left_to_leave, 0);
    }
  });
  crew.Join();
}

// Two that each put to and get from the same two channels meet.
TEST_P(SelectTest, TwoSelectsMeetAtARendezvous) {
  FiberChannel<int> one(0);
  FiberChannel<int> other(0);
  const int rounds = Scaled(2000);
  std::atomic<int> put{0};
  std::atomic<int> got{0};
  Crew crew = MakeCrew();
  crew.AddMany(2, [&](int actor) {
    FiberChannel<int>& mine = actor == 0 ? one : other;
    FiberChannel<int>& yours = actor == 0 ? other : one;
    for (int i = 0; i < rounds; ++i) {
      const auto result = [&](ChannelResult r) { put += r == ChannelResult::kOk ? 1 : 0; };
      const auto item = [&](const ChannelItem<int>& it) { got += it ? 1 : 0; };
      Select(OnPut(mine, i, result), OnGet(yours, item));
    }
    mine.Close();
    yours.Close();
  });
  crew.Join();
  EXPECT_EQ(put, got);
  EXPECT_GE(put, rounds);
}

// Many putters and getters over many channels, all by Select(): each item arrives once.
TEST_P(SelectTest, NoItemIsLostOrDoubled) {
  constexpr int kChannels = 3;
  const int items = Scaled(3000);
  std::vector<std::unique_ptr<FiberChannel<int>>> channels;
  for (std::size_t capacity : {0U, 1U, 4U}) channels.push_back(std::make_unique<FiberChannel<int>>(capacity));
  FiberEvent done;
  std::vector<std::atomic<int>> seen(static_cast<std::size_t>(2 * items));
  std::atomic<int> left{2 * items};
  Crew crew = MakeCrew();
  crew.AddMany(2, [&](int putter) {
    for (int i = 0; i < items; ++i) {
      const int item = putter * items + i;
      if (i % 7 == 0) {
        while (Select(OnPut(*channels[0], item), OnPut(*channels[1], item), OnPut(*channels[2], item),
                      OnDeadline(20us)) == kChannels) {
        }
      } else {
        Select(OnPut(*channels[0], item), OnPut(*channels[1], item), OnPut(*channels[2], item));
      }
    }
  });
  crew.AddMany(3, [&](int) {
    const auto take = [&](const ChannelItem<int>& item) {
      ASSERT_TRUE(item);
      ++seen[static_cast<std::size_t>(*item)];
      if (--left == 0) done.Set();
    };
    while (Select(OnGet(*channels[0], take), OnGet(*channels[1], take), OnGet(*channels[2], take), OnSet(done)) !=
           kChannels) {
    }
  });
  crew.Join();
  for (const std::atomic<int>& count : seen) EXPECT_EQ(count, 1);
}

TEST_P(SelectTest, NoUnitIsLostBetweenSelectsAndDeadlines) {
  FiberSemaphore semaphore(0);
  const int rounds = Scaled(3000);
  std::atomic<int> taken{0};
  Crew crew = MakeCrew();
  crew.AddMany(2, [&](int) {
    FiberEvent never;
    for (int i = 0; i < rounds; ++i) {
      if (Select(OnAcquire(semaphore), OnSet(never), OnDeadline(std::chrono::microseconds(i % 40))) == 0) ++taken;
    }
  });
  crew.Add([&] {
    for (int i = 0; i < rounds; ++i) {
      semaphore.Release();
      testing::YieldActor();
    }
  });
  crew.Join();
  int left = 0;
  while (semaphore.TryAcquire()) ++left;
  EXPECT_EQ(taken + left, rounds);
}

class SelectCancelTest : public ::testing::TestWithParam<unsigned> {
 protected:
  SelectCancelTest() : group(GetParam()) {}
  testing::TimedGroup group;
};
INSTANTIATE_TEST_SUITE_P(Workers, SelectCancelTest, ::testing::Values(1U, 2U, 4U, 8U));

TEST_P(SelectCancelTest, IsACancellationPoint) {
  FiberChannel<int> channel(1);
  FiberEvent event;
  CancelScope scope;
  std::atomic<bool> selects{false};
  Crew crew(&group, testing::ActorKind::kFibers);
  crew.Add([&] {
    EXPECT_FALSE(scope.Run([&] {
      selects = true;
      Select(OnGet(channel), OnSet(event));
      ADD_FAILURE() << "it returned";
    }));
  });
  crew.Add([&] {
    YieldUntil([&] { return selects.load(); });
    EXPECT_TRUE(scope.Cancel());
  });
  crew.Join();
  EXPECT_EQ(channel.TryPut(1), ChannelResult::kOk);
  EXPECT_EQ(channel.TryGet(), 1);
}

// Also behind a hint: all cases that were entered leave, and nothing is taken.
TEST_P(SelectCancelTest, ACancellationBehindAHintLeavesAllCases) {
  Crew crew(&group, testing::ActorKind::kFibers);
  crew.Add([] {
    for (int i = 0; i < 8; ++i) {
      CancelScope scope;
      Selection selection;
      ScriptedCase cancels(&selection);
      ScriptedCase hint(&selection);
      cancels.on_enter = [&] {
        if (cancels.entries > 1) scope.Cancel();
        return cancels.Waits();
      };
      hint.on_enter = [&] { return hint.entries == 1 ? hint.IsNotified() : hint.Waits(); };
      hint.is_hint = true;
      SelectCase* const cases[] = {&cancels, &hint};
      EXPECT_FALSE(scope.Run([&] { static_cast<void>(selection.Wait(cases, 2s)); }));
      EXPECT_EQ(hint.notifications, 1);
      for (const ScriptedCase* one : {&cancels, &hint}) EXPECT_EQ(one->left_to_leave, 0);
    }
  });
  crew.Join();
}

// Two are ready at once while it is cancelled: an item is taken, or none.
TEST_P(SelectCancelTest, NoItemIsLostBetweenTwoPuttersAndACancellation) {
  FiberChannel<int> one(1);
  FiberChannel<int> other(1);
  std::atomic<int> put{0};
  int got = 0;
  const int rounds = Scaled(2000);
  std::atomic<int> round{0};
  FiberMutex mutex;
  CancelHandle current;
  Crew crew(&group, testing::ActorKind::kFibers);
  crew.Add([&] {
    for (int i = 0; i < rounds; ++i) {
      CancelScope scope;
      {
        const std::scoped_lock lock(mutex);
        current = scope.Handle();
      }
      static_cast<void>(scope.Run([&] {
        const auto take = [&](const ChannelItem<int>& item) { got += item ? 1 : 0; };
        Select(OnGet(one, take), OnGet(other, take));
      }));
      ++round;
    }
  });
  for (FiberChannel<int>* channel : {&one, &other}) {
    crew.Add([&, channel] {
      while (round < rounds) {
        if (channel->TryPut(1) == ChannelResult::kOk) ++put;
        testing::YieldActor();
      }
    });
  }
  crew.AddThread([&] {
    while (round < rounds) {
      CancelHandle handle;
      {
        const std::scoped_lock lock(mutex);
        handle = current;
      }
      handle.Cancel();
      std::this_thread::yield();
    }
  });
  crew.Join();
  while (one.TryGet()) ++got;
  while (other.TryGet()) ++got;
  EXPECT_EQ(got, put);
}

}  // namespace
}  // namespace weft
