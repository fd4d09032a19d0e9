// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// FunctionRef: a callable without arguments that outlives the call it is passed to.
//
// Fixtures take it in place of a template parameter: each callable's type would make a Fiber and a std::thread of its
// own, the larger part of what a small test compiles.
#ifndef WEFT_TESTS_TESTING_FUNCTION_REF_H_
#define WEFT_TESTS_TESTING_FUNCTION_REF_H_

#include <memory>
#include <type_traits>

namespace weft::testing {

class FunctionRef {
 public:
  template <class F, class = std::enable_if_t<!std::is_same_v<std::decay_t<F>, FunctionRef>>>
  FunctionRef(F&& f)  // NOLINT(google-explicit-constructor): a lambda is passed.
      : object_(const_cast<void*>(static_cast<const void*>(std::addressof(f)))),
        call_(&Call<std::remove_reference_t<F>>) {}

  void operator()() const { call_(object_); }

 private:
  template <class F>
  static void Call(void* object) {
    static_cast<void>((*static_cast<F*>(object))());
  }

  void* object_;
  void (*call_)(void*);
};

}  // namespace weft::testing

#endif  // WEFT_TESTS_TESTING_FUNCTION_REF_H_
