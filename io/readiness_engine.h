// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// ReadinessEngine: how the kernel is asked which descriptors are ready. EpollEngine or UringEngine, chosen by
// --fiber_io_engine.
//
// Add, Modify, Remove, Interrupt: any thread. Wait, event: one thread at a time, and what the last one did is visible
// to the next (PollerLease).
// Events are bits of epoll: EPOLLIN, EPOLLOUT, EPOLLRDHUP, EPOLLERR, EPOLLHUP; EPOLLET (each change is told once) and
// EPOLLONESHOT (told once, then silent until Modify) say how.
#ifndef WEFT_IO_READINESS_ENGINE_H_
#define WEFT_IO_READINESS_ENGINE_H_

#include <cstddef>
#include <cstdint>
#include <system_error>

namespace weft::io {

class ReadinessEngine {
 public:
  struct Event {
    void* tag;
    std::uint32_t events;
  };

  virtual ~ReadinessEngine() = default;

  // file_exists: it was added already, and not removed.
  [[nodiscard]] virtual std::error_code Add(int fd, std::uint32_t events, void* tag) = 0;
  // no_such_file_or_directory: it was not added, or has been closed since (epoll sees that, io_uring does not).
  [[nodiscard]] virtual std::error_code Modify(int fd, std::uint32_t events, void* tag) = 0;
  virtual void Remove(int fd) noexcept = 0;

  // How many events there are now, 0 too; they stay until the next Wait(). block: until there is one or Interrupt() was
  // called since the last Wait() that blocked; sometimes without a reason.
  virtual std::size_t Wait(bool block) = 0;
  virtual Event event(std::size_t i) const = 0;

  virtual void Interrupt() noexcept = 0;
};

}  // namespace weft::io

#endif  // WEFT_IO_READINESS_ENGINE_H_
