// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/observe/waits/frame_lines.h"

#include <array>
#include <cstddef>
#include <cstdio>
#include <utility>

#include "weft/base/report/str_cat.h"

namespace weft::observe {

std::string Hex(std::uint64_t value) {
  std::array<char, 24> text;
  static_cast<void>(std::snprintf(text.data(), text.size(), "0x%llx", static_cast<unsigned long long>(value)));
  return text.data();
}

std::vector<std::string> FrameLines(StackUnwinder* unwinder, std::uint64_t low,
                                    const std::vector<std::uint64_t>& words) {
  constexpr std::size_t kMostFrames = 64;
  std::vector<std::string> lines;
  if (words.empty() || !unwinder->why_not().empty()) return lines;
  for (const StackFrame& frame : unwinder->Unwind({.low = low, .words = words}, kMostFrames)) {
    const FrameName name = unwinder->Name(frame.address, /*source=*/true);
    std::string line = base::StrCat(Hex(frame.address), " ", name.function.empty() ? "?" : name.function);
    if (!name.file.empty()) line += base::StrCat(" (", name.file, ":", name.line, ")");
    lines.push_back(std::move(line));
  }
  return lines;
}

std::string StackText(const std::string& who, const std::vector<std::string>& lines) {
  if (lines.empty()) return "";
  std::string text = base::StrCat("the stack of ", who, ":\n");
  for (const std::string& line : lines) text += base::StrCat("  ", line, "\n");
  return text;
}

}  // namespace weft::observe
