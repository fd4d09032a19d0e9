// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/sync/fiber_blocking_bounded_queue.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "testing/group_fixture.h"

namespace weft {
namespace {

using namespace std::chrono_literals;
using testing::Crew;
using testing::Scaled;
using testing::YieldActor;
using testing::YieldUntil;

class FiberBlockingBoundedQueueTest : public testing::OnAnyCrew {};

TEST_P(FiberBlockingBoundedQueueTest, PassesEverythingInOrder) {
  const int each = Scaled(2000);
  FiberBlockingBoundedQueue<int> queue(16);
  std::atomic<std::int64_t> sum{0};
  std::atomic<int> producers{2};
  Crew crew = MakeCrew();
  crew.AddMany(2, [&](int me) {
    for (int i = 1; i <= each; ++i) EXPECT_TRUE(queue.Push(me * each + i));
    if (--producers == 0) queue.Stop();
  });
  crew.AddMany(3, [&](int) {
    int last[2] = {0, 0};
    int item = 0;
    while (queue.Pop(item)) {
      sum += item;
      int& previous = last[(item - 1) / each];
      EXPECT_GT(item, previous);
      previous = item;
    }
  });
  crew.Join();
  const std::int64_t count = 2 * each;
  EXPECT_EQ(sum, count * (count + 1) / 2);
}

// tRPC-Cpp's Stop() wakes one waiter, drops what is in the queue, and makes Pop() succeed without an item.
TEST_P(FiberBlockingBoundedQueueTest, BoundedQueueStopWakesAllAndDropsNothing) {
  FiberBlockingBoundedQueue<int> full(2);
  FiberBlockingBoundedQueue<int> empty(2);
  ASSERT_TRUE(full.Push(1));
  ASSERT_TRUE(full.Push(2));
  std::atomic<int> refused{0};
  Crew crew = MakeCrew();
  crew.AddMany(4, [&](int me) {
    int item = 3;
    if (me % 2 == 0) {
      refused += !full.Push(std::move(item));
      refused += !empty.Pop(item);
    } else {
      refused += !full.Push(std::move(item), 1h);
      refused += !empty.Pop(item, 1h);
    }
    EXPECT_EQ(item, 3);
  });
  crew.Add([&] {
    for (int i = 0; i < 10; ++i) YieldActor();
    full.Stop();
    empty.Stop();
  });
  crew.Join();
  EXPECT_EQ(refused, 8);
  int item = 0;
  EXPECT_TRUE(full.Pop(item));
  EXPECT_EQ(item, 1);
  EXPECT_TRUE(full.TryPop(item));
  EXPECT_EQ(item, 2);
  EXPECT_FALSE(full.Pop(item));
  EXPECT_FALSE(full.TryPop(item));
  EXPECT_EQ(item, 2);
}

TEST_P(FiberBlockingBoundedQueueTest, TimedFormsTimeOutAndLeaveTheItemAlone) {
  FiberBlockingBoundedQueue<std::string> queue(1);
  Crew crew = MakeCrew();
  crew.Add([&] {
    std::string item = "untouched";
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_FALSE(queue.Pop(item, 2ms));
    EXPECT_GE(std::chrono::steady_clock::now() - begin, 2ms);
    EXPECT_FALSE(queue.Pop(item, std::chrono::system_clock::now() + 1ms));
    EXPECT_FALSE(queue.TryPop(item));
    EXPECT_EQ(item, "untouched");
    EXPECT_TRUE(queue.Push("first", 1ms));
    EXPECT_FALSE(queue.Push(std::move(item), 2ms));
    EXPECT_FALSE(queue.Push(std::move(item), std::chrono::steady_clock::now()));
    EXPECT_FALSE(queue.TryPush(std::move(item)));
    EXPECT_EQ(item, "untouched");
    EXPECT_TRUE(queue.Pop(item, 0s));
    EXPECT_EQ(item, "first");
  });
  crew.Join();
}

TEST_P(FiberBlockingBoundedQueueTest, PutAndGetSayWhyTheyEnded) {
  FiberBlockingBoundedQueue<std::string> queue(1);
  Crew crew = MakeCrew();
  crew.Add([&] {
    EXPECT_EQ(queue.Get(2ms).result(), ChannelResult::kTimedOut);
    EXPECT_EQ(queue.TryGet().result(), ChannelResult::kWouldBlock);
    std::string item = "first";
    EXPECT_EQ(queue.Put(std::move(item)), ChannelResult::kOk);
    item = "second";
    EXPECT_EQ(queue.Put(std::move(item), 2ms), ChannelResult::kTimedOut);
    EXPECT_EQ(queue.TryPut(std::move(item)), ChannelResult::kWouldBlock);
    EXPECT_EQ(queue.Get({}), "first");
    EXPECT_EQ(queue.TryPut(std::move(item)), ChannelResult::kOk);
    queue.Stop();
    item = "third";
    EXPECT_EQ(queue.Put(std::move(item)), ChannelResult::kClosed);
    EXPECT_EQ(queue.TryPut(std::move(item)), ChannelResult::kClosed);
    EXPECT_EQ(item, "third");
    const ChannelItem<std::string> last = queue.TryGet();
    EXPECT_EQ(last, "second");
    EXPECT_EQ(last.result(), ChannelResult::kOk);
    EXPECT_EQ(queue.Get().result(), ChannelResult::kClosed);
    EXPECT_EQ(queue.TryGet().result(), ChannelResult::kClosed);
  });
  crew.Join();
}

TEST_P(FiberBlockingBoundedQueueTest, ALoopOverItGetsAllItemsToItsEnd) {
  FiberBlockingBoundedQueue<std::unique_ptr<int>> queue(3);
  std::atomic<int> sum{0};
  Crew crew = MakeCrew();
  crew.Add([&] {
    for (int i = 1; i <= 100; ++i) EXPECT_TRUE(queue.Push(std::make_unique<int>(i)));
    queue.Stop();
  });
  crew.AddMany(2, [&](int) {
    for (const std::unique_ptr<int>& item : queue) sum += *item;
  });
  crew.Join();
  EXPECT_EQ(sum, 5050);
}

TEST_P(FiberBlockingBoundedQueueTest, WeightsBoundWhatIsInIt) {
  const int each = Scaled(1000);
  FiberBlockingBoundedQueue<int> queue(10, [](int item) { return static_cast<std::size_t>(item); });
  std::atomic<std::int64_t> sum{0};
  std::atomic<int> producers{3};
  Crew crew = MakeCrew();
  crew.AddMany(3, [&](int me) {
    for (int i = 0; i < each; ++i) EXPECT_TRUE(queue.Push(1 + (i * 7 + me) % 10));
    if (--producers == 0) queue.Stop();
  });
  crew.AddMany(2, [&](int) {
    int item = 0;
    while (queue.Pop(item)) {
      EXPECT_LE(queue.Size(), 10u);
      sum += item;
    }
  });
  crew.Join();
  std::int64_t expected = 0;
  for (int me = 0; me < 3; ++me) {
    for (int i = 0; i < each; ++i) expected += 1 + (i * 7 + me) % 10;
  }
  EXPECT_EQ(sum, expected);
}

// Throws when it is moved or copied for the n-th time from now, and keeps its value then.
struct Brittle {
  explicit Brittle(int the_value) : value(the_value) {}
  Brittle(Brittle&& other) : value(Taken(other)) {}
  Brittle& operator=(Brittle&& other) {
    value = Taken(other);
    return *this;
  }
  Brittle(const Brittle& other) : value((MayThrow(), other.value)) {}
  Brittle& operator=(const Brittle& other) {
    MayThrow();
    value = other.value;
    return *this;
  }

