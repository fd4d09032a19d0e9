// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// DescribeFiber: names a fiber in messages: "fiber 'parser' (id 42)", or "fiber (unnamed) (id 43)".
#ifndef WEFT_SCHEDULING_GROUP_FIBER_DESCRIBE_FIBER_H_
#define WEFT_SCHEDULING_GROUP_FIBER_DESCRIBE_FIBER_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "weft/base/report/check.h"
#include "weft/base/report/log.h"

namespace weft::scheduling_group {

inline std::string DescribeFiber(std::string_view name, std::uint64_t id) {
  if (name.empty()) return base::StrCat("fiber ", base::kUnnamedFiber, " (id ", id, ")");
  return base::StrCat("fiber '", name, "' (id ", id, ")");
}

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_FIBER_DESCRIBE_FIBER_H_
