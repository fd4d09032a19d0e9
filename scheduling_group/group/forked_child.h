// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// A process forked while the runtime ran has no workers; fiber/runtime.h says what it may not do. A call that needs a
// worker ends it here, with one line, by write(2), as threads that the child lacks may hold the log's locks.
#ifndef WEFT_SCHEDULING_GROUP_GROUP_FORKED_CHILD_H_
#define WEFT_SCHEDULING_GROUP_GROUP_FORKED_CHILD_H_

namespace weft::scheduling_group {

// The child's handler of pthread_atfork() calls it, and ForgetGroups(): forgets other threads' sections, and that the
// caller was a worker. Async-signal-safe.
void MarkForkedChild() noexcept;

// Any thread.
bool IsForkedChild() noexcept;
// Aborts in such a child. `caller`: the public function that needs workers.
void CheckNotForkedChild(const char* caller) noexcept;
// Only writes the line.
void WarnOfForkedChild(const char* caller) noexcept;

inline constexpr char kForkedChildMessage[] =
    "this process was forked from one in which the runtime ran, and has no workers: fork, or call daemon(), before "
    "StartRuntime(); in the child call nothing but exec() and _exit()";

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_GROUP_FORKED_CHILD_H_
