// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/watch/watch_timers.h"

#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "weft/base/report/check.h"

namespace weft::scheduling_group {
namespace {

using TimePoint = std::chrono::steady_clock::time_point;

// -1, and errno.
int AddTimerTo(int epoll) noexcept {
  const int timer = ::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  // Edge-triggered: each expiry is reported once, although no thread reads the timer.
  epoll_event event{.events = EPOLLIN | EPOLLET, .data = {.fd = timer}};
  if (timer < 0 || ::epoll_ctl(epoll, EPOLL_CTL_ADD, timer, &event) == 0) return timer;
  const int error = errno;
  ::close(timer);
  errno = error;
  return -1;
}

// For epoll_wait(): in whole milliseconds, not too early. -1: for ever.
int TimeoutUntil(TimePoint until) noexcept {
  if (until == TimePoint::max()) return -1;
  constexpr std::chrono::milliseconds kMost = std::chrono::hours(1);
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
  return static_cast<int>(std::clamp(left, std::chrono::milliseconds(0), kMost).count());
}

}  // namespace

bool WatchTimers::Open() {
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  if (epoll < 0) return false;
  interrupter_ = AddTimerTo(epoll);
  if (interrupter_ < 0) {
    const int error = errno;
    ::close(epoll);
    errno = error;
    return false;
  }
  epoll_.store(epoll, std::memory_order_release);
  return true;
}

bool WatchTimers::Add(Client* client, int* timer, std::error_code* error) {
  const std::lock_guard guard(mutex_);
  const int made = open() || Open() ? AddTimerTo(epoll_.load(std::memory_order_relaxed)) : -1;
  if (made < 0) {
    *error = std::error_code(errno, std::generic_category());
    return false;
  }
  clients_[made] = client;
  *timer = made;
  return true;
}

void WatchTimers::Remove(int timer) {
  const std::lock_guard guard(mutex_);
  clients_.erase(timer);
  ::close(timer);
}

void WatchTimers::Start(int timer, std::chrono::nanoseconds after) noexcept {
  itimerspec once{};
  once.it_value.tv_sec = after / std::chrono::seconds(1);
  once.it_value.tv_nsec = (after % std::chrono::seconds(1)).count();
  WEFT_CHECK(::timerfd_settime(timer, 0, &once, nullptr) == 0, "Watchdog: timerfd_settime: ", std::strerror(errno));
}

void WatchTimers::SleepUntil(TimePoint until) {
  const int epoll = epoll_.load(std::memory_order_relaxed);
  for (;;) {
    epoll_event event;
    const int found = ::epoll_wait(epoll, &event, 1, TimeoutUntil(until));
    WEFT_CHECK(found >= 0 || errno == EINTR, "Watchdog: epoll_wait fails with error ", errno,
               ": was its descriptor closed by somebody else?");
    if (found > 0 && event.data.fd == interrupter_) return;
    if (found > 0) {
      const std::lock_guard guard(mutex_);
      if (const auto client = clients_.find(event.data.fd); client != clients_.end()) client->second->OnTimer();
    }
    if (std::chrono::steady_clock::now() >= until) return;
  }
}

}  // namespace weft::scheduling_group
