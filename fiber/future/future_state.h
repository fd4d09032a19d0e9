// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// FutureState: what a Promise and its Future share, one allocation; and how a result gets into it: from a function that
// is called (Outcome), from another state (Forwarding), from a continuation (ThenState), from several Futures
// (WhenAllState, WhenAnyState).
//
// A state that a continuation resolves is also the callback that does so: Then() allocates once. Each Future that
// WhenAll() or WhenAny() awaits is moved into the state, where its result stays, and has one Arrival of it attached.
//
// Invariants
//   FU6  The result is written once, between Claim() and Publish(), and read only when IsResolved() has said true. Who
//        then takes it is the one owner of the Future: its continuation, its waiter, or WhenAll() and WhenAny().
//   FU7  A function that makes a result has been destroyed, with all that it has captured, before the result is
//        published: it may refer to what the waiter's stack holds.
//   FU8  A state that is a callback holds a reference to itself while it is attached; Run() gives it up.
//   FU9  The Arrivals hold a reference to the state: all together (WhenAll), each its own (WhenAny). So the state
//        outlives every Arrival that may still run, also when nobody holds the Future of the whole any more.
//   FU10 The last of WhenAll's arrivals takes the Futures: the count makes what all the others did visible to it.
#ifndef WEFT_FIBER_FUTURE_FUTURE_STATE_H_
#define WEFT_FIBER_FUTURE_FUTURE_STATE_H_

#include <cstddef>
#include <exception>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "weft/base/ref_ptr.h"
#include "weft/base/report/check.h"
#include "weft/base/thread/atomic.h"
#include "weft/fiber/exception.h"
#include "weft/fiber/execution_context.h"
#include "weft/fiber/executor.h"
#include "weft/fiber/future/future_core.h"
#include "weft/sync/fiber_cancelled.h"

namespace weft {

template <class... Ts>
class Future;
template <class... Ts>
class Promise;

namespace fiber::detail {

template <class... Ts>
class FutureState : public FutureCore, public base::RefCounted<FutureState<Ts...>> {
 public:
  using Value = std::tuple<Ts...>;

  FutureState() = default;
  virtual ~FutureState() = default;

  // After Claim(). If making the value throws, that exception is the result. Returns what is due now.
  template <class... Us>
  [[nodiscard]] FutureCallback* Fill(Us&&... values) noexcept {
    try {
      value_.emplace(std::forward<Us>(values)...);
    } catch (...) {
      exception_ = std::current_exception();
    }
    return Publish();
  }
  [[nodiscard]] FutureCallback* FillException(std::exception_ptr exception) noexcept {
    exception_ = exception != nullptr ? std::move(exception) : std::make_exception_ptr(CommonException("no exception"));
    return Publish();
  }
  // Takes the result of `from`, which is resolved.
  [[nodiscard]] FutureCallback* FillFrom(FutureState& from) noexcept {
    return from.failed() ? FillException(std::move(from.exception_)) : Fill(std::move(*from.value_));
  }

  // After IsResolved().
  bool failed() const noexcept { return !value_.has_value(); }
  Value& value() noexcept { return *value_; }
  std::exception_ptr& exception() noexcept { return exception_; }
  // Takes the values out, or throws what it has failed with.
  Value Take() {
    if (failed()) std::rethrow_exception(exception_);
    return std::move(*value_);
  }

 private:
  std::optional<Value> value_;
  std::exception_ptr exception_;
};

template <class... Ts>
using StatePtr = base::RefPtr<FutureState<Ts...>>;

// The states behind the public types.
struct FutureAccess {
  template <class F>
  static auto& State(F& future_or_promise) noexcept {
    return future_or_promise.state_;
  }
  template <class... Ts>
  static Future<Ts...> Make(StatePtr<Ts...> state) noexcept {
    return Future<Ts...>(std::move(state));
  }
};

// What a function that returns R makes: Future<R>, Future<> of nothing, and a Future of itself.
template <class R>
struct ResultOf {
  using FutureType = Future<std::decay_t<R>>;
  using State = FutureState<std::decay_t<R>>;
  static_assert(!std::is_reference_v<R>, "a Future holds a value: return one, a pointer or a std::reference_wrapper");
};
template <>
struct ResultOf<void> {
  using FutureType = Future<>;
  using State = FutureState<>;
};
template <class... Ts>
struct ResultOf<Future<Ts...>> {
  using FutureType = Future<Ts...>;
  using State = FutureState<Ts...>;
};

// Hands the result of `from` on to `to`, which has been claimed, now or when there is one.
template <class... Ts>
class Forwarding final : public FutureCallback {
 public:
  static FutureCallback* Start(StatePtr<Ts...> from, StatePtr<Ts...> to) noexcept {
    if (from == nullptr) return to->FillException(std::make_exception_ptr(CommonException("an empty Future")));
    if (!from->IsResolved()) {
      auto* const self = new Forwarding(from, to);
      if (from->Attach(self)) return nullptr;
      delete self;
    }
    return to->FillFrom(*from);
  }

 private:
  Forwarding(const StatePtr<Ts...>& from, const StatePtr<Ts...>& to) : from_(from), to_(to) {}

  FutureCallback* Run() noexcept override {
    FutureCallback* const next = to_->FillFrom(*from_);
    delete this;
    return next;
  }

  const StatePtr<Ts...> from_;
  const StatePtr<Ts...> to_;
};

// What a call came to, kept until the function is gone (FU7).
template <class R>
class Outcome {
 public:
  template <class Call>
  explicit Outcome(Call&& call) noexcept {
    try {
      if constexpr (std::is_void_v<R>) {
        std::forward<Call>(call)();
        kept_.emplace();
      } else {
        kept_.emplace(std::forward<Call>(call)());
      }
    } catch (const FiberCancelled&) {
      // Not as it is: it would end a fiber that nobody has cancelled.
      exception_ = std::make_exception_ptr(CommonException("the fiber that made the result was cancelled"));
    } catch (...) {
      exception_ = std::current_exception();
    }
  }

