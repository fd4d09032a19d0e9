// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// CollectAll, CollectN, CollectAny, ForEach: call many functions at once, each in a fiber, and wait for them.
// Sample:
//   auto [user, stock] = CollectAll([&] { return GetUser(id); }, [&] { return GetStock(item); });
//   std::vector<std::function<Reply()>> calls = CallsToAllReplicas();
//   std::vector<Reply> replies = CollectAll(calls);                  // in the order of the calls
//   auto fastest_two = CollectN(calls, 2);                           // pairs of index and reply, as they come
//   auto [index, reply] = CollectAny(calls);
//   ForEach(orders, [](Order& order) { Ship(order); }, 16);          // at most 16 at a time
//   ForEach(orders.size(), [&](std::size_t i) { Ship(orders[i]); }); // by number
//
// All of them return when every function that was called has ended, so functions may refer to the caller's locals;
// functions and ranges are not copied. The outcome may be known before: when n have ended, or one has thrown. Functions
// that have not begun by then are not called; the others are cancelled: their waits throw.
//
// Exceptions: the first one that leaves a function is rethrown after all have ended. With CollectN(n) only those of the
// first n to end count. If a fiber cannot be started, the others are cancelled, and FiberNotStarted is thrown. A
// cancelled caller gets FiberCancelled; also while it unwinds, if a function was cancelled and has no result.
//
// Results: a vector (CollectAll of a range), a tuple with std::monostate for functions that return nothing (CollectAll
// of functions), pairs of index and result, or indices if the functions return nothing (CollectN, CollectAny).
// Who may call: any fiber and any thread, while a runtime runs. Switches (a thread: blocks). The fibers inherit the
// caller's execution context. There is no deadline: a call that returned at one would leave fibers behind.
// Memory ordering: what the caller did before is visible to the functions; what they did is visible on return.
// Cost: as starting each fiber in a FiberScope, and one wait. Results of ranges: one allocation more.
// Misuse: more than there are functions asked of CollectN(), and CollectAny() of none, end the process.
//
// The fibers are those of a ChildGroup. It lies on the caller's stack, and so does what the children refer to.
//
// Invariants
//   CG1  No child outlives the group: FiberScope's destructor awaits them, whatever ends the call.
//   CG3  The first exception cancels the others, and is rethrown when all have ended. IsOver() is true from then on.
#ifndef WEFT_FIBER_COLLECT_H_
#define WEFT_FIBER_COLLECT_H_

#include <concepts>
#include <cstddef>
#include <functional>
#include <iterator>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "weft/base/report/check.h"
#include "weft/base/thread/atomic.h"
#include "weft/base/unique_function.h"
#include "weft/fiber/fiber_scope.h"
#include "weft/sync/fiber_cancelled.h"

namespace weft {

namespace fiber::detail {

class ChildGroup {
 public:
  ChildGroup() = default;
  ChildGroup(const ChildGroup&) = delete;
  ChildGroup& operator=(const ChildGroup&) = delete;

  // Runs body(0) ... body(count - 1), each in a fiber. Throws FiberNotStarted if one cannot be started; those that were
  // are cancelled then. Once, with a `body` that lives until the group ends.
  template <class Body>
  void Start(const char* caller, std::size_t count, const Body& body) {
    for (std::size_t i = 0; i < count; ++i) ScopeAccess::Spawn(scope_, caller, [&body, i] { body(i); });
  }

  // Waits until all have ended. Then throws the first exception, or the caller's own cancellation, if there is one.
  void Await();

  // The outcome is known: one has failed, or CancelOthers() was called.
  bool IsOver() const noexcept { return scope_.IsCancelled(); }

  // What counts has been reached: the others need not go on. Any child, or the caller.
  void CancelOthers() noexcept { static_cast<void>(scope_.Cancel()); }

 private:
  FiberScope scope_;
};

template <class Range>
using IteratorOf = decltype(std::begin(std::declval<Range&>()));
template <class Range>
concept ForwardRange = std::forward_iterator<IteratorOf<Range>>;
template <class Range>
concept CallableRange = ForwardRange<Range> && std::invocable<decltype(*std::declval<IteratorOf<Range>&>())>;

// The elements of a range by their index, from several fibers.
template <class Range>
class Elements {
 public:
  using Iterator = IteratorOf<Range>;
  static constexpr bool kRandomAccess = std::random_access_iterator<Iterator>;

