// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// IsInExit(): whether the caller was called, directly or not, by exit(), or because main() returned.
//
// For destructors that find themselves still in use. An object of static storage is destroyed then while other threads
// and fibers go on using it: nobody can prevent that, and the process is about to end; it is not to end by an abort.
//
// Any thread. Slow (both walk up the stack): ask only when something is wrong.

#ifndef WEFT_BASE_PROCESS_EXIT_H_
#define WEFT_BASE_PROCESS_EXIT_H_

namespace weft::base {

bool IsInExit() noexcept;

// The same for pthread_exit(), and for the cancellation of the calling thread. False is not certain: after the first
// destructor that is run on the way out, nothing on the stack tells of it.
bool IsInThreadExit() noexcept;

}  // namespace weft::base

#endif  // WEFT_BASE_PROCESS_EXIT_H_
