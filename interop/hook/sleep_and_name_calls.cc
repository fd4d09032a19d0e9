// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Hooks: sleep usleep nanosleep clock_nanosleep getaddrinfo.

#include <arpa/inet.h>
#include <netdb.h>
#include <netinet/in.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <cstdint>

#include "weft/interop/hook/hooked_call.h"
#include "weft/interop/hook/real_calls.h"

namespace weft::hook {
namespace {

constexpr std::int64_t kSecond = 1'000'000'000;

// Saturated.
std::int64_t Nanoseconds(const timespec& time) noexcept {
  return time.tv_sec >= kNoDeadline / kSecond ? kNoDeadline : time.tv_sec * kSecond + time.tv_nsec;
}

bool IsTime(const timespec* time) noexcept {
  return time != nullptr && time->tv_sec >= 0 && time->tv_nsec >= 0 && time->tv_nsec < kSecond;
}

std::int64_t LeftUntil(std::int64_t deadline) noexcept { return std::max<std::int64_t>(deadline - Fibers().now(), 0); }

// 0 or an errno; then *left, if it is asked for.
int SleepFor(HookedCall& call, std::int64_t duration, timespec* left) noexcept {
  const std::int64_t deadline = DeadlineAfter(duration);
  const int error = call.SleepUntil(deadline);
  if (error != 0 && left != nullptr) {
    const std::int64_t nanoseconds = LeftUntil(deadline);
    *left = {.tv_sec = nanoseconds / kSecond, .tv_nsec = nanoseconds % kSecond};
  }
  return error;
}

// A clock that fibers' time keeps pace with, if nobody sets it.
bool IsUsualClock(clockid_t clock) noexcept {
  return clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC || clock == CLOCK_BOOTTIME;
}

// Until a clock that may be set meanwhile shows `until`.
int SleepUntil(HookedCall& call, clockid_t clock, const timespec& until) noexcept {
  for (;;) {
    timespec now;
    if (::clock_gettime(clock, &now) != 0) return LastErrno();
    const std::int64_t left = Nanoseconds(until) - Nanoseconds(now);
    if (left <= 0) return 0;
    if (const int error = SleepFor(call, left, nullptr); error != 0) return error;
  }
}

bool IsAddress(const char* node) noexcept {
  in6_addr address;
  return ::inet_pton(AF_INET, node, &address) == 1 || ::inet_pton(AF_INET6, node, &address) == 1;
}

// Whether the answer needs neither a file nor a server.
bool IsAnsweredAtOnce(const char* node, const char* service) noexcept {
  if (node != nullptr && !IsAddress(node)) return false;
  return service == nullptr ||
         std::all_of(service, service + __builtin_strlen(service), [](char c) { return c >= '0' && c <= '9'; });
}

}  // namespace
}  // namespace weft::hook

using namespace weft::hook;  // NOLINT(google-build-using-namespace): what follows is C.

// What is left, if the fiber is cancelled.
WEFT_HOOK unsigned sleep(unsigned seconds) {
  if (seconds == 0 || !InHookedFiber()) return real::sleep(seconds);
  HookedCall call(counters::sleep);
  timespec left{};
  if (SleepFor(call, seconds * kSecond, &left) == 0) return 0;
  return static_cast<unsigned>(left.tv_sec + (left.tv_nsec != 0));
}

WEFT_HOOK int usleep(useconds_t microseconds) {
  if (microseconds == 0 || !InHookedFiber()) return real::usleep(microseconds);
  HookedCall call(counters::usleep);
  const int error = SleepFor(call, std::int64_t{microseconds} * 1000, nullptr);
  return error == 0 ? 0 : Fail(error);
}

WEFT_HOOK int nanosleep(const timespec* time, timespec* left) {
  if (!IsTime(time) || Nanoseconds(*time) == 0 || !InHookedFiber()) return real::nanosleep(time, left);
  HookedCall call(counters::nanosleep);
  const int error = SleepFor(call, Nanoseconds(*time), left);
  return error == 0 ? 0 : Fail(error);
}

// Returns the errno.
WEFT_HOOK int clock_nanosleep(clockid_t clock, int flags, const timespec* time, timespec* left) {
  if (!IsTime(time) || !IsUsualClock(clock) || !InHookedFiber()) {
    return real::clock_nanosleep(clock, flags, time, left);
  }
  HookedCall call(counters::clock_nanosleep);
  if ((flags & TIMER_ABSTIME) != 0) return SleepUntil(call, clock, *time);
  return Nanoseconds(*time) == 0 ? 0 : SleepFor(call, Nanoseconds(*time), left);
}

WEFT_HOOK int getaddrinfo(const char* node, const char* service, const addrinfo* hints, addrinfo** found) {
  if (!InHookedFiber()) return real::getaddrinfo(node, service, hints, found);
  HookedCall call(counters::getaddrinfo);
  if (IsAnsweredAtOnce(node, service)) return real::getaddrinfo(node, service, hints, found);
  call.CountWait();
  return Fibers().resolve(node, service, hints, found);
}
