// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Callback timers: setting, enabling and killing them, from any thread, and their end. The public interface is
// fiber_timer.h; it needs none of the timers' data structures, only what they know of a callback's type (CallbackType).
//
//   setter       takes an entry of its shard's slab, moves the callable in, queues it: one hold of the shard's lock
//                if the callable is trivially copyable; else two or three, since user code does not run under it
//   when due     callback_runner.h
//   killer       ends an entry that no one holds (EndEntry()); else marks it, and its holder ends it
//
// Invariant (CB2 to CB4 are in callback_runner.h)
//   CB1  EndEntry() destroys a callback exactly once: after its last run, for the killer, or when the runtime stops.
// Any thread, unless a function says otherwise. Callbacks and their destructors run without any lock.
#ifndef WEFT_TIMER_CALLBACK_CALLBACK_TIMER_H_
#define WEFT_TIMER_CALLBACK_CALLBACK_TIMER_H_

#include <cstddef>
#include <cstdint>
#include <new>
#include <string_view>
#include <type_traits>
#include <utility>

#include "weft/base/deadline.h"
#include "weft/base/thread/cpu.h"
#include "weft/base/time/clock.h"

namespace weft::timer {

class FireContext;
class TimerShard;
struct TimerEntry;
struct TimerNode;

// A callable of at most so many bytes is stored in its timer's entry.
inline constexpr std::size_t kInlineCallback = 56;

// For log lines: the compiler's text that contains the name of the type.
template <class Type>
constexpr const char* PhraseWithNameOf() noexcept {
  return __PRETTY_FUNCTION__;
}

// How to call, move and destroy a callback.
struct CallbackType {
  const char* phrase_with_name;  // as PhraseWithNameOf()
  void (*invoke)(void* callable, std::uint64_t id) noexcept;
  // Constructs *to from *from.
  void (*move)(void* to, void* from) noexcept;
  void (*destroy)(void* callable) noexcept;  // nullptr: nothing to do
  std::size_t size;
  bool moved_by_copying;  // moving copies its bytes, which is allowed under a spin lock
};

template <class Callable>
inline constexpr bool kCallableFitsInline =
    sizeof(Callable) <= kInlineCallback &&
    alignof(Callable) <= alignof(void*) && std::is_nothrow_move_constructible_v<Callable>;

// For a callable stored in the entry. An exception that leaves it ends the process.
template <class Callable>
struct CallbackTypeOf {
  static void Invoke(void* callable, std::uint64_t id) noexcept {
    auto& callback = *static_cast<Callable*>(callable);
    if constexpr (std::is_invocable_v<Callable&, std::uint64_t>) {
      callback(id);
    } else {
      static_cast<void>(id);
      callback();
    }
  }
  static void Move(void* to, void* from) noexcept { ::new (to) Callable(std::move(*static_cast<Callable*>(from))); }
  static void Destroy(void* callable) noexcept { static_cast<Callable*>(callable)->~Callable(); }

  static constexpr CallbackType value = {
      .phrase_with_name = PhraseWithNameOf<Callable>(),
      .invoke = &Invoke,
      .move = &Move,
      .destroy = std::is_trivially_destructible_v<Callable> ? nullptr : &Destroy,
      .size = sizeof(Callable),
      .moved_by_copying = std::is_trivially_copyable_v<Callable>,
  };
};

struct CallbackTimerOptions {
  const char* function;  // the user's call, for messages
  Deadline at;
  std::chrono::nanoseconds interval{0};  // 0: once
  bool on_timer_thread = false;          // run there instead of in a fiber
};

// Make a timer that waits for EnableCallbackTimer(), or one armed at once. Return its id, with the callable moved out.
// 0: no memory, or the runtime stops; a callable moved by copying is still the caller's then, another may be destroyed.
std::uint64_t CreateCallbackTimer(const CallbackTimerOptions& options, const CallbackType* type, void* callable);
std::uint64_t SetCallbackTimer(const CallbackTimerOptions& options, const CallbackType* type, void* callable);

// Does nothing if the timer is enabled already, or has ended.
void EnableCallbackTimer(std::uint64_t id);

// True: it has prevented a run. The callback has been destroyed on return, unless it runs now or a fiber has been
// started for it, which then destroys it.
bool KillCallbackTimer(std::uint64_t id);

// The same, but on return the callback has been destroyed in any case. Blocks the fiber or thread for that, except in
// the callback itself. Not for timer threads.
bool KillCallbackTimerAndWait(std::uint64_t id);

// --- For TimerWorker, CallbackRunner and the fiber layer ---

// Let timers inherit the execution context of their setter. The fiber layer sets them once, before the first timer.
struct ExecutionContextHooks {
  void* (*add_reference)(void* context) = nullptr;  // returns `context`
  void (*release)(void* context) = nullptr;
};
extern ExecutionContextHooks execution_context_hooks;

// The name of a callback's type, from `phrase_with_name`.
std::string_view NameOf(const CallbackType& type) noexcept;

// The calling fiber's or thread's own number, for TimerEntry::tick: which one runs the callback.
WEFT_TLS_ACCESSOR std::uint64_t Myself() noexcept;

// TimerNode::fire of a TimerEntry: hands it over to CallbackRunner.
void FireCallback(TimerNode* node, FireContext* context);

// Ends all timers of `shard`, closed to callbacks; those that a fiber holds end there. Returns how many there were.
std::size_t DropCallbackTimers(TimerShard* shard);

}  // namespace weft::timer

#endif  // WEFT_TIMER_CALLBACK_CALLBACK_TIMER_H_
