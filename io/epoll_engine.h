// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// EpollEngine: readiness by epoll.
//
// Interrupt() writes to an eventfd that is registered edge-triggered and never read: each write is told once. (Its
// count would overflow after 2^64 of them.)
#ifndef WEFT_IO_EPOLL_ENGINE_H_
#define WEFT_IO_EPOLL_ENGINE_H_

#include <sys/epoll.h>

#include <array>
#include <memory>

#include "weft/io/readiness_engine.h"

namespace weft::io {

class EpollEngine final : public ReadinessEngine {
 public:
  // nullptr: *error.
  static std::unique_ptr<ReadinessEngine> Make(std::error_code* error);
  ~EpollEngine() override;

  [[nodiscard]] std::error_code Add(int fd, std::uint32_t events, void* tag) override;
  [[nodiscard]] std::error_code Modify(int fd, std::uint32_t events, void* tag) override;
  void Remove(int fd) noexcept override;
  std::size_t Wait(bool block) override;
  Event event(std::size_t i) const override { return {events_[i].data.ptr, events_[i].events}; }
  void Interrupt() noexcept override;

 private:
  // As many at a time; what is left comes with the next Wait(), the kernel goes round.
  static constexpr std::size_t kBatch = 256;

  EpollEngine(int epoll, int interrupter) : epoll_(epoll), interrupter_(interrupter) {}

  const int epoll_;
  const int interrupter_;
  std::array<epoll_event, kBatch> events_;
};

}  // namespace weft::io

#endif  // WEFT_IO_EPOLL_ENGINE_H_
