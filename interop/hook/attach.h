// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Attaching Weft to libweft_hook.so while the program starts.
//
// A program takes one of two objects out of libweft_hook_fibers.a, by `-u` of its word: linked.cc needs
// libweft_hook.so, preloaded.cc takes it if it is there.
#ifndef WEFT_INTEROP_HOOK_ATTACH_H_
#define WEFT_INTEROP_HOOK_ATTACH_H_

#include "weft/interop/hook/fiber_calls.h"

namespace weft::hook {

using AttachFunction = const HookLibrary* (*)(const FiberCalls*) noexcept;

// nullptr: the library is not there.
void AttachTo(AttachFunction attach) noexcept;

}  // namespace weft::hook

#endif  // WEFT_INTEROP_HOOK_ATTACH_H_
