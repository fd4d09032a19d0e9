// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// CallbackType: what the timers know of a callback's type: how to call, move and destroy it. Apart from timer_entry.h,
// so that users' files need not include the timers' data structures.
#ifndef WEFT_TIMER_CALLBACK_CALLBACK_TYPE_H_
#define WEFT_TIMER_CALLBACK_CALLBACK_TYPE_H_

#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>

namespace weft::timer {

// A callable of at most so many bytes is stored in its timer's entry.
inline constexpr std::size_t kInlineCallback = 56;

// For log lines: the compiler's text that contains the name of the type.
template <class Type>
constexpr const char* PhraseWithNameOf() noexcept {
  return __PRETTY_FUNCTION__;
}

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

}  // namespace weft::timer

#endif  // WEFT_TIMER_CALLBACK_CALLBACK_TYPE_H_
