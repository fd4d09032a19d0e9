// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// ContentionProfile(): which mutex made fibers wait, for how long, who waited, and who had it meanwhile, with the
// stacks of both.
// Sample:
//   std::cout << weft::ContentionProfile();
//
//     mutex 0x7ffd5b7c3e40;owned by;RefreshPrices(Prices*);made wait;ServeRequest(Prices*) 1203344
//     mutex 0x7ffd5b7c3e40;owned by;AddPrice(Prices*);made wait;ServeRequest(Prices*) 8210
//
// Each line is the owner's stack at the unlock that ended waits, and the stacks of those that waited, both with the
// outermost function first, and all their time together, in microseconds. The line with the most time comes first: look
// at what its owner does with the mutex.
//
// Of FiberMutex and FiberTimedMutex, since the process began. A sample of the waits, one each 5 ms of a thread, each
// standing for those before it: numbers are estimates (sync/wait/contention.h). "no owner" is one whose time was over.
// "several mutexes": those for which 512 lines of single ones had no room. "not kept: 42 waits 0": for so many there
// was no room at all, or another thread wrote; how long they took is not known.
//
// Not counted: waits of plain threads; the time from a wake until a worker is free; the first wait for the mutex of who
// was notified through a FiberConditionVariable. The recorder's kLocks (flight_recorder.h) has them, by fibers' names.
// Rare waits beside many: as many waits stand behind each sample as its thread had, of whatever mutex. So long waits
// that come once a second on a thread with 100,000 short ones are mostly missed, and once in a while overrated.
//
// Nothing ages, and nothing is taken out: to see what is new, compare two profiles. What lies at a former mutex's
// address adds to its lines; functions of a library that has been unloaded have another's names, or none; a forked
// child begins with its parent's.
//
// The samples are taken unless the recorder is off (--fiber_recorder=off), with glibc 2.35 or later; "no samples: ..."
// says that there are none, and why. Names of functions are those of dumps: with libdw.so.1, or addresses.
//
// Who may call: any fiber and any thread. A fiber switches, while a thread of its own does it. Cost: 10 ms and more,
// for the names.
#ifndef WEFT_OBSERVE_CONTENTION_H_
#define WEFT_OBSERVE_CONTENTION_H_

#include <string>

#include "weft/observe/flight_recorder.h"

namespace weft {

// As above; or for `go tool pprof`, where the waiter's function is the leaf.
std::string ContentionProfile(ProfileFormat format = ProfileFormat::kFolded);

}  // namespace weft

#endif  // WEFT_OBSERVE_CONTENTION_H_