  explicit Elements(Range& range) : begin_(std::begin(range)) {
    const auto end = std::end(range);
    if constexpr (kRandomAccess) {
      size_ = static_cast<std::size_t>(end - begin_);
    } else {
      for (auto i = begin_; i != end; ++i) positions_.push_back(i);
      size_ = positions_.size();
    }
  }
  std::size_t size() const noexcept { return size_; }
  decltype(auto) operator[](std::size_t index) const {
    if constexpr (kRandomAccess) {
      return *(begin_ + static_cast<std::iter_difference_t<Iterator>>(index));
    } else {
      return *positions_[index];
    }
  }

 private:
  Iterator begin_;
  std::vector<Iterator> positions_;
  std::size_t size_ = 0;
};

template <class Range>
using ReturnOf = std::decay_t<std::invoke_result_t<decltype(std::declval<const Elements<Range>&>()[0])>>;

// Calls f() and keeps what it returns.
template <class R, class F>
void CallInto(std::optional<R>& result, F&& f) {
  if constexpr (std::is_same_v<R, std::monostate>) {
    std::invoke(std::forward<F>(f));
    result.emplace();
  } else {
    result.emplace(std::invoke(std::forward<F>(f)));
  }
}

// Calls f(0) ... f(count - 1), at most `limit` at a time; 0: all at once. They begin in this order.
template <class F>
void ForEachIndex(std::size_t count, const F& f, std::size_t limit) {
  base::Atomic<std::size_t> next{0};
  ChildGroup* running = nullptr;
  const auto body = [&](std::size_t) {
    while (!running->IsOver()) {
      // relaxed: each index is had once; the elements are older than the fibers.
      const std::size_t i = next.fetch_add(1, std::memory_order_relaxed);
      if (i >= count) return;
      f(i);
    }
  };
  ChildGroup group;  // The last of the locals: CG1.
  running = &group;
  group.Start("ForEach", limit == 0 || limit > count ? count : limit, body);
  group.Await();
}

// What is kept of a function that returns R.
template <class R>
using KeptOf = std::conditional_t<std::is_void_v<R>, std::monostate, std::decay_t<R>>;

// Which n of the functions end first, and with what. Shared by the fibers.
template <class R>
class FirstToEnd {
 public:
  struct Ended {
    std::size_t index = 0;
    std::optional<KeptOf<R>> result;
  };

  explicit FirstToEnd(std::size_t n) : places_(n) {}

  template <class F>
  void Run(ChildGroup& group, std::size_t index, F&& f) {
    if (group.IsOver()) return;
    Ended ended{index, std::nullopt};
    try {
      CallInto(ended.result, std::forward<F>(f));
    } catch (const FiberCancelled&) {
      throw;  // It takes no place.
    } catch (...) {
      if (TakePlace() < places_.size()) throw;
      return;
    }
    const std::size_t place = TakePlace();
    if (place < places_.size()) places_[place].emplace(std::move(ended));
    if (place + 1 == places_.size()) group.CancelOthers();
  }

  // When all have ended, and none of the first n has thrown.
  std::vector<std::optional<Ended>>& places() noexcept { return places_; }

 private:
  // relaxed: the places are read when all have ended.
  std::size_t TakePlace() noexcept { return taken_.fetch_add(1, std::memory_order_relaxed); }

