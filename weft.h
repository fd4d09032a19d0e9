// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// All that most programs need: fibers, what they wait for, timers, sockets, blocking calls, and the runtime.
// (weft/fiber/testing.h is for tests and not here.)
#ifndef WEFT_WEFT_H_
#define WEFT_WEFT_H_

#include "weft/base/deadline.h"
#include "weft/fiber/execution_context.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/fiber_limiter.h"
#include "weft/fiber/fiber_local.h"
#include "weft/fiber/fiber_scope.h"
#include "weft/fiber/fiber_task.h"
#include "weft/fiber/runtime.h"
#include "weft/fiber/supervisor.h"
#include "weft/fiber/this_fiber.h"
#include "weft/io/cancel_on_hangup.h"
#include "weft/io/fiber_blocking.h"
#include "weft/io/run.h"
#include "weft/io/run_until_signal.h"
#include "weft/io/tcp_listener.h"
#include "weft/io/tcp_server.h"
#include "weft/io/tcp_stream.h"
#include "weft/io/udp_socket.h"
#include "weft/io/wait_fd.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_barrier.h"
#include "weft/sync/fiber_blocking_bounded_queue.h"
#include "weft/sync/fiber_channel.h"
#include "weft/sync/fiber_condition_variable.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_latch.h"
#include "weft/sync/fiber_mutex.h"
#include "weft/sync/fiber_semaphore.h"
#include "weft/sync/fiber_seqlock.h"
#include "weft/sync/fiber_shared_mutex.h"
#include "weft/sync/fiber_timed_mutex.h"
#include "weft/sync/select.h"
#include "weft/sync/wait_group.h"
#include "weft/timer/fiber_timer.h"
#include "weft/version.h"

#endif  // WEFT_WEFT_H_
