// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// ReadThreads(): what the threads of this process do, as the kernel sees it: /proc/self/task.
//
// A thread that waits in a private futex without a time-out is woken by another thread of the process or by nobody: so
// sleeps a thread that waits for a mutex, a condition variable or a fiber. What ends a wait in another system call may
// come from outside.
//
// pthread_join() waits in a futex that is not private, for the kernel to clear the other thread's number there. It
// looks like any wait in memory that is shared with another process, whose value is a thread's number by accident;
// whose memory it is tells them apart.
//
// The kernel takes a thread that it stops (for a debugger, by SIGSTOP) out of its futex, and lets it look again when it
// goes on: a wake-up meanwhile finds nobody to wake, and is not lost.
//
// `switches` is read before the state and after it, and grows when a thread stops running. So a thread that is found
// asleep twice, with the same number, has slept in between. One that has been woken is no longer asleep, even before it
// has a CPU.
//
// Any thread. Cost: some 50 us for each thread.
#ifndef WEFT_OBSERVE_WAITS_THREAD_STATES_H_
#define WEFT_OBSERVE_WAITS_THREAD_STATES_H_

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::observe {

struct ThreadState {
  enum class Kind : std::uint8_t {
    kRuns,        // or is ready to
    kForThread,   // only another thread of the process can wake it
    kForTime,     // as kForThread, but with a time-out
    kPolls,       // in epoll_wait() of `descriptor`, without a time-out
    kSystemCall,  // in `system_call`
    kStopped,     // in one of these waits, but stopped by a debugger or a signal, or in a page fault
    kUnreadable,  // its state is hidden from us, or it has ended
  };

  pid_t tid = 0;
  std::string name;
  Kind kind = Kind::kUnreadable;
  int descriptor = -1;
  long system_call = -1;
  std::uint64_t futex = 0;          // its address, of kForThread
  bool shared_futex = false;        // of kForThread: and whoever else has that memory (IsOwnMemory())
  std::uint64_t stack_pointer = 0;  // 0: it runs
  std::uint64_t switches = 0;

  // "thread 'main' (tid 17) runs".
  std::string ToString() const;
  // Has not run in between.
  bool IsStill(const ThreadState& before) const {
    return tid == before.tid && kind == before.kind && switches == before.switches;
  }
};

// All threads but the caller, by their numbers. Nothing: /proc cannot be read.
std::optional<std::vector<ThreadState>> ReadThreads();

// Of a line of /proc/<pid>/task/<tid>/syscall. `threads`: the numbers of all threads, in order.
void ParseSystemCall(std::string_view line, const std::vector<pid_t>& threads, ThreadState* state);

// Whether no other process has the memory at that address: it is private, and of no file. Reads the list of mappings.
bool IsOwnMemory(std::uint64_t address);

// Signals that the program handles, as a mask (signal n: bit n - 1), but for faults and what the C library takes.
// Nothing: unknown.
std::optional<std::uint64_t> HandledSignals();

}  // namespace weft::observe

#endif  // WEFT_OBSERVE_WAITS_THREAD_STATES_H_
