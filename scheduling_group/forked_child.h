// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// A process that was forked while the runtime ran. fork() copies the calling thread only: the child has the fibers, and
// nobody who runs them. What it may not do is said in fiber/runtime.h; what needs a worker ends it here, with one line
// that says why. The line is written by write(2): locks of the log may be held by threads that are not there.
#ifndef WEFT_SCHEDULING_GROUP_FORKED_CHILD_H_
#define WEFT_SCHEDULING_GROUP_FORKED_CHILD_H_

namespace weft::scheduling_group {

// In the child, by the handler of pthread_atfork(), which also calls ForgetGroups(): no section of another thread, and
// the caller, if it was a worker, is none any more. Async-signal-safe.
void MarkForkedChild() noexcept;

// Any thread.
bool IsForkedChild() noexcept;
// Aborts in such a child. `caller`: the public function that needs workers.
void CheckNotForkedChild(const char* caller) noexcept;
// The line alone.
void WarnOfForkedChild(const char* caller) noexcept;

inline constexpr char kForkedChildMessage[] =
    "this process was forked from one in which the runtime ran, and has no workers: fork, or call daemon(), before "
    "StartRuntime(); in the child call nothing but exec() and _exit()";

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_FORKED_CHILD_H_
