// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// HookedCall: a call of a fiber whose blocking calls are hooked: counts it, and waits for it.
//
// A hook asks InHookedFiber() first; if it says no, it makes the C library's call. Otherwise it makes a HookedCall, and
// by that tries and waits in turn: RetryRead(), or a look and Wait().
#ifndef WEFT_INTEROP_HOOK_HOOKED_CALL_H_
#define WEFT_INTEROP_HOOK_HOOKED_CALL_H_

#include <poll.h>
#include <sys/socket.h>
#include <sys/types.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

#include "weft/interop/hook/attached.h"
#include "weft/interop/hook/fiber_calls.h"

// A function that replaces the C library's.
#define WEFT_HOOK extern "C" __attribute__((visibility("default")))

namespace weft::hook {

// HOK2
int LastErrno() noexcept;
void SetErrno(int error) noexcept;
// errno is `error`.
inline int Fail(int error) noexcept {
  SetErrno(error);
  return -1;
}

// Each on a line of its own: workers count at the same time.
struct alignas(64) Counter {
  const char* name;
  std::atomic<std::uint64_t> calls{0};  // relaxed, both: statistics
  std::atomic<std::uint64_t> waits{0};
};

// clang-format off
#define WEFT_HOOKED_CALLS(X)                                                                     \
  X(accept) X(accept4) X(clock_nanosleep) X(connect) X(epoll_pwait) X(epoll_wait) X(getaddrinfo) \
  X(nanosleep) X(poll) X(ppoll) X(pselect) X(read) X(readv) X(recv) X(recvfrom) X(recvmsg)       \
  X(select) X(send) X(sendmsg) X(sendto) X(sleep) X(usleep) X(write) X(writev)
// clang-format on

namespace counters {
#define WEFT_DECLARE_COUNTER(name) extern constinit Counter name;
WEFT_HOOKED_CALLS(WEFT_DECLARE_COUNTER)
#undef WEFT_DECLARE_COUNTER
}  // namespace counters

// `duration` from now, both in nanoseconds. Below 0: none.
std::int64_t DeadlineAfter(std::int64_t duration) noexcept;

// By the flag of its open file.
bool IsNonBlocking(int fd) noexcept;

class HookedCall {
 public:
  explicit HookedCall(Counter& counter) noexcept : counter_(counter) {
    counter.calls.fetch_add(1, std::memory_order_relaxed);
  }
  HookedCall(const HookedCall&) = delete;
  HookedCall& operator=(const HookedCall&) = delete;

  // 0: one of the descriptors is ready, or may be. Otherwise an errno.
  [[nodiscard]] int Wait(int fd, short events, std::int64_t deadline) noexcept;
  [[nodiscard]] int Wait(pollfd* polled, nfds_t count, std::int64_t deadline) noexcept;
  // 0 or ECANCELED.
  [[nodiscard]] int SleepUntil(std::int64_t deadline) noexcept;
  // On a thread that may block, with the caller's errno before and the call's after it.
  template <class Call>
  void MakeElsewhere(Call&& call) noexcept {
    CountWait();
    Fibers().call_elsewhere([](void* argument) { (*static_cast<Call*>(argument))(); }, &call);
  }
  // For waits that are not made here.
  void CountWait() noexcept;

  // For sockets: attempt() does not wait. Waits as long as it fails with EAGAIN, if the descriptor is to wait.
  template <class Attempt>
  ssize_t RetryRead(int fd, Attempt&& attempt) noexcept {
    return Retry(fd, POLLIN, SO_RCVTIMEO, attempt);
  }
  template <class Attempt>
  ssize_t RetryWrite(int fd, Attempt&& attempt) noexcept {
    return Retry(fd, POLLOUT, SO_SNDTIMEO, attempt);
  }

  // After EAGAIN. False: errno says why it is not to be tried again; EAGAIN: after the time of the socket, too.
  [[nodiscard]] bool WaitAsSocket(int fd, short events, int time_out_option) noexcept;

 private:
  template <class Attempt>
  ssize_t Retry(int fd, short events, int time_out_option, Attempt& attempt) noexcept {
    for (;;) {
      const ssize_t result = attempt();
      if (result >= 0 || LastErrno() != EAGAIN || !WaitAsSocket(fd, events, time_out_option)) return result;
    }
  }

  Counter& counter_;
  bool waited_ = false;
  bool has_deadline_ = false;  // WaitAsSocket() has asked for the next
  std::int64_t deadline_ = kNoDeadline;
};

// Nanoseconds of FiberClock; kNoDeadline if the option is not set.
std::int64_t SocketDeadline(int fd, int time_out_option) noexcept;

}  // namespace weft::hook

#endif  // WEFT_INTEROP_HOOK_HOOKED_CALL_H_
