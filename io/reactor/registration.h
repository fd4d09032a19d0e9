// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Registration: the registration of a descriptor's number with the reactor of the fiber that waited first.
//
// FdSlot and WaitFd() have one each. Its functions are in reactor.cc: headers need not include the reactor.
//
// Invariants
//   RG1  Running workers report its events: Set() moves it away from a reactor whose runtime has ended.
//   RG2  If the number was closed unnoticed and belongs to another descriptor, Set() registers that one.
//   RG3  A FiberLoop's reactor serves that loop's fibers alone, and they use no other: the loop may end, or not be
//        driven for a while. Set() moves the registration to the caller's reactor. So only fibers of one loop, or of
//        the runtime, wait for a descriptor at a time.
#ifndef WEFT_IO_REACTOR_REGISTRATION_H_
#define WEFT_IO_REACTOR_REGISTRATION_H_

#include <atomic>
#include <cstdint>
#include <system_error>

namespace weft::io {

class EventHandler;
class Reactor;

// Set, Remove: under a lock of the owner, which is also the handler.
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
  std::atomic<Reactor*> reactor_{nullptr};
};

}  // namespace weft::io

#endif  // WEFT_IO_REACTOR_REGISTRATION_H_
