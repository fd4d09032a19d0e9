// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Ping-pong by mailbox, as Erlang's tutorial has it: ping sends a number and who to answer, pong answers, until ping's
// fiber ends, which pong learns when a send says kClosed. Meanwhile a periodic task sends ticks to ping, which selects
// the answers and looks at the ticks afterwards.
//
// A fiber owns its Mailbox by capturing it. Senders are handles to give away, in messages, too.

#include <chrono>
#include <iostream>
#include <utility>
#include <variant>

#include "weft/fiber/mailbox.h"
#include "weft/fiber/periodic_task.h"
#include "weft/weft.h"

using namespace std::chrono_literals;

namespace {

constexpr int kRounds = 10'000;

struct Pong {
  int number;
};
struct Tick {};
using ToPing = std::variant<Pong, Tick>;

struct ToPong {
  int number;
  weft::Mailbox<ToPing>::Sender answer_to;
};

struct Score {
  int rounds = 0;
  std::size_t ticks = 0;
};

Score Ping(weft::Mailbox<ToPing> mailbox, const weft::Mailbox<ToPong>::Sender& pong) {
  Score score;
  const auto is_pong = [](const ToPing& message) { return std::holds_alternative<Pong>(message); };
  for (int i = 0; i < kRounds; ++i) {
    if (pong.Send({i, mailbox.MakeSender()}) != weft::ChannelResult::kOk) break;
    const auto answer = mailbox.ReceiveIf(is_pong, 10s);  // Passes over the ticks.
    if (!answer || std::get<Pong>(*answer).number != i + 1) break;
    ++score.rounds;
  }
  static_cast<void>(pong.Send({0, mailbox.MakeSender()}));  // Nobody waits for its answer: it tells pong of our end.
  score.ticks = mailbox.ReceiveAll().size();
  return score;
}

// Until the one that asks is gone.
void AnswerPings(weft::Mailbox<ToPong> mailbox) {
  while (auto ping = mailbox.Receive()) {
    if (ping->answer_to.Send(Pong{ping->number + 1}) != weft::ChannelResult::kOk) return;
  }
}

}  // namespace

int main() {
  weft::StartRuntime();
  weft::Mailbox<ToPing> pings;
  weft::Mailbox<ToPong> pongs;
  const auto to_ping = pings.MakeSender();
  const auto to_pong = pongs.MakeSender();

  Score score;
  weft::PeriodicTask clock;
  if (!clock.Start("clock", {.period = 1ms, .run_at_once = true},
                   [to_ping] { static_cast<void>(to_ping.Send(Tick{})); }))
    return 1;
  weft::Fiber pong([mailbox = std::move(pongs)]() mutable { AnswerPings(std::move(mailbox)); });
  weft::Fiber ping([&, mailbox = std::move(pings)]() mutable { score = Ping(std::move(mailbox), to_pong); });
  ping.Join();
  // If pong had answered the last ping before ping's mailbox was closed, this one tells it.
  static_cast<void>(to_pong.Send({0, to_ping}));
  pong.Join();
  clock.Stop();

  const std::size_t unfinished = weft::TerminateRuntime();
  std::cout << score.rounds << " rounds, and " << score.ticks << " ticks of a clock in between\n";
  return score.rounds == kRounds && unfinished == 0 ? 0 : 1;
}
