// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Timers that call back.
// Sample:
//   std::uint64_t once = weft::SetFiberTimer(5ms, [this] { OnTimeout(); });                // in a new fiber
//   std::uint64_t tick = weft::SetFiberTimer(1s, 100ms, [](std::uint64_t id) { ... });     // again and again
//   weft::KillFiberTimer(tick);
//
// Any thread, fiber or not, and callbacks may call everything here while the runtime runs. `at` is a duration from now
// or a time point of any clock (base/deadline.h); a callback is `void()` or `void(std::uint64_t id)`.
//
// When. A timer never fires before `at`. A callback of SetFiberTimer runs in a new fiber of the setter's scheduling
// group (of some group, if a plain thread sets it; where groups have names, one with the first name), and inherits the
// FiberExecutionContext of a fiber that set it. If no fiber can be started (run queue full, no memory), the timer tries
// again after 1 ms, and after at most a second if many wait. A callback of CreateFiberTimer runs on the timer thread:
// sooner, but it must be short and may not wait for anything. A fiber that it starts is accepted even if the run queue
// is full.
//
// Periodic timers fire at `at`, at + interval, ... (a duration of 0 or below: now, now + interval, ...). Runs of one
// timer never overlap: it is armed again when the callback has returned, and skips the runs missed by then.
//
// Ids. A timer that fired for the last time or was killed frees its memory and its callback; it need not be killed or
// detached. Its id is never given to another timer, and using it later is harmless.
//
// KillFiberTimer(id): once it has returned, no run of the callback begins. It does not wait for a run under way, so a
// callback may kill its own timer, and the holder of a lock that the callback takes may kill it too. Before you destroy
// what the callback uses, call KillFiberTimerAndWait(id), which returns when the callback has been destroyed.
//
// Cost. Setting a timer takes about 20 ns, killing it 15 (bench/timer/timer_benchmark.cc). It has 64 bytes, or 128 if
// it captures more than 16, is periodic or inherits an execution context. Captures beyond 56 bytes go to the heap.
//
// The end of the runtime drops timers that did not fire, and destroys their callbacks.
// An exception that leaves a callback ends the process, as in std::thread.
#ifndef WEFT_TIMER_FIBER_TIMER_H_
#define WEFT_TIMER_FIBER_TIMER_H_

#include <concepts>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include "weft/base/deadline.h"
#include "weft/base/fiber_clock.h"
#include "weft/base/report/check.h"
#include "weft/base/time/clock.h"
#include "weft/timer/callback/callback_timer.h"

namespace weft {

namespace fiber_timer_internal {
template <class F>
concept Callback = std::is_constructible_v<std::decay_t<F>, F> &&
    (std::invocable<std::decay_t<F>&> || std::invocable<std::decay_t<F>&, std::uint64_t>);
}  // namespace fiber_timer_internal

// Calls `callback` once in a new fiber. Returns the id. 0: no memory, or the runtime stops; `callback` is destroyed.
template <fiber_timer_internal::Callback F>
std::uint64_t SetFiberTimer(Deadline at, F&& callback);

// The same again after each interval, which is above zero.
template <class Rep, class Period, fiber_timer_internal::Callback F>
std::uint64_t SetFiberTimer(Deadline at, std::chrono::duration<Rep, Period> interval, F&& callback);

// As SetFiberTimer, for timers that will not be killed. False: refused.
template <fiber_timer_internal::Callback F>
bool SetFiberDetachedTimer(Deadline at, F&& callback);
template <class Rep, class Period, fiber_timer_internal::Callback F>
bool SetFiberDetachedTimer(Deadline at, std::chrono::duration<Rep, Period> interval, F&& callback);

// A timer whose callback runs on the timer thread. It does nothing before EnableFiberTimer(id), so that the id can be
// stored where the callback finds it.
template <fiber_timer_internal::Callback F>
[[nodiscard]] std::uint64_t CreateFiberTimer(Deadline at, F&& callback);
template <class Rep, class Period, fiber_timer_internal::Callback F>
[[nodiscard]] std::uint64_t CreateFiberTimer(Deadline at, std::chrono::duration<Rep, Period> interval, F&& callback);

// Does nothing if the timer is enabled already, or has ended.
void EnableFiberTimer(std::uint64_t id);

// True: it has prevented a run. Does not wait for a run under way.
bool KillFiberTimer(std::uint64_t id);

// The same, but on return the callback is not running and has been destroyed. It blocks the calling fiber or thread for
// that, except in the callback itself, where it is KillFiberTimer(). Not for other callbacks on the timer thread. Ends
// the process if the callback's fiber is unfinished, and its runtime has ended.
bool KillFiberTimerAndWait(std::uint64_t id);

// States that the caller will not kill the timer. Timers free themselves, so this is only for the reader.
inline void DetachFiberTimer(std::uint64_t /*id*/) {}

// Kills a timer at the end of its scope, without waiting for a callback under way.
class FiberTimerKiller {
 public:
  // Of no timer.
  FiberTimerKiller() = default;
  // Will kill the timer `id`, which SetFiberTimer() or CreateFiberTimer() has returned; 0: none.
  explicit FiberTimerKiller(std::uint64_t id) : id_(id) {}
  FiberTimerKiller(FiberTimerKiller&& other) noexcept : id_(std::exchange(other.id_, 0)) {}
  // Kills the timer that it holds, and takes over the other's.
  FiberTimerKiller& operator=(FiberTimerKiller&& other) noexcept {
    Reset(std::exchange(other.id_, 0));
    return *this;
  }
  ~FiberTimerKiller() { Reset(); }

