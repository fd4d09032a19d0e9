// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// OverflowHandler: says which fiber ran over the end of its stack, before the process dies of it.
//
// A fault on a guard is an ordinary SIGSEGV; the default action is silent, and a handler on the same stack could not
// even run. So each worker has an alternate signal stack, and the handler, if the fault lies in the guard of a
// registered stack (stack_registry.h), writes
//
//     weft: stack overflow in fiber parser (id 42), stack size 131072 bytes, stack [0x7f..., 0x7f...), fault at 0x7f...
//     <backtrace>
//
// to stderr, or, if the stack pointer was elsewhere than at the lower end of that stack, whose guard it was that some
// other code ran onto. Any other fault in a fiber gives one line with the fiber's name. Then, and at once for a fault
// outside of fibers, the action that was there before is taken: a handler is called, the default is restored so that
// the fault, repeated, ends the process by its signal (and dumps core where it happened).
//
// Handlers of others. One that was installed before ours comes after our message. One that is installed later, as by
// google::InstallFailureSignalHandler() after StartRuntime(), takes our place, and mostly runs on the very stack that
// is used up, so that the process dies without a word. So CheckOverflowHandler() looks whether ours is still there, and
// if not, puts it in front of the other one again. Each worker does so before its first fiber, and again when it had
// nothing to do for the 2nd, 4th, 8th, ... time. And when nobody has looked for kLookAtHandlersEvery, a worker does so
// that gets up from its sleep, before it runs a fiber, and so does the monitor of time slices, while workers are up
// (scheduling_group/slice_monitor.h). So a handler that is installed while nothing runs has ours before it; of one that
// is installed while fibers run, faults in the next tenth of a second are silent.
//
// Invariants
//   OH1  A fault is passed on to each former action at most once, the latest first: a handler that was installed over
//        ours may call ours as its own former one, and then the one before it has its turn.
//
// Everything in the handler is async-signal-safe, save backtrace() and backtrace_symbols_fd(): they were called once
// before, so that their library is loaded, and they come after the message.
//
// Not seen: a frame larger than the guard that jumps over it, in code compiled without -fstack-clash-protection (see
// StackPool::Options::guard_size); a stack without guard (stack_guards.h).
//
// Who may call: all functions, any thread. The handler is installed once per process and never removed.
//
// Rejected: to take the place of sigaction() (a function of libc's name in a static library, which a program may find
// or not, depending on how it is linked); a look before each fiber (a system call).

#ifndef WEFT_CONTEXT_OVERFLOW_HANDLER_H_
#define WEFT_CONTEXT_OVERFLOW_HANDLER_H_

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>

namespace weft::context {

struct OverflowInfo {
  // Set by the handler.
  const void* fault_address = nullptr;
  const void* stack_low = nullptr;
  const void* stack_high = nullptr;
  // To be set by the hook.
  const char* name = "";
  std::uint64_t id = 0;
  const void* stack_top = nullptr;  // of its stack; nullptr: unknown
};

// Fills name and id of the fiber that runs on the calling thread; false if none does. Async-signal-safe.
using DescribeRunningFiber = bool (*)(OverflowInfo* info);

// nullptr: no description. Takes effect for all threads.
void SetDescribeRunningFiber(DescribeRunningFiber describe);

// For SIGSEGV and SIGBUS. Calls after the first do nothing.
void InstallOverflowHandler();

// Puts it in front of a handler that was installed over it. Nothing if it was not installed. Two system calls.
void CheckOverflowHandler();

// The same, if nobody has done it for so long: not at each call, for a handler that is installed for a moment and taken
// away again is better left alone. A read of a coarse clock.
inline constexpr std::chrono::milliseconds kLookAtHandlersEvery{100};
void CheckOverflowHandlerNowAndThen();

// The calling thread's signal handlers run on a stack of their own (with a guard) as long as this lives. Destroyed by
// the same thread. If there is no memory for it the thread keeps what it has, and an overflow is silent.
class AlternateSignalStack {
 public:
  AlternateSignalStack();
  AlternateSignalStack(const AlternateSignalStack&) = delete;
  AlternateSignalStack& operator=(const AlternateSignalStack&) = delete;
  ~AlternateSignalStack();

 private:
  void* mapping_ = nullptr;
  std::size_t mapped_size_ = 0;
  stack_t former_ = {};
};

}  // namespace weft::context

#endif  // WEFT_CONTEXT_OVERFLOW_HANDLER_H_
