// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// What base/report/check.h and base/report/log.h need, for model tests: they do not link the base library, whose
// objects know the real atomics. A check that fails is a violation like any other.
#include <cstdio>
#include <cstdlib>
#include <string>
#include <string_view>

#include "weft/base/report/check.h"
#include "weft/base/report/log.h"
#include "weft/base/thread/exit.h"
#include "weft/base/time/test_time.h"
#include "weft/tests/testing/interleave.h"

namespace weft::base {

void FatalError(const char*, int, const char* function, const std::string& text) {
  const std::string message = text + " (in " + function + ")";
  if (model::Exploring()) model::Fail(message);
  std::fprintf(stderr, "%s\n", message.c_str());
  std::abort();
}

void EmitLogLine(LogSeverity, const char*, int, std::string_view) {}

bool log_internal::RateLimiter::Admit(std::uint64_t*) noexcept { return false; }

bool IsInExit() noexcept { return false; }

// There is no test clock.
bool ParkInTestTime(Parker*, FiberClock::time_point, Waits) noexcept { std::abort(); }

}  // namespace weft::base
