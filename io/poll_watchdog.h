// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// PollWatchdog: the thread behind PollerLease's watchdog, one for the process. It sleeps until a reactor has started
// its watchdog and nobody polls that reactor for a while; an idle process never wakes it.
//
// What it buys: a request that comes while the worker that polled computes for 10 ms is served after 0.5 to 1 ms, and
// not after 10 (bench/README.md, "A request beside a fiber that computes").
//
// A timerfd per reactor, and the thread sleeps in epoll on them: to start a watchdog is one system call without a
// wake-up, 0.3 us. (TimerWorker would have to be woken for an earlier deadline: 2 us.)
//
// The thread begins with the first reactor and lives as long as the process. A forked child has one of its own, for the
// reactors that it makes.
#ifndef WEFT_IO_POLL_WATCHDOG_H_
#define WEFT_IO_POLL_WATCHDOG_H_

#include <chrono>
#include <system_error>

namespace weft::io {

class PollWatchdog {
 public:
  // What the watchdog is set for.
  class Client {
   public:
    // The watchdog's thread, when the time given to Start() is over.
    virtual void OnWatchdog() = 0;

   protected:
    ~Client() = default;
  };

  // Any thread. *watchdog is the number of the watchdog, and OnWatchdog() sees it: it is written under the lock that
  // OnWatchdog() runs under. False, and *error says why: the system gives no descriptor or no thread.
  [[nodiscard]] static bool Add(Client* client, int* watchdog, std::error_code* error);

  // Any thread; OnWatchdog() does not run, and will not, when this returns. Not by OnWatchdog().
  static void Remove(int watchdog);

  // Any thread; while it runs, a further Start() only changes the time.
  static void Start(int watchdog, std::chrono::nanoseconds after) noexcept;
};

}  // namespace weft::io

#endif  // WEFT_IO_POLL_WATCHDOG_H_
