// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Registration: the registration of a descriptor's number with the reactor of the fiber that waited first.
// EventHandler: its owner, which that reactor calls when the descriptor is ready.
// HangupWatch: wants to know from its owner when the peer has gone (FD8 in io/reactor/fd_slot.h).
//
// FdSlot and WaitFd() have one each. The functions are in epoll_reactor.cc, so that their headers need not include the
// reactor.
//
// Invariants
//   RG1  Running workers report its events: Set() moves it away from a reactor whose runtime has ended.
//   RG2  If the number was closed unnoticed and belongs to another descriptor, Set() registers that one.
//   RG3  A FiberLoop's reactor serves that loop's fibers alone, and they use no other: the loop may end, or not
//        run for a while. Set() moves the registration to the caller's reactor. So only fibers of one loop, or of
//        the runtime, wait for a descriptor at a time.
#ifndef WEFT_IO_REACTOR_REGISTRATION_H_
#define WEFT_IO_REACTOR_REGISTRATION_H_

#include <atomic>
#include <cstdint>
#include <system_error>

#include "weft/sync/wait/wait_state.h"

namespace weft::io {

class EpollReactor;

// Its memory is never given back: an event that the kernel has reported may arrive after the descriptor was closed, and
// then concerns another one or none. So an event is a hint to look again, and not a promise.
class EventHandler {
 public:
  // By the worker that polls, without a lock. `events`: EPOLL... bits. Appends the waiters to be woken to `claimed`.
  virtual void OnEvents(std::uint32_t events, synchronization::WaitList* claimed) noexcept = 0;

 protected:
  ~EventHandler() = default;
};

class HangupWatch {
 public:
  // By the worker that polls, or in FdSlot::Watch(); under a lock, and does not switch. The peer may have gone: look.
  // `read_is_shut`: we have shut reading down ourselves.
  virtual void MayHaveHungUp(int fd, bool read_is_shut) noexcept = 0;

 protected:
  ~HangupWatch() = default;
};

// Set, Remove: under a lock of the owner.
class Registration {
 public:
  // A fiber. From now on the handler gets these `events` (EPOLL... bits), and at once those that are there already.
  // After an error it may be unset: call Set() again.
  [[nodiscard]] std::error_code Set(int fd, std::uint32_t events, EventHandler* handler);
  // Before the descriptor is closed. The handler may still get events reported before. False: it was not set.
  bool Remove(int fd) noexcept;

  // relaxed, both: where the answer matters, while no fiber runs, no other thread changes it.
  bool is_set() const noexcept { return reactor_.load(std::memory_order_relaxed) != nullptr; }
  // A fiber. Whether it is set with a reactor that serves it. If not, call Set() before relying on it (RG1, RG3).
  bool is_served() const noexcept;

 private:
  std::atomic<EpollReactor*> reactor_{nullptr};
};

}  // namespace weft::io

#endif  // WEFT_IO_REACTOR_REGISTRATION_H_
