// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// EventHandler: what a reactor tells that a descriptor is ready. Its memory is never given back: an event that the
// kernel had reported already may be told after the descriptor was closed, and is then about another one or none. So an
// event is a hint to look again, never a promise.
#ifndef WEFT_IO_EVENT_HANDLER_H_
#define WEFT_IO_EVENT_HANDLER_H_

#include <cstdint>

#include "weft/sync/wait_state.h"

namespace weft::io {

class EventHandler {
 public:
  // The worker that polls, holding no lock. `events`: EPOLL... bits. Who is to be woken goes to the back of
  // `claimed`.
  virtual void OnEvents(std::uint32_t events, synchronization::WaitList* claimed) noexcept = 0;

 protected:
  ~EventHandler() = default;
};

}  // namespace weft::io

#endif  // WEFT_IO_EVENT_HANDLER_H_
