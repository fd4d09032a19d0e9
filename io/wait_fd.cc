// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/wait_fd.h"

#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <mutex>

#include "weft/io/event_handler.h"
#include "weft/io/io_result.h"
#include "weft/io/poll_until.h"
#include "weft/io/reactor.h"
#include "weft/scheduling_group/current_worker.h"
#include "weft/scheduling_group/time_slice.h"
#include "weft/sync/wait_queue.h"

// Last: errno follows a fiber.
#include "weft/context/switch_safe_errno.h"

namespace weft::io {
namespace {

using synchronization::Waiter;
using synchronization::WaitList;
using synchronization::WaitResult;

static_assert(POLLIN == EPOLLIN && POLLOUT == EPOLLOUT && POLLPRI == EPOLLPRI && POLLERR == EPOLLERR &&
              POLLHUP == EPOLLHUP && POLLRDHUP == EPOLLRDHUP);
constexpr std::uint32_t kAlways = EPOLLERR | EPOLLHUP;
constexpr std::uint32_t kClosed = EPOLLET;  // Not an event of poll.

WaitFdResult PollOnce(int fd, std::uint32_t events, Deadline deadline) {
  pollfd polled{.fd = fd, .events = static_cast<short>(events), .revents = 0};
  const int ready = PollUntil(&polled, 1, deadline);
  if (ready < 0) return {0, ErrnoCode(-ready)};
  if (ready == 0) return {0, ErrnoCode(ETIMEDOUT)};
  if ((polled.revents & POLLNVAL) != 0) return {0, ErrnoCode(EBADF)};
  return {polled.revents, {}};
}

// The waiters of a descriptor's number. Never freed.
class ForeignFd final : public EventHandler {
 public:
  [[nodiscard]] WaitFdResult Wait(int fd, std::uint32_t wanted, Deadline deadline);
  std::error_code Close(int fd);
  void Forget(int fd);

  void OnEvents(std::uint32_t events, WaitList* claimed) noexcept override {
    queue_.lock();
    ++count_;
    last_ = events;
    wanted_ = 0;
    while (Waiter* waiter = queue_.ClaimFirst()) {
      waiter->tag = events;
      claimed->PushBack(waiter);
    }
    queue_.unlock();
  }

 private:
  [[nodiscard]] WaitFdResult WaitInUse(int fd, std::uint32_t wanted, Deadline deadline, std::uint32_t closes);
  [[nodiscard]] std::error_code Register(int fd, std::uint32_t events);
  void Forget(int fd, WaitList* claimed);  // under mutex_
  [[nodiscard]] WaitFdResult LookOnceMore(int fd, std::uint32_t wanted, std::uint32_t closes);

