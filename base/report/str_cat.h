// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// StrCat("queue full: ", n, " fibers wait"): the pieces of a message, streamed one after the other.
//
// Checks stand in headers that users include, so this includes no stream: a call compiles to the addresses of its
// pieces, and str_cat.cc streams the usual types. A piece of any other type brings its own operator<<.
#ifndef WEFT_BASE_REPORT_STR_CAT_H_
#define WEFT_BASE_REPORT_STR_CAT_H_

#include <cstddef>
#include <initializer_list>
#include <iosfwd>
#include <string>
#include <string_view>
#include <type_traits>

namespace weft::base {

namespace str_cat_internal {

template <class T>
void Write(std::ostream& stream, const void* piece) {
  stream << *static_cast<const T*>(piece);
}

// In str_cat.cc.
#define WEFT_STR_CAT_TYPES(F) \
  F(bool)                     \
  F(char)                     \
  F(signed char)              \
  F(unsigned char)            \
  F(int)                      \
  F(unsigned)                 \
  F(long)                     \
  F(unsigned long)            \
  F(long long)                \
  F(unsigned long long)       \
  F(double)                   \
  F(const char*)              \
  F(const void*)              \
  F(std::string)              \
  F(std::string_view)
#define WEFT_DECLARE_WRITE(T) \
  template <>                 \
  void Write<T>(std::ostream & stream, const void* piece);
WEFT_STR_CAT_TYPES(WEFT_DECLARE_WRITE)
#undef WEFT_DECLARE_WRITE

// Writes an array of characters as text, other pointers as addresses, shorts and unscoped enums as numbers.
template <class T>
decltype(auto) Written(const T& piece) {
  if constexpr (std::is_array_v<T> || (std::is_pointer_v<T> && std::is_convertible_v<T, const char*>)) {
    return static_cast<const char*>(piece);
  } else if constexpr (std::is_pointer_v<T> && std::is_convertible_v<T, const void*>) {
    return static_cast<const void*>(piece);
  } else if constexpr (std::is_same_v<T, short> || std::is_same_v<T, unsigned short> ||
                       (std::is_enum_v<T> && std::is_convertible_v<T, long long>)) {
    return +piece;
  } else if constexpr (std::is_same_v<T, float>) {
    return static_cast<double>(piece);
  } else {
    return (piece);
  }
}

struct Piece {
  template <class T>
  explicit Piece(const T& value) : address(&value), write(&Write<T>) {}

  const void* address;
  void (*write)(std::ostream&, const void*);
};

std::string Join(std::initializer_list<Piece> pieces);

}  // namespace str_cat_internal

template <class... Pieces>
std::string StrCat(const Pieces&... pieces) {
  return str_cat_internal::Join({str_cat_internal::Piece(str_cat_internal::Written(pieces))...});
}

// The name of T, nearly as in the source, for messages. Needs no RTTI.
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

#endif  // WEFT_BASE_REPORT_STR_CAT_H_
