// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// FiberFilter: which fibers a dump shows. DumpOptions::filter in observe/dump_options.h says how it is written.
#ifndef WEFT_OBSERVE_DUMP_FIBER_FILTER_H_
#define WEFT_OBSERVE_DUMP_FIBER_FILTER_H_

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "weft/observe/dump/fiber_reader.h"

namespace weft::observe {

// "new", "ready", "running" or "parked".
const char* StateOf(const FiberRecord& fiber);

class FiberFilter {
 public:
  // Nothing: it cannot be understood; *error: one line.
  static std::optional<FiberFilter> Parse(std::string_view text, std::string* error);

  bool Accepts(const FiberRecord& fiber) const;
  // By state, group and id: false: it is not accepted, whatever the rest of it is.
  bool MayAccept(const FiberRecord& fiber) const;
  // Of group=NAME; nothing: a number, or no group.
  const std::optional<std::string>& group_name() const { return group_name_; }

 private:
  // "": it was understood.
  std::string Add(std::string_view key, std::string_view value);

  std::optional<std::string> name_;  // a pattern
  std::vector<std::string> states_;
  std::vector<scheduling_group::WaitKind> reasons_;
  std::optional<std::chrono::milliseconds> age_;  // at least
  std::optional<int> group_;
  std::optional<std::string> group_name_;
  std::optional<std::uint64_t> id_;
};

}  // namespace weft::observe

#endif  // WEFT_OBSERVE_DUMP_FIBER_FILTER_H_
