// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/sync/fiber_channel.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <iterator>
#include <memory>
#include <optional>
#include <ranges>
#include <string>
#include <type_traits>
#include <utility>
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
      for (int i = 1; i <= each; ++i) ASSERT_EQ(channel.Put(make(me * each + i)), ChannelResult::kOk);
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
  EXPECT_EQ(channel.TryPut(1), ChannelResult::kWouldBlock) << "nobody gets";
  EXPECT_EQ(channel.TryGet().result(), ChannelResult::kWouldBlock) << "nobody puts";
  Crew crew = MakeCrew();
  crew.Add([&] {
    ASSERT_EQ(channel.Put(2), ChannelResult::kOk);
    EXPECT_TRUE(getting);
  });
  crew.Add([&] {
    for (int i = 0; i < 10; ++i) YieldActor();
    getting = true;
    EXPECT_EQ(channel.Get(), 2);
    EXPECT_EQ(channel.TryGet().result(), ChannelResult::kWouldBlock);
  });
  crew.Join();
}

TEST_P(FiberChannelTest, TimedFormsTimeOutAndLeaveTheItemAlone) {
  FiberChannel<std::string> channel(1);
  Crew crew = MakeCrew();
  crew.Add([&] {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_EQ(channel.Get(2ms).result(), ChannelResult::kTimedOut);
    EXPECT_GE(std::chrono::steady_clock::now() - begin, 2ms);
    EXPECT_EQ(channel.Get(std::chrono::system_clock::now() + 1ms).result(), ChannelResult::kTimedOut);
    ASSERT_EQ(channel.Put("first", 1ms), ChannelResult::kOk);
    std::string second = "second";
    EXPECT_EQ(channel.Put(std::move(second), 2ms), ChannelResult::kTimedOut);
    EXPECT_EQ(channel.Put(std::move(second), std::chrono::steady_clock::now()), ChannelResult::kTimedOut);
    EXPECT_EQ(channel.TryPut(std::move(second)), ChannelResult::kWouldBlock);
    EXPECT_EQ(second, "second");
    EXPECT_FALSE(channel.IsClosed());
    EXPECT_EQ(channel.Get(0s), "first");
  });
  crew.Join();
}

TEST_P(FiberChannelTest, CloseFailsPuttersAndLetsGettersTakeWhatIsThere) {
  FiberChannel<std::string> channel(2);
  std::atomic<int> failed{0};
  ASSERT_EQ(channel.Put("a"), ChannelResult::kOk);
  ASSERT_EQ(channel.Put("b"), ChannelResult::kOk);
  Crew crew = MakeCrew();
  crew.AddMany(3, [&](int) {
    std::string item = "c";
    EXPECT_EQ(channel.Put(std::move(item)), ChannelResult::kClosed);
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
  EXPECT_EQ(channel.Get().result(), ChannelResult::kClosed);
  EXPECT_EQ(channel.Get(1h).result(), ChannelResult::kClosed);
  EXPECT_EQ(channel.TryGet().result(), ChannelResult::kClosed);
  EXPECT_EQ(channel.Put("d", 1h), ChannelResult::kClosed);
  EXPECT_EQ(channel.TryPut("d"), ChannelResult::kClosed);
}

TEST_P(FiberChannelTest, CloseWakesAllGetters) {
  FiberChannel<int> channel(2);
  Crew crew = MakeCrew();
  crew.AddMany(
      5, [&](int me) { EXPECT_EQ((me % 2 == 0 ? channel.Get() : channel.Get(1h)).result(), ChannelResult::kClosed); });
  crew.Add([&] { channel.Close(); });
  crew.Join();
}

TEST_P(FiberChannelTest, CloseNowDestroysWhatIsInIt) {
  auto item = std::make_shared<int>(1);
  FiberChannel<std::shared_ptr<int>> channel(3);
  ASSERT_EQ(channel.Put(item), ChannelResult::kOk);
  ASSERT_EQ(channel.Put(item), ChannelResult::kOk);
  EXPECT_EQ(item.use_count(), 3);
  channel.CloseNow();
  EXPECT_EQ(item.use_count(), 1);
  EXPECT_EQ(channel.Size(), 0u);
  EXPECT_EQ(channel.Get().result(), ChannelResult::kClosed);
  EXPECT_EQ(channel.Put(item), ChannelResult::kClosed);
}

// Wherever in the ring its items lie.
TEST_P(FiberChannelTest, CloseNowDestroysTheItemsThatAreLeft) {
  for (int got_before = 0; got_before < 4; ++got_before) {
    SCOPED_TRACE(got_before);
    auto item = std::make_shared<int>(1);
    FiberChannel<std::shared_ptr<int>> channel(3);
    for (int i = 0; i < got_before; ++i) {
      ASSERT_EQ(channel.Put(item), ChannelResult::kOk);
      ASSERT_TRUE(channel.Get());
    }
    ASSERT_EQ(channel.Put(item), ChannelResult::kOk);
    ASSERT_EQ(channel.Put(item), ChannelResult::kOk);
    channel.CloseNow();
    EXPECT_EQ(item.use_count(), 1);
  }
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
        const ChannelResult result = channel.Put(std::move(item), std::chrono::microseconds(i % 30));
        if (result == ChannelResult::kOk) {
          put += i;
        } else {
          EXPECT_EQ(result, ChannelResult::kTimedOut);
          EXPECT_EQ(item, std::to_string(i));
        }
      }
      if (--producers == 0) channel.Close();
    });
    crew.AddMany(2, [&](int me) {
      for (int i = 0;; ++i) {
        const ChannelItem<std::string> item = channel.Get(std::chrono::microseconds((i + me) % 30));
        EXPECT_EQ(item.has_value(), item.result() == ChannelResult::kOk);
        if (item) got += std::stoi(*item);
        if (item.result() == ChannelResult::kClosed) break;
      }
    });
    crew.Join();
    EXPECT_EQ(put, got);
  }
}

