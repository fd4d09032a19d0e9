// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/runtime/dump_hook.h"

#include <atomic>

namespace weft::fiber::detail {
namespace {

constinit std::atomic<DumpHook> dump_hook{nullptr};

}  // namespace

// relaxed, both: a pointer to a function carries nothing else.
void SetDumpHook(DumpHook hook) noexcept { dump_hook.store(hook, std::memory_order_relaxed); }

std::optional<std::string> PrepareDumps(const RuntimeOptions& options) {
  if (const DumpHook hook = dump_hook.load(std::memory_order_relaxed)) return hook(options);
  if (options.dump_signal.empty()) return std::nullopt;
  return "--fiber_dump_signal=" + options.dump_signal +
         ": must be empty: this program is linked without weft::observe, which makes dumps";
}

}  // namespace weft::fiber::detail
