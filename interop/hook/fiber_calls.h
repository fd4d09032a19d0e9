// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// FiberCalls: what libweft_hook.so asks of Weft, and HookLibrary: what it offers.
//
//   program                                         libweft_hook.so
//   -------                                         ---------------
//   Weft (static, or libweft.so)
//   hook.cc: FiberCalls      --- weft_hook_attach() -->   remembers them
//   client library: recv()   ------------------------->   in a fiber that has asked?      no: the C library's recv()
//                                                          tries with MSG_DONTWAIT
//                                                          wait_fd() of FiberCalls: parks the fiber
//
// The library knows nothing else of Weft, so that a process has one Weft, however that is linked, and that processes
// without Weft (those that a shell starts with LD_PRELOAD) run as ever. Its code is C but for templates: no exception,
// no allocation but malloc(), no C++ library.
//
// Invariants
//   HOK1  Weft's own calls reach the C library. On a worker's own stack, where the fiber must not switch and while it
//         is about to park, may_park() says no. Elsewhere they wait for nothing: descriptors with O_NONBLOCK, time-outs
//         of zero. So a hooked call does not come back to itself.
//   HOK2  errno is read and written by LastErrno() and SetErrno(), for the thread may change with each wait.
//   HOK3  A wait concerns the descriptor that the number meant: close(), dup2() and dup3() end it by forget_fd(), for
//         numbers for which a hooked call has waited since fork() (descriptor_notes.h).
#ifndef WEFT_INTEROP_HOOK_FIBER_CALLS_H_
#define WEFT_INTEROP_HOOK_FIBER_CALLS_H_

#include <netdb.h>

#include <cstddef>
#include <cstdint>

namespace weft::hook {

// Times are nanoseconds of FiberClock.
inline constexpr std::int64_t kNoDeadline = INT64_MAX;

struct FiberCalls {
  static constexpr int kVersion = 1;
  int version = kVersion;

  // Whether the caller is a fiber that may park now, and whose calls are hooked. May yield, after a time slice.
  bool (*may_park)() noexcept;
  // The rest: after may_park() said true.
  std::int64_t (*now)() noexcept;
  // 0: it is ready. Otherwise an errno: ETIMEDOUT, ECANCELED, EBUSY (a Weft socket's), ...
  int (*wait_fd)(int fd, short events, std::int64_t deadline) noexcept;
  // 0, or ECANCELED.
  int (*sleep_until)(std::int64_t deadline) noexcept;
  // Calls it on a thread that may block, with the caller's errno, and brings errno back.
  void (*call_elsewhere)(void (*call)(void* argument), void* argument) noexcept;
  // As getaddrinfo(), on such a thread.
  int (*resolve)(const char* node, const char* service, const addrinfo* hints, addrinfo** found) noexcept;
  // Any thread. Waits for the number end with ECANCELED.
  void (*forget_fd)(int fd) noexcept;
};

struct CallCount {
  const char* name;
  std::uint64_t calls;
  std::uint64_t waits;
};

struct HookLibrary {
  int version = FiberCalls::kVersion;
  // Fills `counts`, and returns how many there are.
  std::size_t (*counts)(CallCount* counts, std::size_t room) noexcept;
};

}  // namespace weft::hook

// For the first Weft of the process. nullptr: another version.
extern "C" const weft::hook::HookLibrary* weft_hook_attach(const weft::hook::FiberCalls* calls) noexcept;

#endif  // WEFT_INTEROP_HOOK_FIBER_CALLS_H_
