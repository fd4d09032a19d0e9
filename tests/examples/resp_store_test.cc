// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "weft/fiber/fiber.h"
#include "weft/fiber/runtime.h"

#include "resp_server/store.h"
#include "testing/manual_clock.h"

namespace examples::resp {
namespace {

using namespace std::chrono_literals;

std::string Numbered(std::string name, std::uint64_t number) { return name.append(std::to_string(number)); }

class StoreTest : public ::testing::Test {
 protected:
  void Set(std::string_view key, std::string_view value) { store.Set(key, Value::Make(value)); }
  void SetFor(std::string_view key, std::string_view value, std::chrono::nanoseconds time) {
    ASSERT_TRUE(store.Set(key, Value::Make(value), {.expires_at = clock.now() + time}));
  }
  std::optional<std::string> Get(std::string_view key) {
    const ValueRef value = store.Get(key);
    if (!value) return std::nullopt;
    return std::string(value->bytes());
  }
  bool Erase(std::string_view key) { return store.Erase(Store::Keys(&key, 1)) == 1; }

  weft::testing::ManualClock clock;
  Store store{&clock};
};

TEST_F(StoreTest, GivesBackWhatWasSet) {
  EXPECT_EQ(Get("k"), std::nullopt);
  Set("k", "one");
  EXPECT_EQ(Get("k"), "one");
  Set("k", "");
  EXPECT_EQ(Get("k"), "");
  const std::string binary("\0\r\n", 3);
  Set(binary, binary);
  EXPECT_EQ(Get(binary), binary);
  EXPECT_TRUE(Erase("k"));
  EXPECT_FALSE(Erase("k"));
  EXPECT_EQ(Get("k"), std::nullopt);
  EXPECT_EQ(store.counts().keys, std::size_t{1});
}

TEST_F(StoreTest, AReaderKeepsTheValueThatItGot) {
  Set("k", std::string(100'000, 'a'));
  const ValueRef before = store.Get("k");
  Set("k", "b");
  EXPECT_EQ(before->bytes(), std::string(100'000, 'a'));
  EXPECT_TRUE(before->HasOneRef());
  EXPECT_EQ(Get("k"), "b");
}

TEST_F(StoreTest, SetsOnlyWhenItsConditionHolds) {
  EXPECT_FALSE(store.Set("k", Value::Make("1"), {.when = Store::When::kIfPresent}));
  EXPECT_EQ(Get("k"), std::nullopt);
  EXPECT_TRUE(store.Set("k", Value::Make("2"), {.when = Store::When::kIfAbsent}));
  EXPECT_FALSE(store.Set("k", Value::Make("3"), {.when = Store::When::kIfAbsent}));
  EXPECT_EQ(Get("k"), "2");
  EXPECT_TRUE(store.Set("k", Value::Make("4"), {.when = Store::When::kIfPresent}));
  EXPECT_EQ(Get("k"), "4");
}

TEST_F(StoreTest, CountsFromWhatIsThereOrFromZero) {
  std::int64_t sum = 0;
  EXPECT_EQ(store.Add("n", 5, &sum), Store::AddResult::kDone);
  EXPECT_EQ(sum, 5);
  EXPECT_EQ(store.Add("n", -7, &sum), Store::AddResult::kDone);
  EXPECT_EQ(Get("n"), "-2");
  Set("n", "9223372036854775806");
  EXPECT_EQ(store.Add("n", 1, &sum), Store::AddResult::kDone);
  EXPECT_EQ(sum, std::numeric_limits<std::int64_t>::max());
  EXPECT_EQ(store.Add("n", 1, &sum), Store::AddResult::kOverflow);
  EXPECT_EQ(Get("n"), "9223372036854775807");
  Set("n", "1x");
  EXPECT_EQ(store.Add("n", 1, &sum), Store::AddResult::kNotANumber);
  EXPECT_EQ(Get("n"), "1x");
}

TEST_F(StoreTest, AKeyIsGoneAtTheMomentItExpires) {
  SetFor("k", "v", 100ms);
  clock.Advance(100ms - 1ns);
  EXPECT_EQ(Get("k"), "v");
  clock.Advance(1ns);
  EXPECT_EQ(Get("k"), std::nullopt);
  const Store::Counts counts = store.counts();
  EXPECT_EQ(counts.keys, std::size_t{0});
  EXPECT_EQ(counts.expiring, std::size_t{0});
  EXPECT_EQ(counts.expired, std::uint64_t{1});
}

TEST_F(StoreTest, AnExpiredKeyIsAbsentForEveryCall) {
  std::int64_t sum = 0;
  const auto expired_key = [&] {
    SetFor("k", "5", 1ms);
    clock.Advance(1ms);
    return std::string_view("k");
  };
  std::string_view key = expired_key();
  EXPECT_FALSE(store.Set(key, Value::Make("1"), {.when = Store::When::kIfPresent}));
  key = expired_key();
  EXPECT_EQ(store.Add(key, 1, &sum), Store::AddResult::kDone);
  EXPECT_EQ(sum, 1);
  EXPECT_TRUE(store.ExpiryOf(key)->is_none());  // The counter is a new one.
  key = expired_key();
  EXPECT_FALSE(Erase(key));
  key = expired_key();
  EXPECT_EQ(store.CountExisting(Store::Keys(&key, 1)), std::size_t{0});
  key = expired_key();
  EXPECT_FALSE(store.ExpireAt(key, clock.now() + 1s));
  key = expired_key();
  EXPECT_EQ(store.ExpiryOf(key), std::nullopt);
  EXPECT_EQ(store.Get(Store::Keys(&key, 1))[0].Get(), nullptr);
}

TEST_F(StoreTest, AnExpiryIsSetMovedAndLifted) {
  EXPECT_EQ(store.ExpiryOf("k"), std::nullopt);
  EXPECT_FALSE(store.ExpireAt("k", clock.now() + 1s));
  Set("k", "v");
  EXPECT_TRUE(store.ExpiryOf("k")->is_none());
  EXPECT_TRUE(store.ExpireAt("k", clock.now() + 1s));
  EXPECT_TRUE(store.ExpireAt("k", clock.now() + 2s));
  EXPECT_EQ(store.ExpiryOf("k")->time_point(), clock.now() + 2s);
  EXPECT_EQ(store.counts().expiring, std::size_t{1});
  EXPECT_TRUE(store.Set("k", Value::Make("w"), {.keep_expiry = true}));
  EXPECT_EQ(store.ExpiryOf("k")->time_point(), clock.now() + 2s);
  Set("k", "x");
  EXPECT_TRUE(store.ExpiryOf("k")->is_none());
  EXPECT_EQ(store.counts().expiring, std::size_t{0});
  EXPECT_TRUE(store.ExpireAt("k", clock.now()));  // A time that has come: erased.
  EXPECT_EQ(Get("k"), std::nullopt);
}

TEST_F(StoreTest, ExpiredKeysThatNobodyAsksForAreRemoved) {
  for (int i = 0; i < 1000; ++i) SetFor(Numbered("e", i), "v", std::chrono::milliseconds(1 + i % 10));
  for (int i = 0; i < 500; ++i) Set(Numbered("k", i), "v");
  EXPECT_EQ(store.RemoveExpired(1000), std::size_t{0});
  clock.Advance(5ms);
  const std::size_t first = store.RemoveExpired(1);  // Of 64 shards at most one each.
  EXPECT_GT(first, std::size_t{0});
  EXPECT_LE(first, std::size_t{64});
  EXPECT_EQ(first + store.RemoveExpired(1000), std::size_t{500});
  EXPECT_EQ(store.counts().keys, std::size_t{1000});
  clock.Advance(5ms);
  EXPECT_EQ(store.RemoveExpired(1000), std::size_t{500});
  EXPECT_EQ(store.counts().expired, std::uint64_t{1000});
  EXPECT_EQ(store.counts().expiring, std::size_t{0});
}

TEST_F(StoreTest, ClearLeavesNothing) {
  for (int i = 0; i < 300; ++i) Set(Numbered("k", i), "v");
  SetFor("e", "v", 1ms);
  store.Clear();
  EXPECT_EQ(store.counts().keys, std::size_t{0});
  EXPECT_EQ(store.counts().expiring, std::size_t{0});
  Set("k1", "w");
  EXPECT_EQ(Get("k1"), "w");
}

// Against a plain map, with few keys, so that calls collide.
TEST_F(StoreTest, AgreesWithAPlainMapOverRandomCalls) {
  struct Expected {
    std::string value;
    std::optional<Store::TimePoint> expires_at;
  };
  std::map<std::string, Expected> expected;
  std::mt19937_64 random(20260103);
  const auto key_of = [&] { return Numbered("key", random() % 200); };
  for (int i = 0; i < 100'000; ++i) {
    SCOPED_TRACE(i);
    clock.Advance(std::chrono::microseconds(random() % 100));
    std::erase_if(expected,
                  [&](const auto& item) { return item.second.expires_at && *item.second.expires_at <= clock.now(); });
    const std::string key = key_of();
    const auto found = expected.find(key);
    switch (random() % 7) {
      case 0: {
        const std::string value = std::to_string(random() % 1000);
        Set(key, value);
        expected[key] = {value, std::nullopt};
        break;
      }
      case 1: {
        const auto at = clock.now() + std::chrono::microseconds(random() % 5000 + 1);
        ASSERT_TRUE(store.Set(key, Value::Make("7"), {.expires_at = at}));
        expected[key] = {"7", at};
        break;
      }
      case 2:
        ASSERT_EQ(Erase(key), expected.erase(key) == 1);
        break;
      case 3: {
        std::int64_t sum = 0;
        ASSERT_EQ(store.Add(key, 3, &sum), Store::AddResult::kDone);
        Expected& entry = expected[key];
        entry.value = std::to_string((entry.value.empty() ? 0 : std::stoll(entry.value)) + 3);
        ASSERT_EQ(std::to_string(sum), entry.value);
        break;
      }
      case 4: {
        const auto at = clock.now() + std::chrono::microseconds(random() % 5000);
        ASSERT_EQ(store.ExpireAt(key, at), found != expected.end());
        if (found == expected.end()) break;
        found->second.expires_at = at;
        break;
      }
      case 5:
        if (random() % 20 == 0) (void)store.RemoveExpired(2);
        break;
      default: {
        const std::vector<std::string> names = {key, key_of(), key_of(), key};
        const std::vector<std::string_view> keys(names.begin(), names.end());
        const std::vector<ValueRef> values = store.Get(keys);
        ASSERT_EQ(values.size(), keys.size());
        for (std::size_t k = 0; k < keys.size(); ++k) {
          const auto entry = expected.find(names[k]);
          ASSERT_EQ(values[k] != nullptr, entry != expected.end()) << names[k];
          if (entry == expected.end()) continue;
          ASSERT_EQ(values[k]->bytes(), entry->second.value);
        }
      }
    }
  }
  (void)store.RemoveExpired(1000);
  std::erase_if(expected,
                [&](const auto& item) { return item.second.expires_at && *item.second.expires_at <= clock.now(); });
  EXPECT_EQ(store.counts().keys, expected.size());
}

class StoreInFibers : public ::testing::TestWithParam<int> {
 protected:
  StoreInFibers() {
    weft::RuntimeOptions options;
    options.concurrency_hint = GetParam();
    weft::StartRuntime(options);
  }
  ~StoreInFibers() override { EXPECT_EQ(weft::TerminateRuntime(), std::size_t{0}); }

  template <class F>
  static void InFibers(int count, F&& f) {
    std::vector<weft::Fiber> fibers;
    for (int i = 0; i < count; ++i) fibers.emplace_back([&f, i] { f(i); });
    for (weft::Fiber& fiber : fibers) fiber.Join();
  }

  Store store;
};

TEST_P(StoreInFibers, NoIncrementIsLost) {
  InFibers(16, [&](int i) {
    for (int n = 0; n < 2000; ++n) {
      std::int64_t sum = 0;
      ASSERT_EQ(store.Add(Numbered("n", (i + n) % 3), 1, &sum), Store::AddResult::kDone);
    }
  });
  std::int64_t total = 0;
  for (int k = 0; k < 3; ++k) {
    std::int64_t sum = 0;
    ASSERT_EQ(store.Add(Numbered("n", k), 0, &sum), Store::AddResult::kDone);
    total += sum;
  }
  EXPECT_EQ(total, 16 * 2000);
}

// Writers set all keys to one value at once, in different orders; readers must never see two values. The test ends only
// if the order of the shards' locks holds.
TEST_P(StoreInFibers, SeveralKeysAreSetAndReadAtOnce) {
  constexpr int kKeys = 20;
  std::vector<std::string> names;
  for (int i = 0; i < kKeys; ++i) names.push_back(Numbered("key", i));
  std::atomic<int> mixed{0};
  InFibers(12, [&](int i) {
    std::mt19937_64 random(static_cast<std::uint64_t>(i));
    std::vector<std::string_view> keys(names.begin(), names.end());
    for (int n = 0; n < 500; ++n) {
      std::shuffle(keys.begin(), keys.end(), random);
      if (i % 2 == 0) {
        std::vector<ValueRef> values(kKeys, Value::Make(std::to_string(i * 1000 + n)));
        store.Set(keys, values);
        continue;
      }
      const std::vector<ValueRef> values = store.Get(keys);
      for (const ValueRef& value : values) {
        if ((value == nullptr) != (values[0] == nullptr) || (value && value->bytes() != values[0]->bytes())) ++mixed;
      }
    }
  });
  EXPECT_EQ(mixed.load(), 0);
}

TEST_P(StoreInFibers, KeysExpireAndAreClearedWhileOthersUseThem) {
  InFibers(8, [&](int i) {
    for (int n = 0; n < 2000; ++n) {
      const std::string key = Numbered("k", n % 50);
      const std::string_view view = key;
      switch ((n + i) % 5) {
        case 0:
          ASSERT_TRUE(store.Set(key, Value::Make(key), {.expires_at = std::chrono::steady_clock::now() + 20us}));
          break;
        case 1:
          (void)store.RemoveExpired(3);
          break;
        case 2:
          (void)store.Erase(Store::Keys(&view, 1));
          break;
        case 3:
          if (n % 100 == 3) store.Clear();
          store.Set(key, Value::Make(key));
          break;
        default:
          if (const ValueRef value = store.Get(key)) {
            ASSERT_EQ(value->bytes(), key);
          }
      }
    }
  });
  store.Clear();
  EXPECT_EQ(store.counts().keys, std::size_t{0});
  EXPECT_EQ(store.counts().expiring, std::size_t{0});
}

INSTANTIATE_TEST_SUITE_P(Workers, StoreInFibers, ::testing::Values(1, 2, 4));

}  // namespace
}  // namespace examples::resp
