// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// DumpHooks: what observe/ does when a runtime starts and has ended, in programs that have it: it is above this layer.
//
// A static constructor of observe/dump/dump_install.cc sets the hooks. Nothing calls that file, so whatever links
// weft::observe (weft::weft does, and `pkg-config --libs weft`) asks the linker for it by `-u weft_observe_dumps`.
#ifndef WEFT_FIBER_RUNTIME_DUMP_HOOK_H_
#define WEFT_FIBER_RUNTIME_DUMP_HOOK_H_

#include <optional>
#include <string>

#include "weft/fiber/runtime_options.h"

namespace weft::fiber::detail {

struct DumpHooks {
  // Returns nothing, or the line that refuses an option. It may throw what lack of memory throws.
  std::optional<std::string> (*prepare)(const RuntimeOptions& options);
  // No thread of a runtime is left behind.
  void (*end)() noexcept;
};
// `hooks` lives as long as the process. Any thread.
void SetDumpHooks(const DumpHooks* hooks) noexcept;

// For StartRuntime(). Without a hook it refuses --fiber_dump_signal.
[[nodiscard]] std::optional<std::string> PrepareDumps(const RuntimeOptions& options);

// For TerminateRuntime(), and a start that has failed.
void EndDumps() noexcept;

}  // namespace weft::fiber::detail

#endif  // WEFT_FIBER_RUNTIME_DUMP_HOOK_H_
