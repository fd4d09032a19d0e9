// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Deadlocks: AllFibersAreAsleep() knows whether nothing can go on any more; DeadlockWatch looks again and again, and
// logs that and cycles of waits (wait_cycles.h).
// Sample:
//   weft::StartRuntime();
//   const weft::DeadlockWatch watch;  // in main(), while the program runs
//
//     weft: all fibers are asleep: nothing can wake any
//     weft: 3 fibers: 3 parked, 0 ready, 0 new, 0 running
//
//     fiber 'consumer' (id 2), parked: condition_variable 0x7ffc1b8, for 1.2 s, in group 0
//       ...
//
// What is known. All fibers are asleep if each of them is parked, no timer is set, no descriptor is registered with a
// reactor, and every thread of the process but the caller waits for another thread of the process, for ever. The kernel
// says so of each thread: whether it waits in Weft, for a std::mutex or for a thread's end makes no difference. As Go's
// "all goroutines are asleep", this is never a false alarm; but where a thread of the program's own sleeps in a system
// call, computes or waits with a time-out, it may be about to wake a fiber, and the answer is no. So it is
//
//   - with a socket that a fiber has waited for and that is open still; with a timer far away
//   - if the program handles a signal (not that of DumpFibersOnSignal()) and has threads besides Weft's and the caller:
//     the handler may wake one
//   - while a debugger, or strace, holds a thread; when main() has ended by pthread_exit()
//   - under ThreadSanitizer, which has a thread of its own; where /proc is not mounted or hidden
//
// All of this is known some milliseconds after the last thread has gone to sleep. Cycles of mutexes, joins and scopes
// are found at any time, whatever the others do.
#ifndef WEFT_OBSERVE_DEADLOCK_H_
#define WEFT_OBSERVE_DEADLOCK_H_

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace weft {

// Whether all fibers are asleep, and nobody but the calling thread can wake any. False: it is not so, or not known;
// *why_not: one reason. Any thread, at any time; a fiber gets false. Costs 2 us for each fiber and some 0.1 ms for each
// thread of the process, if all sleep.
bool AllFibersAreAsleep(std::string* why_not = nullptr);

// Reports what is new since its last look, for a thread that looks now and then. It should be one that wakes no fiber
// itself: what the caller is about to do is not known. One thread at a time. Throws std::bad_alloc.
class DeadlockFinder {
 public:
  // Cycles of waits with their stacks; workers that wait for a std::mutex which they have locked themselves, for
  // another fiber (observe/waits/std_mutex_waits.h); and a dump when all fibers have fallen asleep. "": nothing new. A
  // cycle that a deadline or a cancellation ends is left out.
  std::string Look();

  // Whether somebody waits for ever, whoever is cancelled: all fibers are asleep, or some wait in a cycle without a
  // join. The report; "": no. The caller: as above.
  static std::string FindDeadEnd();

 private:
  std::string LookForCycles();
  std::string LookForStdMutexes();
  using CycleKey = std::vector<std::pair<std::uint64_t, std::uint64_t>>;  // id and park of each fiber, in order

  std::set<CycleKey> known_cycles_;
  std::set<std::pair<std::uint64_t, std::uint64_t>> known_mutexes_;  // of std, and the fiber that waits
  bool asleep_ = false;
};

// How a DeadlockWatch looks, and what it does.
struct DeadlockWatchOptions {
  // Between two looks. Longer if a look takes more than a tenth of that.
  std::chrono::milliseconds every = std::chrono::seconds(1);
  // Called by the watch's thread for each report. Empty: the log, as an error.
  std::function<void(const std::string&)> report = {};
};

// A thread that looks for deadlocks while it lives; at any time, also without a runtime. A plain thread makes and
// destroys it. Throws std::system_error if there is no thread for it.
class DeadlockWatch {
 public:
  // Looks at once, and then each `every`.
  explicit DeadlockWatch(DeadlockWatchOptions options = {});
  ~DeadlockWatch();
  DeadlockWatch(const DeadlockWatch&) = delete;
  DeadlockWatch& operator=(const DeadlockWatch&) = delete;

 private:
  class Thread;

  std::unique_ptr<Thread> thread_;
};

}  // namespace weft

#endif  // WEFT_OBSERVE_DEADLOCK_H_
