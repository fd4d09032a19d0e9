// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// `errno` that is right in a function that suspends: include this after all other headers.
//
// errno follows a flow from thread to thread (context.h), but libc declares the function that finds it const: compilers
// call it once per function and go on reading the errno of the thread that the function started on (456 of 1,000 reads
// in tests/context/matrix/migration.cc). With this header each use calls it again (about 1 ns).
#ifndef WEFT_CONTEXT_SWITCH_SAFE_ERRNO_H_
#define WEFT_CONTEXT_SWITCH_SAFE_ERRNO_H_

#include <cerrno>

#include "weft/context/switch/context.h"

#undef errno
// The errno of the calling fiber or thread; each use finds it anew.
#define errno (::weft::context::ThisThreadErrno())

#endif  // WEFT_CONTEXT_SWITCH_SAFE_ERRNO_H_
