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
// to stderr. Then, and at once for every other fault, the action that was there before InstallOverflowHandler() is
// taken: a handler is called, the default is restored so that the fault, repeated, ends the process by its signal
// (and dumps core where it happened).
//
// Everything in the handler is async-signal-safe, save backtrace() and backtrace_symbols_fd(): they were called once
// before, so that their library is loaded, and they come after the message.
//
// A fault in a guard of a stack that is not the running one (a wild pointer) reads the same; the address range tells.
// Not seen: a frame larger than the guard that jumps over it (see StackPool::Options::guard_size); a stack without
// guard (stack_pool.h).
//
// Who may call: InstallOverflowHandler() and SetDescribeRunningFiber(), any thread. The handler is installed once per
// process and never removed.

#ifndef WEFT_CONTEXT_OVERFLOW_HANDLER_H_
#define WEFT_CONTEXT_OVERFLOW_HANDLER_H_

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
};

// Fills name and id of the fiber that runs on the calling thread; false if none does. Async-signal-safe.
using DescribeRunningFiber = bool (*)(OverflowInfo* info);

// nullptr: no description. Takes effect for all threads.
void SetDescribeRunningFiber(DescribeRunningFiber describe);

// For SIGSEGV and SIGBUS. Calls after the first do nothing.
void InstallOverflowHandler();

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
