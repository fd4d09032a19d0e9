// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// Registration: the one registration of a descriptor's number, with the reactor of the fiber that waited first.
//
// FdSlot and WaitFd() have one each. Its functions are in reactor.cc: public headers include this one, and no reactor.
//
// Invariants
//   RG1  Its events are told by workers that run: Set() moves it from a reactor whose runtime has ended.
//   RG2  A number that was closed behind our back is another descriptor's: Set() registers that one.
#ifndef WEFT_IO_REGISTRATION_H_
#define WEFT_IO_REGISTRATION_H_

#include <atomic>
#include <cstdint>
#include <system_error>

namespace weft::io {

class EventHandler;
class Reactor;

// Set, Remove: under a lock of its owner's, which the handler is, too.
class Registration {
 public:
  // A fiber. `events`, EPOLL... bits, are told to the handler from now on, those that there are already at once. Set
  // again after an error: it may not be set any more.
  [[nodiscard]] std::error_code Set(int fd, std::uint32_t events, EventHandler* handler);
  // Before the descriptor is closed. The handler may still be told of what was reported before. False: it was not set.
  bool Remove(int fd) noexcept;

  // relaxed, both: changed before and after, not meanwhile, where it matters: while no fiber runs.
  bool is_set() const noexcept { return reactor_.load(std::memory_order_relaxed) != nullptr; }
  // Any thread. It is set, with a reactor whose workers run; else Set() is to be called before somebody relies on it
  // (RG1).
  bool is_served() const noexcept;

 private:
  std::atomic<Reactor*> reactor_{nullptr};
};

}  // namespace weft::io

#endif  // WEFT_IO_REGISTRATION_H_
