// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Timers that call back.
// Sample:
//   std::uint64_t once = weft::SetFiberTimer(5ms, [this] { OnTimeout(); });                // in a new fiber
//   std::uint64_t tick = weft::SetFiberTimer(1s, 100ms, [](std::uint64_t id) { ... });     // again and again
//   weft::KillFiberTimer(tick);
//
// Everything here may be called from any thread, fiber or not, and from callbacks, while the runtime is running. `at`
// says when, as a duration from now or a time point of any clock (base/deadline.h); a callback is `void()` or
// `void(std::uint64_t id)`.
//
// When. Never before `at`. A callback of SetFiberTimer runs in a new fiber of the setter's scheduling group (of some
// group, if the setter is a plain thread), which inherits the FiberExecutionContext of the fiber that set it (that of a
// plain thread is not inherited). If no fiber can be started for it, because the run queue is full or memory is
// exhausted, the timer tries again: after 1 ms at first, after a second at most if many wait. A callback of
// CreateFiberTimer runs on the thread of the timers itself: it gets there sooner, must be short, and may not wait for
// anything. A fiber that it starts is taken even if the run queue is full.
//
// Periodic timers fire at `at`, at + interval, ... (a duration of 0 or below: now, now + interval, ...). Runs of one
// timer never overlap: it is armed again when the callback has returned, and what was missed by then is skipped, not
// caught up.
//
// Ids. A timer that fired for the last time or was killed is gone, with its memory and its callback; its id is never
// given to another timer. Using an id that is gone is harmless. Nobody has to kill or detach a timer: it frees itself.
//
// KillFiberTimer(id): no run of the callback begins any more once it has returned. It does not wait for one that is
// under way: the callback of a timer may kill the timer itself, and who holds a lock that the callback takes may kill
// it, too. When what the callback uses is about to be destroyed, use KillFiberTimerAndWait(id), which returns when the
// callback has been destroyed.
//
// Cost. Setting one takes about 20 ns, killing it 15 (bench/timer/timer_benchmark.cc); 64 bytes each, or 128 if it
// captures more than 16, is periodic or inherits an execution context. Captures beyond 56 bytes are moved to the heap.
//
// At the end of the runtime timers that did not fire are dropped and their callbacks destroyed.
// An exception that leaves a callback ends the process, as in std::thread.
#ifndef WEFT_TIMER_FIBER_TIMER_H_
#define WEFT_TIMER_FIBER_TIMER_H_

#include <concepts>
#include <cstdint>
#include <memory>
#include <type_traits>
#include <utility>

#include "weft/base/check.h"
#include "weft/base/clocks.h"
#include "weft/base/deadline.h"
#include "weft/base/fiber_clock.h"
#include "weft/base/saturating_nanoseconds.h"
#include "weft/timer/callback_timer.h"
#include "weft/timer/timer_entry.h"

namespace weft {

template <class F>
concept FiberTimerCallback = std::is_constructible_v<std::decay_t<F>, F> &&
    (std::invocable<std::decay_t<F>&> || std::invocable<std::decay_t<F>&, std::uint64_t>);

// Calls `callback` once in a new fiber. Returns the timer's id; 0: it was refused (memory is exhausted; the runtime
// stops), and `callback` has been destroyed.
template <FiberTimerCallback F>
std::uint64_t SetFiberTimer(Deadline at, F&& callback);

// The same again after each interval, which is above zero.
template <class Rep, class Period, FiberTimerCallback F>
std::uint64_t SetFiberTimer(Deadline at, std::chrono::duration<Rep, Period> interval, F&& callback);

// As SetFiberTimer, for timers that nobody will kill. False: refused.
template <FiberTimerCallback F>
bool SetFiberDetachedTimer(Deadline at, F&& callback);
template <class Rep, class Period, FiberTimerCallback F>
bool SetFiberDetachedTimer(Deadline at, std::chrono::duration<Rep, Period> interval, F&& callback);

// A timer whose callback runs on the thread of the timers. It does nothing before EnableFiberTimer(id): so the id can
// be kept where the callback finds it.
template <FiberTimerCallback F>
[[nodiscard]] std::uint64_t CreateFiberTimer(Deadline at, F&& callback);
template <class Rep, class Period, FiberTimerCallback F>
[[nodiscard]] std::uint64_t CreateFiberTimer(Deadline at, std::chrono::duration<Rep, Period> interval, F&& callback);

// Nothing happens if it is enabled already, or gone.
void EnableFiberTimer(std::uint64_t id);

// True: a run that was still to come will not come. Does not wait for one that is under way.
bool KillFiberTimer(std::uint64_t id);

// The same; when it returns the callback is not running and has been destroyed. It blocks the calling fiber or thread
// meanwhile, except in the callback itself, where it is KillFiberTimer(). Not for other callbacks on the thread of the
// timers.
bool KillFiberTimerAndWait(std::uint64_t id);

// The caller will not kill it. Timers free themselves, so this is for the reader.
inline void DetachFiberTimer(std::uint64_t /*id*/) {}

// Kills a timer at the end of its scope, without waiting for a callback that is under way.
class FiberTimerKiller {
 public:
  FiberTimerKiller() = default;
  explicit FiberTimerKiller(std::uint64_t id) : id_(id) {}
  FiberTimerKiller(FiberTimerKiller&& other) noexcept : id_(std::exchange(other.id_, 0)) {}
  FiberTimerKiller& operator=(FiberTimerKiller&& other) noexcept {
    Reset(std::exchange(other.id_, 0));
    return *this;
  }
  ~FiberTimerKiller() { Reset(); }

