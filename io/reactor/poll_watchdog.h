// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// PollWatchdog: the thread of the process that runs the watchdogs of PollerLease. It sleeps until a reactor has started
// its watchdog and the time has passed; an idle process never wakes it.
//
// Without it a request may wait as long as the worker that polled computes (bench/results/io.md). Each reactor has a
// timerfd, and the thread sleeps in epoll on them: to start a watchdog is one system call of 0.3 us, without a wake-up.
// (Waking the TimerWorker for an earlier deadline takes 2 us.)
//
// The thread starts with the first reactor and lives as long as the process. A forked child starts its own.
#ifndef WEFT_IO_REACTOR_POLL_WATCHDOG_H_
#define WEFT_IO_REACTOR_POLL_WATCHDOG_H_

#include <chrono>
#include <system_error>

namespace weft::io {

class PollWatchdog {
 public:
  // The owner of a watchdog.
  class Client {
   public:
    // By the watchdog's thread, when the time given to Start() has passed.
    virtual void OnWatchdog() = 0;

   protected:
    ~Client() = default;
  };

  // Any thread. *watchdog becomes the number of the watchdog; OnWatchdog() sees it, since it runs under the same lock.
  // False: the system refuses a descriptor or the thread, and *error says why.
  [[nodiscard]] static bool Add(Client* client, int* watchdog, std::error_code* error);

  // Any thread, but not OnWatchdog(). After it has returned, OnWatchdog() does not run any more.
  static void Remove(int watchdog);

  // Any thread. If the watchdog has been started, this only changes the time.
  static void Start(int watchdog, std::chrono::nanoseconds after) noexcept;
};

}  // namespace weft::io

#endif  // WEFT_IO_REACTOR_POLL_WATCHDOG_H_
