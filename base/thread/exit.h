// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The end of a thread and of the process.
//
//   ThreadEnd         calls a function when a thread ends, for what the library keeps for each thread
//   IsInExit()        whether the caller runs inside exit(), for destructors that find their object in use
//   PinLibraryOf()    the library that an address lies in stays in memory, whatever dlclose() says
//
// Sample:
//   static constinit base::ThreadEnd at_thread_end(&GiveBack);
//   at_thread_end.Arm(cache);                            // this thread: GiveBack(cache) when it ends
//
// The function runs after the destructors of all thread_locals, so these may still use the library. Destructors of
// pthread keys may run before or after it, and may use the library, too: if one arms it again, it is called again.
//
// Invariants
//   TE1  The function is called once for each Arm() whose argument was not replaced by a later one of the same thread.
//        Exceptions: the thread that calls exit(); a system that has no key left; an Arm() by a pthread key's
//        destructor in the last round (PTHREAD_DESTRUCTOR_ITERATIONS). The owner of the argument must cope then.
//
// Any thread; ThreadEnd also during static initialization and while the process exits.
// Rejected: a thread_local with a destructor. Destructors of other thread_locals run after it and would find it gone,
// and one that a pthread key's destructor makes is never destroyed.
#ifndef WEFT_BASE_THREAD_EXIT_H_
#define WEFT_BASE_THREAD_EXIT_H_

#include <pthread.h>

#include <atomic>
#include <cstdint>

namespace weft::base {

// The library is not unloaded any more after the first Arm() (PinThisLibrary()).
class ThreadEnd {
 public:
  explicit constexpr ThreadEnd(void (*function)(void*)) noexcept : function_(function) {}
  ThreadEnd(const ThreadEnd&) = delete;
  ThreadEnd& operator=(const ThreadEnd&) = delete;

  // `argument` is not nullptr. False: the function will not be called (TE1).
  bool Arm(void* argument) noexcept;

 private:
  static constexpr std::uint32_t kNoKey = ~std::uint32_t{0};

  void (*const function_)(void*);
  std::atomic<std::uint32_t> key_{kNoKey};
};

// Whether the caller runs inside exit(), directly or not, or after main() has returned. exit() destroys static objects
// while other threads and fibers use them: no reason to abort a process that is about to end. Slow, as the next one
// (both walk up the stack): ask only when something is wrong.
bool IsInExit() noexcept;

// The same for pthread_exit() and for the cancellation of the calling thread. False is not certain: after the first
// destructor has run, nothing on the stack shows it.
bool IsInThreadExit() noexcept;

// The library that `address` lies in stays in memory until the process ends. For libraries with functions that are
// called when a thread or a fiber ends, as glibc does for the destructors of thread_locals: a plugin that is unloaded
// before would take them away, and the thread would die at its end. It takes the dynamic linker's lock, which a thread
// in dlopen() holds: not where that thread may wait for the caller.
// False: it lies in no library, or the dynamic linker refuses.
bool PinLibraryOf(const void* address) noexcept;

// The same for the library with this function, once.
void PinThisLibrary() noexcept;

}  // namespace weft::base

#endif  // WEFT_BASE_THREAD_EXIT_H_
