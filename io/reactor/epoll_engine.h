// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// EpollEngine: asks the kernel which descriptors are ready.
//
// Add, Modify, Remove, Interrupt: any thread. Wait, event: the holder of the lease (io/reactor/poller_lease.h).
// Events are bits of epoll(7): EPOLLIN and the like; EPOLLET and EPOLLONESHOT say how often they are reported.
//
// Interrupt() writes to an eventfd that is registered edge-triggered and never read, so each write is reported once.
// Rejected: io_uring, see docs/decisions/015.
#ifndef WEFT_IO_REACTOR_EPOLL_ENGINE_H_
#define WEFT_IO_REACTOR_EPOLL_ENGINE_H_

#include <sys/epoll.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <system_error>

namespace weft::io {

class EpollEngine {
 public:
  struct Event {
    void* tag;
    std::uint32_t events;
  };

  // nullptr: the system refuses it, and *error says why.
  static std::unique_ptr<EpollEngine> Make(std::error_code* error);
  EpollEngine(const EpollEngine&) = delete;
  EpollEngine& operator=(const EpollEngine&) = delete;
  ~EpollEngine();

  // file_exists: it was added before, and not removed.
  [[nodiscard]] std::error_code Add(int fd, std::uint32_t events, void* tag);
  // no_such_file_or_directory: it was not added, or has been closed since.
  [[nodiscard]] std::error_code Modify(int fd, std::uint32_t events, void* tag);
  void Remove(int fd) noexcept;
  int descriptor() const noexcept { return epoll_; }

  // Returns the number of events, which may be 0; they stay until the next Wait(). block: waits until there is one, or
  // Interrupt() has been called since the last Wait() that blocked; may return spuriously.
  std::size_t Wait(bool block);
  // As long as a Wait() that blocks, but finds nothing: the events are left for the next Wait(). Any thread.
  void AwaitEvents() noexcept;
  // Whether there are any. Any thread.
  bool HasEvents() noexcept;
  Event event(std::size_t i) const { return {events_[i].data.ptr, events_[i].events}; }

  void Interrupt() noexcept;

 private:
  // At most so many at a time. The kernel goes round, so the next Wait() gets the others.
  static constexpr std::size_t kBatch = 256;

  EpollEngine(int epoll, int interrupter) : epoll_(epoll), interrupter_(interrupter) {}

  const int epoll_;
  const int interrupter_;
  std::array<epoll_event, kBatch> events_;
};

}  // namespace weft::io

#endif  // WEFT_IO_REACTOR_EPOLL_ENGINE_H_
