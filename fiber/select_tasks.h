// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// More cases for Select() (sync/select.h): the end of a task, of a fiber, and a result. WaitAny: waits until one of
// several tasks, fibers, results or events is there, and says which.
// Sample:
//   Select(OnEnd(task, [&] { Use(task.Get()); }),             // Get() does not wait any more
//          OnEnd(fiber, [&] { fiber.Join(); }),
//          OnReady(future, [&] { Use(future.Get()); }),
//          OnSet(stop), OnDeadline(2s));
//   std::vector<FiberTask<Reply>> tasks = AskAll();
//   while (const std::optional<std::size_t> ended = WaitAny(tasks)) Use(tasks[*ended].Get());   // as they come
//   if (WaitAny(task, future, stop, 2s) == 1) Use(future.Get());                            // 1: the second argument
//
//   OnEnd(task, f)      a FiberTask has ended, in whatever way: Get() does not wait
//   OnEnd(fiber, f)     a joinable Fiber has ended: Join() does not wait
//   OnReady(future, f)  a Future is ready or has failed: Get() does not wait
//
// f is called without arguments, and may be left out. A case takes nothing: the next Select() finds it ready again.
//
//   WaitAny(range)                range's elements, or what its pointers point to: all of one of the types below
//   WaitAny(range, deadline)
//   WaitAny(a, b, c)              of any of these types; their number from 0
//   WaitAny(a, b, c, deadline)
//
//   FiberTask<T>   has ended        Get() does not wait then
//   Fiber          has ended        Join() does not wait then
//   Future<Ts...>  ready or failed  Get() does not wait then
//   FiberEvent     is set
//   FiberLatch     is open
//
// WaitAny() passes over handles that are empty (a task whose result was taken, a fiber that was joined, a Future that
// was asked) and null pointers. It returns the number of one that is there; where several are, each has its turn. None:
// the deadline has passed, or nothing is left to wait for, in which case it does not wait. Nothing is taken.
//
// Who may call: as Select(): any fiber and any thread; its cancellation does not touch the tasks. Memory ordering: as
// that of Get(), Join() or Wait() of the one that is there.
// Lifetime: the handle stays, and is not moved, until Select() or WaitAny() returns. Nobody joins the Fiber meanwhile,
// or takes the task's result. A Future is named once, and by one Select() at a time.
// Errors: an empty handle given to a case, and a task that selects its own end, end the process. WaitAny() of a range
// allocates, and throws std::bad_alloc. WaitAny() is from userver (engine::WaitAny).
#ifndef WEFT_FIBER_SELECT_TASKS_H_
#define WEFT_FIBER_SELECT_TASKS_H_

#include <array>
#include <cstddef>
#include <functional>
#include <iterator>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "weft/base/deadline.h"
#include "weft/base/report/check.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/fiber_task.h"
#include "weft/fiber/future.h"
#include "weft/fiber/future/future_core.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_latch.h"
#include "weft/sync/select.h"

namespace weft {

namespace fiber::detail {

// The event that a task or a fiber sets when it ends.
struct EndAccess {
  template <class T>
  static FiberEvent* Of(const FiberTask<T>& task) {
    return Checked(task.Checked("OnEnd"));
  }
  static FiberEvent* Of(const Fiber& fiber) {
    fiber.CheckJoinable("OnEnd");
    return Checked(fiber.state_);
  }

