// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/reactor/poller_lease.h"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <unordered_map>

#include "weft/base/report/check.h"
#include "weft/numa/memory/affinity.h"

namespace weft::io {
namespace {

struct State {
  std::mutex mutex;                                          // Held while OnWatchdog() runs.
  std::unordered_map<int, PollWatchdog::Client*> clients{};  // By timer.
  int epoll = -1;                                            // The thread sleeps in it.
};

// Of the process, never destroyed. nullptr: not made yet.
constinit std::atomic<State*> state{nullptr};

// The child does not have the parent's thread, which may hold the lock.
void ForgetTheState() { state.store(nullptr, std::memory_order_relaxed); }

[[maybe_unused]] const int at_fork = ::pthread_atfork(nullptr, nullptr, &ForgetTheState);

State& TheState() {
  // acquire, both: the object. Pair with the release.
  State* found = state.load(std::memory_order_acquire);
  if (found != nullptr) return *found;
  auto made = std::make_unique<State>();
  if (!state.compare_exchange_strong(found, made.get(), std::memory_order_release, std::memory_order_acquire)) {
    return *found;
  }
  return *made.release();
}

void RunWatchdog(State* of_process, int epoll) {
  ::pthread_setname_np(::pthread_self(), "FiberWatchdog");
  // The first I/O makes the thread, perhaps on a worker bound to a CPU.
  numa::RunWhereTheFirstThreadOf(::getpid());
  for (;;) {
    epoll_event event;
    if (::epoll_wait(epoll, &event, 1, -1) != 1) {
      WEFT_CHECK(errno == EINTR, "poll watchdog: epoll_wait fails with error ", errno,
                 ": was its descriptor closed by somebody else?");
      continue;
    }
    std::lock_guard guard(of_process->mutex);
    const auto found = of_process->clients.find(event.data.fd);
    if (found != of_process->clients.end()) found->second->OnWatchdog();
  }
}

// Returns the epoll descriptor in which the thread sleeps; -1: *error says why.
int StartThread(State* of_process, std::error_code* error) {
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  if (epoll < 0) {
    *error = std::error_code(errno, std::generic_category());
    return -1;
  }
  try {
    std::thread(RunWatchdog, of_process, epoll).detach();
  } catch (const std::system_error& refused) {
    ::close(epoll);
    *error = refused.code();
    return -1;
  }
  return epoll;
}

}  // namespace

bool PollWatchdog::Add(Client* client, int* watchdog, std::error_code* error) {
  State& of_process = TheState();
  std::lock_guard guard(of_process.mutex);
  if (of_process.epoll < 0) of_process.epoll = StartThread(&of_process, error);
  if (of_process.epoll < 0) return false;
  const int timer = ::timerfd_create(CLOCK_MONOTONIC, TFD_NONBLOCK | TFD_CLOEXEC);
  // Edge-triggered: each expiry is reported once, although no thread reads the timer.
  epoll_event event{.events = EPOLLIN | EPOLLET, .data = {.fd = timer}};
  if (timer >= 0 && ::epoll_ctl(of_process.epoll, EPOLL_CTL_ADD, timer, &event) == 0) {
    of_process.clients[timer] = client;
    *watchdog = timer;
    return true;
  }
  *error = std::error_code(errno, std::generic_category());
  if (timer >= 0) ::close(timer);
  return false;
}

void PollWatchdog::Remove(int watchdog) {
  State& of_process = TheState();
  std::lock_guard guard(of_process.mutex);
  of_process.clients.erase(watchdog);
  ::close(watchdog);
}

void PollWatchdog::Start(int watchdog, std::chrono::nanoseconds after) noexcept {
  itimerspec once{};
  once.it_value.tv_sec = after / std::chrono::seconds(1);
  once.it_value.tv_nsec = (after % std::chrono::seconds(1)).count();
  WEFT_CHECK(::timerfd_settime(watchdog, 0, &once, nullptr) == 0, "io: timerfd_settime: ", std::strerror(errno));
}

}  // namespace weft::io
