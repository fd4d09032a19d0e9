// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/reactor/epoll_engine.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>

#include "weft/base/report/check.h"
#include "weft/io/io_result.h"

namespace weft::io {

std::unique_ptr<EpollEngine> EpollEngine::Make(std::error_code* error) {
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  const int interrupter = epoll < 0 ? -1 : ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  epoll_event event{.events = EPOLLIN | EPOLLET, .data = {.ptr = nullptr}};
  if (interrupter < 0 || ::epoll_ctl(epoll, EPOLL_CTL_ADD, interrupter, &event) != 0) {
    *error = ErrnoCode(errno);
    if (interrupter >= 0) ::close(interrupter);
    if (epoll >= 0) ::close(epoll);
    return nullptr;
  }
  return std::unique_ptr<EpollEngine>(new EpollEngine(epoll, interrupter));
}

EpollEngine::~EpollEngine() {
  ::close(interrupter_);
  ::close(epoll_);
}

std::error_code EpollEngine::Add(int fd, std::uint32_t events, void* tag) {
  epoll_event event{.events = events, .data = {.ptr = tag}};
  return ::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) == 0 ? std::error_code() : ErrnoCode(errno);
}

std::error_code EpollEngine::Modify(int fd, std::uint32_t events, void* tag) {
  epoll_event event{.events = events, .data = {.ptr = tag}};
  return ::epoll_ctl(epoll_, EPOLL_CTL_MOD, fd, &event) == 0 ? std::error_code() : ErrnoCode(errno);
}

void EpollEngine::Remove(int fd) noexcept { (void)::epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr); }

std::size_t EpollEngine::Wait(bool block) {
  const int found = ::epoll_wait(epoll_, events_.data(), static_cast<int>(kBatch), block ? -1 : 0);
  if (found >= 0) return static_cast<std::size_t>(found);
  WEFT_CHECK(errno == EINTR, "EpollEngine: epoll_wait fails with error ", errno,
             ": was its descriptor closed by somebody else?");
  return 0;
}

void EpollEngine::AwaitEvents() noexcept {
  pollfd epoll{.fd = epoll_, .events = POLLIN, .revents = 0};
  if (::poll(&epoll, 1, -1) < 0) WEFT_CHECK(errno == EINTR, "EpollEngine: poll fails with error ", errno);
}

bool EpollEngine::HasEvents() noexcept {
  pollfd epoll{.fd = epoll_, .events = POLLIN, .revents = 0};
  return ::poll(&epoll, 1, 0) > 0;
}

void EpollEngine::Interrupt() noexcept {
  const std::uint64_t one = 1;
  const ssize_t written = ::write(interrupter_, &one, sizeof(one));
  WEFT_CHECK(written == sizeof(one), "EpollEngine: an idle worker cannot be woken: error ", errno,
             ": was a descriptor closed by somebody else?");
}

}  // namespace weft::io