  // Kills the timer that it holds, and holds this one from now on.
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

// A callable that is too large for the entry, or may throw when it is moved. Copying it moves the ownership.
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
      return make(options, &Type::value, &callback);  // Moved from where it is.
    } else {
      Callable copy(std::forward<F>(callback));
      return make(options, &Type::value, &copy);
    }
  }
}

inline timer::CallbackTimerOptions Once(const char* function, Deadline at) { return {.function = function, .at = at}; }

template <class Rep, class Period>
timer::CallbackTimerOptions Periodic(const char* function, Deadline at, std::chrono::duration<Rep, Period> interval) {
  // Of a duration of 0 or below the deadline knows no time point, but the rhythm needs one.
  if (at.time_point() == Deadline::TimePoint::min()) at = FiberClock::now();
  timer::CallbackTimerOptions options = Once(function, at);
  options.interval = base::SaturatingNanoseconds(interval);
  WEFT_CHECK(options.interval.count() > 0, function, ": the interval must be above zero");
  return options;
}

}  // namespace fiber_timer_internal

template <FiberTimerCallback F>
std::uint64_t SetFiberTimer(Deadline at, F&& callback) {
  return fiber_timer_internal::Make(&timer::SetCallbackTimer, fiber_timer_internal::Once("SetFiberTimer", at),
                                    std::forward<F>(callback));
}

template <class Rep, class Period, FiberTimerCallback F>
std::uint64_t SetFiberTimer(Deadline at, std::chrono::duration<Rep, Period> interval, F&& callback) {
  return fiber_timer_internal::Make(&timer::SetCallbackTimer,
                                    fiber_timer_internal::Periodic("SetFiberTimer", at, interval),
                                    std::forward<F>(callback));
}

template <FiberTimerCallback F>
bool SetFiberDetachedTimer(Deadline at, F&& callback) {
  return fiber_timer_internal::Make(&timer::SetCallbackTimer, fiber_timer_internal::Once("SetFiberDetachedTimer", at),
                                    std::forward<F>(callback)) != 0;
}

template <class Rep, class Period, FiberTimerCallback F>
bool SetFiberDetachedTimer(Deadline at, std::chrono::duration<Rep, Period> interval, F&& callback) {
  return fiber_timer_internal::Make(&timer::SetCallbackTimer,
                                    fiber_timer_internal::Periodic("SetFiberDetachedTimer", at, interval),
                                    std::forward<F>(callback)) != 0;
}

template <FiberTimerCallback F>
std::uint64_t CreateFiberTimer(Deadline at, F&& callback) {
  timer::CallbackTimerOptions options = fiber_timer_internal::Once("CreateFiberTimer", at);
  options.on_timer_thread = true;
  return fiber_timer_internal::Make(&timer::CreateCallbackTimer, options, std::forward<F>(callback));
}

template <class Rep, class Period, FiberTimerCallback F>
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
