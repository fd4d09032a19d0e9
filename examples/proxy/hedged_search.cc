// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/examples/proxy/hedged_search.h"

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>

#include "weft/examples/rpc/rpc_controller.h"
#include "weft/fiber/fiber_scope.h"
#include "weft/sync/fiber_condition_variable.h"
#include "weft/sync/fiber_mutex.h"

namespace weft::proxy {
namespace {

std::vector<std::string> NamesOf(const std::vector<rpc::Channel*>& replicas) {
  std::vector<std::string> names;
  for (const rpc::Channel* replica : replicas) names.push_back(replica->server().ToString());
  return names;
}

}  // namespace

// The attempts of one search.
struct HedgedSearch::Race {
  // What an attempt throws that has failed: kFirstSuccess waits for another one.
  struct Failure {};

  // False: there is no other replica. Refused: as failed.
  bool Start() {
    std::optional<Choice> choice = search.Choose(tried);
    if (!choice) return false;
    const std::size_t number = tried.size();
    tried.push_back(choice->picked.index());
    {
      const std::scoped_lock lock(mutex);
      ++running;
    }
    if (!attempts.Spawn([this, number, own = *std::move(choice)]() mutable { Attempt(std::move(own), number); })) {
      End(number, rpc::OVERLOADED, "no fiber can be started for the call", nullptr);
    }
    return true;
  }

  // Its choice ends with it.
  void Attempt(Choice choice, std::size_t number) {
    Replica& replica = search.replicas_[choice.picked.index()];
    rpc::Controller controller;
    controller.set_deadline(deadline);
    SearchAnswer answer;
    const auto asked_at = std::chrono::steady_clock::now();
    try {
      SearchService::Stub(replica.channel).Search(&controller, &request, &answer, nullptr);
    } catch (...) {
      search.Report(&replica, choice.admitted, rpc::CANCELED, asked_at);  // Another one has answered, or nobody waits.
      throw;
    }
    search.Report(&replica, choice.admitted, controller.error_code(), asked_at);
    End(number, controller.error_code(), controller.ErrorText(), &answer);
    if (controller.Failed()) throw Failure();
  }

  void End(std::size_t number, rpc::ErrorCode code, const std::string& text, SearchAnswer* answer) {
    const std::scoped_lock lock(mutex);
    --running;
    if (!won) {
      won = code == rpc::OK;
      result.code = code;  // Without a winner: the last one's.
      result.text = text;
      if (won) {
        by = number;
        result.answer.Swap(answer);
      }
    }
    changed.notify_all();
  }

  // True: one has answered or all have failed; false: the time has passed.
  bool Wait(Deadline until = {}) {
    std::unique_lock lock(mutex);
    return changed.wait(
        lock, [this] { return won || running == 0; }, until);
  }
  bool HasWon() {
    const std::scoped_lock lock(mutex);
    return won;
  }

  HedgedSearch& search;
  const SearchRequest& request;
  const Deadline deadline;
  std::vector<std::size_t> tried{};  // the caller's: which replicas, in the order of the attempts' numbers

  FiberMutex mutex{};  // guards what follows
  FiberConditionVariable changed{};
  std::size_t running = 0;
  bool won = false;
  std::size_t by = 0;  // the number of the attempt that has won
  Result result{
      .code = rpc::UNAVAILABLE, .text = "no backend can be asked: each is lost, or has failed too often", .answer = {}};

  // Last: its fibers use the rest.
  FiberScope attempts{FiberScope::Options{.policy = ScopePolicy::kFirstSuccess}};
};

HedgedSearch::HedgedSearch(std::vector<rpc::Channel*> replicas, const Options& options)
    : balancer_(io::BalancePolicy::kLeastLoaded, NamesOf(replicas)),
      hedges_(options.hedging),
      hedge_delay_(options.hedge_delay),
      patience_(
          std::min(hedge_delay_, std::chrono::duration_cast<std::chrono::microseconds>(options.breaking.silence))) {
  for (rpc::Channel* channel : replicas) replicas_.emplace_back(options.breaking).channel = channel;
}

void HedgedSearch::Report(Replica* replica, io::CircuitBreaker::Admission admitted, rpc::ErrorCode code,
                          io::CircuitBreaker::TimePoint asked_at) const {
  switch (code) {
    case rpc::UNAVAILABLE:
    case rpc::CONNECTION_LOST:
      return replica->breaker.Report(admitted, false);
    case rpc::CANCELED:
    case rpc::DEADLINE_EXCEEDED: {
      const auto now = std::chrono::steady_clock::now();
      if (now - asked_at >= patience_) replica->breaker.ReportUnanswered(admitted, asked_at, now);
      return;
    }
    default:
      return replica->breaker.Report(admitted, true);
  }
}

bool HedgedSearch::MayHedge() {
  if (hedges_.Withdraw()) return true;
  not_hedged_.fetch_add(1, std::memory_order_relaxed);
  return false;
}

std::optional<HedgedSearch::Choice> HedgedSearch::Choose(std::span<const std::size_t> tried) {
  for (std::size_t i = 0; i < replicas_.size(); ++i) balancer_.SetUsable(i, replicas_[i].channel->Healthy());
  std::vector<std::size_t> without(tried.begin(), tried.end());
  while (auto picked = balancer_.PickOther(without)) {
    Replica& replica = replicas_[picked->index()];
    if (const auto admitted = replica.breaker.TryAdmit()) return Choice{*std::move(picked), *admitted};
    replica.refused.fetch_add(1, std::memory_order_relaxed);
    without.push_back(picked->index());
  }
  return std::nullopt;
}

HedgedSearch::Result HedgedSearch::Ask(const SearchRequest& request, Deadline deadline) {
  Race race{.search = *this, .request = request, .deadline = deadline};
  if (!race.Start()) return std::move(race.result);
  std::size_t hedge = replicas_.size();  // which attempt was one
  hedges_.Deposit();
  if (replicas_.size() > 1 && !race.Wait(std::min(deadline, Deadline(hedge_delay_))) && MayHedge()) {
    if (race.Start()) {
      hedged_.fetch_add(1, std::memory_order_relaxed);
      hedge = race.tried.size() - 1;
    } else {
      hedges_.GiveBack();
    }
  }
  for (;;) {
    static_cast<void>(race.Wait());  // Each attempt ends at the deadline.
    if (race.HasWon() || deadline.expired() || !race.Start()) break;
    failed_over_.fetch_add(1, std::memory_order_relaxed);
  }
  race.attempts.Cancel();
  try {
    race.attempts.Wait();
  } catch (const Race::Failure&) {  // None has answered.
  }
  if (race.won && race.by == hedge) hedges_won_.fetch_add(1, std::memory_order_relaxed);
  return std::move(race.result);
}

std::vector<HedgedSearch::ReplicaState> HedgedSearch::replicas() const {
  std::vector<ReplicaState> states;
  for (std::size_t i = 0; i < replicas_.size(); ++i) {
    const Replica& replica = replicas_[i];
    states.push_back({.server = replica.channel->server(),
                      .breaker = replica.breaker.state(),
                      .refused = replica.refused.load(std::memory_order_relaxed),
                      .under_way = balancer_.Calls(i)});
  }
  return states;
}

HedgedSearch::Counts HedgedSearch::counts() const {
  return {.hedged = hedged_.load(std::memory_order_relaxed),
          .hedges_won = hedges_won_.load(std::memory_order_relaxed),
          .not_hedged = not_hedged_.load(std::memory_order_relaxed),
          .failed_over = failed_over_.load(std::memory_order_relaxed)};
}

}  // namespace weft::proxy
