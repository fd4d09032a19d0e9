// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Replaces context/switch_safe_errno.h in model tests: all model threads run in one thread, and no scenario reads errno
// after a switch.
#ifndef WEFT_CONTEXT_SWITCH_SAFE_ERRNO_H_
#define WEFT_CONTEXT_SWITCH_SAFE_ERRNO_H_

#include <cerrno>

#endif  // WEFT_CONTEXT_SWITCH_SAFE_ERRNO_H_
