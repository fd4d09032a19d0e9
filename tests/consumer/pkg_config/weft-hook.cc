// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// g++ weft-hook.cc $(pkg-config --cflags --libs weft-hook)
#include <weft/interop/hook.h>

int main() { return weft::CanHookBlockingCalls() ? 0 : 1; }
