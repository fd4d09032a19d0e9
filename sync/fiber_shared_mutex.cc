// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/sync/fiber_shared_mutex.h"

#include "weft/sync/wait/wait_queue.h"

namespace weft {

using synchronization::Interruptible;
using synchronization::Waiter;
using synchronization::WaitKind;
using synchronization::WaitList;
using synchronization::WaitNode;
using synchronization::WaitReason;
using synchronization::WaitResult;

bool FiberSharedMutex::AnnounceWaiterOr(std::uint32_t blocked_by, std::uint32_t take) noexcept {
  std::uint32_t word = word_.load(std::memory_order_relaxed);  // Only a guess; the exchange decides.
  for (;;) {
    const bool blocked = (word & blocked_by) != 0;
    if (blocked && (word & kWaiters) != 0) return true;
    const std::uint32_t next = blocked ? word | kWaiters : word + take;
    // acquire: as in TakeFree(), when it is ours.
    if (word_.compare_exchange_weak(word, next, std::memory_order_acquire, std::memory_order_relaxed)) return blocked;
  }
}

void FiberSharedMutex::CheckNotOwnedByCaller(const char* function) const noexcept {
  WEFT_CHECK(!writer_.IsCaller(), "FiberSharedMutex::", function,
             ": the caller owns it already, as the writer, and would wait for itself (it is not recursive)");
}

// A writer without a deadline (WS6) would wait for us, and we for it.
void FiberSharedMutex::CheckNoReadBehindWriter() const noexcept {
  if (writers_.empty() || writers_.front()->word() != nullptr || !last_reader_.IsCaller()) return;
  WEFT_FATAL("FiberSharedMutex::lock_shared: the caller owns it already, as a reader, while a writer waits for it to ",
             "leave, and would wait for that writer (it is not recursive)");
}

void FiberSharedMutex::FailWaitedFor() const noexcept {
  const WaitList& list = writers_.empty_hint() ? readers_ : writers_;
  synchronization::FailWaitedFor("FiberSharedMutex", static_cast<Waiter*>(list.front())->fiber());
}

WEFT_NOINLINE bool FiberSharedMutex::LockSlow(Deadline deadline) noexcept {
  if (deadline.is_none()) {
    CheckNotOwnedByCaller("lock");
    WEFT_CHECK(!last_reader_.IsCaller(),
               "FiberSharedMutex::lock: the caller owns it already, as a reader, and would wait for itself");
  }
  queue_lock_.lock();
  if (!AnnounceWaiterOr(/*blocked_by=*/~0U, /*take=*/kWriter)) {
    queue_lock_.unlock();
    return true;
  }
  return Await(&writers_, deadline);
}

WEFT_NOINLINE bool FiberSharedMutex::LockSharedSlow(Deadline deadline) noexcept {
  if (deadline.is_none()) CheckNotOwnedByCaller("lock_shared");
  queue_lock_.lock();
  if (!AnnounceWaiterOr(/*blocked_by=*/kWriter | kWaiters, /*take=*/kOneReader)) {
    queue_lock_.unlock();
    return true;
  }
  if (deadline.is_none()) CheckNoReadBehindWriter();
  return Await(&readers_, deadline);
}

// Queues up, unlocks, waits. True: it got the mutex by hand-off.
bool FiberSharedMutex::Await(WaitList* list, Deadline deadline) noexcept {
  Waiter waiter;
  const bool too_late = !deadline.is_none() && deadline.expired();
  if (!too_late) {
    waiter.Prepare(deadline, Interruptible::kNo, WaitReason(WaitKind::kSharedMutex, this));
    list->PushBack(&waiter);
    queue_lock_.unlock();
    if (waiter.Await(deadline) == WaitResult::kNotified) return true;
    queue_lock_.lock();
    if (waiter.linked()) list->Remove(&waiter);
  }
  WaitList chosen;
  OnWaiterLeft(&chosen);
  queue_lock_.unlock();
  WakeAll(&chosen);
  return false;
}

void FiberSharedMutex::OnWaiterLeft(WaitList* chosen) noexcept {
  if (!writers_.empty()) return;
  // acquire: what the last writer did is handed on to the readers that enter. Pairs with the release in GiveUpWriter().
  if ((word_.load(std::memory_order_acquire) & kWriter) == 0) {
    // SM3: no writer is before them any more. Reading owners may leave meanwhile, hence read-modify-writes; the last of
    // them may not while kWaiters is set (it needs our lock).
    std::uint32_t passed_over = 0;
    while (WaitNode* node = readers_.ClaimFirst(&passed_over)) {
      word_.fetch_add(kOneReader, std::memory_order_relaxed);
      chosen->PushBack(node);
    }
  }
  // relaxed: an owner that sees no waiters needs nothing from us.
  if (readers_.empty()) word_.fetch_and(~kWaiters, std::memory_order_relaxed);
}

bool FiberSharedMutex::HandToReaders(WaitList* chosen) noexcept {
  std::uint32_t passed_over = 0;
  std::uint32_t count = 0;
  while (WaitNode* node = readers_.ClaimFirst(&passed_over)) {
    chosen->PushBack(node);
    ++count;
  }
  if (count == 0) return false;
  // A plain store: SM2. release: later readers that join see what we did. Pairs with the acquire in JoinReaders().
  word_.store(count * kOneReader | (writers_.empty() ? 0 : kWaiters), std::memory_order_release);
  return true;
}

bool FiberSharedMutex::HandToWriter(WaitList* chosen) noexcept {
  std::uint32_t passed_over = 0;
  WaitNode* node = writers_.ClaimFirst(&passed_over);
  if (node == nullptr) return false;
  chosen->PushBack(node);
  // A plain store: SM2. relaxed: that writer gets everything by its wake.
  word_.store(kWriter | (writers_.empty() && readers_.empty() ? 0 : kWaiters), std::memory_order_relaxed);
  return true;
}

WEFT_NOINLINE void FiberSharedMutex::UnlockSlow() noexcept {
  do {
    WEFT_CHECK((word_.load(std::memory_order_relaxed) & kWriter) != 0, "FiberSharedMutex::unlock: no writer owns it");
    WaitList chosen;
    queue_lock_.lock();
    if (HandToReaders(&chosen) || HandToWriter(&chosen)) {
      queue_lock_.unlock();  // SM4
      WakeAll(&chosen);
      return;
    }
    // All have timed out. relaxed: as in OnWaiterLeft().
    word_.fetch_and(~kWaiters, std::memory_order_relaxed);
    queue_lock_.unlock();
  } while (!GiveUpWriter());
}

WEFT_NOINLINE void FiberSharedMutex::UnlockSharedSlow() noexcept {
  do {
    WaitList chosen;
    queue_lock_.lock();
    // acquire: what the readers did that have left before us. Pairs with the release in LeaveReaders().
    if (word_.load(std::memory_order_acquire) == (kOneReader | kWaiters)) {
      if (HandToWriter(&chosen) || HandToReaders(&chosen)) {
        queue_lock_.unlock();  // SM4
        WakeAll(&chosen);
        return;
      }
      word_.fetch_and(~kWaiters, std::memory_order_relaxed);  // As in UnlockSlow().
    }
    queue_lock_.unlock();
  } while (!LeaveReaders());
}

}  // namespace weft
