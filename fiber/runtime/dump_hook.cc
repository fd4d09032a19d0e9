// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/runtime/dump_hook.h"

#include <atomic>

namespace weft::fiber::detail {
namespace {

constinit std::atomic<const DumpHooks*> dump_hooks{nullptr};

}  // namespace

// relaxed, all: constants.
void SetDumpHooks(const DumpHooks* hooks) noexcept { dump_hooks.store(hooks, std::memory_order_relaxed); }

std::optional<std::string> PrepareDumps(const RuntimeOptions& options) {
  if (const DumpHooks* hooks = dump_hooks.load(std::memory_order_relaxed)) return hooks->prepare(options);
  if (options.dump_signal.empty()) return std::nullopt;
  return "--fiber_dump_signal=" + options.dump_signal +
         ": must be empty: this program is linked without weft::observe, which makes dumps";
}

void EndDumps() noexcept {
  if (const DumpHooks* hooks = dump_hooks.load(std::memory_order_relaxed)) hooks->end();
}

}  // namespace weft::fiber::detail
