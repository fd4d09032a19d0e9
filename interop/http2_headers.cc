// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/interop/http2_headers.h"

namespace weft::interop {

void Http2Headers::Add(std::string_view name, std::string_view value) {
  const Place place{.begin = static_cast<std::uint32_t>(text_.size()),
                    .name = static_cast<std::uint32_t>(name.size()),
                    .value = static_cast<std::uint32_t>(value.size())};
  text_.append(name).append(value);
  places_.push_back(place);
}

std::string_view Http2Headers::Find(std::string_view name) const noexcept {
  for (const Http2Field field : *this) {
    if (field.name == name) return field.value;
  }
  return {};
}

bool Http2Headers::Has(std::string_view name) const noexcept {
  for (const Http2Field field : *this) {
    if (field.name == name) return true;
  }
  return false;
}

}  // namespace weft::interop
