// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/observe/dump/stack_table.h"

#include <algorithm>
#include <utility>

namespace weft::observe {

bool StackTable::Fits(const Shape& shape, const StackCopy& copy) {
  return std::all_of(shape.frames.begin(), shape.frames.end(),
                     [&](const StackFrame& frame) { return copy.words[frame.word] == frame.address; });
}

int StackTable::Find(const StackCopy& copy) {
  std::vector<Shape>& of_size = shapes_[copy.words.size()];
  for (const Shape& shape : of_size) {
    if (Fits(shape, copy)) return shape.number;
  }
  ++unwound_;
  Shape shape;
  shape.frames = unwinder_.Unwind(copy, most_frames_);
  const int number = shape.number = NumberOf(shape.frames);
  if (number == kNone) return kNone;
  const bool all_known = std::all_of(shape.frames.begin(), shape.frames.end(),
                                     [](const StackFrame& frame) { return frame.word != StackFrame::kNowhere; });
  if (all_known) of_size.push_back(std::move(shape));
  return number;
}

int StackTable::FindRunning(const StackCopy& copy) {
  ++unwound_;
  return NumberOf(unwinder_.Unwind(copy, most_frames_));
}

int StackTable::NumberOf(const std::vector<StackFrame>& frames) {
  if (frames.empty()) return kNone;
  Addresses addresses;
  addresses.reserve(frames.size());
  for (const StackFrame& frame : frames) addresses.push_back(frame.address);
  const auto [found, is_new] = numbers_.try_emplace(std::move(addresses), static_cast<int>(stacks_.size()));
  if (is_new) stacks_.push_back(&found->first);
  return found->second;
}

}  // namespace weft::observe
