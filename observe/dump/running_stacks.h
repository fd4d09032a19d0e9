// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// RunningStacks: the stack of a fiber that runs, copied by the thread that runs it.
//
// The dump asks a worker's thread by a signal, SIGURG, whose default is to be ignored. The handler copies the registers
// and the used part of the stack into the one buffer of the process, and the worker goes on; the dump unwinds the copy.
//
//      dump                                          handler, on the thread that is asked
//      ----                                          -------------------------------------
//      kFree, kCopied -> kAsked, sends the signal, waits
//                                                    kAsked -> kCopying, copies, -> kCopied
//      takes the copy
//      or, if the time is up:  kAsked -> kFree
//
// A thread does not answer while it is blocked in the kernel where signals do not reach it, blocks the signal or has no
// CPU: then the fiber is shown without its stack. If the time is up while it copies, it keeps the buffer, and other
// dumps find that taken until the thread has had a CPU again.
//
// Invariants
//   RNS1  The buffer belongs to the thread that has made the word kCopying, until it stores kCopied; else to the holder
//        of the lock. It is static: a late handler never writes to memory that is gone.
//   RNS2  The handler waits for nothing, and takes no lock and no memory. It copies kMostStack bytes at most, in some
//        10 us: no worker stands still for 1 ms.
//   RNS3  A dump waits kMostWait for one thread and kMostWaits in all, for the lock, too: a forked child may find it
//        held for ever, and shows no stacks of fibers that ran then.
//   RNS4  A handler acts only if the word has its thread's number. A signal that comes late does nothing, nor does one
//        to a thread whose number was another's.
//
// The signal interrupts system calls of the fiber. With SA_RESTART most go on by themselves. signal(7) lists those that
// fail with EINTR nevertheless: sleeps, poll(), epoll_wait(), reads of sockets that have a time-out.
//
// A program that handles SIGURG itself keeps it: why_not() says so. ThreadSanitizer delays signals until the registers
// are those of the past; there, too, nobody is asked. Any thread; each dump has its own RunningStacks.
// Rejected: to stop the worker while the dump reads its stack (a dump without CPU would stop it for long); ptrace (a
// process of its own); a signal of real time (its default action ends a program that was just started by exec()).
#ifndef WEFT_OBSERVE_DUMP_RUNNING_STACKS_H_
#define WEFT_OBSERVE_DUMP_RUNNING_STACKS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "weft/observe/dump/stack_unwinder.h"

namespace weft::scheduling_group {
class FiberEntity;
}

namespace weft::observe {

class RunningStacks {
 public:
  static constexpr std::chrono::milliseconds kMostWait{100};
  static constexpr std::chrono::milliseconds kMostWaits{500};
  static constexpr std::size_t kMostStack = 256 * 1024;

  // wanted: false: it copies none.
  explicit RunningStacks(bool wanted = true);

  // "": it can copy stacks.
  const std::string& why_not() const { return why_not_; }

  // The calling thread stands in a signal's handler, with a stack of its own, and will not come back. From now on it
  // answers with what the signal has interrupted: the stack of its fiber. Async-signal-safe.
  static void AnswerFor(const void* machine_context) noexcept;

  // The stack of `fiber` if it has this id and a worker stands on it; nullptr: none does, or it did not answer. Good
  // until the next call.
  const StackCopy* Copy(const scheduling_group::FiberEntity* fiber, std::uint64_t id);

 private:
  using TimePoint = std::chrono::steady_clock::time_point;

  bool Ask(int thread, TimePoint until);
  bool Take(std::uint64_t id);

  std::string why_not_;
  std::chrono::nanoseconds left_ = kMostWaits;
  StackCopy copy_;
  std::vector<std::uint64_t> words_;
  std::vector<std::uint64_t> registers_;
};

}  // namespace weft::observe

#endif  // WEFT_OBSERVE_DUMP_RUNNING_STACKS_H_
