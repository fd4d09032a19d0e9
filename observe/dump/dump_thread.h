// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// DumpThread: the thread FiberDump of the process, which writes dumps to stderr: after a signal, and before a death.
//
//      a signal's handler, a thread that dies         FiberDump
//      --------------------------------------         ---------
//                                                     sleeps
//      asks, wakes it                          ->     dumps
//      the thread that dies waits until it is done,
//      kMostTime at most, and dies
//
// A dump allocates, loads libdw, takes locks. The thread that dies may hold any lock, from now on for ever, and may
// have broken the heap. So it makes no dump itself: it waits for a healthy thread that does, and dies when the time is
// up, whatever the dump waits for.
//
// Invariants
//   DTH1  AskForDump() and DumpBeforeDeath() are async-signal-safe: atomics, a futex wake, poll(), write(), dup2().
//   DTH2  DumpBeforeDeath() comes back after kMostTime at most. If stderr has no room then (a pipe that nobody reads,
//        full of the dump), it is replaced by /dev/null: what else the process says would wait for ever. In FiberDump,
//        once a thread has asked for the dump of its death, DumpBeforeDeath() never comes back: a fault in the dump
//        ends the dump, and the process dies of what it was about to die of.
//   DTH3  A process dumps once for a death: later threads that die wait for the same dump, and nobody waits again when
//        it was given up. It has kMostGroups groups of fibers at most, with kMostFrames frames each, and only fibers
//        that can be looked at in kMostReading.
//   DTH4  A forked child has no such thread until its own Start(): what it asks for does not happen.
//   DTH5  Without a signal that asks for dumps the thread ends with the runtime: a program may need to have one thread
//        only (fork() under ThreadSanitizer, unshare()). A thread that dies just then may wait kMostTime in vain.
//
// AskForDump(), DumpBeforeDeath(): any thread and any signal handler. The others: any thread.
#ifndef WEFT_OBSERVE_DUMP_DUMP_THREAD_H_
#define WEFT_OBSERVE_DUMP_DUMP_THREAD_H_

#include <chrono>
#include <cstddef>
#include <string>

#include "weft/observe/dump_options.h"

namespace weft::observe {

class DumpThread {
 public:
  // A healthy dump takes some 50 ms, and half a million fibers at 2 us are looked at in kMostReading. Longer would keep
  // a supervisor waiting that is to start the process anew.
  static constexpr std::chrono::milliseconds kMostTime{2000};
  static constexpr std::chrono::milliseconds kMostReading{1000};
  static constexpr std::size_t kMostGroups = 50;
  static constexpr std::size_t kMostFrames = 32;

  // Starts it, unless this process has it. "": it is there.
  static std::string Start();

  // Ends it, if it is this process's and SetOptions() has never been called.
  static void Stop() noexcept;

  // What AskForDump() makes; before the first one.
  static void SetOptions(const DumpOptions& options);
  // The thread does not block this signal: it may be that all others do.
  static void Receive(int signal) noexcept;
  static void AskForDump() noexcept;
  // machine_context: that of the signal's handler that calls it, so that its fiber has a stack; or nullptr.
  static void DumpBeforeDeath(const void* machine_context = nullptr) noexcept;
};

}  // namespace weft::observe

#endif  // WEFT_OBSERVE_DUMP_DUMP_THREAD_H_
