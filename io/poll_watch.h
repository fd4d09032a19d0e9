// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// PollWatch: the thread behind PollAttendance's watch, one for the process. It sleeps until a reactor has started its
// watch and nobody attends to that reactor for a while; an idle process never wakes it.
//
// A timerfd per reactor, and the thread sleeps in epoll on them: to start a watch is one system call without a wake-up,
// 0.3 us. (TimerWorker would have to be woken for an earlier deadline: 2 us.)
//
// The thread begins with the first reactor and lives as long as the process. A forked child has one of its own, for the
// reactors that it makes.
#ifndef WEFT_IO_POLL_WATCH_H_
#define WEFT_IO_POLL_WATCH_H_

#include <chrono>
#include <system_error>

namespace weft::io {

class PollWatch {
 public:
  // One who is watched.
  class Watched {
   public:
    // The watch's thread, when the time given to Start() is over.
    virtual void OnWatch() = 0;

   protected:
    ~Watched() = default;
  };

  // Any thread. *watch is the number of the watch, and OnWatch() sees it: it is written under the lock that OnWatch()
  // runs under. False, and *error says why: the system gives no descriptor or no thread.
  [[nodiscard]] static bool Add(Watched* watched, int* watch, std::error_code* error);

  // Any thread; OnWatch() does not run, and will not, when this returns. Not by OnWatch().
  static void Remove(int watch);

  // Any thread; while it runs, a further Start() only changes the time.
  static void Start(int watch, std::chrono::nanoseconds after) noexcept;
};

}  // namespace weft::io

#endif  // WEFT_IO_POLL_WATCH_H_
