// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// DumpHook: what observe/ does when a runtime starts, in programs that have it: it is above this layer.
//
// A static constructor of observe/dump/dump_install.cc sets the hook. Nothing calls that file, so whatever links
// weft::observe (weft::weft does, and `pkg-config --libs weft`) asks the linker for it by `-u weft_observe_dumps`.
#ifndef WEFT_FIBER_RUNTIME_DUMP_HOOK_H_
#define WEFT_FIBER_RUNTIME_DUMP_HOOK_H_

#include <optional>
#include <string>

#include "weft/fiber/runtime_options.h"

namespace weft::fiber::detail {

// Returns nothing, or the line that refuses an option. It may throw what lack of memory throws.
using DumpHook = std::optional<std::string> (*)(const RuntimeOptions& options);
// Any thread.
void SetDumpHook(DumpHook hook) noexcept;

// For StartRuntime(). Without a hook it refuses --fiber_dump_signal.
[[nodiscard]] std::optional<std::string> PrepareDumps(const RuntimeOptions& options);

}  // namespace weft::fiber::detail

#endif  // WEFT_FIBER_RUNTIME_DUMP_HOOK_H_
