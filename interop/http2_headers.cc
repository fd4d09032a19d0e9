// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/interop/http2_headers.h"

namespace weft::interop {

void Http2Headers::Add(std::string_view name, std::string_view value) {
  if (places_.empty()) {  // Few sections have more.
    places_.reserve(8);
    text_.reserve(256);
  }
  const Place place{.begin = static_cast<std::uint32_t>(text_.size()),
                    .name = static_cast<std::uint32_t>(name.size()),
                    .value = static_cast<std::uint32_t>(value.size())};
  text_.append(name).append(value);
  places_.push_back(place);
}

const Http2Headers::Place* Http2Headers::PlaceOf(std::string_view name) const noexcept {
  for (const Place& place : places_) {
    if (std::string_view(text_.data() + place.begin, place.name) == name) return &place;
  }
  return nullptr;
}

std::string_view Http2Headers::Find(std::string_view name) const noexcept {
  const Place* const place = PlaceOf(name);
  if (place == nullptr) return {};
  return {text_.data() + place->begin + place->name, place->value};
}

bool Http2Headers::Has(std::string_view name) const noexcept { return PlaceOf(name) != nullptr; }

}  // namespace weft::interop
