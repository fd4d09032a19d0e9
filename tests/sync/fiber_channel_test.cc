// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/sync/fiber_channel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "testing/group_fixture.h"

namespace weft {
namespace {

using namespace std::chrono_literals;
using testing::Crew;
using testing::Scaled;
using testing::YieldActor;
using testing::YieldUntil;

class FiberChannelTest : public testing::OnAnyCrew {
 protected:
  // Everything arrives once, and each producer's items in order. `make` and `read` turn ints into T and back.
  template <class T, class Make, class Read>
  void PassEverything(std::size_t capacity, Make make, Read read) {
    constexpr int kProducers = 3, kConsumers = 3;
    const int each = Scaled(2000);
    FiberChannel<T> channel(capacity);
    std::atomic<std::int64_t> sum{0};
    std::atomic<int> producers{kProducers};
    Crew crew = MakeCrew();
    crew.AddMany(kProducers, [&](int me) {
      for (int i = 1; i <= each; ++i) ASSERT_TRUE(channel.Put(make(me * each + i)));
      if (--producers == 0) channel.Close();
    });
    crew.AddMany(kConsumers, [&](int) {
      std::vector<int> last(kProducers, 0);
      while (auto item = channel.Get()) {
        const int value = read(*item);
        sum += value;
        int& previous = last[(value - 1) / each];
        EXPECT_GT(value, previous);
        previous = value;
      }
    });
    crew.Join();
    const std::int64_t count = std::int64_t{kProducers} * each;
    EXPECT_EQ(sum, count * (count + 1) / 2);
    EXPECT_EQ(channel.Size(), 0u);
  }
};

TEST_P(FiberChannelTest, PassesEveryInteger) {
  for (const std::size_t capacity : {0, 1, 7, 128}) {
    PassEverything<int>(
        capacity, [](int i) { return i; }, [](int i) { return i; });
  }
}

TEST_P(FiberChannelTest, PassesEveryObject) {
  for (const std::size_t capacity : {0, 1, 7, 128}) {
    PassEverything<std::unique_ptr<int>>(
        capacity, [](int i) { return std::make_unique<int>(i); }, [](const std::unique_ptr<int>& p) { return *p; });
  }
}

TEST_P(FiberChannelTest, ARendezvousEndsForBothTogether) {
  FiberChannel<int> channel(0);
  std::atomic<bool> getting{false};
  int item = 0;
  EXPECT_FALSE(channel.TryPut(1)) << "nobody gets";
  EXPECT_FALSE(channel.TryGet(&item)) << "nobody puts";
  Crew crew = MakeCrew();
  crew.Add([&] {
    ASSERT_TRUE(channel.Put(2));
    EXPECT_TRUE(getting);
  });
  crew.Add([&] {
    for (int i = 0; i < 10; ++i) YieldActor();
    getting = true;
    ASSERT_TRUE(channel.Get(&item));
    EXPECT_EQ(item, 2);
    EXPECT_FALSE(channel.TryGet(&item));
  });
  crew.Join();
}

TEST_P(FiberChannelTest, TimedFormsTimeOutAndLeaveTheItemAlone) {
  FiberChannel<std::string> channel(1);
  Crew crew = MakeCrew();
  crew.Add([&] {
    std::string item;
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_FALSE(channel.Get(&item, 2ms));
    EXPECT_GE(std::chrono::steady_clock::now() - begin, 2ms);
    EXPECT_FALSE(channel.Get(&item, std::chrono::system_clock::now() + 1ms));
    ASSERT_TRUE(channel.Put("first", 1ms));
    std::string second = "second";
    EXPECT_FALSE(channel.Put(std::move(second), 2ms));
    EXPECT_FALSE(channel.Put(std::move(second), std::chrono::steady_clock::now()));
    EXPECT_FALSE(channel.TryPut(std::move(second)));
    EXPECT_EQ(second, "second");
    EXPECT_FALSE(channel.IsClosed());
    ASSERT_TRUE(channel.Get(&item, 0s));
    EXPECT_EQ(item, "first");
  });
  crew.Join();
}

TEST_P(FiberChannelTest, CloseFailsPuttersAndLetsGettersTakeWhatIsThere) {
  FiberChannel<std::string> channel(2);
  std::atomic<int> failed{0};
  ASSERT_TRUE(channel.Put("a"));
  ASSERT_TRUE(channel.Put("b"));
  Crew crew = MakeCrew();
  crew.AddMany(3, [&](int) {
    std::string item = "c";
    EXPECT_FALSE(channel.Put(std::move(item)));
    EXPECT_EQ(item, "c");
    ++failed;
  });
  crew.Add([&] {
    for (int i = 0; i < 10; ++i) YieldActor();
    channel.Close();
    channel.Close();
  });
  crew.Join();
  EXPECT_EQ(failed, 3);
  EXPECT_TRUE(channel.IsClosed());
  EXPECT_EQ(channel.Get(), "a");
  EXPECT_EQ(channel.TryGet(), "b");
  EXPECT_EQ(channel.Get(), std::nullopt);
  std::string item;
  EXPECT_FALSE(channel.Get(&item));
}

TEST_P(FiberChannelTest, CloseWakesAllGetters) {
  FiberChannel<int> channel(2);
  Crew crew = MakeCrew();
  crew.AddMany(5, [&](int me) {
    int item = 0;
    if (me % 2 == 0) {
      EXPECT_FALSE(channel.Get(&item));
    } else {
      EXPECT_FALSE(channel.Get(&item, 1h));
    }
  });
  crew.Add([&] { channel.Close(); });
  crew.Join();
}

TEST_P(FiberChannelTest, CloseNowDestroysWhatIsInIt) {
  auto item = std::make_shared<int>(1);
  FiberChannel<std::shared_ptr<int>> channel(3);
  ASSERT_TRUE(channel.Put(item));
  ASSERT_TRUE(channel.Put(item));
  EXPECT_EQ(item.use_count(), 3);
  channel.CloseNow();
  EXPECT_EQ(item.use_count(), 1);
  EXPECT_EQ(channel.Size(), 0u);
  EXPECT_EQ(channel.Get(), std::nullopt);
  EXPECT_FALSE(channel.Put(item));
}

// Items are neither lost nor doubled when puts and gets time out while they are served.
TEST_P(FiberChannelTest, TimeOutsNeitherLoseNorDoubleItems) {
  for (const std::size_t capacity : {0, 2}) {
    const int each = Scaled(1500);
    FiberChannel<std::string> channel(capacity);
    std::atomic<std::int64_t> put{0}, got{0};
    std::atomic<int> producers{2};
    Crew crew = MakeCrew();
    crew.AddMany(2, [&](int) {
      for (int i = 1; i <= each; ++i) {
        std::string item = std::to_string(i);
        if (channel.Put(std::move(item), std::chrono::microseconds(i % 30))) {
          put += i;
        } else {
          EXPECT_EQ(item, std::to_string(i));
        }
      }
      if (--producers == 0) channel.Close();
    });
    crew.AddMany(2, [&](int me) {
      std::string item;
      for (int i = 0;; ++i) {
        if (channel.Get(&item, std::chrono::microseconds((i + me) % 30))) {
          got += std::stoi(item);
        } else if (channel.IsClosed()) {
          if (!channel.TryGet(&item)) break;
          got += std::stoi(item);
        }
      }
    });
    crew.Join();
    EXPECT_EQ(put, got);
  }
}

WEFT_INSTANTIATE_ON_ANY_CREW(FiberChannelTest);

TEST(FiberChannel, ItemsLeftInItAreDestroyedWithIt) {
  auto item = std::make_shared<int>(1);
  {
    FiberChannel<std::shared_ptr<int>> channel(3);
    ASSERT_TRUE(channel.Put(item));
  }
  EXPECT_EQ(item.use_count(), 1);
}

// A type whose moves wait for something: others wait too, their worker does not.
TEST(FiberChannel, AMoveConstructorMaySuspend) {
  struct Slow {
    explicit Slow(int v) : value(v) {}
    Slow(Slow&& other) noexcept : value(other.value) {
      for (int i = 0; i < 3; ++i) YieldActor();
    }
    Slow& operator=(Slow&&) noexcept = default;
    int value;
  };
  testing::TimedGroup group(1);
  FiberChannel<Slow> channel(2);
  int sum = 0;
  Crew crew(&group, testing::ActorKind::kFibers);
  crew.AddMany(3, [&](int me) {
    for (int i = 0; i < 10; ++i) ASSERT_TRUE(channel.Put(Slow(me)));
  });
  crew.Add([&] {
    for (int i = 0; i < 30; ++i) sum += channel.Get()->value;
  });
  crew.Join();
  EXPECT_EQ(sum, 30);
}

TEST(FiberChannel, CanBeInterrupted) {
  testing::TimedGroup group(2);
  FiberChannel<int> channel(1);
  std::atomic<synchronization::FiberEntity*> fiber{nullptr};
  std::atomic<int> interruptions{0};
  Crew crew(&group, testing::ActorKind::kFibers);
  crew.Add([&] {
    fiber = scheduling_group::CurrentFiber();
    std::optional<int> item;
    EXPECT_EQ(channel.GetInterruptibly(&item), synchronization::WaitResult::kInterrupted);
    EXPECT_EQ(item, std::nullopt);
    ASSERT_TRUE(channel.Put(1));
    bool done = true;
    EXPECT_EQ(channel.PutInterruptibly(2, &done), synchronization::WaitResult::kInterrupted);
    EXPECT_FALSE(done);
    EXPECT_EQ(channel.GetInterruptibly(&item), synchronization::WaitResult::kNotified);
    EXPECT_EQ(item, 1);
    YieldUntil([&] { return interruptions == 2; });
  });
  crew.Add([&] {
    while (interruptions < 2) {
      if (fiber != nullptr && synchronization::InterruptWait(fiber)) ++interruptions;
      YieldActor();
    }
  });
  crew.Join();
}

}  // namespace
}  // namespace weft
