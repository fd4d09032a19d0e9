// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Whether the calling plain thread may wait for room in a run queue: yes by default, but not a timer thread, as all
// timers of its group would wait. Fibers that it starts then go into the overflow list (start_when_full.h).
#ifndef WEFT_SCHEDULING_GROUP_WORKER_THREAD_MAY_WAIT_H_
#define WEFT_SCHEDULING_GROUP_WORKER_THREAD_MAY_WAIT_H_

#include "weft/base/thread/cpu.h"

namespace weft::scheduling_group {

WEFT_TLS_ACCESSOR void SetThreadMayWait(bool may_wait) noexcept;
WEFT_TLS_ACCESSOR bool ThreadMayWait() noexcept;

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_WORKER_THREAD_MAY_WAIT_H_
