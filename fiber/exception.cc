// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/exception.h"

namespace weft {

const char* Exception::what() const noexcept {
  if (exception_ == nullptr) return "empty exception";
  const auto* const exception = Get<std::exception>();
  return exception != nullptr ? exception->what() : "an exception that is no std::exception";
}

int Exception::GetExceptionCode() const noexcept {
  const auto* const exception = Get<ExceptionBase>();
  return exception != nullptr ? exception->GetExceptionCode() : ExceptionBase::kNoCode;
}

}  // namespace weft
