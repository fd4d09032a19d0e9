// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// For a program linked with libweft_hook.so (attach.h).

#include "weft/interop/hook/attach.h"

extern "C" {
extern const bool weft_hook_linked;
const bool weft_hook_linked = (weft::hook::AttachTo(&weft_hook_attach), true);
}
