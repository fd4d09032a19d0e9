// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// WatchTimers: what a layer above wants the Watchdog to look at soon. A client starts its timer by one system call of
// 0.3 us, without a wake-up: each has a timerfd, and the Watchdog sleeps in an epoll on them (watchdog.h) from the
// first Add() on. io/reactor/epoll_reactor.h is such a client: somebody must poll while the worker that did computes.
//
// Invariants
//   WTI1  OnTimer() runs under mutex_, on the Watchdog's thread. So it sees what Add() has stored, and when Remove()
//         has returned it neither runs nor will run.
//   WTI2  Interrupt() ends the SleepUntil() that runs, or the next one: the interrupter's expiry stays in the epoll
//         until it is reported. A late one makes the Watchdog check early, which is harmless.
//
// Add(), Remove(), but not in OnTimer(); Start(), Interrupt(): any thread. SleepUntil(): the Watchdog. While none runs
// (no worker does) a timer that is due waits for the next one.
// Rejected: a deadline that the Watchdog is woken for if it sleeps for longer, as the TimerWorker (2 us a request).
#ifndef WEFT_SCHEDULING_GROUP_WATCH_WATCH_TIMERS_H_
#define WEFT_SCHEDULING_GROUP_WATCH_WATCH_TIMERS_H_

#include <atomic>
#include <chrono>
#include <mutex>
#include <system_error>
#include <unordered_map>

namespace weft::scheduling_group {

class WatchTimers {
 public:
  class Client {
   public:
    // When the time given to Start() has passed.
    virtual void OnTimer() = 0;

   protected:
    ~Client() = default;
  };

  // *timer becomes the number of the timer. False: the system refuses a descriptor, and *error says why.
  [[nodiscard]] bool Add(Client* client, int* timer, std::error_code* error);
  void Remove(int timer);
  // If the timer has been started, this only changes the time.
  static void Start(int timer, std::chrono::nanoseconds after) noexcept;

  // Add() has succeeded once.
  bool open() const noexcept { return epoll_.load(std::memory_order_acquire) >= 0; }
  // Runs what becomes due. Once open().
  void SleepUntil(std::chrono::steady_clock::time_point until);
  void Interrupt() noexcept { Start(interrupter_, std::chrono::nanoseconds(1)); }

 private:
  [[nodiscard]] bool Open();

  std::mutex mutex_;
  std::unordered_map<int, Client*> clients_;  // by timer; guarded by mutex_
  int interrupter_ = -1;                      // a timer, too
  std::atomic<int> epoll_{-1};                // release: carries interrupter_. Pairs with the acquire in open().
};

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_WATCH_WATCH_TIMERS_H_
