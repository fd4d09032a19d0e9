// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// A program that is not linked with libweft_hook.so: hook_preload hooked|alone. With LD_PRELOAD and WEFT_HOOK=1 a fiber
// that reads from an empty socket lets the one worker run the other fiber; without them nothing is hooked.

#include <sys/socket.h>
#include <unistd.h>

#include <cstdio>
#include <string_view>

#include "weft/fiber/fiber.h"
#include "weft/fiber/runtime.h"
#include "weft/interop/hook.h"

namespace {

const char* Fault(bool hooked) {
  if (weft::CanHookBlockingCalls() != hooked) return "the library is there, or is not, unexpectedly";
  if (weft::GetHookedCallCounts().empty() == hooked) return "counts";
  bool fiber_is_hooked = false;
  char byte = 0;
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) != 0) return "no socket";
  weft::Fiber reader([&] {
    weft::HookBlockingCalls has_no_effect_alone;
    fiber_is_hooked = weft::BlockingCallsAreHooked();
    if (hooked && ::read(ends[0], &byte, 1) != 1) std::perror("read");
  });
  weft::Fiber writer([&] {
    if (::write(ends[1], "x", 1) != 1) std::perror("write");
  });
  reader.Join();
  writer.Join();
  if (fiber_is_hooked != hooked) return "a fiber is hooked, or is not, unexpectedly";
  return hooked && byte != 'x' ? "nothing was read" : nullptr;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 2) return 2;
  weft::RuntimeOptions options;
  options.concurrency_hint = 1;
  weft::StartRuntime(options);
  const char* const fault = Fault(std::string_view(argv[1]) == "hooked");
  weft::TerminateRuntime();
  if (fault != nullptr) std::fprintf(stderr, "%s\n", fault);
  return fault == nullptr ? 0 : 1;
}
