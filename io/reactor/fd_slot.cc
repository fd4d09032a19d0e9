// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/reactor/fd_slot.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <limits>
#include <utility>

#include "weft/base/report/check.h"
#include "weft/io/io_result.h"
#include "weft/io/reactor/poll_until.h"
#include "weft/io/wait_fd.h"
#include "weft/scheduling_group/fiber/park.h"
#include "weft/scheduling_group/worker/current_worker.h"

// Last: errno follows a fiber.
#include "weft/context/switch_safe_errno.h"

namespace weft::io {

using synchronization::Waiter;
using synchronization::WaitList;
using synchronization::WaitResult;

namespace {

// TCP without an upper-layer protocol (kTLS), at present.
bool ShortReadDrains(int fd) {
  int protocol = 0;
  socklen_t size = sizeof(protocol);
  if (::getsockopt(fd, SOL_SOCKET, SO_PROTOCOL, &protocol, &size) != 0 || protocol != IPPROTO_TCP) return false;
  char name[16];  // The kernel's TCP_ULP_NAME_MAX.
  size = sizeof(name);
  return ::getsockopt(fd, IPPROTO_TCP, TCP_ULP, name, &size) != 0 || size == 0;
}

}  // namespace

FdSlot* FdSlot::Take(int fd) {
  FdSlot* slot = TakeFree();
  slot->fd_ = fd;
  slot->registered_ = 0;
  for (Side& side : slot->sides_) {
    // Under the lock, since an event of the last use may be arriving (FD2).
    side.queue.lock();
    side.word.store(kReady, std::memory_order_relaxed);
    side.queue.unlock();
    side.registered.store(false, std::memory_order_relaxed);
    side.wait_limit_ms.store(0, std::memory_order_relaxed);
  }
  {
    std::lock_guard guard(slot->register_mutex_);  // As above.
    slot->may_have_hung_up_ = false;
  }
  slot->read_is_shut_.store(false, std::memory_order_relaxed);
  slot->uses_.store(0, std::memory_order_relaxed);  // What publishes the slot publishes this too.
  return slot;
}

bool FdSlot::BeginUse() noexcept {
  std::uint64_t uses = uses_.load(std::memory_order_relaxed);
  do {
    if ((uses & kClosing) != 0) return false;
    // acquire: orders our use behind Take(). relaxed on failure: the value is only checked.
  } while (!uses_.compare_exchange_weak(uses, uses + kOneUse, std::memory_order_acquire, std::memory_order_relaxed));
  return true;
}

void FdSlot::EndUse() noexcept {
  // acq_rel: the close of the descriptor comes after all its uses.
  const std::uint64_t before = uses_.fetch_sub(kOneUse, std::memory_order_acq_rel);
  if (before - kOneUse < kOneUse && (before & kClosing) != 0) CloseFd();
}

bool FdSlot::Close() noexcept {
  const std::uint64_t before = uses_.fetch_or(kClosing, std::memory_order_acq_rel);  // As in EndUse().
  if ((before & kClosing) != 0) return false;
  if (before < kOneUse) {
    CloseFd();  // Without uses there are no waiters, and no one else closes it.
    return true;
  }
  WaitList claimed;
  for (Side& side : sides_) CloseSide(&side, &claimed);
  {
    std::lock_guard guard(register_mutex_);
    const std::uint64_t one = 1;
    if (thread_waker_ >= 0) (void)!::write(thread_waker_, &one, sizeof(one));
  }
  synchronization::WakeAll(&claimed);
  return true;
}

void FdSlot::CloseSide(Side* side, WaitList* claimed) noexcept {
  side->queue.lock();
  side->word.fetch_or(kClosed | kReady, std::memory_order_release);
  side->queue.ClaimAll(claimed);
  side->queue.unlock();
}

// Once, when the last use has ended after Close().
void FdSlot::CloseFd() noexcept {
  {
    std::lock_guard guard(register_mutex_);
    if (!registration_.Remove(fd_)) ForgetFd(fd_);  // As Register() would have done.
    if (thread_waker_ >= 0) ::close(std::exchange(thread_waker_, -1));
  }
  ::close(fd_);
  // acq_rel: the second of us and Drop() gives the slot back, after all that the first did.
  if ((uses_.fetch_or(kFdClosed, std::memory_order_acq_rel) & kDropped) != 0) GiveBack();
}

void FdSlot::Drop() noexcept {
  (void)Close();
  if ((uses_.fetch_or(kDropped, std::memory_order_acq_rel) & kFdClosed) != 0) GiveBack();  // As in CloseFd().
}

void FdSlot::SetReady(Side* side, std::uint32_t flags, WaitList* claimed) noexcept {
  side->queue.lock();
  // A plain addition: only ClearReadiness() writes without the lock, and it removes only kReady (FD1).
  const std::uint32_t word = side->word.load(std::memory_order_relaxed);
  // release: pairs with the acquire in TicketOf().
  side->word.store((word + kOneEvent) | kReady | flags, std::memory_order_release);
  side->queue.ClaimAll(claimed);
  side->queue.unlock();
}

void FdSlot::OnEvents(std::uint32_t events, WaitList* claimed) noexcept {
  const std::uint32_t broken = events & (EPOLLERR | EPOLLHUP);
  const std::uint32_t special = (events & (EPOLLRDHUP | EPOLLPRI)) != 0 || broken != 0 ? kShortProvesNothing : 0;
  if ((events & EPOLLRDHUP) != 0 || broken != 0) NoteHangup();
  if ((events & EPOLLIN) != 0 || special != 0) SetReady(&sides_[kRead], special, claimed);
  if ((events & EPOLLOUT) != 0 || broken != 0) SetReady(&sides_[kWrite], 0, claimed);
}

void FdSlot::NoteHangup() noexcept {
  std::lock_guard guard(register_mutex_);
  may_have_hung_up_ = true;
  if (watch_ != nullptr) watch_->MayHaveHungUp(fd_, read_is_shut_.load(std::memory_order_relaxed));
}

std::error_code FdSlot::Watch(HangupWatch* watch) noexcept {
  // relaxed: Register() looks again, under the lock.
  if (!sides_[kRead].registered.load(std::memory_order_relaxed) || !registration_.is_served()) {
    if (const std::error_code error = Register(kRead)) return error;
  }
  std::lock_guard guard(register_mutex_);
  WEFT_CHECK(watch_ == nullptr, "io: a second watch for hang-ups on a connection that has one");
  watch_ = watch;
  if (may_have_hung_up_) watch_->MayHaveHungUp(fd_, read_is_shut_.load(std::memory_order_relaxed));
  return {};
}

void FdSlot::Unwatch() noexcept {
  std::lock_guard guard(register_mutex_);
  watch_ = nullptr;
}

IoResult FdSlot::Retry(Direction direction, std::size_t full, SystemCall function, void* call, Deadline deadline) {
  bool timed_out = false;
  int timeouts = 0;
  for (;;) {
    const Ticket ticket = TicketOf(direction);
    if (ticket.closed()) return {0, ErrnoCode(ECANCELED)};
    // After a time-out ask the kernel once more: the reactor may not have reported the latest events yet.
    if (timed_out || WorthATry(direction, ticket)) {
      const ssize_t result = function(call, fd_);
      if (result >= 0) [[likely]] {
        const auto bytes = static_cast<std::size_t>(result);
        if (bytes < full && bytes != 0 && direction == kRead) ClearReadinessAfterShortRead(ticket);
        if (timed_out && direction == kWrite) NoteRoomWithoutEvent();
        Succeeded(direction);
        return {bytes, {}};
      }
      const int number = errno;
      if (number == EINTR) continue;
      if (number != EAGAIN && number != EWOULDBLOCK) return {0, ErrnoCode(number)};
      ClearReadiness(direction, ticket);
      if (timed_out && ++timeouts == TimeoutsOf(direction, deadline)) return {0, ErrnoCode(ETIMEDOUT)};
    }
    const std::error_code error = Wait(direction, deadline);
    timed_out = error.value() == ETIMEDOUT;
    if (error && !timed_out) return {0, error};
    if (!timed_out) timeouts = 0;  // An event: the limit begins anew.
  }
}

void FdSlot::ClearReadiness(Direction direction, Ticket ticket) noexcept {
  if (ticket.closed()) return;
  // relaxed: clearing only saves tries. It fails if an event has come since.
  (void)sides_[direction].word.compare_exchange_strong(ticket.word_, ticket.word_ & ~kReady, std::memory_order_relaxed);
}

void FdSlot::ClearReadinessAfterShortRead(Ticket ticket) noexcept {
  if ((ticket.word_ & kShortProvesNothing) != 0) return;
  if (sides_[kRead].registered.load(std::memory_order_relaxed)) ClearReadiness(kRead, ticket);
}

void FdSlot::NoteRoomWithoutEvent() noexcept {
  Side& side = sides_[kWrite];
  side.queue.lock();
  side.word.fetch_or(kReady, std::memory_order_relaxed);  // A hint (FD2). Those who wait have an event to come.
  side.queue.unlock();
}

void FdSlot::ExpectShortReads() noexcept {
  WaitList claimed;
  SetReady(&sides_[kRead], kShortProvesNothing, &claimed);
  synchronization::WakeAll(&claimed);
}

void FdSlot::Succeeded(Direction direction) noexcept {
  // relaxed, and inexact if several read at once.
  std::atomic<std::uint32_t>& streak = sides_[direction].streak;
  const std::uint32_t length = streak.load(std::memory_order_relaxed) + 1;
  streak.store(length, std::memory_order_relaxed);
  if (length < kMaxStreak) [[likely]]
    return;
  streak.store(0, std::memory_order_relaxed);
  if (scheduling_group::CurrentFiber() != nullptr) scheduling_group::YieldCurrentFiber();
}

std::error_code FdSlot::Register(Direction direction) {
  ForgetFd(fd_);  // A descriptor has one registration, and WaitFd() may have one left for this number.
  std::lock_guard guard(register_mutex_);
  const std::uint32_t events =
      registered_ | (direction == kRead ? EPOLLIN | EPOLLPRI | EPOLLRDHUP : EPOLLOUT) | EPOLLET;
  if (events == registered_ && registration_.is_served()) return {};
  Side& side = sides_[direction];
  if (direction == kRead && !ShortReadDrains(fd_)) {
    side.queue.lock();
    // relaxed: a ticket taken before clears nothing, since the word has changed.
    side.word.fetch_or(kShortProvesNothing, std::memory_order_relaxed);
    side.queue.unlock();
  }
  if (const std::error_code error = registration_.Set(fd_, events, this)) return error;
  registered_ = events;
  side.registered.store(true, std::memory_order_relaxed);
  return {};
}

std::error_code FdSlot::AwaitRegistered(Direction direction) noexcept {
  if (IsServed(direction)) [[likely]]
    return {};
  // The kernel reports what is ready at the registration, so nothing that came before is missed.
  return Register(direction);
}

bool FdSlot::EnterShared(Direction direction, Waiter* waiter) noexcept {
  Side& side = sides_[direction];
  side.queue.lock();
  const bool waits = (side.word.load(std::memory_order_relaxed) & kReady) == 0;  // The lock orders it.
  if (waits) side.queue.EnqueueShared(waiter);
  side.queue.unlock();
  if (waits) side.streak.store(0, std::memory_order_relaxed);
  return waits;
}

void FdSlot::LeaveShared(Direction direction, Waiter* waiter) noexcept {
  Side& side = sides_[direction];
  side.queue.lock();
  side.queue.LeaveUnnotified(waiter);
  side.queue.unlock();
}

FdSlot::Entered FdSlot::EnterWatch(Waiter* waiter, synchronization::WaitNode::DecisionWord* word,
                                   const base::Atomic<bool>& forbidden) noexcept {
  Side& side = sides_[kRead];
  Entered entered = Entered::kWaits;
  side.queue.lock();
  if ((side.word.load(std::memory_order_relaxed) & kReady) != 0) {  // The lock orders all three.
    entered = Entered::kReady;
  } else if (forbidden.load(std::memory_order_seq_cst)) {  // RDW5
    entered = Entered::kForbidden;
  } else {
    side.streak.store(0, std::memory_order_relaxed);
    waiter->BeginShared(word, waiter);
    word->store(waiter, std::memory_order_relaxed);
    side.queue.EnqueueShared(waiter);
  }
  side.queue.unlock();
  return entered;
}

bool FdSlot::LeaveWatch(Waiter* waiter) noexcept {
  Side& side = sides_[kRead];
  side.queue.lock();
  const bool left = waiter->Claim(WaitResult::kInterrupted);  // Only under the lock: FD9.
  if (left) side.queue.LeaveUnnotified(waiter);
  side.queue.unlock();
  return left;
}

void FdSlot::SetWaitLimit(Direction direction, std::chrono::milliseconds limit) noexcept {
  constexpr std::int64_t kMost = std::numeric_limits<std::uint32_t>::max();  // 49 days
  const std::int64_t count = std::clamp<std::int64_t>(limit.count(), 0, kMost);
  sides_[direction].wait_limit_ms.store(static_cast<std::uint32_t>(count), std::memory_order_relaxed);
}

Deadline FdSlot::LimitOfWait(Direction direction) const noexcept {
  const std::uint32_t limit = sides_[direction].wait_limit_ms.load(std::memory_order_relaxed);
  if (limit == 0) return Deadline::None();
  return Deadline(std::chrono::nanoseconds(std::chrono::milliseconds(limit)) / TimeoutsOf(direction, Deadline::None()));
}

std::error_code FdSlot::Wait(Direction direction, Deadline deadline) noexcept {
  if (deadline.is_none()) deadline = LimitOfWait(direction);
  if (scheduling_group::CurrentFiber() == nullptr) return WaitInThread(direction, deadline);
  if (std::error_code error = AwaitRegistered(direction)) [[unlikely]]
    return error;
  Side& side = sides_[direction];
  Waiter waiter;
  side.queue.lock();
  if ((side.word.load(std::memory_order_relaxed) & kReady) != 0) {  // The lock orders it.
    side.queue.unlock();
    return {};
  }
  side.streak.store(0, std::memory_order_relaxed);
  const auto reason = synchronization::WaitReason::OfDescriptor(
      direction == kRead ? synchronization::WaitKind::kReadable : synchronization::WaitKind::kWritable, fd_);
  switch (side.queue.Wait(&waiter, deadline, synchronization::Interruptible::kResult, reason)) {
    case WaitResult::kNotified:
      return {};
    case WaitResult::kTimedOut:
      return ErrnoCode(ETIMEDOUT);
    case WaitResult::kInterrupted:
      return ErrnoCode(ECANCELED);
  }
  WEFT_UNREACHABLE();
}

// Polls the descriptor and an eventfd that Close() writes to. The eventfd stays readable, so all threads see it.
std::error_code FdSlot::WaitInThread(Direction direction, Deadline deadline) noexcept {
  int waker;
  {
    std::lock_guard guard(register_mutex_);
    if (closed()) return {};  // Under the lock: Close() has not looked for the eventfd yet, and will find it.
    if (thread_waker_ < 0) thread_waker_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    if (thread_waker_ < 0) return ErrnoCode(errno);
    waker = thread_waker_;
  }
  pollfd polled[] = {
      {.fd = fd_, .events = static_cast<short>(direction == kRead ? POLLIN | POLLRDHUP : POLLOUT), .revents = 0},
      {.fd = waker, .events = POLLIN, .revents = 0}};
  const int ready = PollUntil(polled, 2, deadline);
  if (ready < 0) return ErrnoCode(-ready);
  if (ready == 0) return ErrnoCode(ETIMEDOUT);
  // The reactor, if any, may report it later, or never if its workers have ended.
  Side& side = sides_[direction];
  side.queue.lock();
  side.word.fetch_or(kReady, std::memory_order_relaxed);  // The caller reads it itself.
  side.queue.unlock();
  return {};
}

}  // namespace weft::io
