// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// UringEngine: readiness by io_uring (liburing, Linux 5.13): multishot polls, which are edge-triggered, and single ones
// for EPOLLONESHOT. No system call to look whether something is ready: the completions lie in shared memory.
//
// Not the default: a poll is submitted by one system call each like epoll_ctl(), its completion is made by the thread
// that submitted it, which is interrupted for that, and read() and write() remain. (Reads and writes as completions
// would save them; streams would have to own their buffers.)
//
// Invariants
//   UE1  The submission queue is used under mutex_ and is empty when that is released; the completion queue by the one
//        that waits.
//   UE2  A poll's completion names a Registration, whose memory is used again only when its last completion has been
//        seen. The one of a poll that was removed, and has been replaced, is passed over.
//   UE3  A poll that ends without having been removed (the thread that submitted it has ended, the completion queue ran
//        over) is submitted again, with an event: something may have come between.
#ifndef WEFT_IO_URING_ENGINE_H_
#define WEFT_IO_URING_ENGINE_H_

#include <liburing.h>

#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "weft/base/thread_annotations.h"
#include "weft/io/readiness_engine.h"

namespace weft::io {

class UringEngine final : public ReadinessEngine {
 public:
  // nullptr: *error, e.g. where a seccomp filter or kernel.io_uring_disabled forbids it, or its use.
  static std::unique_ptr<ReadinessEngine> Make(std::error_code* error);
  ~UringEngine() override;

  [[nodiscard]] std::error_code Add(int fd, std::uint32_t events, void* tag) override;
  [[nodiscard]] std::error_code Modify(int fd, std::uint32_t events, void* tag) override;
  void Remove(int fd) noexcept override;
  std::size_t Wait(bool block) override;
  Event event(std::size_t i) const override { return events_[i]; }
  void Interrupt() noexcept override;

 private:
  struct Registration {
    int fd = -1;
    std::uint32_t events = 0;
    void* tag = nullptr;
    bool removed = false;
    bool over = false;  // its last completion has been seen, and it was not submitted again
  };

  static constexpr unsigned kSubmissions = 64;
  static constexpr unsigned kCompletions = 4096;
  static constexpr std::size_t kBatch = 256;

  UringEngine() = default;

  [[nodiscard]] std::error_code SubmitPoll(int fd, std::uint32_t events, void* tag) WEFT_NO_THREAD_SAFETY_ANALYSIS;
  void Arm(Registration* registration) WEFT_NO_THREAD_SAFETY_ANALYSIS;
  void RemoveLocked(int fd) WEFT_NO_THREAD_SAFETY_ANALYSIS;
  void Submit() noexcept;
  void OnCompletion(const io_uring_cqe& completion);

  io_uring ring_;
  int interrupter_ = -1;
  std::mutex mutex_;
  std::unordered_map<int, Registration*> by_fd_;  // under mutex_, all three
  std::vector<std::unique_ptr<Registration>> all_;
  std::vector<Registration*> free_;
  std::array<Event, kBatch> events_;
  std::size_t found_ = 0;
};

}  // namespace weft::io

#endif  // WEFT_IO_URING_ENGINE_H_
