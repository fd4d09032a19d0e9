// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// JsonWriter: JSON, put together piece by piece. Whoever calls it keeps brackets in pairs.
#ifndef WEFT_HTTP_ADMIN_JSON_WRITER_H_
#define WEFT_HTTP_ADMIN_JSON_WRITER_H_

#include <charconv>
#include <concepts>
#include <string>
#include <string_view>
#include <utility>

namespace weft::http {

class JsonWriter {
 public:
  JsonWriter& Open(char bracket) {
    Separate();
    text_ += bracket;
    is_first_ = true;
    return *this;
  }
  JsonWriter& Close(char bracket) {
    text_ += bracket;
    is_first_ = false;
    return *this;
  }
  JsonWriter& Key(std::string_view key) {
    Put(key);
    text_ += ':';
    is_first_ = true;
    return *this;
  }
  JsonWriter& Put(std::string_view text) {
    Separate();
    AppendQuoted(text, &text_);
    return *this;
  }
  JsonWriter& Put(const char* text) { return Put(std::string_view(text)); }
  JsonWriter& Put(bool value) {
    Separate();
    text_ += value ? "true" : "false";
    return *this;
  }
  template <std::integral Number>
  JsonWriter& Put(Number number) {
    Separate();
    char digits[24];
    text_.append(digits, std::to_chars(digits, digits + sizeof(digits), number).ptr);
    return *this;
  }
  template <class Value>
  JsonWriter& Field(std::string_view key, const Value& value) {
    return Key(key).Put(value);
  }
  std::string Take() { return std::move(text_); }

 private:
  void Separate() {
    if (!is_first_) text_ += ',';
    is_first_ = false;
  }
  static void AppendQuoted(std::string_view text, std::string* to) {
    constexpr char kHex[] = "0123456789abcdef";
    *to += '"';
    for (const char c : text) {
      const auto byte = static_cast<unsigned char>(c);
      if (c == '"' || c == '\\') *to += '\\';
      if (byte < ' ') {
        to->append("\\u00").append({kHex[byte >> 4], kHex[byte & 15]});
      } else {
        *to += c;
      }
    }
    *to += '"';
  }

  std::string text_;
  bool is_first_ = true;
};

}  // namespace weft::http

#endif  // WEFT_HTTP_ADMIN_JSON_WRITER_H_
