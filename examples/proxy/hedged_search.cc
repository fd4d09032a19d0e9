// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/examples/proxy/hedged_search.h"

#include <algorithm>
#include <mutex>
#include <string>
#include <utility>

#include "weft/base/check.h"
#include "weft/examples/rpc/rpc_controller.h"
#include "weft/fiber/fiber_scope.h"
#include "weft/sync/fiber_condition_variable.h"
#include "weft/sync/fiber_mutex.h"

namespace weft::proxy {

// The attempts of one search.
struct HedgedSearch::Race {
  // What an attempt throws that has failed: kFirstSuccess waits for another one.
  struct Failure {};

  // Refused: as failed.
  void Start(rpc::Channel* replica) {
    {
      const std::scoped_lock lock(mutex);
      ++running;
    }
    const std::size_t number = started++;
    if (!attempts.Spawn([this, replica, number] { Attempt(replica, number); })) {
      End(number, rpc::OVERLOADED, "no fiber can be started for the call", nullptr);
    }
  }

  void Attempt(rpc::Channel* replica, std::size_t number) {
    rpc::Controller controller;
    controller.set_deadline(deadline);
    SearchAnswer answer;
    SearchService::Stub(replica).Search(&controller, &request, &answer, nullptr);
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

  const SearchRequest& request;
  const Deadline deadline;
  std::size_t started = 0;  // the caller's

  FiberMutex mutex{};  // guards what follows
  FiberConditionVariable changed{};
  std::size_t running = 0;
  bool won = false;
  std::size_t by = 0;  // the number of the attempt that has won
  Result result{};

  // Last: its fibers use the rest.
  FiberScope attempts{FiberScope::Options{.policy = ScopePolicy::kFirstSuccess}};
};

HedgedSearch::HedgedSearch(std::vector<rpc::Channel*> replicas, std::chrono::microseconds hedge_delay)
    : replicas_(std::move(replicas)), hedge_delay_(hedge_delay) {
  WEFT_CHECK(!replicas_.empty(), "HedgedSearch: no replicas");
}

HedgedSearch::Result HedgedSearch::Ask(const SearchRequest& request, std::size_t first, Deadline deadline) {
  std::vector<rpc::Channel*> order(replicas_);
  std::rotate(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(first % order.size()), order.end());
  std::stable_partition(order.begin(), order.end(), [](const rpc::Channel* channel) { return channel->Healthy(); });

  Race race{.request = request, .deadline = deadline};
  std::size_t hedge = order.size();  // which attempt was one
  race.Start(order[0]);
  if (order.size() > 1 && !race.Wait(std::min(deadline, Deadline(hedge_delay_)))) {
    hedged_.fetch_add(1, std::memory_order_relaxed);
    hedge = race.started;
    race.Start(order[hedge]);
  }
  for (;;) {
    static_cast<void>(race.Wait());  // Each attempt ends at the deadline.
    if (race.HasWon() || race.started == order.size() || deadline.expired()) break;
    failed_over_.fetch_add(1, std::memory_order_relaxed);
    race.Start(order[race.started]);
  }
  race.attempts.Cancel();
  try {
    race.attempts.Wait();
  } catch (const Race::Failure&) {  // None has answered.
  }
  if (race.won && race.by == hedge) hedges_won_.fetch_add(1, std::memory_order_relaxed);
  return std::move(race.result);
}

HedgedSearch::Counts HedgedSearch::counts() const {
  return {.hedged = hedged_.load(std::memory_order_relaxed),
          .hedges_won = hedges_won_.load(std::memory_order_relaxed),
          .failed_over = failed_over_.load(std::memory_order_relaxed)};
}

}  // namespace weft::proxy
