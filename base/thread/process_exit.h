// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// IsInExit(): whether the caller runs inside exit(), directly or not, or after main() has returned.
//
// For destructors that find their object in use. exit() destroys static objects while other threads and fibers use
// them: no reason to abort a process that is about to end.
// Any thread. Slow (both walk up the stack): ask only when something is wrong.
#ifndef WEFT_BASE_THREAD_PROCESS_EXIT_H_
#define WEFT_BASE_THREAD_PROCESS_EXIT_H_

namespace weft::base {

bool IsInExit() noexcept;

// The same for pthread_exit() and for the cancellation of the calling thread. False is not certain: after the first
// destructor has run, nothing on the stack shows it.
bool IsInThreadExit() noexcept;

}  // namespace weft::base

#endif  // WEFT_BASE_THREAD_PROCESS_EXIT_H_
