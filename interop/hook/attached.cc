// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/interop/hook/attached.h"

namespace weft::hook {

constinit std::atomic<const FiberCalls*> fiber_calls{nullptr};

}  // namespace weft::hook
