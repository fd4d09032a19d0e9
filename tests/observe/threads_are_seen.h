// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// For tests that wait until a thread is seen asleep.
#ifndef WEFT_TESTS_OBSERVE_THREADS_ARE_SEEN_H_
#define WEFT_TESTS_OBSERVE_THREADS_ARE_SEEN_H_

#include <sys/syscall.h>

#include <fstream>
#include <iterator>
#include <string>

#include "weft/base/report/build_mode.h"
#include "weft/observe/waits/thread_states.h"

namespace weft::observe {

// Whether the kernel says in which system call a thread is, in this program's numbers (not in an emulator): who reads
// what it says of the reader is in read().
inline bool ThreadsAreSeen() {
  std::ifstream file("/proc/thread-self/syscall");
  const std::string line((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  ThreadState state;
  ParseSystemCall(line, {}, &state);
  return state.system_call == SYS_read;
}

// Whether AllFibersAreAsleep() may be sure.
inline bool SleepIsSeen() {
  return !WEFT_TSAN && ThreadsAreSeen();  // ThreadSanitizer's own thread naps.
}

}  // namespace weft::observe

#endif  // WEFT_TESTS_OBSERVE_THREADS_ARE_SEEN_H_