  // Claims `to`, and returns what is due now.
  template <class... Ts>
  [[nodiscard]] FutureCallback* MoveTo(const StatePtr<Ts...>& to) noexcept {
    if (!to->Claim()) return nullptr;
    if (exception_ != nullptr) return to->FillException(std::move(exception_));
    if constexpr (std::is_void_v<R>) {
      return to->Fill();
    } else if constexpr (std::is_same_v<typename ResultOf<R>::FutureType, R>) {
      return Forwarding<Ts...>::Start(FutureAccess::State(*kept_), to);
    } else {
      return to->Fill(std::move(*kept_));
    }
  }

 private:
  using Kept = std::conditional_t<std::is_void_v<R>, std::tuple<>, std::decay_t<R>>;
  std::optional<Kept> kept_;
  std::exception_ptr exception_;
};

// The result of a continuation: F is called with the values of `Ts...`, or with their Future.
template <class F, class... Ts>
struct Continuation {
  static constexpr bool kTakesValues = std::is_invocable_v<F, Ts...>;
  static_assert(kTakesValues || std::is_invocable_v<F, Future<Ts...>>,
                "Future::Then: the function takes neither the values of the Future nor the Future, as an rvalue");
  static auto ReturnType() {
    if constexpr (kTakesValues) {
      return std::type_identity<std::invoke_result_t<F, Ts...>>();
    } else {
      return std::type_identity<std::invoke_result_t<F, Future<Ts...>>>();
    }
  }
  using Return = typename decltype(ReturnType())::type;
  using FutureType = typename ResultOf<Return>::FutureType;
  using State = typename ResultOf<Return>::State;
};

template <class F, class... Ts>
class ThenState final : public Continuation<F, Ts...>::State, public FutureCallback {
 public:
  using Made = Continuation<F, Ts...>;
  using FutureType = typename Made::FutureType;
  using Next = typename Made::State;

  // Runs f at once if there is a result (and no executor). `source` is what `self` has been made with.
  static base::RefPtr<Next> AttachTo(StatePtr<Ts...> source, const base::RefPtr<ThenState>& self) {
    self->AddRef();  // FU8
    if (!source->Attach(self.Get())) RunCallbacks(self->Run());
    return base::RefPtr<Next>(self.Get());
  }

  template <class G>
  ThenState(const StatePtr<Ts...>& source, Executor* executor, G&& f)
      : source_(source),
        f_(std::in_place, std::forward<G>(f)),
        executor_(executor),
        context_(FiberExecutionContext::Capture()) {}

  FutureCallback* Run() noexcept override {
    if (executor_ != nullptr && executor_->SubmitTask([this] { RunCallbacks(RunHere()); })) return nullptr;
    return RunHere();
  }

 private:
  using Return = typename Made::Return;

  FutureCallback* RunHere() noexcept {
    const auto self = base::RefPtr<Next>::Adopt(this);  // FU8
    if (Made::kTakesValues && source_->failed()) {
      std::exception_ptr exception = std::move(source_->exception());
      Clear();
      static_cast<void>(this->Claim());
      return this->FillException(std::move(exception));
    }
    Outcome<Return> outcome([this]() -> Return {
      if (context_ == nullptr) return Call();
      return context_->Execute([this]() -> Return { return Call(); });
    });
    Clear();
    return outcome.MoveTo(self);
  }

  Return Call() {
    if constexpr (Made::kTakesValues) {
      return std::apply(std::move(*f_), std::move(source_->value()));
    } else {
      return std::invoke(std::move(*f_), FutureAccess::Make<Ts...>(std::move(source_)));
    }
  }

  void Clear() noexcept {
    f_.reset();  // FU7
    source_.Reset();
    context_.Reset();
  }

  StatePtr<Ts...> source_;
  std::optional<F> f_;
  Executor* const executor_;
  base::RefPtr<FiberExecutionContext> context_;
};

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
  FutureState<Ts...>* const state = FutureAccess::State(future).Get();
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
      self->arrivals_[i].Set(self.Get(), i);
      if (!state->Attach(&self->arrivals_[i])) RunCallbacks(self->Arrive(i));
    });
    RunCallbacks(self->Arrive(count));  // Nobody has the Future yet: nothing is due.
    return FutureAccess::Make<Futures>(StatePtr<Futures>(self.Get()));
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
      const auto none = base::MakeRefCounted<Whole>();
      static_cast<void>(none->Claim());
      RunCallbacks(none->FillException(std::make_exception_ptr(CommonException("WhenAny of no Future"))));
      return FutureAccess::Make<std::size_t, std::tuple<Ts...>>(none);
    }
    auto self = base::MakeRefCounted<WhenAnyState>(std::move(futures));
    for (std::size_t i = 0; i < count && !self->IsResolved(); ++i) {
      auto* const state = CheckedState(self->futures_[i], "WhenAny");
      self->arrivals_[i].Set(self.Get(), i);
      self->AddRef();  // FU9
      if (!state->Attach(&self->arrivals_[i])) RunCallbacks(self->Arrive(i));
    }
    return FutureAccess::Make<std::size_t, std::tuple<Ts...>>(base::RefPtr<Whole>(self.Get()));
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

}  // namespace fiber::detail

}  // namespace weft

#endif  // WEFT_FIBER_FUTURE_FUTURE_STATE_H_
