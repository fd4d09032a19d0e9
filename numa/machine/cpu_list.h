// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Lists of CPUs (or NUMA nodes) as Linux writes them: "0-4,6,7".
#ifndef WEFT_NUMA_MACHINE_CPU_LIST_H_
#define WEFT_NUMA_MACHINE_CPU_LIST_H_

#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace weft::numa {

// No machine has more: a larger number is a typing error.
inline constexpr int kMaxCpuId = 65535;

// The ids, sorted, each once.  White space around an item is allowed; an empty list is not. nullopt: *error (if given)
// is one line that names the list and the mistake.
std::optional<std::vector<int>> ParseCpuList(std::string_view text, std::string* error = nullptr);

// "0-4,6,7" of ids that are sorted.
std::string FormatCpuList(std::span<const int> ids);

}  // namespace weft::numa

#endif  // WEFT_NUMA_MACHINE_CPU_LIST_H_
