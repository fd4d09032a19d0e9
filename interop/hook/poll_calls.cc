// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Hooks: poll ppoll select pselect epoll_wait epoll_pwait.
//
// Each looks by the C library's function with a time-out of zero, and waits until looking again may find something. A
// call with a signal mask is the C library's: the mask belongs to a thread.

#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>
#include <sys/time.h>
#include <time.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>

#include "weft/interop/hook/hooked_call.h"
#include "weft/interop/hook/real_calls.h"

namespace weft::hook {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kMillisecond = 1'000'000;

// Saturated.
std::int64_t Nanoseconds(const timespec& time) noexcept {
  return time.tv_sec >= kNoDeadline / kSecond ? kNoDeadline : time.tv_sec * kSecond + time.tv_nsec;
}

bool IsTime(const timespec& time) noexcept { return time.tv_sec >= 0 && time.tv_nsec >= 0 && time.tv_nsec < kSecond; }

std::int64_t DeadlineAfterMilliseconds(int milliseconds) noexcept {
  return milliseconds < 0 ? kNoDeadline : DeadlineAfter(milliseconds * kMillisecond);
}

// Waits until one of them is ready, whatever poll() would say of it. 0: look again.
int AwaitOneOf(HookedCall& call, pollfd* polled, nfds_t count, std::int64_t deadline) noexcept {
  const pollfd* only = nullptr;
  nfds_t real_ones = 0;
  for (nfds_t i = 0; i < count; ++i) {
    if (polled[i].fd < 0) continue;
    only = &polled[i];
    ++real_ones;
  }
  if (real_ones == 0) {
    const int error = call.SleepUntil(deadline);
    return error == 0 ? ETIMEDOUT : error;
  }
  constexpr short kUsual = POLLIN | POLLPRI | POLLOUT;
  if (real_ones == 1 && (only->events & kUsual) != 0 && (only->events & ~(kUsual | POLLRDHUP)) == 0) {
    return call.Wait(only->fd, only->events, deadline);
  }
  return call.Wait(polled, count, deadline);
}

// Repeats look(), which returns 0 if nothing is ready, until it finds something or the time is over.
template <class Look, class Await>
int LookUntil(Look&& look, Await&& await) noexcept {
  for (;;) {
    const int found = look();
    if (found != 0) return found;
    const int error = await();
    if (error == ETIMEDOUT) return look();
    if (error != 0) return Fail(error);
  }
}

int Poll(HookedCall& call, pollfd* polled, nfds_t count, std::int64_t deadline) noexcept {
  return LookUntil([&] { return real::poll(polled, count, 0); },
                   [&] { return AwaitOneOf(call, polled, count, deadline); });
}

// ---- select ----

// The sets of a select(), as they were given, and as a list for poll().
class SelectSets {
 public:
  SelectSets(int count, fd_set* read, fd_set* write, fd_set* except) noexcept
      : count_(count), sets_{read, write, except} {
    for (int i = 0; i < 3; ++i) {
      if (sets_[i] != nullptr) std::memcpy(&given_[i], sets_[i], bytes());
    }
  }
  SelectSets(const SelectSets&) = delete;
  SelectSets& operator=(const SelectSets&) = delete;
  ~SelectSets() {
    if (list_ != few_) std::free(list_);
  }

  // False: no memory.
  bool MakeList() noexcept {
    std::size_t size = 0;
    for (int fd = 0; fd < count_; ++fd) size += EventsOf(fd) != 0;
    if (size > std::size(few_)) {
      list_ = static_cast<pollfd*>(std::malloc(size * sizeof(pollfd)));
      if (list_ == nullptr) return false;
    }
    for (int fd = 0; fd < count_; ++fd) {
      if (const short events = EventsOf(fd)) list_[size_++] = {.fd = fd, .events = events, .revents = 0};
    }
    return true;
  }
  pollfd* list() noexcept { return list_; }
  nfds_t size() const noexcept { return size_; }

  int Look() noexcept {
    for (int i = 0; i < 3; ++i) {
      if (sets_[i] != nullptr) std::memcpy(sets_[i], &given_[i], bytes());
    }
    timeval none{};
    return real::select(count_, sets_[0], sets_[1], sets_[2], &none);
  }

 private:
  short EventsOf(int fd) const noexcept {
    constexpr short kEvents[] = {POLLIN, POLLOUT, POLLPRI};
    short events = 0;
    for (int i = 0; i < 3; ++i) {
      if (sets_[i] != nullptr && FD_ISSET(fd, &given_[i])) events = static_cast<short>(events | kEvents[i]);
    }
    return events;
  }

  // What the kernel touches of a set.
  std::size_t bytes() const noexcept {
    constexpr int kBits = 8 * sizeof(long);
    return static_cast<std::size_t>((count_ + kBits - 1) / kBits) * sizeof(long);
  }