  static void MayThrow() {
    if (moves_left.fetch_sub(1) == 1) throw 7;
  }
  static int Taken(Brittle& other) {
    MayThrow();
    return std::exchange(other.value, 0);
  }
  static inline std::atomic<int> moves_left{0};
  int value;
};

TEST_P(FiberBlockingBoundedQueueTest, AMoveThatThrowsLosesNoItem) {
  // So many moves a round trip has at most; each of them throws once.
  for (int throws_at = 1; throws_at <= 4; ++throws_at) {
    FiberBlockingBoundedQueue<Brittle> queue(8);
    Crew crew = MakeCrew();
    crew.Add([&] {
      Brittle::moves_left = throws_at;
      for (int i = 1; i <= 4; ++i) {
        Brittle item(i);
        for (bool pushed = false; !pushed;) {
          try {
            pushed = i % 2 == 0 ? queue.Push(std::move(item)) : queue.TryPush(std::move(item));
          } catch (int) {
            EXPECT_EQ(item.value, i);
            EXPECT_EQ(queue.Size(), static_cast<std::size_t>(i - 1));
          }
        }
      }
      Brittle::moves_left = throws_at;
      for (int i = 1; i <= 4; ++i) {
        Brittle item(0);
        for (bool popped = false; !popped;) {
          try {
            popped = i % 2 == 0 ? queue.Pop(item) : queue.TryPop(item);
          } catch (int) {
            EXPECT_EQ(queue.Size(), static_cast<std::size_t>(5 - i));
          }
        }
        EXPECT_EQ(item.value, i);
      }
      // As many again, for Get().
      Brittle::moves_left = 0;
      for (int i = 1; i <= 4; ++i) EXPECT_TRUE(queue.Push(Brittle(i)));
      Brittle::moves_left = throws_at;
      for (int i = 1; i <= 4; ++i) {
        int got = 0;
        while (got == 0) {
          try {
            const ChannelItem<Brittle> item = i % 2 == 0 ? queue.Get() : queue.TryGet();
            EXPECT_EQ(item.result(), ChannelResult::kOk);
            got = item->value;
          } catch (int) {
            EXPECT_EQ(queue.Size(), static_cast<std::size_t>(5 - i));
          }
        }
        EXPECT_EQ(got, i);
      }
      Brittle::moves_left = 0;
    });
    crew.Join();
  }
}

TEST_P(FiberBlockingBoundedQueueTest, ACopyThatThrowsLeavesItsTargetAsItWas) {
  for (int throws_at = 1; throws_at <= 3; ++throws_at) {
    Brittle::moves_left = 0;
    FiberBlockingBoundedQueue<Brittle> source(8);
    FiberBlockingBoundedQueue<Brittle> target(4);
    for (int i = 1; i <= 3; ++i) ASSERT_TRUE(source.TryPush(Brittle(i)));
    for (int i = 8; i <= 9; ++i) ASSERT_TRUE(target.TryPush(Brittle(i)));
    Brittle::moves_left = throws_at;
    EXPECT_THROW(target = source, int);
    EXPECT_EQ(target.Size(), 2u);
    EXPECT_EQ(target.Capacity(), 4u);
    Brittle item(0);
    EXPECT_TRUE(target.TryPop(item));
    EXPECT_EQ(item.value, 8);
    EXPECT_TRUE(target.TryPop(item));
    EXPECT_EQ(item.value, 9);
    EXPECT_EQ(source.Size(), 3u);
  }
}

// Somebody is to be woken. If not the test fails before it hangs.
template <class Condition>
void YieldUntilWoken(Condition condition) {
  const Deadline late = std::chrono::seconds(15);
  YieldUntil([&] { return condition() || late.expired(); });
  EXPECT_TRUE(condition()) << "nobody was woken";
}

// One place comes free, and two wait for it. The first is woken and throws: the second gets it.
TEST_P(FiberBlockingBoundedQueueTest, APushThatThrowsLeavesItsCapacityToTheNextThatWaits) {
  Brittle::moves_left = 0;
  FiberBlockingBoundedQueue<Brittle> queue(1);
  ASSERT_TRUE(queue.Push(Brittle(1)));
  std::atomic<int> begun{0};
  std::atomic<int> pushed{0};
  std::atomic<int> thrown{0};
  Crew crew = MakeCrew();
  crew.AddMany(2, [&](int me) {
    Brittle item(2 + me);
    ++begun;
    try {
      pushed += queue.Push(std::move(item));
    } catch (int) {
      ++thrown;
    }
  });
  crew.Add([&] {
    YieldUntil([&] { return begun == 2; });
    for (int i = 0; i < 100; ++i) YieldActor();  // Now they wait, most likely.
    Brittle item(0);
    Brittle::moves_left = 2;  // The move out, and that of the first push.
    EXPECT_TRUE(queue.Pop(item));
    YieldUntilWoken([&] { return pushed == 1 && thrown == 1; });
    EXPECT_TRUE(queue.TryPop(item));
  });
  crew.Join();
}

// The same for one item and two that wait for it.
TEST_P(FiberBlockingBoundedQueueTest, APopThatThrowsLeavesItsItemToTheNextThatWaits) {
  Brittle::moves_left = 0;
  FiberBlockingBoundedQueue<Brittle> queue(1);
  std::atomic<int> begun{0};
  std::atomic<int> popped{0};
  std::atomic<int> thrown{0};
  Crew crew = MakeCrew();
  crew.AddMany(2, [&](int) {
    Brittle item(0);
    ++begun;
    try {
      popped += queue.Pop(item);
      EXPECT_EQ(item.value, 5);
    } catch (int) {
      ++thrown;
    }
  });
  crew.Add([&] {
    YieldUntil([&] { return begun == 2; });
    for (int i = 0; i < 100; ++i) YieldActor();
    Brittle::moves_left = 2;  // The move in, and that of the first pop.
    EXPECT_TRUE(queue.Push(Brittle(5)));
    YieldUntilWoken([&] { return popped == 1 && thrown == 1; });
  });
  crew.Join();
}

// What one heavy item leaves is room for many light ones (and more than one of those that wait).
TEST_P(FiberBlockingBoundedQueueTest, TheCapacityOfOneHeavyItemLetsAllInThatFit) {
  FiberBlockingBoundedQueue<int> queue(4, [](int item) { return static_cast<std::size_t>(item); });
  ASSERT_TRUE(queue.TryPush(4));
  std::atomic<int> begun{0};
  Crew crew = MakeCrew();
  crew.AddMany(4, [&](int) {
    ++begun;
    EXPECT_TRUE(queue.Push(1));
  });
  crew.Add([&] {
    YieldUntil([&] { return begun == 4; });
    for (int i = 0; i < 100; ++i) YieldActor();
    int item = 0;
    EXPECT_TRUE(queue.Pop(item));
    YieldUntilWoken([&] { return queue.Size() == 4; });
  });
  crew.Join();
}

TEST_P(FiberBlockingBoundedQueueTest, AnItemHeavierThanTheCapacityWaitsForMoreCapacity) {
  FiberBlockingBoundedQueue<int> queue(10, [](int item) { return static_cast<std::size_t>(item); });
  std::atomic<bool> refused{false};
  std::atomic<bool> pushed{false};
  Crew crew = MakeCrew();
  crew.Add([&] {
    EXPECT_FALSE(queue.TryPush(1000));
    EXPECT_FALSE(queue.Push(1000, 1ms));
    refused = true;
    EXPECT_TRUE(queue.Push(1000));
    pushed = true;
  });
  crew.Add([&] {
    YieldUntil([&] { return refused.load(); });
    EXPECT_TRUE(queue.Push(10));  // Lighter ones pass.
    int item = 0;
    EXPECT_TRUE(queue.Pop(item));
    EXPECT_EQ(item, 10);
    queue.SetCapacity(999);
    EXPECT_FALSE(queue.Pop(item, 1ms));
    EXPECT_FALSE(pushed);
    queue.SetCapacity(1000);
    EXPECT_TRUE(queue.Pop(item));
    EXPECT_EQ(item, 1000);
  });
  crew.Join();
}

TEST_P(FiberBlockingBoundedQueueTest, CapacityZeroIsAClosedGate) {
  FiberBlockingBoundedQueue<int> queue(0);
  std::atomic<bool> refused{false};
  Crew crew = MakeCrew();
  crew.Add([&] {
    EXPECT_FALSE(queue.TryPush(1));
    EXPECT_FALSE(queue.Push(1, 1ms));
    refused = true;
    EXPECT_TRUE(queue.Push(2));
  });
  crew.Add([&] {
    YieldUntil([&] { return refused.load(); });
    int item = 0;
    EXPECT_FALSE(queue.Pop(item, 1ms));
    queue.SetCapacity(1);
    EXPECT_TRUE(queue.Pop(item));
    EXPECT_EQ(item, 2);
  });
  crew.Join();
}

TEST_P(FiberBlockingBoundedQueueTest, MoreCapacityLetsWaitersIn) {
  FiberBlockingBoundedQueue<int> queue(1);
  std::atomic<int> pushed{0};
  Crew crew = MakeCrew();
  crew.AddMany(4, [&](int me) {
    EXPECT_TRUE(queue.Push(std::move(me)));
    ++pushed;
  });
  crew.Add([&] {
    YieldUntil([&] { return pushed == 1; });
    queue.SetCapacity(4);
  });
  crew.Join();
  EXPECT_EQ(queue.Size(), 4u);
  EXPECT_EQ(queue.Capacity(), 4u);
}

WEFT_INSTANTIATE_ON_ANY_CREW(FiberBlockingBoundedQueueTest);

TEST(FiberBlockingBoundedQueue, CanBeCopiedAndMovedWithItsItems) {
  FiberBlockingBoundedQueue<std::string> queue(3, [](const std::string& s) { return s.size(); });
  ASSERT_TRUE(queue.Push("ab"));
  FiberBlockingBoundedQueue<std::string> copy(queue);
  FiberBlockingBoundedQueue<std::string> moved(std::move(queue));
  for (auto* q : {&copy, &moved}) {
    EXPECT_EQ(q->Size(), 2u);
    EXPECT_EQ(q->Capacity(), 3u);
    EXPECT_FALSE(q->TryPush("cd"));
    std::string item;
    EXPECT_TRUE(q->TryPop(item));
    EXPECT_EQ(item, "ab");
  }
}

TEST(FiberBlockingBoundedQueue, HoldsWhatCanOnlyBeMoved) {
  FiberBlockingBoundedQueue<std::unique_ptr<int>> queue(2);
  EXPECT_TRUE(queue.Push(std::make_unique<int>(7)));
  std::unique_ptr<int> item;
  EXPECT_TRUE(queue.Pop(item));
  EXPECT_EQ(*item, 7);
}

}  // namespace
}  // namespace weft