 private:
  static FiberEvent* Checked(JoinState* state) {
    state->CheckMayAwait("OnEnd");
    return &state->ended;
  }
};

template <class F>
struct OnReadySpec {
  using Case = FutureCase;
  Case MakeCase(synchronization::Selection* selection) const { return Case(selection, core); }
  void Then(Case&) { std::invoke(then); }
  FutureCore* core;
  F then;
};

}  // namespace fiber::detail

// A case for Select(): the task has ended, in whatever way; then(). Get() does not wait then.
template <class T, class F = synchronization::DoNothing>
auto OnEnd(const FiberTask<T>& task, F then = {}) {
  return synchronization::OnQueueSpec<FiberEvent, F>{fiber::detail::EndAccess::Of(task), std::move(then)};
}
// A case for Select(): the fiber has ended; then(). Join() does not wait then. The Fiber is joinable, and stays so.
template <class F = synchronization::DoNothing>
auto OnEnd(const Fiber& fiber, F then = {}) {
  return synchronization::OnQueueSpec<FiberEvent, F>{fiber::detail::EndAccess::Of(fiber), std::move(then)};
}
// A case for Select(): the Future is ready or has failed; then(). Get() does not wait then. The Future keeps its
// result.
template <class... Ts, class F = synchronization::DoNothing>
auto OnReady(Future<Ts...>& future, F then = {}) {
  WEFT_CHECK(future.Valid(), "OnReady: the Future is empty");
  return fiber::detail::OnReadySpec<F>{fiber::detail::FutureAccess::State(future).Get(), std::move(then)};
}

namespace fiber::detail {

// Whether there is something to wait for.
template <class T>
bool IsThere(const FiberTask<T>& task) noexcept {
  return task.Valid();
}
inline bool IsThere(const Fiber& fiber) noexcept { return fiber.Joinable(); }
template <class... Ts>
bool IsThere(const Future<Ts...>& future) noexcept {
  return future.Valid();
}
inline bool IsThere(const FiberEvent&) noexcept { return true; }
inline bool IsThere(const FiberLatch&) noexcept { return true; }

// What Select() would be given.
template <class T>
auto SpecOf(FiberTask<T>& task) {
  return OnEnd(task);
}
inline auto SpecOf(Fiber& fiber) { return OnEnd(fiber); }
template <class... Ts>
auto SpecOf(Future<Ts...>& future) {
  return OnReady(future);
}
inline auto SpecOf(FiberEvent& event) { return OnSet(event); }
inline auto SpecOf(FiberLatch& latch) { return OnOpen(latch); }

template <class T>
concept Awaited = requires(T& one) {
  SpecOf(one);
};

// An element of a range.
template <Awaited T>
T* Pointed(T& one) noexcept {
  return &one;
}
template <class P>
auto Pointed(const P& pointer) -> decltype(&*pointer) {
  return pointer != nullptr ? &*pointer : nullptr;
}

template <class Range>
using PointedIn = std::remove_pointer_t<decltype(Pointed(*std::begin(std::declval<Range&>())))>;
template <class Range>
concept AwaitedRange = std::forward_iterator<decltype(std::begin(std::declval<Range&>()))> && Awaited<PointedIn<Range>>;

// Cases that are there, and their numbers.
template <class Cases, class Numbers>
std::optional<std::size_t> WaitForOne(synchronization::Selection* selection, const Cases& cases, const Numbers& numbers,
                                      std::size_t count, Deadline deadline) {
  if (count == 0) return std::nullopt;
  const std::size_t taken = selection->Wait({cases.data(), count}, deadline);
  if (taken == synchronization::Selection::kNone) return std::nullopt;
  return numbers[taken];
}

template <class One>
using AwaitedCase = std::optional<synchronization::CaseOf<decltype(SpecOf(std::declval<One&>()))>>;

// The arguments but a last one that is a deadline.
template <class... Args>
struct WaitAnyArguments {
  static constexpr bool kHasDeadline =
      std::is_convertible_v<std::tuple_element_t<sizeof...(Args) - 1, std::tuple<Args...>>, Deadline>;
  static constexpr std::size_t kCount = sizeof...(Args) - (kHasDeadline ? 1 : 0);
  template <std::size_t... kIndex>
  static constexpr bool AllAwaited(std::index_sequence<kIndex...>) {
    return (... && Awaited<std::remove_reference_t<std::tuple_element_t<kIndex, std::tuple<Args...>>>>);
  }
  static constexpr bool kAllAwaited = AllAwaited(std::make_index_sequence<kCount>());
};

template <class... Args, std::size_t... kIndex>
std::optional<std::size_t> WaitAnyOf(std::tuple<Args...> arguments, Deadline deadline, std::index_sequence<kIndex...>) {
  synchronization::Selection selection;
  std::tuple<AwaitedCase<std::remove_reference_t<std::tuple_element_t<kIndex, std::tuple<Args...>>>>...> cases;
  std::array<synchronization::SelectCase*, sizeof...(kIndex)> there;
  std::array<std::size_t, sizeof...(kIndex)> numbers;
  std::size_t count = 0;
  const auto add = [&](std::size_t number, auto& one, auto& place) {
    if (!IsThere(one)) return;
    auto spec = SpecOf(one);
    numbers[count] = number;
    there[count++] = &place.emplace(&selection, spec).object;
  };
  (add(kIndex, std::get<kIndex>(arguments), std::get<kIndex>(cases)), ...);
  return WaitForOne(&selection, there, numbers, count, deadline);
}

}  // namespace fiber::detail

// Waits until one of these is there, and returns its number, counted from 0. Nothing: the deadline has passed, or
// nothing is left to wait for. May switch (a thread: block); a cancellation point.
template <class Range>
requires fiber::detail::AwaitedRange<Range>
[[nodiscard]] std::optional<std::size_t> WaitAny(Range&& range, Deadline deadline = {}) {
  using One = fiber::detail::PointedIn<Range>;
  const auto size = static_cast<std::size_t>(std::distance(std::begin(range), std::end(range)));
  synchronization::Selection selection;
  std::vector<fiber::detail::AwaitedCase<One>> cases(size);  // Not resized: they cannot be moved.
  std::vector<synchronization::SelectCase*> there(size);
  std::vector<std::size_t> numbers(size);
  std::size_t count = 0;
  std::size_t number = 0;
  for (auto&& element : range) {
    One* const one = fiber::detail::Pointed(element);
    if (one != nullptr && fiber::detail::IsThere(*one)) {
      auto spec = fiber::detail::SpecOf(*one);
      numbers[count] = number;
      there[count] = &cases[count].emplace(&selection, spec).object;
      ++count;
    }
    ++number;
  }
  return fiber::detail::WaitForOne(&selection, there, numbers, count, deadline);
}

// The same for arguments of any of the types above, and a Deadline as the last one.
template <class... Args>
requires(sizeof...(Args) > 0 && !fiber::detail::AwaitedRange<std::tuple_element_t<0, std::tuple<Args...>>> &&
         fiber::detail::WaitAnyArguments<Args&&...>::kAllAwaited)
    [[nodiscard]] std::optional<std::size_t> WaitAny(Args&&... args) {
  using Arguments = fiber::detail::WaitAnyArguments<Args&&...>;
  Deadline deadline;
  std::tuple<Args&...> arguments(args...);
  if constexpr (Arguments::kHasDeadline) deadline = std::get<sizeof...(Args) - 1>(arguments);
  return fiber::detail::WaitAnyOf(arguments, deadline, std::make_index_sequence<Arguments::kCount>());
}

}  // namespace weft

#endif  // WEFT_FIBER_SELECT_TASKS_H_
