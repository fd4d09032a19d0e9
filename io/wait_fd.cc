// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// How WaitFd() works: each descriptor has one oneshot registration, for the events of all its waiters. When an event
// comes, all waiters are woken, and those that want another event register anew.
//
// Invariants
//   WF1  No event is missed. A waiter reads the count of events, registers, and then sleeps only if the count, read
//        under the queue's lock, has not changed. An event increments the count under that lock, then claims.
//   WF2  The registration covers what all waiters want. It is made under `mutex_`, and includes what others have asked
//        for since the last event. If the event of a former registration makes that too little, the count has changed
//        (WF1).
//   WF3  A wait concerns the descriptor that had the number when the wait began: CloseFd() ends it, whatever woke it.
//   WF4  Without waiters nothing is armed. So what the owner reads on another thread wakes no worker. And where a
//        duplicate of a closed descriptor keeps a registration, its events do not reach the number's next owner.
// Rejected: one way of waiting with FdSlot (io/reactor/fd_slot.h), see docs/decisions/016.

#include "weft/io/wait_fd.h"

#include <poll.h>
#include <sys/epoll.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <mutex>

#include "weft/io/io_result.h"
#include "weft/io/reactor/poll_until.h"
#include "weft/io/reactor/registration.h"
#include "weft/scheduling_group/worker/current_worker.h"
#include "weft/scheduling_group/worker/time_slice.h"
#include "weft/sync/wait/wait_queue.h"

// Last: errno follows a fiber.
#include "weft/context/switch_safe_errno.h"

namespace weft::io {
namespace {

using synchronization::Waiter;
using synchronization::WaitKind;
using synchronization::WaitList;
using synchronization::WaitResult;

static_assert(POLLIN == EPOLLIN && POLLOUT == EPOLLOUT && POLLPRI == EPOLLPRI && POLLERR == EPOLLERR &&
              POLLHUP == EPOLLHUP && POLLRDHUP == EPOLLRDHUP);
constexpr std::uint32_t kAlways = EPOLLERR | EPOLLHUP;
constexpr std::uint32_t kClosed = EPOLLET;  // Not an event of poll.

WaitKind KindOf(std::uint32_t wanted) noexcept {
  const bool reads = (wanted & EPOLLIN) != 0;
  const bool writes = (wanted & EPOLLOUT) != 0;
  if (reads == writes) return WaitKind::kDescriptor;
  return reads ? WaitKind::kReadable : WaitKind::kWritable;
}

WaitFdResult PollOnce(int fd, std::uint32_t events, Deadline deadline) {
  pollfd polled{.fd = fd, .events = static_cast<short>(events), .revents = 0};
  const int ready = PollUntil(&polled, 1, deadline);
  if (ready < 0) return {0, ErrnoCode(-ready)};
  if (ready == 0) return {0, ErrnoCode(ETIMEDOUT)};
  if ((polled.revents & POLLNVAL) != 0) return {0, ErrnoCode(EBADF)};
  return {polled.revents, {}};
}

// Whether the events of a descriptor end a wait for some of them: how.
bool IsEnd(std::uint32_t events, std::uint32_t wanted, WaitFdResult* result) {
  if (events == kClosed) {
    *result = {0, ErrnoCode(ECANCELED)};
    return true;
  }
  *result = {static_cast<short>(events & (wanted | kAlways)), {}};
  return result->events != 0;
}

}  // namespace

// The waiters of a descriptor's number. Never freed.
class ForeignFd final : public EventHandler {
 public:
  [[nodiscard]] WaitFdResult Wait(int fd, std::uint32_t wanted, Deadline deadline);

  // For a selection. closes(): when it begins (WF3). EnterShared(): false: it need not wait, and *result says why.
  // True: LeaveShared(), or EndShared() if it was notified, must follow.
  [[nodiscard]] std::uint32_t closes();
  [[nodiscard]] bool EnterShared(int fd, std::uint32_t wanted, std::uint32_t closes, Waiter* waiter,
                                 WaitFdResult* result);
  void LeaveShared(int fd, Waiter* waiter);
  void EndShared(int fd) { End(fd); }
  // Asks the kernel. timed_out: it is not ready.
  [[nodiscard]] WaitFdResult LookOnceMore(int fd, std::uint32_t wanted, std::uint32_t closes);

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
  [[nodiscard]] std::uint32_t Begin();
  void End(int fd);
  [[nodiscard]] WaitFdResult WaitInUse(int fd, std::uint32_t wanted, Deadline deadline, std::uint32_t closes);
  [[nodiscard]] bool Announce(int fd, std::uint32_t wanted, std::uint32_t closes, std::uint32_t* count,
                              WaitFdResult* result);
  [[nodiscard]] std::error_code Register(int fd, std::uint32_t events);
  void Forget(int fd, WaitList* claimed);  // under mutex_