  std::vector<std::optional<Ended>> places_;
  base::Atomic<std::size_t> taken_{0};
};

template <class Range>
auto RunFirstToEnd(Range& callables, std::size_t n, const char* caller) {
  const Elements<Range> elements(callables);
  WEFT_CHECK(n <= elements.size(), caller, ": ", n, " of ", elements.size(), " functions");
  FirstToEnd<ReturnOf<Range>> first(n);
  ChildGroup* running = nullptr;
  const auto body = [&](std::size_t i) { first.Run(*running, i, elements[i]); };
  ChildGroup group;
  running = &group;
  if (n != 0) group.Start(caller, elements.size(), body);
  group.Await();
  return std::move(first.places());
}

}  // namespace fiber::detail

template <class Range>
requires fiber::detail::CallableRange<Range>
auto CollectAll(Range&& callables) {
  using R = fiber::detail::ReturnOf<Range>;
  const fiber::detail::Elements<Range> elements(callables);
  std::vector<std::optional<fiber::detail::KeptOf<R>>> results(elements.size());
  fiber::detail::ChildGroup* running = nullptr;
  const auto body = [&](std::size_t i) {
    if (!running->IsOver()) fiber::detail::CallInto(results[i], elements[i]);
  };
  fiber::detail::ChildGroup group;  // The last of the locals: CG1.
  running = &group;
  group.Start("CollectAll", elements.size(), body);
  group.Await();
  if constexpr (!std::is_void_v<R>) {
    std::vector<R> all;
    all.reserve(results.size());
    for (auto& result : results) all.push_back(*std::move(result));
    return all;
  }
}

// The functions one by one, of any types: a tuple of what they return, std::monostate for nothing.
template <class... Fs>
requires(std::invocable<Fs&>&&...) std::tuple<fiber::detail::KeptOf<std::invoke_result_t<Fs&>>...> CollectAll(
    Fs&&... functions) {
  std::tuple<std::optional<fiber::detail::KeptOf<std::invoke_result_t<Fs&>>>...> results;
  fiber::detail::ChildGroup* running = nullptr;
  const auto body = [&](std::size_t index) {
    if (running->IsOver()) return;
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      ((index == I ? fiber::detail::CallInto(std::get<I>(results), functions) : void()), ...);
    }
    (std::index_sequence_for<Fs...>());
  };
  fiber::detail::ChildGroup group;  // The last of the locals: CG1.
  running = &group;
  group.Start("CollectAll", sizeof...(Fs), body);
  group.Await();
  return std::apply([](auto&... result) { return std::tuple(*std::move(result)...); }, results);
}

// The first n to end, in that order.
template <class Range>
requires fiber::detail::CallableRange<Range>
auto CollectN(Range&& callables, std::size_t n) {
  using R = fiber::detail::ReturnOf<Range>;
  auto ended = fiber::detail::RunFirstToEnd(callables, n, "CollectN");
  if constexpr (std::is_void_v<R>) {
    std::vector<std::size_t> indices;
    for (const auto& one : ended) indices.push_back(one->index);
    return indices;
  } else {
    std::vector<std::pair<std::size_t, R>> results;
    results.reserve(ended.size());
    for (auto& one : ended) results.emplace_back(one->index, *std::move(one->result));
    return results;
  }
}

template <class Range>
requires fiber::detail::CallableRange<Range>
auto CollectAny(Range&& callables) {
  auto ended = fiber::detail::RunFirstToEnd(callables, 1, "CollectAny");
  if constexpr (std::is_void_v<fiber::detail::ReturnOf<Range>>) {
    return ended[0]->index;
  } else {
    return std::pair<std::size_t, fiber::detail::ReturnOf<Range>>(ended[0]->index, *std::move(ended[0]->result));
  }
}

// Functions that return the same type.
template <class F, class... Fs>
requires(std::invocable<F&> && (std::invocable<Fs&> && ...)) auto CollectAny(F&& first, Fs&&... more) {
  using R = std::decay_t<std::invoke_result_t<F&>>;
  static_assert((... && std::is_same_v<R, std::decay_t<std::invoke_result_t<Fs&>>>), "functions of one result type");
  base::UniqueFunction<R()> all[] = {std::ref(first), std::ref(more)...};
  return CollectAny(all);
}

// Calls f(element) for each element, at most `limit` at a time; 0: all at once. Elements begin in their order.
template <class Range, class F>
requires(fiber::detail::ForwardRange<Range>&& std::invocable<
         F&, decltype(*std::declval<fiber::detail::IteratorOf<Range>&>())>) void ForEach(Range&& range, F&& f,
                                                                                         std::size_t limit = 0) {
  const fiber::detail::Elements<Range> elements(range);
  fiber::detail::ForEachIndex(
      elements.size(), [&](std::size_t i) { std::invoke(f, elements[i]); }, limit);
}
// Calls f(0), f(1) ... f(count - 1), at most `limit` at a time; 0: all at once. They begin in this order.
template <class F>
requires std::invocable<F&, std::size_t>
void ForEach(std::size_t count, F&& f, std::size_t limit = 0) {
  fiber::detail::ForEachIndex(
      count, [&](std::size_t i) { std::invoke(f, i); }, limit);
}

namespace fiber {  // docs/from_trpc.md
using weft::CollectAll;
using weft::CollectAny;
using weft::CollectN;
using weft::ForEach;
}  // namespace fiber

}  // namespace weft

#endif  // WEFT_FIBER_COLLECT_H_
