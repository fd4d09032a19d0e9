// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/interop/hook/hooked_call.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/time.h>
#include <unistd.h>

#include <cstddef>

#include "weft/interop/hook/descriptor_notes.h"
#include "weft/interop/hook/real_calls.h"

namespace weft::hook {

namespace counters {
#define WEFT_DEFINE_COUNTER(name) constinit Counter name{#name};
WEFT_HOOKED_CALLS(WEFT_DEFINE_COUNTER)
#undef WEFT_DEFINE_COUNTER
}  // namespace counters

namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

#define WEFT_NAME_COUNTER(name) &counters::name,
constinit Counter* const all_counters[] = {WEFT_HOOKED_CALLS(WEFT_NAME_COUNTER)};
#undef WEFT_NAME_COUNTER

std::size_t Counts(CallCount* counts, std::size_t room) noexcept {
  std::size_t i = 0;
  for (const Counter* counter : all_counters) {
    if (i == room) break;
    counts[i++] = {counter->name, counter->calls.load(std::memory_order_relaxed),
                   counter->waits.load(std::memory_order_relaxed)};
  }
  return std::size(all_counters);
}

constexpr HookLibrary kLibrary = {.counts = &Counts};

// poll()'s events that epoll has, too, by the same bits.
constexpr int kEventsOfEpoll =
    POLLIN | POLLPRI | POLLOUT | POLLRDNORM | POLLRDBAND | POLLWRNORM | POLLWRBAND | POLLRDHUP;

// An epoll descriptor that is readable when one of the others is ready.
class EpollSet {
 public:
  EpollSet() noexcept : fd_(::epoll_create1(EPOLL_CLOEXEC)) {}
  ~EpollSet() {
    if (fd_ >= 0) static_cast<void>(real::close(fd_));
  }
  EpollSet(const EpollSet&) = delete;
  EpollSet& operator=(const EpollSet&) = delete;

  int fd() const noexcept { return fd_; }

  // False: errno. A file, which epoll refuses, is always ready, and has been found so before.
  bool Add(const pollfd* polled, nfds_t index) noexcept {
    const int fd = polled[index].fd;
    if (fd < 0) return true;
    epoll_event event{.events = EventsOf(polled[index]), .data = {.fd = fd}};
    if (::epoll_ctl(fd_, EPOLL_CTL_ADD, fd, &event) == 0 || LastErrno() == EPERM) return true;
    if (LastErrno() != EEXIST) return false;
    // It has come before.
    for (nfds_t i = 0; i < index; ++i) {
      if (polled[i].fd == fd) event.events |= EventsOf(polled[i]);
    }
    return ::epoll_ctl(fd_, EPOLL_CTL_MOD, fd, &event) == 0;
  }

 private:
  static std::uint32_t EventsOf(const pollfd& polled) noexcept {
    return static_cast<std::uint32_t>(polled.events & kEventsOfEpoll);
  }

  const int fd_;
};

}  // namespace

// Not inlined, and opaque, because errno's address is that of a thread.
[[gnu::noinline]] int LastErrno() noexcept {
  asm volatile("" ::: "memory");
  return errno;
}

[[gnu::noinline]] void SetErrno(int error) noexcept {
  asm volatile("" ::: "memory");
  errno = error;
}

std::int64_t DeadlineAfter(std::int64_t duration) noexcept {
  std::int64_t deadline;
  if (duration < 0 || __builtin_add_overflow(Fibers().now(), duration, &deadline)) return kNoDeadline;
  return deadline;
}

bool IsNonBlocking(int fd) noexcept {
  const int flags = ::fcntl(fd, F_GETFL);
  return flags < 0 || (flags & O_NONBLOCK) != 0;
}

std::int64_t SocketDeadline(int fd, int time_out_option) noexcept {
  timeval limit{};
  socklen_t size = sizeof(limit);
  if (::getsockopt(fd, SOL_SOCKET, time_out_option, &limit, &size) != 0) return kNoDeadline;
  if (limit.tv_sec == 0 && limit.tv_usec == 0) return kNoDeadline;
  if (limit.tv_sec > kNoDeadline / kSecond / 2) return kNoDeadline;
  return DeadlineAfter(limit.tv_sec * kSecond + limit.tv_usec * 1000);
}

void HookedCall::CountWait() noexcept {
  if (!waited_) counter_.waits.fetch_add(1, std::memory_order_relaxed);
  waited_ = true;
}

int HookedCall::Wait(int fd, short events, std::int64_t deadline) noexcept {
  CountWait();
  NoteWait(fd);
  const int error = Fibers().wait_fd(fd, events, deadline);
  if (error != EBUSY) return error;
  // One of Weft's own sockets, which has another registration.
  pollfd polled{.fd = fd, .events = events, .revents = 0};
  return Wait(&polled, 1, deadline);
}

int HookedCall::Wait(pollfd* polled, nfds_t count, std::int64_t deadline) noexcept {
  CountWait();
  EpollSet all;
  if (all.fd() < 0) return LastErrno();
  for (nfds_t i = 0; i < count; ++i) {
    if (!all.Add(polled, i)) return LastErrno();
  }
  const int error = Fibers().wait_fd(all.fd(), POLLIN, deadline);
  Fibers().forget_fd(all.fd());
  return error;
}

int HookedCall::SleepUntil(std::int64_t deadline) noexcept {
  CountWait();
  return Fibers().sleep_until(deadline);
}

bool HookedCall::WaitAsSocket(int fd, short events, int time_out_option) noexcept {
  if (!has_deadline_) {
    has_deadline_ = true;
    if (IsNonBlocking(fd)) {
      SetErrno(EAGAIN);
      return false;
    }
    deadline_ = SocketDeadline(fd, time_out_option);
  }
  const int error = Wait(fd, events, deadline_);
  if (error == 0) return true;
  SetErrno(error == ETIMEDOUT ? EAGAIN : error);
  return false;
}

}  // namespace weft::hook

extern "C" __attribute__((visibility("default"))) const weft::hook::HookLibrary* weft_hook_attach(
    const weft::hook::FiberCalls* calls) noexcept {
  using weft::hook::FiberCalls;
  const FiberCalls* nobody = nullptr;
  if (calls->version != FiberCalls::kVersion ||
      !weft::hook::fiber_calls.compare_exchange_strong(nobody, calls, std::memory_order_release,
                                                       std::memory_order_relaxed)) {
    return nullptr;
  }
  return &weft::hook::kLibrary;
}
