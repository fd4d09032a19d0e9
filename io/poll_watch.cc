// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/poll_watch.h"

#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <mutex>
#include <system_error>
#include <thread>
#include <unordered_map>

#include "weft/base/check.h"

namespace weft::io {
namespace {

// The thread is made by whoever does input first, maybe a worker that is bound to its CPU. It may run where the process
// may, as its first thread does.
void BindWhereTheProcessMayRun() {
  cpu_set_t cpus;
  if (::sched_getaffinity(::getpid(), sizeof(cpus), &cpus) == 0) (void)::sched_setaffinity(0, sizeof(cpus), &cpus);
}

// Who is watched, by timer. The lock is held while OnWatch() runs.
std::mutex watched_mutex;
std::unordered_map<int, PollWatch::Watched*>& TheWatched() {
  static auto* const watched = new std::unordered_map<int, PollWatch::Watched*>;
  return *watched;
}

void Watch(int epoll) {
  ::pthread_setname_np(::pthread_self(), "FiberPollWatch");
  BindWhereTheProcessMayRun();
  for (;;) {
    epoll_event event;
    if (::epoll_wait(epoll, &event, 1, -1) != 1) continue;
    std::lock_guard guard(watched_mutex);
    const auto found = TheWatched().find(event.data.fd);
    if (found != TheWatched().end()) found->second->OnWatch();
  }
}

// The epoll descriptor that the thread sleeps in; -1: *error.
int StartThread(std::error_code* error) {
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  if (epoll < 0) {
    *error = std::error_code(errno, std::generic_category());
    return -1;
  }
  try {
    std::thread(Watch, epoll).detach();
  } catch (const std::system_error& refused) {
    ::close(epoll);
    *error = refused.code();
    return -1;
  }
  return epoll;
}

}  // namespace

bool PollWatch::Add(Watched* watched, int* watch, std::error_code* error) {
  static int epoll = -1;
  std::lock_guard guard(watched_mutex);
  if (epoll < 0) epoll = StartThread(error);
  if (epoll < 0) return false;
  const int timer = ::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  // Edge-triggered: each expiry is told once, nobody reads the timer.
  epoll_event event{.events = EPOLLIN | EPOLLET, .data = {.fd = timer}};
  if (timer >= 0 && ::epoll_ctl(epoll, EPOLL_CTL_ADD, timer, &event) == 0) {
    TheWatched()[timer] = watched;
    *watch = timer;
    return true;
  }
  *error = std::error_code(errno, std::generic_category());
  if (timer >= 0) ::close(timer);
  return false;
}

void PollWatch::Remove(int watch) {
  std::lock_guard guard(watched_mutex);
  TheWatched().erase(watch);
  ::close(watch);
}

void PollWatch::Start(int watch, std::chrono::nanoseconds after) noexcept {
  itimerspec once{};
  once.it_value.tv_sec = after / std::chrono::seconds(1);
  once.it_value.tv_nsec = (after % std::chrono::seconds(1)).count();
  WEFT_CHECK(::timerfd_settime(watch, 0, &once, nullptr) == 0, "io: timerfd_settime: ", std::strerror(errno));
}

}  // namespace weft::io
