// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include <sys/socket.h>
#include <unistd.h>
#include <weft/interop/hook.h>
#include <weft/weft.h>

int main() {
  weft::StartRuntime();
  int ends[2];
  char byte = 0;
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return 1;
  weft::Fiber reader([&] {
    const weft::HookBlockingCalls hooked;
    static_cast<void>(::read(ends[0], &byte, 1));
  });
  const bool written = ::write(ends[1], "x", 1) == 1;
  reader.Join();
  weft::TerminateRuntime();
  return written && byte == 'x' && weft::CanHookBlockingCalls() ? 0 : 1;
}
