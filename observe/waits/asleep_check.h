// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// AsleepCheck: whether all fibers wait, and nothing but the calling thread can ever wake one.
//
// Who can wake a fiber: another fiber, a thread, a timer, an event of a descriptor, a signal's handler (by way of a
// thread or a descriptor). What a thread of the program's own is about to do nobody knows. But the kernel knows whether
// it does anything: a thread that waits in a futex without a time-out waits for another thread of this process. If all
// threads sleep so, nobody ever runs again, whatever they are for. So the check asks for evidence against each way to
// go on, and says no as soon as it finds one:
//
//   fibers        each is parked
//   threads       each waits for another thread (thread_states.h); or is a worker that polls a reactor without
//                 descriptors, a timer thread that runs no callback, an idle thread of the blocking pool, or one that
//                 watches (kWatchers), and calls no function of the user's (base/thread/watcher_acts.h)
//   timers        none is set; a test clock fires none
//   descriptors   none is registered with a reactor
//   handlers      the program handles no signal (OwnSignals() aside); or there are no threads but Weft's, as a handler
//                 may not wake fibers
//
// All of it is looked at twice: fibers and threads must be found in the same waits.
//
// Invariants
//   ASC1  It says yes only if there was an instant at which all fibers were parked, and all threads but the caller
//        slept, woken by nobody: nothing has moved between the two looks (park_reader.h, thread_states.h).
//   ASC2  It may say no for ever although all is over: a descriptor that is registered but not waited for, a thread in
//        a system call that never returns, a handler that never comes. ThreadSanitizer has a thread that naps.
// One thread at a time.
// Rejected: counts of waits by their reasons alone (whether a thread will wake a fiber is not known then, and a report
// would be a guess); a count of threads that wait in Weft (threads that wait for those elsewhere would not count).
#ifndef WEFT_OBSERVE_WAITS_ASLEEP_CHECK_H_
#define WEFT_OBSERVE_WAITS_ASLEEP_CHECK_H_

#include <string>
#include <vector>

#include "weft/observe/waits/park_reader.h"
#include "weft/observe/waits/thread_states.h"

namespace weft::observe {

class AsleepCheck {
 public:
  explicit AsleepCheck(MemoryReader* memory) : parks_(memory) {}

  // "": all are asleep. Else one reason why not.
  std::string WhyNot();

 private:
  struct Look {
    std::vector<Park> parks;
    std::vector<ThreadState> threads;
  };

  std::string LookAtAll(Look* look);

  ParkReader parks_;
};

}  // namespace weft::observe

#endif  // WEFT_OBSERVE_WAITS_ASLEEP_CHECK_H_