  std::mutex mutex_;
  Registration registration_;  // guarded by mutex_, all three
  std::uint32_t waits_ = 0;    // under way
  std::uint32_t closes_ = 0;   // by Forget(); changed under the queue's lock, too
  // Guarded by the queue's lock; wanted_ is added to under mutex_ besides.
  synchronization::WaitQueue queue_;
  std::uint32_t count_ = 0;   // of events
  std::uint32_t last_ = 0;    // the last one
  std::uint32_t wanted_ = 0;  // asked for since then, by waiters that have registered or are about to
};

std::error_code ForeignFd::Register(int fd, std::uint32_t events) {
  const std::error_code error = registration_.Set(fd, events | EPOLLONESHOT, this);
  // Another handler is registered.
  return error == std::errc::file_exists ? ErrnoCode(EBUSY) : error;
}

WaitFdResult ForeignFd::Wait(int fd, std::uint32_t wanted, Deadline deadline) {
  std::uint32_t closes;
  {
    std::lock_guard guard(mutex_);
    ++waits_;
    closes = closes_;
  }
  const WaitFdResult result = WaitInUse(fd, wanted, deadline, closes);
  std::lock_guard guard(mutex_);
  if (--waits_ != 0) return result;
  queue_.lock();
  const bool armed = wanted_ != 0;
  wanted_ = 0;
  queue_.unlock();
  if (armed) (void)registration_.Remove(fd);  // WF4
  return result;
}

WaitFdResult ForeignFd::WaitInUse(int fd, std::uint32_t wanted, Deadline deadline, std::uint32_t closes) {
  for (;;) {
    std::uint32_t count;
    {
      std::lock_guard guard(mutex_);
      if (closes_ != closes) return {0, ErrnoCode(ECANCELED)};  // WF3
      queue_.lock();
      count = count_;
      const std::uint32_t registered = wanted_ |= wanted;
      queue_.unlock();
      if (const std::error_code error = Register(fd, registered)) {
        if (error == std::errc::operation_not_permitted) return {static_cast<short>(wanted), {}};  // A file.
        return {0, error};
      }
    }
    Waiter waiter;
    queue_.lock();
    std::uint32_t events;
    if (count_ != count) {
      events = closes_ != closes ? kClosed : last_;
      queue_.unlock();
    } else {
      const WaitResult result = queue_.Wait(&waiter, deadline, synchronization::Interruptible::kYes);
      if (result != WaitResult::kNotified) {
        const WaitFdResult last = LookOnceMore(fd, wanted, closes);
        const bool cancelled = result == WaitResult::kInterrupted && last.error == std::errc::timed_out;
        return cancelled ? WaitFdResult{0, ErrnoCode(ECANCELED)} : last;
      }
      events = waiter.tag;
    }
    if (events == kClosed) return {0, ErrnoCode(ECANCELED)};
    if ((events & (wanted | kAlways)) != 0) return {static_cast<short>(events & (wanted | kAlways)), {}};
  }
}

// The time has passed, or the wait was cancelled, but the reactor may not have reported an earlier event yet: ask the
// kernel.
WaitFdResult ForeignFd::LookOnceMore(int fd, std::uint32_t wanted, std::uint32_t closes) {
  std::lock_guard guard(mutex_);  // So that CloseFd() does not close it meanwhile.
  if (closes_ != closes) return {0, ErrnoCode(ECANCELED)};
  return PollOnce(fd, wanted, std::chrono::seconds(0));
}

void ForeignFd::Forget(int fd, WaitList* claimed) {
  (void)registration_.Remove(fd);
  queue_.lock();
  ++closes_;
  queue_.unlock();
  OnEvents(kClosed, claimed);
}

void ForeignFd::Forget(int fd) {
  WaitList claimed;
  {
    std::lock_guard guard(mutex_);
    if (waits_ == 0 && !registration_.is_set()) return;
    Forget(fd, &claimed);
  }
  synchronization::WakeAll(&claimed);
}

std::error_code ForeignFd::Close(int fd) {
  WaitList claimed;
  std::error_code error;
  {
    std::lock_guard guard(mutex_);
    Forget(fd, &claimed);
    if (::close(fd) != 0) error = ErrnoCode(errno);
  }
  synchronization::WakeAll(&claimed);
  return error;
}

// By number: chunks made when first needed.
class ForeignFds {
 public:
  static constexpr std::size_t kChunk = 1024;
  static constexpr std::size_t kChunks = 4096;

  // nullptr: the number is impossible; or it has none yet, and `make` is false.
  ForeignFd* At(int fd, bool make = true) {
    const auto number = static_cast<std::size_t>(fd);
    if (fd < 0 || number >= kChunk * kChunks) return nullptr;
    std::atomic<ForeignFd*>& place = chunks_[number / kChunk];
    // acquire: the objects. Pairs with the release below.
    ForeignFd* chunk = place.load(std::memory_order_acquire);
    if (chunk == nullptr && make) {
      auto* made = new ForeignFd[kChunk];
      if (place.compare_exchange_strong(chunk, made, std::memory_order_acq_rel, std::memory_order_acquire)) {
        chunk = made;
      } else {
        delete[] made;
      }
    }
    return chunk != nullptr ? &chunk[number % kChunk] : nullptr;
  }

  static ForeignFds& Get() {
    static auto* const all = new ForeignFds;
    return *all;
  }

 private:
  std::array<std::atomic<ForeignFd*>, kChunks> chunks_{};
};

}  // namespace

WaitFdResult WaitFd(int fd, short events, Deadline deadline) {
  scheduling_group::YieldIfSliceIsOver();
  // With a deadline that has passed it only looks.
  if (scheduling_group::CurrentFiber() == nullptr || deadline.expired())
    return PollOnce(fd, static_cast<std::uint32_t>(events), deadline);
  ForeignFd* foreign = ForeignFds::Get().At(fd);
  if (foreign == nullptr) return {0, ErrnoCode(EBADF)};
  return foreign->Wait(fd, static_cast<std::uint32_t>(events), deadline);
}

std::error_code CloseFd(int fd) {
  ForeignFd* foreign = ForeignFds::Get().At(fd);
  return foreign != nullptr ? foreign->Close(fd) : ErrnoCode(EBADF);
}

void ForgetFd(int fd) {
  if (ForeignFd* foreign = ForeignFds::Get().At(fd, /*make=*/false)) foreign->Forget(fd);
}

}  // namespace weft::io
