// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// BlockingLimits: the options for blocking calls, kept where their pool (io/fiber_blocking.h) finds them. The pool
// serves one runtime after the other, and plain threads before the first and after the last. So the limits belong to
// the process: StartRuntime() sets them; before the first start those of the flags apply. Any thread.
#ifndef WEFT_FIBER_RUNTIME_BLOCKING_LIMITS_H_
#define WEFT_FIBER_RUNTIME_BLOCKING_LIMITS_H_

#include <chrono>
#include <cstdint>

#include "weft/fiber/runtime_options.h"

namespace weft::fiber {

// See RuntimeOptions::blocking_threads and those that follow.
struct BlockingLimits {
  std::int64_t threads;
  std::int64_t queue_size;
  std::chrono::milliseconds idle_timeout;

  bool operator==(const BlockingLimits&) const = default;
};

// Aborts, with the line that refuses it, if there was no runtime yet and a flag is bad.
BlockingLimits GetBlockingLimits();

// Another number whenever the limits have become others; never 0. A look costs one load.
std::uint64_t BlockingLimitsVersion() noexcept;

namespace detail {

// StartRuntime().
void SetBlockingLimits(const RuntimeOptions& options);

}  // namespace detail

}  // namespace weft::fiber

#endif  // WEFT_FIBER_RUNTIME_BLOCKING_LIMITS_H_