TEST_P(FiberChannelTest, ALoopOverItGetsAllItemsToItsEnd) {
  for (const std::size_t capacity : {0, 3}) {
    FiberChannel<std::unique_ptr<int>> channel(capacity);
    std::atomic<int> sum{0};
    Crew crew = MakeCrew();
    crew.Add([&] {
      for (int i = 1; i <= 100; ++i) ASSERT_EQ(channel.Put(std::make_unique<int>(i)), ChannelResult::kOk);
      channel.Close();
    });
    crew.AddMany(2, [&](int) {
      int last = 0;
      for (std::unique_ptr<int>& item : channel) {
        const std::unique_ptr<int> mine = std::move(item);
        EXPECT_GT(*mine, std::exchange(last, *mine));
        sum += *mine;
      }
    });
    crew.Join();
    EXPECT_EQ(sum, 5050);
  }
}

WEFT_INSTANTIATE_ON_ANY_CREW(FiberChannelTest);

// --- Results ---

// Neither can be taken for the other's meaning, nor be dropped unseen (their types are [[nodiscard]]).
static_assert(!std::is_convertible_v<ChannelResult, bool> && !std::is_constructible_v<bool, ChannelResult>);
static_assert(!std::is_convertible_v<ChannelItem<int>, bool> && std::is_constructible_v<bool, ChannelItem<int>>);
static_assert(std::input_iterator<ChannelIterator<FiberChannel<std::unique_ptr<int>>>>);
static_assert(std::ranges::input_range<FiberChannel<std::string>>);

TEST(FiberChannel, GetTakesAnEmptyPairOfBracesForNoDeadline) {
  FiberChannel<int> channel(1);
  ASSERT_EQ(channel.Put(1, {}), ChannelResult::kOk);
  EXPECT_EQ(channel.Get({}), 1);
}

TEST(FiberChannel, AnItemConvertsToAnOptional) {
  FiberChannel<std::string> channel(1);
  ASSERT_EQ(channel.Put("a"), ChannelResult::kOk);
  std::optional<std::string> item = channel.TryGet();
  EXPECT_EQ(item, "a");
  item = channel.TryGet();
  EXPECT_EQ(item, std::nullopt);
}

