// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/uring_engine.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "weft/base/check.h"
#include "weft/io/io_result.h"

namespace weft::io {
namespace {

// Completions of removals say nothing.
constexpr void* kNobody = nullptr;

std::uint32_t PollMask(std::uint32_t events) { return events & ~static_cast<std::uint32_t>(EPOLLET | EPOLLONESHOT); }

}  // namespace

std::unique_ptr<ReadinessEngine> UringEngine::Make(std::error_code* error) {
  std::unique_ptr<UringEngine> engine(new UringEngine);
  io_uring_params params{};
  params.flags = IORING_SETUP_CQSIZE;
  params.cq_entries = kCompletions;
  if (const int failed = ::io_uring_queue_init_params(kSubmissions, &engine->ring_, &params); failed < 0) {
    *error = ErrnoCode(-failed);
    engine->ring_.ring_fd = -1;
    return nullptr;
  }
  // A filter may let it be made and forbid its use: that, too, is to come out here.
  io_uring_sqe* nothing = ::io_uring_get_sqe(&engine->ring_);
  ::io_uring_prep_nop(nothing);
  ::io_uring_sqe_set_data(nothing, kNobody);
  if (const int failed = ::io_uring_submit(&engine->ring_); failed < 0) {
    *error = ErrnoCode(-failed);
    return nullptr;
  }
  engine->interrupter_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  if (engine->interrupter_ < 0) {
    *error = ErrnoCode(errno);
    return nullptr;
  }
  if ((*error = engine->Add(engine->interrupter_, EPOLLIN | EPOLLET, nullptr))) return nullptr;
  return engine;
}

UringEngine::~UringEngine() {
  if (ring_.ring_fd < 0) return;
  ::io_uring_queue_exit(&ring_);
  if (interrupter_ >= 0) ::close(interrupter_);
}

std::error_code UringEngine::Add(int fd, std::uint32_t events, void* tag) {
  if (::fcntl(fd, F_GETFD) < 0) return ErrnoCode(errno);  // The ring would say so later.
  std::lock_guard guard(mutex_);
  if (by_fd_.contains(fd)) return ErrnoCode(EEXIST);
  return SubmitPoll(fd, events, tag);
}

std::error_code UringEngine::Modify(int fd, std::uint32_t events, void* tag) {
  if (::fcntl(fd, F_GETFD) < 0) return ErrnoCode(errno);
  std::lock_guard guard(mutex_);
  if (by_fd_.find(fd) == by_fd_.end()) return ErrnoCode(ENOENT);
  RemoveLocked(fd);
  return SubmitPoll(fd, events, tag);
}

void UringEngine::Remove(int fd) noexcept {
  std::lock_guard guard(mutex_);
  RemoveLocked(fd);
}

std::error_code UringEngine::SubmitPoll(int fd, std::uint32_t events, void* tag) {
  if (free_.empty()) free_.push_back(all_.emplace_back(std::make_unique<Registration>()).get());
  Registration* registration = free_.back();
  free_.pop_back();
  *registration = {.fd = fd, .events = events, .tag = tag, .removed = false, .over = false};
  by_fd_[fd] = registration;
  Arm(registration);
  return {};
}

void UringEngine::Arm(Registration* registration) {
  io_uring_sqe* entry = ::io_uring_get_sqe(&ring_);
  WEFT_CHECK(entry != nullptr, "UringEngine: the submission queue is full though it is emptied each time (UE1)");
  if ((registration->events & EPOLLONESHOT) != 0) {
    ::io_uring_prep_poll_add(entry, registration->fd, PollMask(registration->events));
  } else {
    ::io_uring_prep_poll_multishot(entry, registration->fd, PollMask(registration->events));
  }
  ::io_uring_sqe_set_data(entry, registration);
  Submit();
}

void UringEngine::RemoveLocked(int fd) {
  const auto found = by_fd_.find(fd);
  if (found == by_fd_.end()) return;
  Registration* registration = found->second;
  by_fd_.erase(found);
  if (registration == nullptr) return;  // A single one that has come.
  if (registration->over) return free_.push_back(registration);
  registration->removed = true;  // Its last completion gives it back (UE2).
  io_uring_sqe* entry = ::io_uring_get_sqe(&ring_);
  WEFT_CHECK(entry != nullptr, "UringEngine: the submission queue is full though it is emptied each time (UE1)");
  // Not a removal of the poll: that fails (EALREADY) for one which makes a completion just now, and it would go on, and
  // keep its socket open.
  ::io_uring_prep_cancel(entry, registration, 0);
  ::io_uring_sqe_set_data(entry, kNobody);
  Submit();
}

void UringEngine::Submit() noexcept {
  for (;;) {
    const int submitted = ::io_uring_submit(&ring_);
    if (submitted >= 0) return;
    // EBUSY, EAGAIN: completions must be taken first, or memory is short; the worker that polls takes them.
    WEFT_CHECK(submitted == -EINTR || submitted == -EBUSY || submitted == -EAGAIN,
               "UringEngine: io_uring_submit: ", std::strerror(-submitted));
  }
}

std::size_t UringEngine::Wait(bool block) {
  found_ = 0;
  io_uring_cqe* completion;
  if (::io_uring_peek_cqe(&ring_, &completion) != 0) {
    if (!block) return 0;
    const int failed = ::io_uring_wait_cqe(&ring_, &completion);
    if (failed != 0) {
      WEFT_CHECK(failed == -EINTR, "UringEngine: io_uring_wait_cqe: ", std::strerror(-failed));
      return 0;
    }
  }
  while (found_ < kBatch && ::io_uring_peek_cqe(&ring_, &completion) == 0) {
    OnCompletion(*completion);
    ::io_uring_cqe_seen(&ring_, completion);
  }
  return found_;
}

void UringEngine::OnCompletion(const io_uring_cqe& completion) {
  auto* registration = static_cast<Registration*>(::io_uring_cqe_get_data(&completion));
  if (registration == nullptr) return;
  const bool last = (completion.flags & IORING_CQE_F_MORE) == 0;
  const std::int32_t result = completion.res;
  std::lock_guard guard(mutex_);
  if (registration->removed) {
    if (last) free_.push_back(registration);
    return;
  }
  const bool once = (registration->events & EPOLLONESHOT) != 0;
  // What went wrong, the system call will say.
  const std::uint32_t events =
      result >= 0 ? static_cast<std::uint32_t>(result) : PollMask(registration->events) | EPOLLERR;
  events_[found_++] = {.tag = registration->tag, .events = events};
  if (!last) return;
  if (once) {
    // Silent until Modify(), which finds it there.
    auto silent = by_fd_.find(registration->fd);
    if (silent != by_fd_.end()) silent->second = nullptr;
    free_.push_back(registration);
  } else if (result >= 0 || result == -ECANCELED) {
    Arm(registration);  // UE3
  } else {
    registration->over = true;
  }
}

void UringEngine::Interrupt() noexcept {
  const std::uint64_t one = 1;
  const ssize_t written = ::write(interrupter_, &one, sizeof(one));
  WEFT_CHECK(written == sizeof(one), "UringEngine: an idle worker cannot be woken: error ", errno,
             ": was a descriptor closed by somebody else?");
}

}  // namespace weft::io
