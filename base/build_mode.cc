// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/base/build_mode.h"

extern "C" {
const char WEFT_SANITIZER_SYMBOL = 0;
const char WEFT_STANDARD_LIBRARY_SYMBOL = 0;
}
