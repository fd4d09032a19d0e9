// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/context/stack/stack_mark.h"

#include <cstdint>

#include "weft/context/switch/sanitizer.h"

namespace weft::context {
namespace {

// No byte occurs twice, so that no compiler makes a call of the fill, which a sanitizer would check.
constexpr std::uint64_t kPattern = 0x0f1e2d3c4b5a6978;

}  // namespace

// Without checks: frames that have ended are there.
WEFT_NO_SANITIZE void FillStack(void* top, std::size_t size) noexcept {
  auto* const end = static_cast<std::uint64_t*>(top);
  for (auto* word = end - size / sizeof(*end); word != end; ++word) *word = kPattern;
}

WEFT_NO_SANITIZE std::size_t MeasureStack(const void* top, std::size_t size) noexcept {
  const auto* const end = static_cast<const std::uint64_t*>(top);
  const auto* const low = end - size / sizeof(*end);
  if (*low != kPattern) return 0;
  const auto* word = low;
  while (word != end && *word == kPattern) ++word;
  return static_cast<std::size_t>(end - word) * sizeof(*end);
}

}  // namespace weft::context
