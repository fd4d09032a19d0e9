// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/mailbox.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

#include "weft/base/fiber_clock.h"
#include "weft/fiber/background_tasks.h"
#include "weft/fiber/start/run_as_fiber.h"
#include "weft/fiber/test_clock.h"
#include "weft/fiber/this_fiber.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_latch.h"

#include "fiber/helper_fixture.h"

namespace weft::fiber {
namespace {

using namespace std::chrono_literals;

static_assert(!std::is_copy_constructible_v<Mailbox<int>> && std::is_nothrow_move_constructible_v<Mailbox<int>>);
static_assert(std::is_copy_constructible_v<Mailbox<std::unique_ptr<int>>::Sender>);

struct Numbered {
  int sender;
  int number;
};

class MailboxTest : public InFiberAndThread {};

TEST_P(MailboxTest, EveryMessageArrivesOnceAndThoseOfASenderInOrder) {
  constexpr int kSenders = 4;
  static constexpr int kEach = WEFT_TSAN || WEFT_ASAN ? 50 : 500;
  for (const std::size_t capacity : {std::size_t{1}, std::size_t{5}, Mailbox<Numbered>::kUnbounded}) {
    Mailbox<Numbered> mailbox(capacity);
    const auto sender = mailbox.MakeSender();
    const auto send_all = [sender](int me) {
      for (int i = 1; i <= kEach; ++i) ASSERT_EQ(sender.Send({me, i}), ChannelResult::kOk);
    };
    Fiber owner([mailbox = std::move(mailbox), capacity]() mutable {
      std::vector<int> last(kSenders, 0);
      for (int i = 0; i < kSenders * kEach; ++i) {
        const std::optional<Numbered> message = mailbox.Receive();
        ASSERT_TRUE(message);
        ASSERT_EQ(message->number, ++last[message->sender]);
        ASSERT_LE(mailbox.Size(), capacity);
      }
      EXPECT_FALSE(mailbox.TryReceive());
    });
    std::thread threads[] = {std::thread(send_all, 0), std::thread(send_all, 1)};
    {
      BackgroundTasks fibers;
      for (int me = 2; me < kSenders; ++me) ASSERT_TRUE(fibers.Start([&send_all, me] { send_all(me); }));
    }
    for (std::thread& thread : threads) thread.join();
    owner.Join();
    EXPECT_EQ(sender.Send({0, 0}), ChannelResult::kClosed) << "its fiber has ended";
  }
}

TEST_P(MailboxTest, AnAssignmentDestroysWhatWasInIt) {
  auto message = std::make_shared<int>(1);
  Mailbox<std::shared_ptr<int>> mailbox;
  const auto sender = mailbox.MakeSender();
  ASSERT_EQ(sender.Send(message), ChannelResult::kOk);
  mailbox = Mailbox<std::shared_ptr<int>>();
  EXPECT_EQ(message.use_count(), 1);
}

TEST_P(MailboxTest, ASelectionTakesWhatItWantsAndLeavesTheRestInOrder) {
  InBoth([] {
    Mailbox<int> mailbox;
    const auto sender = mailbox.MakeSender();
    for (int i = 1; i <= 5; ++i) ASSERT_EQ(sender.Send(i), ChannelResult::kOk);
    EXPECT_EQ(mailbox.ReceiveIf([](int m) { return m == 3; }), 3);
    EXPECT_EQ(mailbox.TryReceiveIf([](int m) { return m > 3; }), 4);
    EXPECT_EQ(mailbox.TryReceiveIf([](int m) { return m > 5; }), std::nullopt);
    EXPECT_EQ(mailbox.Size(), 3u);
    ASSERT_EQ(sender.Send(6), ChannelResult::kOk);
    ASSERT_EQ(sender.Send(7), ChannelResult::kOk);
    EXPECT_EQ(mailbox.TryReceiveIf([](int m) { return m > 6; }), 7);
    ASSERT_EQ(sender.Send(8), ChannelResult::kOk);
    EXPECT_EQ(mailbox.ReceiveAll(), (std::vector<int>{1, 2, 5, 6, 8}));
    EXPECT_TRUE(mailbox.ReceiveAll().empty());
  });
}

TEST_P(MailboxTest, ASelectionWaitsForWhatItWantsAndSeesEachMessageOnce) {
  InBoth([] {
    constexpr int kMessages = 100;
    Mailbox<int> mailbox;
    Fiber other([sender = mailbox.MakeSender()] {
      for (int i = 1; i <= kMessages; ++i) {
        ASSERT_EQ(sender.Send(i), ChannelResult::kOk);
        if (i % 8 == 0) FiberYield();
      }
    });
    int seen = 0;
    EXPECT_EQ(mailbox.ReceiveIf([&](int m) {
      EXPECT_EQ(m, ++seen);
      return m == kMessages;
    }),
              kMessages);
    other.Join();
    for (int i = 1; i < kMessages; ++i) ASSERT_EQ(mailbox.Receive(), i);
  });
}

TEST_P(MailboxTest, TimedFormsEndAtTheirDeadline) {
  InBoth([] {
    Mailbox<std::string> mailbox(1);
    const auto sender = mailbox.MakeSender();
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_FALSE(mailbox.Receive(2ms));
    EXPECT_GE(std::chrono::steady_clock::now() - begin, 2ms);
    EXPECT_FALSE(mailbox.Receive(0ms));
    ASSERT_EQ(sender.Send("a", 1ms), ChannelResult::kOk);
    EXPECT_FALSE(mailbox.ReceiveIf([](const std::string& m) { return m == "b"; }, 2ms));
    std::string message = "c";
    EXPECT_EQ(sender.Send(std::move(message), 2ms), ChannelResult::kTimedOut) << "what was passed over is still in it";
    EXPECT_EQ(sender.Send(std::move(message), 0ms), ChannelResult::kTimedOut);
    EXPECT_EQ(sender.TrySend(std::move(message)), ChannelResult::kWouldBlock);
    EXPECT_EQ(message, "c");
    EXPECT_EQ(mailbox.Receive(0ms), "a");
    EXPECT_EQ(sender.TrySend(std::move(message)), ChannelResult::kOk);
    EXPECT_EQ(mailbox.TryReceive(), "c");
  });
}

// By the test clock, which moves when all wait: whoever is not woken sees its deadline pass.
TEST(Mailbox, OneLookThatMakesRoomForSeveralWakesThemAll) {
  const TestClock clock;
  RunAsFiber([&] {
    const auto begin = FiberClock::now();
    Mailbox<int> mailbox(3);
    const auto sender = mailbox.MakeSender();
    for (int i = 0; i < 3; ++i) ASSERT_EQ(sender.Send(i), ChannelResult::kOk);
    BackgroundTasks senders;
    for (int i = 0; i < 3; ++i) {
      ASSERT_TRUE(senders.Start(
          [sender = mailbox.MakeSender()] { EXPECT_EQ(sender.Send(3, Deadline(1h)), ChannelResult::kOk); }));
    }
    FiberSleepFor(1ms);  // They wait.
    EXPECT_EQ(mailbox.ReceiveAll().size(), 3U);
    senders.Wait();
    EXPECT_EQ(FiberClock::now() - begin, 1ms);
    EXPECT_EQ(mailbox.ReceiveAll().size(), 3U);
  });
}

TEST_P(MailboxTest, ItIsClosedAtTheEndOfItsFiber) {
  Mailbox<std::string> mailbox(1);
  const auto sender = mailbox.MakeSender();
  EXPECT_FALSE(sender.IsClosed());
  FiberEvent end;
  Fiber owner([mailbox = std::move(mailbox), &end] { end.Wait(); });
  ASSERT_EQ(sender.Send("never received"), ChannelResult::kOk);
  std::atomic<int> waiting{0};
  const auto send = [&] {
    std::string message = "a";
    ++waiting;
    EXPECT_EQ(sender.Send(std::move(message)), ChannelResult::kClosed);
    EXPECT_EQ(message, "a");
  };
  Fiber fiber(send);
  std::thread thread(send);
  Until([&] { return waiting == 2; });
  end.Set();
  fiber.Join();
  thread.join();
  owner.Join();
  EXPECT_TRUE(sender.IsClosed());
  EXPECT_EQ(sender.TrySend("b"), ChannelResult::kClosed);
  EXPECT_EQ(sender.Send("b", 1h), ChannelResult::kClosed);
}

TEST_P(MailboxTest, WhatIsInItWhenItIsClosedCanStillBeReceived) {
  InBoth([] {
    Mailbox<int> mailbox;
    const auto sender = mailbox.MakeSender();
    ASSERT_EQ(sender.Send(1), ChannelResult::kOk);
    ASSERT_EQ(sender.Send(2), ChannelResult::kOk);
    EXPECT_EQ(mailbox.ReceiveIf([](int m) { return m == 2; }), 2);
    mailbox.Close();
    EXPECT_EQ(sender.Send(3), ChannelResult::kClosed);
    int received = 0;
    while (const std::optional<int> message = mailbox.Receive()) received += *message;
    EXPECT_EQ(received, 1);
  });
}

TEST_P(MailboxTest, TwoFibersAnswerEachOther) {
  const int rounds = WEFT_TSAN || WEFT_ASAN ? 200 : 2000;
  Mailbox<int> ping, pong;
  const auto to_ping = ping.MakeSender();
  const auto to_pong = pong.MakeSender();
  Fiber answers([mailbox = std::move(pong), to_ping]() mutable {
    while (const auto message = mailbox.Receive()) {
      if (to_ping.Send(*message + 1) != ChannelResult::kOk) break;
    }
  });
  Fiber asks([mailbox = std::move(ping), to_pong, rounds]() mutable {
    int value = 0;
    for (int i = 0; i < rounds; ++i) {
      ASSERT_EQ(to_pong.Send(value), ChannelResult::kOk);
      value = mailbox.Receive().value();
    }
    EXPECT_EQ(value, rounds);
  });
  asks.Join();
  static_cast<void>(to_pong.Send(0));  // Cannot be answered any more.
  answers.Join();
}

WEFT_INSTANTIATE_FEW_SHAPES(MailboxTest);

TEST(Mailbox, IsClosedWhenTheStartOfItsFiberIsRefused) {
  const RuntimeOf runtime(Shape{1, 1});
  Mailbox<int> mailbox;
  const auto sender = mailbox.MakeSender();
  const RefuseFiberStarts refuse;
  EXPECT_FALSE(StartFiberDetached([mailbox = std::move(mailbox)] {}));
  EXPECT_EQ(sender.Send(1), ChannelResult::kClosed);
}

TEST(Mailbox, MovesToAnotherOwner) {
  Mailbox<int> first;
  const auto to_first = first.MakeSender();
  ASSERT_EQ(to_first.Send(1), ChannelResult::kOk);
  ASSERT_EQ(to_first.Send(2), ChannelResult::kOk);
  EXPECT_EQ(first.ReceiveIf([](int m) { return m == 2; }), 2);
  Mailbox<int> second;
  const auto to_second = second.MakeSender();
  EXPECT_NE(to_first, to_second);
  second = std::move(first);
  EXPECT_EQ(second.MakeSender(), to_first);
  EXPECT_EQ(to_second.Send(3), ChannelResult::kClosed) << "the one that was assigned to is gone";
  EXPECT_EQ(second.Receive(), 1) << "also what a selection had passed over";
}

TEST(Mailbox, MessagesLeftInItAreDestroyedWithIt) {
  auto message = std::make_shared<int>(1);
  std::optional<Mailbox<std::shared_ptr<int>>> mailbox(std::in_place);
  const auto sender = mailbox->MakeSender();
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(sender.Send(message), ChannelResult::kOk);
    EXPECT_FALSE(mailbox->TryReceiveIf([](const auto&) { return false; }));
  }
  ASSERT_EQ(sender.Send(message), ChannelResult::kOk);
  EXPECT_EQ(message.use_count(), 4);
  mailbox.reset();
  EXPECT_EQ(message.use_count(), 1) << "a sender that is left keeps none";
}

TEST(Mailbox, AMessageNeedsNoAssignmentAndNoCopy) {
  struct Fixed {
    explicit Fixed(int v) : value(v) {}
    Fixed(Fixed&&) noexcept = default;
    Fixed& operator=(Fixed&&) = delete;
    const int value;
  };
  Mailbox<Fixed> mailbox;
  for (int i = 1; i <= 3; ++i) ASSERT_EQ(mailbox.MakeSender().Send(Fixed(i)), ChannelResult::kOk);
  EXPECT_EQ(mailbox.ReceiveIf([](const Fixed& m) { return m.value == 2; })->value, 2);
  EXPECT_EQ(mailbox.Receive()->value, 1);
  EXPECT_EQ(mailbox.ReceiveAll().front().value, 3);
}

TEST(Mailbox, ASelectionThatThrowsLosesNothing) {
  Mailbox<int> mailbox;
  for (int i = 1; i <= 3; ++i) ASSERT_EQ(mailbox.MakeSender().Send(i), ChannelResult::kOk);
  const auto throws = [](int m) -> bool {
    if (m == 2) throw std::runtime_error("two");
    return false;
  };
  EXPECT_THROW(static_cast<void>(mailbox.ReceiveIf(throws)), std::runtime_error);
  EXPECT_EQ(mailbox.ReceiveAll(), (std::vector<int>{1, 2, 3}));
}

TEST(MailboxDeathTest, MisuseEndsTheProcess) {
  ::testing::FLAGS_gtest_death_test_style = "threadsafe";
  EXPECT_DEATH(Mailbox<int>(0), "a capacity of 0 cannot be");
  EXPECT_DEATH(static_cast<void>(Mailbox<int>::Sender().Send(1)), "belongs to no mailbox");
  EXPECT_DEATH(
      {
        Mailbox<int> mailbox;
        const auto receive = [&mailbox] { static_cast<void>(mailbox.Receive()); };
        std::thread other(receive);
        receive();
        other.join();
      },
      "two receive at once");
}

}  // namespace
}  // namespace weft::fiber
