// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// What a coroutine can await of fibers (coroutine.h): the functions that a FiberCall calls.
//
//   operator()()      waits; in a fiber of its own, which is in nobody's scopes
//   TryNow(&result)   where the coroutine runs: sets the result and says true if there is no need to wait. It neither
//                     waits nor is a cancellation point: the coroutine may run in a fiber that is cancelled.
#ifndef WEFT_INTEROP_COROUTINE_COROUTINE_WAITS_H_
#define WEFT_INTEROP_COROUTINE_COROUTINE_WAITS_H_

#include <tuple>
#include <utility>

#include "weft/base/deadline.h"
#include "weft/base/report/check.h"
#include "weft/fiber/fiber_task.h"
#include "weft/fiber/future.h"
#include "weft/fiber/future/future_state.h"
#include "weft/interop/coroutine/coroutine_result.h"
#include "weft/sync/channel_result.h"
#include "weft/sync/fiber_channel.h"
#include "weft/sync/fiber_event.h"

namespace weft::interop::detail {

// Whether a wait for it would return at once.
inline bool IsThere(const FiberEvent& event) noexcept { return event.IsSet(); }
template <class T>
bool IsThere(const FiberTask<T>& task) noexcept {
  return task.IsReady();
}
template <class... Ts>
bool IsThere(const Future<Ts...>& future) noexcept {
  WEFT_CHECK(future.Valid(), "co_await: the Future is empty");
  return future.IsReady() || future.IsFailed();
}

// Get() of what IsThere(), without its cancellation point.
template <class T>
T TakeResult(FiberTask<T>& task) {
  return fiber::detail::TaskAccess::Take(task);
}
template <class... Ts>
auto TakeResult(Future<Ts...>& future) {
  const auto state = std::move(fiber::detail::FutureAccess::State(future));
  [[maybe_unused]] std::tuple<Ts...> values = state->Take();
  if constexpr (sizeof...(Ts) == 1) {
    return std::get<0>(std::move(values));
  } else if constexpr (sizeof...(Ts) > 1) {
    return values;
  }
}

struct PlainEventWait {
  void operator()() const { event->Wait(); }
  bool TryNow(CoResult<void>* set) const {
    if (!event->IsSet()) return false;
    set->SetBy([] {});
    return true;
  }
  FiberEvent* event;
};

// Of a FiberEvent, FiberTask or Future.
template <class Awaited>
struct TimedWait {
  bool operator()() const { return awaited->Wait(deadline); }
  bool TryNow(CoResult<bool>* there) const {
    if (!IsThere(*awaited)) return false;
    there->SetBy([] { return true; });
    return true;
  }
  Awaited* awaited;
  Deadline deadline;
};

template <class T>
struct ChannelGet {
  ChannelItem<T> operator()() const { return channel->Get(deadline); }
  bool TryNow(CoResult<ChannelItem<T>>* got) const {
    ChannelItem<T> item = channel->TryGet();
    if (item.result() == ChannelResult::kWouldBlock) return false;
    got->SetBy([&] { return std::move(item); });
    return true;
  }
  FiberChannel<T>* channel;
  Deadline deadline;
};

// Of a FiberTask or Future; or, with &, of one that somebody else keeps.
template <class Handle>
struct ResultGet {
  auto operator()() {
    handle.Wait();
    return TakeResult(handle);
  }
  template <class T>
  bool TryNow(CoResult<T>* result) {
    if (!IsThere(handle)) return false;
    result->SetBy([this] { return TakeResult(handle); });
    return true;
  }
  Handle handle;
};

}  // namespace weft::interop::detail

#endif  // WEFT_INTEROP_COROUTINE_COROUTINE_WAITS_H_
