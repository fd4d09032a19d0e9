// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Exception: what a Future has failed with, any C++ exception; and the exceptions that futures make themselves.
// (FiberNotStarted, that of a refused Async(), is in fiber_attributes.h.)
// Sample:
//   Future<int> failed = MakeExceptionFuture<int>(CommonException("no route", 7));
//   const Exception e = failed.GetException();
//   if (e.is<CommonException>()) Log(e.what(), e.GetExceptionCode());
//   std::rethrow_exception(e);                                  // it converts to and from std::exception_ptr
//
// The names are tRPC-Cpp's (trpc/common/future/exception.h), whose Exception can hold an ExceptionBase only.
//
// Any fiber and any thread; nothing here switches. Copies share the exception object, into which what() and Get()
// point: it lives as long as any copy. is(), Get(), what() and GetExceptionCode() throw and catch the exception once,
// which takes about a microsecond.
#ifndef WEFT_FIBER_EXCEPTION_H_
#define WEFT_FIBER_EXCEPTION_H_

#include <concepts>
#include <exception>
#include <string>
#include <type_traits>
#include <utility>

#include "weft/fiber/fiber_attributes.h"  // IWYU pragma: export

namespace weft {

// An exception with a code. Base class for a program's own.
class ExceptionBase : public std::exception {
 public:
  // The code of an exception that has none.
  static constexpr int kNoCode = -1;

  // Its text.
  const char* what() const noexcept override = 0;

  // A code of the program's own, kNoCode until it is set.
  void SetExceptionCode(int code) noexcept { ret_code_ = code; }
  int GetExceptionCode() const noexcept { return ret_code_; }

 protected:
  int ret_code_ = kNoCode;
};

// A text and a code.
class CommonException : public ExceptionBase {
 public:
  // The text is copied.
  explicit CommonException(const char* message, int code = kNoCode) : message_(message) { ret_code_ = code; }
  // The text.
  const char* what() const noexcept override { return message_.c_str(); }

 private:
  std::string message_;
};

// A Promise went away before it was given a value or an exception.
class BrokenPromise : public CommonException {
 public:
  // With a fixed text.
  BrokenPromise() : CommonException("Broken promise") {}
};

class Exception final {
 public:
  // None.
  Exception() noexcept = default;

  // Shares the exception, and does not copy it; nullptr: none.
  Exception(std::exception_ptr exception) noexcept : exception_(std::move(exception)) {}  // NOLINT: implicit.

  // A copy of `exception`. One that is no std::exception comes by std::make_exception_ptr().
  template <class E>
  requires(std::derived_from<std::remove_cvref_t<E>, std::exception>) Exception(E&& exception)  // NOLINT: implicit.
      : exception_(std::make_exception_ptr(std::forward<E>(exception))) {}

  // Whether there is one.
  explicit operator bool() const noexcept { return exception_ != nullptr; }

  // For std::rethrow_exception(); nullptr: none.
  const std::exception_ptr& ptr() const noexcept { return exception_; }
  operator std::exception_ptr() const noexcept { return exception_; }  // NOLINT: implicit.

  // The exception's own text; a fixed one if there is none.
  const char* what() const noexcept;

  // ExceptionBase::kNoCode if it has none.
  int GetExceptionCode() const noexcept;

  // Whether it is an E, or derived from E.
  template <class E>
  bool is() const noexcept {
    return Get<E>() != nullptr;
  }
  template <class E>
  bool is(const E&) const noexcept {
    return is<E>();
  }

  // The exception if it is an E, or else nullptr.
  template <class E>
  const E* Get() const noexcept {
    if (exception_ == nullptr) return nullptr;
    try {
      std::rethrow_exception(exception_);
    } catch (const E& exception) {
      return &exception;  // In the object that exception_ keeps alive.
    } catch (...) {
      return nullptr;
    }
  }

 private:
  std::exception_ptr exception_;
};

}  // namespace weft

#endif  // WEFT_FIBER_EXCEPTION_H_