TEST(FiberChannel, TwoItemsThatAreNoneAreEqual) {
  FiberChannel<int> channel(2);
  EXPECT_TRUE(channel.TryGet() == std::optional<int>() && std::optional<int>() == channel.TryGet());
  EXPECT_TRUE(channel.TryGet() == channel.TryGet());
  ASSERT_EQ(channel.Put(1), ChannelResult::kOk);
  ASSERT_EQ(channel.Put(1), ChannelResult::kOk);
  const ChannelItem<int> first = channel.TryGet();
  const ChannelItem<int> second = channel.TryGet();
  EXPECT_TRUE(first == second && first == std::optional<int>(1) && std::optional<int>(1) == first && first == 1);
  EXPECT_FALSE(first == channel.TryGet() || first == 2);
}

TEST(FiberChannel, AnItemOfBoolIsNotWhetherThereIsOne) {
  FiberChannel<bool> channel(1);
  ASSERT_EQ(channel.Put(false), ChannelResult::kOk);
  std::optional<bool> item = channel.TryGet();
  EXPECT_EQ(item, false);
  item = channel.TryGet();
  EXPECT_EQ(item, std::nullopt);
}

TEST(FiberChannel, AnItemThatIsMovableOnlyMovesOut) {
  FiberChannel<std::unique_ptr<int>> channel(1);
  ASSERT_EQ(channel.Put(std::make_unique<int>(5)), ChannelResult::kOk);
  std::unique_ptr<int> item = channel.Get().value();
  EXPECT_EQ(*item, 5);
  EXPECT_THROW(static_cast<void>(channel.TryGet().value()), std::bad_optional_access);
  EXPECT_EQ(channel.TryGet().value_or(nullptr), nullptr);
}

TEST(FiberChannel, ALoopMayBeLeftAndTakenUpAgain) {
  FiberChannel<int> channel(4);
  for (int i = 1; i <= 4; ++i) ASSERT_EQ(channel.Put(i), ChannelResult::kOk);
  channel.Close();
  for (int& item : channel) {
    EXPECT_EQ(item, 1);
    break;
  }
  int next = 2;
  for (const int item : channel) EXPECT_EQ(item, next++);
  EXPECT_EQ(next, 5);
  for ([[maybe_unused]] int& item : channel) ADD_FAILURE() << "closed and empty";
}

TEST(FiberChannel, ALoopDestroysAnItemBeforeItWaitsForTheNext) {
  struct ThreeTimesTheSame {
    using value_type = std::shared_ptr<int>;
    std::optional<value_type> Get() {
      EXPECT_EQ(the_item.use_count(), 1);
      return gets++ < 3 ? std::optional(the_item) : std::nullopt;
    }
    value_type the_item = std::make_shared<int>(1);
    int gets = 0;
  };
  ThreeTimesTheSame source;
  int items = 0;
  for (ChannelIterator item(&source); item != std::default_sentinel; ++item) {
    EXPECT_EQ(item->use_count(), 2);
    ++items;
  }
  EXPECT_EQ(items, 3);
}

// Needs no assignment.
TEST(FiberChannel, ALoopIsForItemsThatCanOnlyBeMoved) {
  struct Fixed {
    explicit Fixed(int v) : value(v) {}
    Fixed(Fixed&&) noexcept = default;
    Fixed& operator=(Fixed&&) = delete;
    const int value;
  };
  FiberChannel<Fixed> channel(2);
  ASSERT_EQ(channel.Put(Fixed(1)), ChannelResult::kOk);
  ASSERT_EQ(channel.Put(Fixed(2)), ChannelResult::kOk);
  channel.Close();
  int sum = 0;
  for (const Fixed& item : channel) sum += item.value;
  EXPECT_EQ(sum, 3);
}

// --- Items ---

TEST(FiberChannel, ItemsLeftInItAreDestroyedWithIt) {
  auto item = std::make_shared<int>(1);
  {
    FiberChannel<std::shared_ptr<int>> channel(3);
    ASSERT_EQ(channel.Put(item), ChannelResult::kOk);
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
    for (int i = 0; i < 10; ++i) ASSERT_EQ(channel.Put(Slow(me)), ChannelResult::kOk);
  });
  crew.Add([&] {
    for (int i = 0; i < 30; ++i) sum += channel.Get()->value;
  });
  crew.Join();
  EXPECT_EQ(sum, 30);
}

}  // namespace
}  // namespace weft
