// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// WhenAllState, WhenAnyState: the Future that WhenAll() or WhenAny() returns, and the Futures that it awaits.
//
// Each awaited Future is moved into the state, where its result stays, and has one Arrival of the state attached.
//
// Invariants
//   FU9   The Arrivals hold a reference to the state: all together (WhenAll), each its own (WhenAny). So the state
//         outlives every Arrival that may still run, also when nobody holds the Future of the whole any more.
//   FU10  The last of WhenAll's arrivals takes the Futures: the count makes what all the others did visible to it.
#ifndef WEFT_FIBER_FUTURE_WHEN_STATE_H_
#define WEFT_FIBER_FUTURE_WHEN_STATE_H_

#include <array>
#include <cstddef>
#include <iterator>
#include <memory>
#include <tuple>
#include <utility>
#include <vector>

#include "weft/base/report/check.h"
#include "weft/base/thread/atomic.h"
#include "weft/fiber/future.h"

namespace weft::fiber::detail {

template <class Owner>
class Arrival final : public FutureCallback {
 public:
  void Set(Owner* owner, std::size_t index) noexcept {
    owner_ = owner;
    index_ = index;
  }

 private:
  FutureCallback* Run() noexcept override { return owner_->Arrive(index_); }

  Owner* owner_ = nullptr;
  std::size_t index_ = 0;
};

template <class... Ts>
FutureState<Ts...>* CheckedState(Future<Ts...>& future, const char* caller) {
  FutureState<Ts...>* const state = FutureAccess::State(future).get();
  WEFT_CHECK(state != nullptr, caller, ": an empty Future");
  return state;
}

// Calls f(future, its index) for each.
template <class F, class... Futures>
void ForEachFuture(std::tuple<Futures...>& futures, const F& f) {
  [&]<std::size_t... I>(std::index_sequence<I...>) { (f(std::get<I>(futures), I), ...); }
  (std::index_sequence_for<Futures...>());
}
template <class F, class Future>
void ForEachFuture(std::vector<Future>& futures, const F& f) {
  for (std::size_t i = 0; i < futures.size(); ++i) f(futures[i], i);
}

// Futures: a tuple or a vector of them.
template <class Futures>
class WhenAllState final : public FutureState<Futures> {
 public:
  static Future<Futures> Start(Futures&& futures, std::size_t count) {
    auto self = base::MakeRefCounted<WhenAllState>(std::move(futures), count);
    self->AddRef();  // FU9
    ForEachFuture(self->futures_, [&](auto& future, std::size_t i) {
      auto* const state = CheckedState(future, "WhenAll");
      self->arrivals_[i].Set(self.get(), i);
      if (!state->Attach(&self->arrivals_[i])) RunCallbacks(self->Arrive(i));
    });
    RunCallbacks(self->Arrive(count));  // Nobody has the Future yet: nothing is due.
    return FutureAccess::Make<Futures>(StatePtr<Futures>(self.get()));
  }

  WhenAllState(Futures&& futures, std::size_t count)
      : futures_(std::move(futures)), arrivals_(std::make_unique<Arrival<WhenAllState>[]>(count)), left_(count + 1) {}

  FutureCallback* Arrive(std::size_t) noexcept {
    // release: what was done before this arrival. acquire: before all others (FU10). Pairs with itself.
    if (left_.fetch_sub(1, std::memory_order_acq_rel) != 1) return nullptr;
    const auto self = StatePtr<Futures>::Adopt(this);  // FU9
    static_cast<void>(this->Claim());
    return this->Fill(std::move(futures_));
  }

 private:
  Futures futures_;
  const std::unique_ptr<Arrival<WhenAllState>[]> arrivals_;
  base::Atomic<std::size_t> left_;  // Futures that are not resolved, and Start().
};

enum class WhenAnyRule : bool { kFirst, kFirstValue };

template <WhenAnyRule rule, class... Ts>
class WhenAnyState final : public FutureState<std::size_t, std::tuple<Ts...>> {
 public:
  using Whole = FutureState<std::size_t, std::tuple<Ts...>>;

  static Future<std::size_t, std::tuple<Ts...>> Start(std::vector<Future<Ts...>>&& futures) {
    const std::size_t count = futures.size();
    if (count == 0) {
      return MakeExceptionFuture<std::size_t, std::tuple<Ts...>>(CommonException("WhenAny of no Future"));
    }
    auto self = base::MakeRefCounted<WhenAnyState>(std::move(futures));
    for (std::size_t i = 0; i < count && !self->IsResolved(); ++i) {
      auto* const state = CheckedState(self->futures_[i], "WhenAny");
      self->arrivals_[i].Set(self.get(), i);
      self->AddRef();  // FU9
      if (!state->Attach(&self->arrivals_[i])) RunCallbacks(self->Arrive(i));
    }
    return FutureAccess::Make<std::size_t, std::tuple<Ts...>>(base::RefPtr<Whole>(self.get()));
  }

  explicit WhenAnyState(std::vector<Future<Ts...>>&& futures)
      : futures_(std::move(futures)), arrivals_(std::make_unique<Arrival<WhenAnyState>[]>(futures_.size())) {}

  FutureCallback* Arrive(std::size_t index) noexcept {
    const auto self = base::RefPtr<Whole>::Adopt(this);  // FU9
    const auto state = FutureAccess::State(futures_[index]);
    if (!state->failed()) {
      return this->Claim() ? this->Fill(index, std::move(state->value())) : nullptr;
    }
    // relaxed: the last to fail hands on its own exception only.
    if (rule == WhenAnyRule::kFirstValue && failures_.fetch_add(1, std::memory_order_relaxed) + 1 < futures_.size()) {
      return nullptr;
    }
    return this->Claim() ? this->FillException(std::move(state->exception())) : nullptr;
  }

 private:
  std::vector<Future<Ts...>> futures_;  // Not changed, so that arrivals need no lock; a result is taken by its own.
  const std::unique_ptr<Arrival<WhenAnyState>[]> arrivals_;
  base::Atomic<std::size_t> failures_{0};
};

// The Futures of a range, moved out of it.
template <class Iterator>
auto TakeFutures(Iterator first, Iterator last) {
  std::vector<typename std::iterator_traits<Iterator>::value_type> futures;
  for (; first != last; ++first) futures.push_back(std::move(*first));
  return futures;
}

}  // namespace weft::fiber::detail

#endif  // WEFT_FIBER_FUTURE_WHEN_STATE_H_
