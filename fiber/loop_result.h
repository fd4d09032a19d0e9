// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// LoopResult<T>: what a function of a FiberLoop has returned, or thrown. FiberLoop::Result is its name for users.
// Sample:
//   void OnEnd(FiberLoop::Result<int> result) {
//     if (result.has_value()) { return; } else { std::rethrow_exception(result.exception()); }
//   }
//
// T may be void, or a reference. Not thread-safe.
#ifndef WEFT_FIBER_LOOP_RESULT_H_
#define WEFT_FIBER_LOOP_RESULT_H_

#include <exception>
#include <type_traits>
#include <utility>
#include <variant>

#include "weft/base/report/check.h"

namespace weft {

template <class T>
class LoopResult {
 public:
  // f(), and what came of it.
  template <class F>
  static LoopResult Of(F&& f) {
    LoopResult result;
    try {
      if constexpr (std::is_void_v<T>) {
        f();
        result.kept_.template emplace<1>();
      } else if constexpr (std::is_reference_v<T>) {
        result.kept_.template emplace<1>(&f());
      } else {
        result.kept_.template emplace<1>(f());
      }
    } catch (...) {
      result.kept_.template emplace<2>(std::current_exception());
    }
    return result;
  }

  bool has_value() const noexcept { return kept_.index() == 1; }

  // Throws what the function has thrown.
  T value() && {
    if (kept_.index() == 2) std::rethrow_exception(std::get<2>(kept_));
    WEFT_CHECK(kept_.index() == 1, "LoopResult::value: there is none yet");
    if constexpr (std::is_reference_v<T>) {
      return static_cast<T>(*std::get<1>(kept_));
    } else if constexpr (!std::is_void_v<T>) {
      return std::move(std::get<1>(kept_));
    }
  }
  // A copy.
  T value() const& { return LoopResult(*this).value(); }

  // nullptr: it has a value.
  std::exception_ptr exception() const noexcept {
    return kept_.index() == 2 ? std::get<2>(kept_) : std::exception_ptr();
  }

 private:
  using Kept =
      std::conditional_t<std::is_void_v<T>, std::monostate,
                         std::conditional_t<std::is_reference_v<T>, std::remove_reference_t<T>*, std::remove_cv_t<T>>>;

  LoopResult() = default;

  std::variant<std::monostate, Kept, std::exception_ptr> kept_;
};

}  // namespace weft

#endif  // WEFT_FIBER_LOOP_RESULT_H_
