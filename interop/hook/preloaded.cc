// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// For a program before which libweft_hook.so may be loaded (attach.h).

#include <dlfcn.h>

#include "weft/interop/hook/attach.h"

extern "C" {
extern const bool weft_hook_preloadable;
const bool weft_hook_preloadable =
    (weft::hook::AttachTo(reinterpret_cast<weft::hook::AttachFunction>(::dlsym(RTLD_DEFAULT, "weft_hook_attach"))),
     true);
}