  const int count_;
  fd_set* const sets_[3];
  fd_set given_[3];
  pollfd few_[8];
  pollfd* list_ = few_;
  nfds_t size_ = 0;
};

int Select(HookedCall& call, SelectSets& sets, std::int64_t deadline) noexcept {
  if (!sets.MakeList()) return Fail(ENOMEM);
  bool again = false;
  return LookUntil([&] { return sets.Look(); },
                   [&] {
                     // A descriptor that has hung up is ready for poll(), but not in the third set.
                     constexpr std::int64_t kPause = 10 * kMillisecond;
                     if (again && deadline > DeadlineAfter(kPause)) {
                       if (const int error = call.SleepUntil(DeadlineAfter(kPause)); error != 0) return error;
                     }
                     again = true;
                     return AwaitOneOf(call, sets.list(), sets.size(), deadline);
                   });
}

// As Linux does: what is left of the time.
void SetTimeLeft(timeval* time, std::int64_t deadline) noexcept {
  const std::int64_t left = std::max<std::int64_t>(deadline - Fibers().now(), 0);
  time->tv_sec = left / kSecond;
  time->tv_usec = left % kSecond / 1000;
}

}  // namespace
}  // namespace weft::hook

using namespace weft::hook;  // NOLINT(google-build-using-namespace): what follows is C.

WEFT_HOOK int poll(pollfd* polled, nfds_t count, int time_out) {
  if (time_out == 0 || !InHookedFiber()) return real::poll(polled, count, time_out);
  HookedCall call(counters::poll);
  return Poll(call, polled, count, DeadlineAfterMilliseconds(time_out));
}

WEFT_HOOK int ppoll(pollfd* polled, nfds_t count, const timespec* time_out, const sigset_t* mask) {
  const bool looks = time_out != nullptr && (!IsTime(*time_out) || Nanoseconds(*time_out) == 0);
  if (looks || mask != nullptr || !InHookedFiber()) return real::ppoll(polled, count, time_out, mask);
  HookedCall call(counters::ppoll);
  return Poll(call, polled, count, time_out == nullptr ? kNoDeadline : DeadlineAfter(Nanoseconds(*time_out)));
}

WEFT_HOOK int select(int count, fd_set* read, fd_set* write, fd_set* except, timeval* time_out) {
  const bool looks = time_out != nullptr && (time_out->tv_sec < 0 || time_out->tv_usec < 0 ||
                                             (time_out->tv_sec == 0 && time_out->tv_usec == 0));
  if (looks || count < 0 || count > FD_SETSIZE || !InHookedFiber()) {
    return real::select(count, read, write, except, time_out);
  }
  HookedCall call(counters::select);
  SelectSets sets(count, read, write, except);
  if (time_out == nullptr) return Select(call, sets, kNoDeadline);
  const std::int64_t deadline =
      DeadlineAfter(Nanoseconds({.tv_sec = time_out->tv_sec, .tv_nsec = time_out->tv_usec * 1000}));
  const int result = Select(call, sets, deadline);
  SetTimeLeft(time_out, deadline);
  return result;
}

WEFT_HOOK int pselect(int count, fd_set* read, fd_set* write, fd_set* except, const timespec* time_out,
                      const sigset_t* mask) {
  const bool looks = time_out != nullptr && (!IsTime(*time_out) || Nanoseconds(*time_out) == 0);
  if (looks || mask != nullptr || count < 0 || count > FD_SETSIZE || !InHookedFiber()) {
    return real::pselect(count, read, write, except, time_out, mask);
  }
  HookedCall call(counters::pselect);
  SelectSets sets(count, read, write, except);
  return Select(call, sets, time_out == nullptr ? kNoDeadline : DeadlineAfter(Nanoseconds(*time_out)));
}

WEFT_HOOK int epoll_wait(int fd, epoll_event* events, int room, int time_out) {
  if (time_out == 0 || !InHookedFiber()) return real::epoll_wait(fd, events, room, time_out);
  HookedCall call(counters::epoll_wait);
  const std::int64_t deadline = DeadlineAfterMilliseconds(time_out);
  return LookUntil([&] { return real::epoll_wait(fd, events, room, 0); },
                   [&] { return call.Wait(fd, POLLIN, deadline); });
}

WEFT_HOOK int epoll_pwait(int fd, epoll_event* events, int room, int time_out, const sigset_t* mask) {
  if (time_out == 0 || mask != nullptr || !InHookedFiber()) return real::epoll_pwait(fd, events, room, time_out, mask);
  HookedCall call(counters::epoll_pwait);
  const std::int64_t deadline = DeadlineAfterMilliseconds(time_out);
  return LookUntil([&] { return real::epoll_wait(fd, events, room, 0); },
                   [&] { return call.Wait(fd, POLLIN, deadline); });
}

extern "C" [[noreturn]] void __chk_fail() noexcept;  // NOLINT(bugprone-reserved-identifier): the C library's.

// _FORTIFY_SOURCE: `room` is what the compiler knows of the array's size, in bytes.
WEFT_HOOK int __poll_chk(pollfd* polled, nfds_t count, int time_out, std::size_t room) {
  if (room / sizeof(*polled) < count) __chk_fail();
  return poll(polled, count, time_out);
}

WEFT_HOOK int __ppoll_chk(pollfd* polled, nfds_t count, const timespec* time_out, const sigset_t* mask,
                          std::size_t room) {
  if (room / sizeof(*polled) < count) __chk_fail();
  return ppoll(polled, count, time_out, mask);
}