  // Kills the timer that it holds, and then holds this one.
  void Reset(std::uint64_t id = 0) {
    if (const std::uint64_t old = std::exchange(id_, id); old != 0) KillFiberTimer(old);
  }
  // Kills the timer that it holds; its callback has been destroyed when this returns (KillFiberTimerAndWait).
  void KillAndWait() {
    if (const std::uint64_t old = std::exchange(id_, 0); old != 0) KillFiberTimerAndWait(old);
  }

 private:
  std::uint64_t id_ = 0;
};

namespace fiber_timer_internal {

// A callable that is too large for the entry, or may throw when moved. Copying this struct moves the ownership.
template <class Callable>
struct OnHeap {
  Callable* callable;
};

template <class Callable>
struct OnHeapType {
  static void Invoke(void* holder, std::uint64_t id) noexcept {
    timer::CallbackTypeOf<Callable>::Invoke(static_cast<OnHeap<Callable>*>(holder)->callable, id);
  }
  static void Destroy(void* holder) noexcept { delete static_cast<OnHeap<Callable>*>(holder)->callable; }

  static constexpr timer::CallbackType value = {
      .phrase_with_name = timer::PhraseWithNameOf<Callable>(),
      .invoke = &Invoke,
      .move = &timer::CallbackTypeOf<OnHeap<Callable>>::Move,
      .destroy = &Destroy,
      .size = sizeof(OnHeap<Callable>),
      .moved_by_copying = true,
  };
};

using Maker = std::uint64_t (*)(const timer::CallbackTimerOptions&, const timer::CallbackType*, void*);

template <class F>
std::uint64_t Make(Maker make, const timer::CallbackTimerOptions& options, F&& callback) {
  using Callable = std::decay_t<F>;
  if constexpr (!timer::kCallableFitsInline<Callable>) {
    OnHeap<Callable> holder{new Callable(std::forward<F>(callback))};
    const std::uint64_t id = make(options, &OnHeapType<Callable>::value, &holder);
    if (id == 0) delete holder.callable;
    return id;
  } else {
    using Type = timer::CallbackTypeOf<Callable>;
    if constexpr (std::is_same_v<F, Callable>) {
      return make(options, &Type::value, &callback);  // Moved from where it lies.
    } else {
      Callable copy(std::forward<F>(callback));
      return make(options, &Type::value, &copy);
    }
  }
}

inline timer::CallbackTimerOptions Once(const char* function, Deadline at) { return {.function = function, .at = at}; }

template <class Rep, class Period>
timer::CallbackTimerOptions Periodic(const char* function, Deadline at, std::chrono::duration<Rep, Period> interval) {
  // The deadline of a duration of 0 or below has no time point, but the rhythm needs one.
  if (at.time_point() == Deadline::TimePoint::min()) at = FiberClock::now();
  timer::CallbackTimerOptions options = Once(function, at);
  options.interval = base::SaturatingNanoseconds(interval);
  WEFT_CHECK(options.interval.count() > 0, function, ": the interval must be above zero");
  return options;
}

}  // namespace fiber_timer_internal

template <fiber_timer_internal::Callback F>
std::uint64_t SetFiberTimer(Deadline at, F&& callback) {
  return fiber_timer_internal::Make(&timer::SetCallbackTimer, fiber_timer_internal::Once("SetFiberTimer", at),
                                    std::forward<F>(callback));
}

template <class Rep, class Period, fiber_timer_internal::Callback F>
std::uint64_t SetFiberTimer(Deadline at, std::chrono::duration<Rep, Period> interval, F&& callback) {
  return fiber_timer_internal::Make(&timer::SetCallbackTimer,
                                    fiber_timer_internal::Periodic("SetFiberTimer", at, interval),
                                    std::forward<F>(callback));
}

template <fiber_timer_internal::Callback F>
bool SetFiberDetachedTimer(Deadline at, F&& callback) {
  return fiber_timer_internal::Make(&timer::SetCallbackTimer, fiber_timer_internal::Once("SetFiberDetachedTimer", at),
                                    std::forward<F>(callback)) != 0;
}

template <class Rep, class Period, fiber_timer_internal::Callback F>
bool SetFiberDetachedTimer(Deadline at, std::chrono::duration<Rep, Period> interval, F&& callback) {
  return fiber_timer_internal::Make(&timer::SetCallbackTimer,
                                    fiber_timer_internal::Periodic("SetFiberDetachedTimer", at, interval),
                                    std::forward<F>(callback)) != 0;
}

template <fiber_timer_internal::Callback F>
std::uint64_t CreateFiberTimer(Deadline at, F&& callback) {
  timer::CallbackTimerOptions options = fiber_timer_internal::Once("CreateFiberTimer", at);
  options.on_timer_thread = true;
  return fiber_timer_internal::Make(&timer::CreateCallbackTimer, options, std::forward<F>(callback));
}

template <class Rep, class Period, fiber_timer_internal::Callback F>
std::uint64_t CreateFiberTimer(Deadline at, std::chrono::duration<Rep, Period> interval, F&& callback) {
  timer::CallbackTimerOptions options = fiber_timer_internal::Periodic("CreateFiberTimer", at, interval);
  options.on_timer_thread = true;
  return fiber_timer_internal::Make(&timer::CreateCallbackTimer, options, std::forward<F>(callback));
}

inline void EnableFiberTimer(std::uint64_t id) { timer::EnableCallbackTimer(id); }
inline bool KillFiberTimer(std::uint64_t id) { return timer::KillCallbackTimer(id); }
inline bool KillFiberTimerAndWait(std::uint64_t id) { return timer::KillCallbackTimerAndWait(id); }

}  // namespace weft

#endif  // WEFT_TIMER_FIBER_TIMER_H_
