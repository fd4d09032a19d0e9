// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// TypeName<T>(): the name of T, nearly as in the source, for messages. Needs no RTTI.
#ifndef WEFT_BASE_REPORT_TYPE_NAME_H_
#define WEFT_BASE_REPORT_TYPE_NAME_H_

#include <cstddef>
#include <string_view>

namespace weft::base {

template <class T>
constexpr std::string_view TypeName() noexcept {
  // "... TypeName() [with T = int; ...]" by g++, "... [T = int]" by clang.
  const std::string_view function = __PRETTY_FUNCTION__;
  const std::size_t begin = function.find("T = ");
  const std::size_t end = function.find(';', begin);
  if (begin == std::string_view::npos) return "?";
  return function.substr(begin + 4, (end != std::string_view::npos ? end : function.rfind(']')) - begin - 4);
}

}  // namespace weft::base

#endif  // WEFT_BASE_REPORT_TYPE_NAME_H_
