// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// EventHandler: the object that a reactor calls when a descriptor is ready. Its memory is never given back: an event
// that the kernel has reported may arrive after the descriptor was closed, and then concerns another one or none. So an
// event is a hint to look again, and not a promise.
#ifndef WEFT_IO_REACTOR_EVENT_HANDLER_H_
#define WEFT_IO_REACTOR_EVENT_HANDLER_H_

#include <cstdint>

#include "weft/sync/wait/wait_state.h"

namespace weft::io {

class EventHandler {
 public:
  // By the worker that polls, without a lock. `events`: EPOLL... bits. Appends the waiters to be woken to `claimed`.
  virtual void OnEvents(std::uint32_t events, synchronization::WaitList* claimed) noexcept = 0;

 protected:
  ~EventHandler() = default;
};

}  // namespace weft::io

#endif  // WEFT_IO_REACTOR_EVENT_HANDLER_H_
