// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/http/connection/request_target.h"

#include <strings.h>

#include <algorithm>
#include <array>
#include <cstddef>

namespace weft::http {
namespace {

constexpr std::string_view kHexDigits = "0123456789abcdefABCDEF";

constexpr std::array<bool, 256> TableOf(std::string_view signs) {
  std::array<bool, 256> table{};
  for (const char sign : signs) table[static_cast<unsigned char>(sign)] = true;
  return table;
}
// RFC 3986, 3.2.2: unreserved and sub-delims, without the comma.
constexpr std::array<bool, 256> kInName =
    TableOf("abcdefghijklmnopqrstuvwxyz0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ-._~!$&'()*+;=");

bool IsOneOf(std::string_view signs, std::string_view text, std::size_t at) {
  return at < text.size() && signs.find(text[at]) != std::string_view::npos;
}

// Of the name at the beginning.
std::size_t NameLength(std::string_view text) {
  std::size_t at = 0;
  for (;;) {
    while (at < text.size() && kInName[static_cast<unsigned char>(text[at])]) ++at;
    if (!IsOneOf("%", text, at) || !IsOneOf(kHexDigits, text, at + 1) || !IsOneOf(kHexDigits, text, at + 2)) return at;
    at += 3;
  }
}

// Of the IPv6 address at the beginning, with its brackets. 0: it is none.
std::size_t AddressLength(std::string_view text) {
  std::size_t at = 1;
  while (IsOneOf(kHexDigits, text, at) || IsOneOf(":.", text, at)) ++at;
  return at > 1 && IsOneOf("]", text, at) ? at + 1 : 0;
}

// Of the scheme and "//". 0: it is none of ours.
std::size_t SchemeLength(std::string_view text) {
  for (const std::string_view scheme : {"http://", "https://"}) {
    if (text.size() >= scheme.size() && ::strncasecmp(text.data(), scheme.data(), scheme.size()) == 0) {
      return scheme.size();
    }
  }
  return 0;
}

}  // namespace

bool IsHost(std::string_view text) {
  const std::string_view port = text.substr(text.starts_with('[') ? AddressLength(text) : NameLength(text));
  const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
  return port.empty() || (port[0] == ':' && std::all_of(port.begin() + 1, port.end(), is_digit));
}

bool SetTarget(std::string_view sent, std::string* target, std::string* host) {
  target->clear();
  if (const std::size_t scheme = SchemeLength(sent); scheme != 0) {
    sent.remove_prefix(scheme);
    const std::string_view asked = sent.substr(0, sent.find_first_of("/?"));
    if (asked.empty() || asked[0] == ':' || !IsHost(asked)) return false;
    *host = asked;
    sent.remove_prefix(asked.size());
    if (!sent.starts_with('/')) target->push_back('/');
  } else if (!sent.starts_with('/') && sent != "*") {
    return false;
  }
  target->append(sent);
  return true;
}

}  // namespace weft::http
