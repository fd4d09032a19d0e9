// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/loop/loop_descriptor.h"

#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <utility>

#include "weft/base/report/check.h"

namespace weft::fiber::detail {

namespace {

std::error_code LastError() { return {errno, std::generic_category()}; }

bool Add(int set, int fd) {
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.fd = fd;
  return ::epoll_ctl(set, EPOLL_CTL_ADD, fd, &event) == 0;
}

}  // namespace

LoopDescriptor::~LoopDescriptor() { Close(); }

void LoopDescriptor::Close() noexcept {
  if (timer_ >= 0) (void)::close(std::exchange(timer_, -1));
  if (set_ >= 0) (void)::close(std::exchange(set_, -1));
}

std::error_code LoopDescriptor::Open() {
  if (IsOpen()) return {};
  const std::error_code error = TryOpen();
  if (error) Close();
  return error;
}

std::error_code LoopDescriptor::TryOpen() {
  int event = group_->event_fd.load(std::memory_order_relaxed);  // Only the group's loop writes it.
  if (event < 0) {
    event = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (event < 0) return LastError();
    group_->event_fd.store(event, std::memory_order_release);  // Pairs with the acquire in WakeLoop().
  }
  timer_ = ::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
  if (timer_ < 0) return LastError();
  set_ = ::epoll_create1(EPOLL_CLOEXEC);
  if (set_ < 0 || !Add(set_, event) || !Add(set_, timer_)) return LastError();
  // Whoever ended the wait before there was a descriptor has told nobody.
  MarkReadable();
  return {};
}

void LoopDescriptor::MarkReadable() noexcept {
  if (!IsOpen()) return;
  const std::uint64_t one = 1;
  if (::write(group_->event_fd.load(std::memory_order_relaxed), &one, sizeof(one)) < 0) return;  // Full: readable.
}

bool LoopDescriptor::Clear() noexcept {
  if (!IsOpen()) return false;
  std::uint64_t count;
  return ::read(group_->event_fd.load(std::memory_order_relaxed), &count, sizeof(count)) >= 0;  // Else it was empty.
}

void LoopDescriptor::ReadableAt(TimePoint when) noexcept {
  if (!IsOpen()) return;
  // An expired one is set again: that makes it unreadable, or readable at once.
  if (when == timer_at_ && (when == TimePoint::max() || std::chrono::steady_clock::now() < when)) return;
  timer_at_ = when;
  itimerspec setting{};
  if (when != TimePoint::max()) {
    // 0 would disarm it.
    const auto ns = std::max<std::int64_t>(std::chrono::nanoseconds(when.time_since_epoch()).count(), 1);
    setting.it_value.tv_sec = ns / 1'000'000'000;
    setting.it_value.tv_nsec = ns % 1'000'000'000;
  }
  WEFT_CHECK(::timerfd_settime(timer_, TFD_TIMER_ABSTIME, &setting, nullptr) == 0,
             "FiberLoop: timerfd_settime: ", LastError().message());
}

bool LoopDescriptor::Watch(int poller) noexcept {
  if (!IsOpen() || poller < 0) return false;
  if (poller != poller_ && Add(set_, poller)) poller_ = poller;
  return poller == poller_;
}

}  // namespace weft::fiber::detail