  // Recursive: the close() in Close() may be a hook, which calls Forget() (interop/hook.h).
  std::recursive_mutex mutex_;
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

// A wait begins, and ends. Returns closes_.
std::uint32_t ForeignFd::Begin() {
  std::lock_guard guard(mutex_);
  ++waits_;
  return closes_;
}

void ForeignFd::End(int fd) {
  std::lock_guard guard(mutex_);
  if (--waits_ != 0) return;
  queue_.lock();
  const bool armed = wanted_ != 0;
  wanted_ = 0;
  queue_.unlock();
  if (armed) (void)registration_.Remove(fd);  // WF4
}

// WF1, WF2. True: *count is the number of events before the registration. False: *result.
bool ForeignFd::Announce(int fd, std::uint32_t wanted, std::uint32_t closes, std::uint32_t* count,
                         WaitFdResult* result) {
  std::lock_guard guard(mutex_);
  if (closes_ != closes) {  // WF3
    *result = {0, ErrnoCode(ECANCELED)};
    return false;
  }
  queue_.lock();
  *count = count_;
  const std::uint32_t registered = wanted_ |= wanted;
  queue_.unlock();
  if (const std::error_code error = Register(fd, registered)) {
    *result = {0, error};
    if (error == std::errc::operation_not_permitted) *result = {static_cast<short>(wanted), {}};  // A file.
    return false;
  }
  return true;
}

WaitFdResult ForeignFd::Wait(int fd, std::uint32_t wanted, Deadline deadline) {
  const std::uint32_t closes = Begin();
  const WaitFdResult result = WaitInUse(fd, wanted, deadline, closes);
  End(fd);
  return result;
}

WaitFdResult ForeignFd::WaitInUse(int fd, std::uint32_t wanted, Deadline deadline, std::uint32_t closes) {
  WaitFdResult result;
  for (;;) {
    std::uint32_t count;
    if (!Announce(fd, wanted, closes, &count, &result)) return result;
    Waiter waiter;
    queue_.lock();
    std::uint32_t events;
    if (count_ != count) {
      events = closes_ != closes ? kClosed : last_;
      queue_.unlock();
    } else {
      const auto reason = synchronization::WaitReason::OfDescriptor(KindOf(wanted), fd);
      const WaitResult how = queue_.Wait(&waiter, deadline, synchronization::Interruptible::kResult, reason);
      if (how != WaitResult::kNotified) {
        const WaitFdResult last = LookOnceMore(fd, wanted, closes);
        const bool cancelled = how == WaitResult::kInterrupted && last.error == std::errc::timed_out;
        return cancelled ? WaitFdResult{0, ErrnoCode(ECANCELED)} : last;
      }
      events = waiter.tag;
    }
    if (IsEnd(events, wanted, &result)) return result;
  }
}

std::uint32_t ForeignFd::closes() {
  std::lock_guard guard(mutex_);
  return closes_;
}

bool ForeignFd::EnterShared(int fd, std::uint32_t wanted, std::uint32_t closes, Waiter* waiter, WaitFdResult* result) {
  static_cast<void>(Begin());
  std::uint32_t count;
  while (Announce(fd, wanted, closes, &count, result)) {
    queue_.lock();
    if (count_ == count) {
      queue_.EnqueueShared(waiter);
      queue_.unlock();
      return true;
    }
    const std::uint32_t events = closes_ != closes ? kClosed : last_;
    queue_.unlock();
    if (IsEnd(events, wanted, result)) break;
  }
  End(fd);
  return false;
}

void ForeignFd::LeaveShared(int fd, Waiter* waiter) {
  queue_.lock();
  queue_.LeaveUnnotified(waiter);
  queue_.unlock();
  End(fd);
}

// After a time-out or a cancellation: the reactor may not have reported an earlier event yet, so ask the kernel.
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

namespace {

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

namespace detail {

FdCase::FdCase(synchronization::Selection* selection, int fd, short events)
    : SelectCase(selection),
      fd_(fd),
      wanted_(static_cast<std::uint32_t>(events)),
      foreign_(ForeignFds::Get().At(fd)),
      closes_(foreign_ != nullptr ? foreign_->closes() : 0) {}

bool FdCase::TryTake() noexcept {
  result_ = foreign_ != nullptr ? foreign_->LookOnceMore(fd_, wanted_, closes_) : WaitFdResult{0, ErrnoCode(EBADF)};
  return result_.error != std::errc::timed_out;
}

FdCase::Entered FdCase::Enter() noexcept {
  if (scheduling_group::CurrentFiber() == nullptr) {
    result_ = {0, ErrnoCode(ENOTSUP)};
  } else if (foreign_->EnterShared(fd_, wanted_, closes_, Waiting(), &result_)) {
    return Entered::kWaits;
  }
  return ClaimSelf() ? Entered::kTaken : Entered::kDecided;
}

void FdCase::Leave() noexcept { foreign_->LeaveShared(fd_, &waiter()); }

bool FdCase::Notified() noexcept {
  foreign_->EndShared(fd_);
  return IsEnd(waiter().tag, wanted_, &result_);  // Another waiter's event is no end.
}

}  // namespace detail

}  // namespace weft::io
