// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// ThreadEnd: calls a function when a thread ends, for what the library keeps for each thread.
// Sample:
//   static constinit base::ThreadEnd at_thread_end(&GiveBack);
//   at_thread_end.Arm(cache);                            // this thread: GiveBack(cache) when it ends
//
// The library is not unloaded any more after the first Arm() (pin_library.h).
//
// The function runs after the destructors of all thread_locals, so these may still use the library. Destructors of
// pthread keys may run before or after it, and may use the library, too: if one arms it again, it is called again.
//
// Invariants
//   TE1  The function is called once for each Arm() whose argument was not replaced by a later one of the same thread.
//        Exceptions: the thread that calls exit(); a system that has no key left; an Arm() by a pthread key's
//        destructor in the last round (PTHREAD_DESTRUCTOR_ITERATIONS). The owner of the argument must cope then.
//
// Any thread; also during static initialization and while the process exits.
// Rejected: a thread_local with a destructor. Destructors of other thread_locals run after it and would find it gone,
// and one that a pthread key's destructor makes is never destroyed.
#ifndef WEFT_BASE_THREAD_THREAD_END_H_
#define WEFT_BASE_THREAD_THREAD_END_H_

#include <pthread.h>

#include <atomic>
#include <cstdint>

namespace weft::base {

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

}  // namespace weft::base

#endif  // WEFT_BASE_THREAD_THREAD_END_H_
