// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// How tests look at fibers that are on their way to a wait: they dump until it is reached.
#ifndef WEFT_TESTS_OBSERVE_DUMP_UNTIL_H_
#define WEFT_TESTS_OBSERVE_DUMP_UNTIL_H_

#include <gtest/gtest.h>

#include <sstream>
#include <string>
#include <string_view>

#include "weft/observe/dump_fibers.h"
#include "weft/sync/wait/wait_queue.h"

namespace weft::observe {

inline std::string DumpText(const DumpOptions& options = {}) {
  std::ostringstream out;
  EXPECT_TRUE(DumpFibers(out, options)) << out.str();
  return out.str();
}

// Without stacks: quickly.
inline std::string DumpUntil(const std::string& filter, std::string_view text) {
  for (;;) {
    std::string dump = DumpText({.filter = filter, .stacks = false});
    if (dump.find(text) != std::string::npos) return dump;
    synchronization::YieldFiberOrThread();
  }
}

inline bool Has(const std::string& text, std::string_view part) { return text.find(part) != std::string::npos; }

}  // namespace weft::observe

#endif  // WEFT_TESTS_OBSERVE_DUMP_UNTIL_H_
