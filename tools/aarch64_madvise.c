// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Linked into the programs that tools/aarch64.sh runs. qemu-user reports success for advice that it does not know,
// such as MADV_GUARD_INSTALL, and does nothing: stacks would have no guards. Here it is refused, as kernels before Linux
// 6.13 do, and guards are made by mprotect().
#define _GNU_SOURCE
#include <errno.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <unistd.h>

int madvise(void* address, size_t length, int advice) {
  enum { kMadvGuardInstall = 102 };
  if (advice == kMadvGuardInstall) {
    errno = EINVAL;
    return -1;
  }
  return (int)syscall(SYS_madvise, address, length, advice);
}
