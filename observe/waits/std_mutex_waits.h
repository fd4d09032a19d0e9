// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// FindStdMutexWaits(): workers that wait for a std::mutex which they have locked themselves.
//
// A fiber that suspends while it holds a std::mutex leaves it locked by its worker's thread. When another fiber of that
// worker wants it, the thread waits for itself, and for ever. Weft has no part in either lock. But the kernel says in
// which futex a thread waits, the mutex says which thread has locked it, and the thread's stack pointer which fiber it
// runs:
//
//   thread 17 waits in the futex of a pthread_mutex_t (thread_states.h)
//   pthread_mutex_t: it is locked, and its owner is thread 17
//   thread 17's stack pointer lies on the stack of fiber 'b'
//   on the stack of fiber 'a', which is parked, lies the mutex's address: a std::unique_lock keeps it
//
// Invariants
//   SMW1  That a thread waits for its own mutex is found twice, and it has not run in between. So a fiber has suspended
//         with the mutex, or locked it twice. (If the holder comes to another worker its unlock ends the wait, although
//         a thread must not unlock what another one has locked.)
//   SMW2  The holder is a guess: a fiber whose stack has the mutex's address may just know it.
//
// Not found: a mutex that is held over a suspension as long as nobody on the same worker wants it; waits for another
// worker's mutex, which that worker's fiber may yet unlock; locks of other kinds. Of glibc's std::mutex only.
// Rejected: an own pthread_mutex_lock() that counts what a fiber holds (it takes the place of the C library's in the
// whole program, costs each lock, and libraries' locks that are held over callbacks would be false alarms).
#ifndef WEFT_OBSERVE_WAITS_STD_MUTEX_WAITS_H_
#define WEFT_OBSERVE_WAITS_STD_MUTEX_WAITS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weft/observe/waits/park_reader.h"
#include "weft/observe/waits/thread_states.h"

namespace weft::observe {

struct StdMutexWait {
  ThreadState thread;
  std::uint64_t mutex = 0;
  Park waiter;                               // the fiber that the thread runs; it is not parked
  std::optional<Park> holder;                // SMW2
  std::vector<std::uint64_t> holders_stack;  // the used part
};

// Any thread, whose own mutexes are not looked at.
std::vector<StdMutexWait> FindStdMutexWaits(MemoryReader* memory);

// Some lines; stacks: with the holder's stack.
std::string Describe(const StdMutexWait& wait, MemoryReader* memory, bool stacks);

}  // namespace weft::observe

#endif  // WEFT_OBSERVE_WAITS_STD_MUTEX_WAITS_H_
