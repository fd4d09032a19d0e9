// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Reports which fiber overflowed its stack, before the process dies of it.
//
// A fault on a guard is a SIGSEGV: silent by default, and no handler could run on the exhausted stack. So each worker
// has an alternate signal stack. For a fault in the guard of a registered stack (stack_registry.h) the handler writes
//
//     weft: stack overflow in fiber parser (id 42), stack size 131072 bytes, stack [0x7f..., 0x7f...), fault at 0x7f...
//     <backtrace>
//
// to stderr; so it does for one on the guard of another stack, and says so. Then, and at once for all other faults, the
// handler takes the former action: it calls a handler, or restores the default, so that the repeated fault ends the
// process by its signal (and dumps core where it happened). If that was the default, a fault in a fiber gives a line
// with the fiber's name before, and base::CallFatalErrorHook() (base/report/check.h). One that a handler of the
// program's gets gives none: it may be no error (the write barrier of a garbage collector, a trap of a WebAssembly
// engine).
//
// A former handler finds what the kernel would give it: SA_SIGINFO's arguments, sa_mask and the signal blocked (not by
// SA_NODEFER), so that it may leave by longjmp(); SA_RESETHAND makes it run once; SA_RESTART holds. Only the stack is
// the alternate one in any case, where the thread has one.
//
// Handlers of others. A handler installed before ours runs after our message. One installed later, as by
// google::InstallFailureSignalHandler() after StartRuntime(), replaces ours and mostly runs on the exhausted stack, so
// the process dies silently. Hence CheckOverflowHandler() puts ours in front again. Each worker calls it before its
// first fiber and when it was idle for the 2nd, 4th, 8th, ... time; if nobody has for kLookAtHandlersEvery, a worker
// that wakes up does, before it runs a fiber, and so does the Watchdog while workers are up
// (scheduling_group/watch/watchdog.h). So after a handler is installed while fibers run, faults of the next tenth
// of a second are silent.
//
// Invariants
//   OH1  A fault is passed on to each former action at most once, the latest first: a handler installed over ours may
//        call ours as its own former one, and then the one before it runs.
//   OH2  A former action with SA_RESETHAND is taken once, until the program installs it anew: `spent`.
//
// Everything in the handler is async-signal-safe, save backtrace() and backtrace_symbols_fd(): these were called once
// before, so that their library is loaded, and they come after the message.
//
// Not seen: a frame larger than the guard that jumps over it, in code compiled without -fstack-clash-protection (see
// StackPool::Options::guard_size); a stack without guard (stack_guards.h).
//
// Who may call: all functions, any thread. The handler is installed once per process and never removed.
//
// Rejected: replacing sigaction() (whether a program links a static library's function of libc's name depends on the
// link line); a check before each fiber (a system call).
#ifndef WEFT_CONTEXT_STACK_OVERFLOW_HANDLER_H_
#define WEFT_CONTEXT_STACK_OVERFLOW_HANDLER_H_

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

// The same, if nobody has done it for so long: a handler that is installed for a moment and removed again is better
// left alone. Reads a coarse clock.
inline constexpr std::chrono::milliseconds kLookAtHandlersEvery{100};
void CheckOverflowHandlerNowAndThen();

// Gives the calling thread's signal handlers a stack of their own (with a guard) while this lives. The same thread
// destroys it. Without memory the thread keeps what it has, and an overflow is silent.
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

#endif  // WEFT_CONTEXT_STACK_OVERFLOW_HANDLER_H_
