// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/timer/callback/callback_timer.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "weft/base/thread/spin_lock.h"
#include "weft/tests/timer/manual_shards.h"
#include "weft/timer/fiber_timer.h"

namespace weft::timer {
namespace {

struct SomeCallback {
  void operator()() const {}
};

TEST(CallbackTimer, TheNameOfACallbacksTypeIsInTheCompilersPhrase) {
  EXPECT_EQ(NameOf({.phrase_with_name = PhraseWithNameOf<int>(),
                    .invoke = nullptr,
                    .move = nullptr,
                    .destroy = nullptr,
                    .size = 0,
                    .moved_by_copying = true}),
            "int");
  EXPECT_NE(std::string(NameOf(CallbackTypeOf<SomeCallback>::value)).find("SomeCallback"), std::string::npos);
}

TEST(CallbackTimer, ThreadsAreToldApart) {
  const std::uint64_t ours = Myself();
  EXPECT_EQ(Myself(), ours);
  std::thread([&] { EXPECT_NE(Myself(), ours); }).join();
}

TEST(CallbackTimer, AChangeOfTheStateLeavesFlagsAndGenerationAsTheyAre) {
  TimerEntry entry;
  constexpr std::uint64_t kRest = std::uint64_t{77} << TimerEntry::kGenerationShift | TimerEntry::kPeriodic;
  entry.word.store(kRest | TimerEntry::kArmed);
  SetState(&entry, TimerEntry::kFiring);
  EXPECT_EQ(WordOf(&entry), kRest | TimerEntry::kFiring);
  SetKilled(&entry);
  EXPECT_EQ(WordOf(&entry), kRest | TimerEntry::kKilled | TimerEntry::kFiring);
  EXPECT_EQ(StateOf(WordOf(&entry)), TimerEntry::kFiring);
}

// A timer that fires now, in the caller's hand.
TimerEntry* FiringTimer(ManualShards* shards, const std::shared_ptr<int>& token) {
  if (SetFiberTimer(shards->now(), [token] {}) == 0) return nullptr;
  shards->SetNow(shards->now());
  const std::vector<TimerEntry*> due = shards->Fire();
  return due.size() == 1 ? due[0] : nullptr;
}

// CB1.
TEST(CallbackTimer, TheEndDestroysTheCallback) {
  ManualShards shards;
  const auto token = std::make_shared<int>(0);
  TimerEntry* entry = FiringTimer(&shards, token);
  ASSERT_NE(entry, nullptr);
  TimerShard* shard = ShardOf(entry);
  EXPECT_EQ(token.use_count(), 2);
  shard->lock.lock();
  EndEntry(shard, entry);
  EXPECT_EQ(token.use_count(), 1);
}

TEST(CallbackTimer, TheEndWakesAllThatWaitForIt) {
  ManualShards shards;
  const auto token = std::make_shared<int>(0);
  TimerEntry* entry = FiringTimer(&shards, token);
  ASSERT_NE(entry, nullptr);
  TimerShard* shard = ShardOf(entry);
  std::vector<std::thread> waiters;
  for (int i = 0; i < 3; ++i) {
    waiters.emplace_back([&] {
      shard->lock.lock();
      WaitForEnd(shard, entry);
      EXPECT_EQ(token.use_count(), 1);
    });
  }
  const auto waiting = [&] {
    base::SpinLockGuard guard(shard->lock);
    int count = 0;
    for (TimerLink* waiter = entry->prev; waiter != nullptr; waiter = waiter->next) ++count;
    return count;
  };
  while (waiting() < 3) std::this_thread::yield();
  shard->lock.lock();
  EndEntry(shard, entry);
  for (std::thread& waiter : waiters) waiter.join();
}

}  // namespace
}  // namespace weft::timer
