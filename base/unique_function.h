// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// UniqueFunction<R(Args...)>: a callable that is moved, never copied, so that it may own what it captures.
//
// A callable of up to 48 bytes (alignment up to 16, nothrow move) is kept in place, others on the heap. The whole is
// one cache line. Calling an empty one is a check failure. After a move the source is empty. Not thread-safe.
#ifndef WEFT_BASE_UNIQUE_FUNCTION_H_
#define WEFT_BASE_UNIQUE_FUNCTION_H_

#include <cstddef>
#include <new>
#include <tuple>
#include <type_traits>
#include <utility>

#include "weft/base/report/check.h"

namespace weft::base {

// Whether an F can be compared with nullptr.
template <class F>
concept ComparableWithNull = requires(const F& f) {
  f == nullptr;
};

// Whether a callable of this type may be empty: a pointer, or a class that can be made from nullptr and compared with
// it, as std::function and UniqueFunction. (Not named, because <functional> is half of what a user would compile.)
template <class F>
inline constexpr bool kMayBeEmpty = std::is_pointer_v<F> || std::is_member_pointer_v<F> ||
                                    (std::is_class_v<F> && std::is_constructible_v<F, std::nullptr_t> &&
                                     ComparableWithNull<F>);

template <class Signature>
class UniqueFunction;

template <class R, class... Args>
class UniqueFunction<R(Args...)> {
 public:
  // Larger callables, in bytes, go to the heap.
  static constexpr std::size_t kInlineSize = 48;

  // Empty.
  UniqueFunction() = default;
  UniqueFunction(std::nullptr_t) {}  // NOLINT(google-explicit-constructor): as std::function.

  // Holds `f`, moved or copied into it; allocates if f does not fit into kInlineSize bytes. Empty if f is a null
  // pointer or an empty std::function.
  template <class F, class D = std::decay_t<F>,
            class = std::enable_if_t<!std::is_same_v<D, UniqueFunction> && std::is_invocable_r_v<R, D&, Args...>>>
  UniqueFunction(F&& f) {  // NOLINT(google-explicit-constructor): as std::function.
    // A null function pointer or an empty std::function makes an empty one.
    if constexpr (!std::is_function_v<std::remove_reference_t<F>> && kMayBeEmpty<D>) {
      if (f == nullptr) return;
    }
    if constexpr (kIsInline<D>) {
      ::new (static_cast<void*>(storage_)) D(std::forward<F>(f));
    } else {
      ::new (static_cast<void*>(storage_)) D*(new D(std::forward<F>(f)));
    }
    invoke_ = &Invoke<D>;
    manage_ = &Manage<D>;
  }

  UniqueFunction(UniqueFunction&& other) noexcept { TakeFrom(other); }
  // Destroys what it holds, and takes what the other one has.
  UniqueFunction& operator=(UniqueFunction&& other) noexcept {
    if (this != &other) {
      Reset();
      TakeFrom(other);
    }
    return *this;
  }
  // Destroys what it holds, and is empty.
  UniqueFunction& operator=(std::nullptr_t) noexcept {
    Reset();
    return *this;
  }
  ~UniqueFunction() { Reset(); }

  // Whether it holds something that can be called.
  explicit operator bool() const noexcept { return invoke_ != nullptr; }
  friend bool operator==(const UniqueFunction& f, std::nullptr_t) noexcept { return !f; }

  // Calls what it holds, which stays and can be called again. Empty: a check failure.
  R operator()(Args... args) {
    WEFT_CHECK(invoke_ != nullptr, "an empty UniqueFunction was called");
    return invoke_(storage_, std::forward<Args>(args)...);
  }

 private:
  template <class D>
  static constexpr bool kIsInline = sizeof(D) <= kInlineSize &&
                                    alignof(D) <= alignof(std::max_align_t) && std::is_nothrow_move_constructible_v<D>;

  template <class D>
  static D& Target(void* storage) noexcept {
    if constexpr (kIsInline<D>) {
      return *std::launder(static_cast<D*>(storage));
    } else {
      return **std::launder(static_cast<D**>(storage));
    }
  }

  // std::invoke without <functional>.
  template <class D>
  static decltype(auto) Call(D& target, Args&&... args) {
    if constexpr (std::is_member_pointer_v<D>) {
      return std::apply(target, std::tuple<Args&&...>(std::forward<Args>(args)...));
    } else {
      return target(std::forward<Args>(args)...);
    }
  }

  template <class D>
  static R Invoke(void* storage, Args&&... args) {
    if constexpr (std::is_void_v<R>) {
      static_cast<void>(Call(Target<D>(storage), std::forward<Args>(args)...));
    } else {
      return Call(Target<D>(storage), std::forward<Args>(args)...);
    }
  }

  // Moves the callable from `from` to `to`, leaving nothing behind; to == nullptr: destroys it.
  template <class D>
  static void Manage(void* from, void* to) noexcept {
    if constexpr (kIsInline<D>) {
      D& target = Target<D>(from);
      if (to != nullptr) ::new (to) D(std::move(target));
      target.~D();  // NOLINT(bugprone-use-after-move): its end is what is left to it.
    } else {
      D* target = &Target<D>(from);
      if (to != nullptr) {
        ::new (to) D*(target);
      } else {
        delete target;
      }
    }
  }

  void TakeFrom(UniqueFunction& other) noexcept {
    if (other.manage_ != nullptr) other.manage_(other.storage_, storage_);
    invoke_ = std::exchange(other.invoke_, nullptr);
    manage_ = std::exchange(other.manage_, nullptr);
  }

  void Reset() noexcept {
    invoke_ = nullptr;
    if (auto manage = std::exchange(manage_, nullptr)) manage(storage_, nullptr);
  }

  alignas(std::max_align_t) std::byte storage_[kInlineSize];
  R (*invoke_)(void* storage, Args&&... args) = nullptr;
  void (*manage_)(void* from, void* to) noexcept = nullptr;
};

}  // namespace weft::base

namespace weft {
using base::UniqueFunction;  // What programs write.
}  // namespace weft

#endif  // WEFT_BASE_UNIQUE_FUNCTION_H_
