// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Integers as Redis reads and writes them: decimal, 64 bits, with one spelling each (no "+1", "01", "-0", " 1").
#ifndef WEFT_EXAMPLES_RESP_SERVER_NUMBERS_H_
#define WEFT_EXAMPLES_RESP_SERVER_NUMBERS_H_

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string_view>
#include <system_error>

namespace examples::resp {

// False: it is no number. *number is unchanged.
[[nodiscard]] inline bool ParseNumber(std::string_view text, std::int64_t* number) noexcept {
  const std::string_view digits = text.starts_with('-') ? text.substr(1) : text;
  if (digits.empty() || (digits.front() == '0' && text.size() != 1)) return false;
  std::int64_t parsed = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), parsed);
  if (error != std::errc() || end != text.data() + text.size()) return false;
  *number = parsed;
  return true;
}

// The longest is "-9223372036854775808".
class NumberText {
 public:
  explicit NumberText(std::int64_t number) noexcept
      : size_(static_cast<std::size_t>(std::to_chars(text_, text_ + sizeof(text_), number).ptr - text_)) {}
  std::string_view view() const noexcept { return {text_, size_}; }

 private:
  char text_[std::numeric_limits<std::int64_t>::digits10 + 2];
  std::size_t size_;
};

}  // namespace examples::resp

#endif  // WEFT_EXAMPLES_RESP_SERVER_NUMBERS_H_
