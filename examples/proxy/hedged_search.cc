// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/examples/proxy/hedged_search.h"

#include <algorithm>
#include <memory>
#include <mutex>
#include <utility>

#include "weft/base/check.h"
#include "weft/base/ref_ptr.h"
#include "weft/examples/rpc/rpc_controller.h"
#include "weft/sync/fiber_condition_variable.h"
#include "weft/sync/fiber_mutex.h"

namespace weft::proxy {

// The attempts of one search.
class HedgedSearch::Race final : public base::RefCounted<Race> {
 public:
  explicit Race(SearchRequest request, Deadline deadline) : request_(std::move(request)), deadline_(deadline) {}

  void Start(rpc::Channel* replica) {
    Attempt* attempt = nullptr;
    {
      const std::scoped_lock lock(mutex_);
      attempts_.push_back(std::make_unique<Attempt>());
      attempt = attempts_.back().get();
      ++running_;
    }
    attempt->race = base::RefPtr<Race>(this);
    attempt->controller.set_deadline(deadline_);
    SearchService::Stub(replica).Search(&attempt->controller, &request_, &attempt->answer,
                                        google::protobuf::NewCallback(&Race::OnEnd, attempt));
  }

  // True: one has answered or all have failed; false: the deadline passed.
  bool Wait(Deadline deadline = {}) {
    std::unique_lock lock(mutex_);
    const auto over = [this] { return winner_ != nullptr || running_ == 0; };
    return changed_.wait(lock, over, deadline);
  }

  bool won() {
    const std::scoped_lock lock(mutex_);
    return winner_ != nullptr;
  }

  // After the end. `*by`: the number of the winning attempt.
  Result Finish(std::size_t* by) {
    std::vector<Attempt*> losers;
    Result result;
    {
      const std::scoped_lock lock(mutex_);
      for (std::size_t i = 0; i < attempts_.size(); ++i) {
        Attempt* const attempt = attempts_[i].get();
        if (attempt == winner_) {
          *by = i;
        } else if (attempt->race) {
          losers.push_back(attempt);
        } else if (winner_ == nullptr) {
          result.code = attempt->controller.error_code();  // The last one's.
          result.text = attempt->controller.ErrorText();
        }
      }
      if (winner_ != nullptr) {
        result.code = rpc::OK;
        result.answer.Swap(&winner_->answer);
      }
    }
    for (Attempt* const loser : losers) loser->controller.StartCancel();
    return result;
  }

 private:
  friend class base::RefCounted<Race>;

  struct Attempt {
    base::RefPtr<Race> race;  // until it has ended
    rpc::Controller controller;
    SearchAnswer answer;
  };

  ~Race() = default;

  static void OnEnd(Attempt* attempt) {
    base::RefPtr<Race> race;
    const auto own = attempt->race;
    const std::scoped_lock lock(own->mutex_);
    --own->running_;
    if (!attempt->controller.Failed() && own->winner_ == nullptr) own->winner_ = attempt;
    race = std::move(attempt->race);
    own->changed_.notify_all();
  }

  const SearchRequest request_;
  const Deadline deadline_;
  FiberMutex mutex_;  // guards what follows
  FiberConditionVariable changed_;
  std::vector<std::unique_ptr<Attempt>> attempts_;
  std::size_t running_ = 0;
  Attempt* winner_ = nullptr;
};

HedgedSearch::HedgedSearch(std::vector<rpc::Channel*> replicas, std::chrono::microseconds hedge_delay)
    : replicas_(std::move(replicas)), hedge_delay_(hedge_delay) {
  WEFT_CHECK(!replicas_.empty(), "HedgedSearch: no replicas");
}

HedgedSearch::Result HedgedSearch::Ask(const SearchRequest& request, std::size_t first, Deadline deadline) {
  std::vector<rpc::Channel*> order(replicas_);
  std::rotate(order.begin(), order.begin() + static_cast<std::ptrdiff_t>(first % order.size()), order.end());
  std::stable_partition(order.begin(), order.end(), [](const rpc::Channel* channel) { return channel->Healthy(); });

  const auto race = base::MakeRefCounted<Race>(request, deadline);
  std::size_t started = 0;
  std::size_t hedge = order.size();  // which attempt was one
  race->Start(order[started++]);
  if (order.size() > 1 && !race->Wait(std::min(deadline, Deadline(hedge_delay_)))) {
    hedged_.fetch_add(1, std::memory_order_relaxed);
    hedge = started;
    race->Start(order[started++]);
  }
  for (;;) {
    static_cast<void>(race->Wait());  // Each attempt ends at the deadline.
    if (race->won() || started == order.size() || deadline.expired()) break;
    failed_over_.fetch_add(1, std::memory_order_relaxed);
    race->Start(order[started++]);
  }
  std::size_t by = 0;
  Result result = race->Finish(&by);
  if (result.code == rpc::OK && by == hedge) hedges_won_.fetch_add(1, std::memory_order_relaxed);
  return result;
}

HedgedSearch::Counts HedgedSearch::counts() const {
  return {.hedged = hedged_.load(std::memory_order_relaxed),
          .hedges_won = hedges_won_.load(std::memory_order_relaxed),
          .failed_over = failed_over_.load(std::memory_order_relaxed)};
}

}  // namespace weft::proxy
