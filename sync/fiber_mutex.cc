// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/sync/fiber_mutex.h"

#include <unistd.h>

#include <bit>
#include <chrono>
#include <memory>
#include <new>
#include <thread>

#include "weft/scheduling_group/fiber/park.h"
#include "weft/sync/wait/contention.h"
#include "weft/sync/wait/wait_queue.h"

namespace weft {

using synchronization::ContentionSample;
using synchronization::Interruptible;
using synchronization::Waiter;
using synchronization::WaitKind;
using synchronization::WaitList;
using synchronization::WaitReason;
using synchronization::WaitResult;

namespace {

// On a single CPU the owner cannot run while we spin.
bool HasSeveralCpus() noexcept {
  static const bool several = std::thread::hardware_concurrency() > 1;
  return several;
}

// For how long a woken waiter has lost. Reading the clock (20 ns) is expensive beside a loss (60 ns, a switch there and
// back), so it is read at the 1st, 2nd, 4th, 8th and each further 16th loss.
class Patience {
 public:
  // One more loss. True: it has lost for `limit`.
  bool IsOverAfterLoss(std::chrono::nanoseconds limit) noexcept {
    constexpr unsigned kEvery = 16;
    ++losses_;
    const bool look = losses_ < kEvery ? std::has_single_bit(losses_) : losses_ % kEvery == 0;
    if (over_ || !look) return over_;
    const auto now = std::chrono::steady_clock::now();
    if (losses_ == 1) since_ = now;
    over_ = now - since_ >= limit;
    return over_;
  }

 private:
  unsigned losses_ = 0;
  bool over_ = false;
  std::chrono::steady_clock::time_point since_;
};

// Of a wait that is one. On the heap: in the frame of all waits it would cost 2 %.
WEFT_NOINLINE WEFT_COLD void BeginSample(Waiter* waiter) noexcept {
  waiter->argument = new (std::nothrow) ContentionSample;
  waiter->sampled = waiter->argument != nullptr;
}

// sample: of a waiter that had one. has_waited: else it has found the mutex free.
WEFT_NOINLINE WEFT_COLD void FinishSample(Waiter* waiter, const FiberMutex* mutex, bool has_waited,
                                          Deadline deadline) noexcept {
  waiter->sampled = false;
  const std::unique_ptr<ContentionSample> sample(static_cast<ContentionSample*>(waiter->argument));
  waiter->argument = nullptr;
  if (has_waited) sample->Finish(mutex, deadline.time_point());
}

}  // namespace

WEFT_NOINLINE std::uint32_t FiberMutex::CallerTag() noexcept {
  // Fibers have even tags, threads odd ones: 27 bits of the id, the same for fibers started 134 million fibers apart.
  const scheduling_group::FiberEntity* fiber = scheduling_group::CurrentFiber();
  if (fiber != nullptr) return (static_cast<std::uint32_t>(fiber->id()) << 1 | 0) << kTagShift;
  static thread_local const auto id = static_cast<std::uint32_t>(gettid());  // Of a plain thread: no switch in here.
  return (id << 1 | 1) << kTagShift;
}

// By the thread or fiber that unlocks: `word` was read while it owned the mutex.
void FiberMutex::CheckOwner(std::uint32_t word) const noexcept {
  WEFT_CHECK((word & kLocked) != 0, "FiberMutex::unlock: not locked");
  WEFT_DCHECK((word & ~kFlags) == 0 || (word & ~kFlags) == OwnerTag(),
              "FiberMutex::unlock: the caller is not the owner (it was locked by another fiber or thread)");
}

// By a caller that finds the mutex locked.
void FiberMutex::CheckNotRecursive(std::uint32_t word) const noexcept {
  WEFT_DCHECK((word & kLocked) == 0 || (word & ~kFlags) == 0 || (word & ~kFlags) != OwnerTag(),
              "FiberMutex::lock: the caller owns it already (it is not recursive)");
}

bool FiberMutex::TakeUnlocked(bool woken, std::uint32_t tag) noexcept {
  std::uint32_t word = word_.load(std::memory_order_relaxed);  // Only a guess; the exchange decides.
  while ((word & kLocked) == 0) {
    std::uint32_t next = word | kLocked | tag;
    if (woken) next &= ~kWoken;
    // acquire: as in TakeFree().
    if (word_.compare_exchange_weak(word, next, std::memory_order_acquire, std::memory_order_relaxed)) return true;
  }
  return false;
}

WEFT_NOINLINE bool FiberMutex::LockSlow(Deadline deadline, std::uint32_t tag) noexcept {
  CheckNotRecursive(word_.load(std::memory_order_relaxed));  // Ours if it has our tag: nobody else changes that.
  Waiter waiter;
  waiter.tag = tag;
  if (SpinForIt(waiter.fiber() != nullptr, tag)) return true;
  // Cheap: the wait that follows costs ten times as much.
  WEFT_CHECK(!deadline.is_none() || !owner_.IsCaller(),
             "FiberMutex::lock: the caller owns it already, and would wait for itself (it is not recursive)");
  return Contend(&waiter, /*woken=*/false, deadline);
}

// A section is often over sooner than a wait. But only a running owner finishes it, and queued waiters come first.
bool FiberMutex::SpinForIt(bool is_fiber, std::uint32_t tag) noexcept {
  // A fiber's wait costs two switches and a wake, 0.1 us; a thread's a futex wake, 5 to 20 us (parker_benchmark.cc).
  constexpr int kFiberSpins = 2;
  constexpr int kThreadSpins = 64;
  if (!HasSeveralCpus()) return false;
  for (int spins = is_fiber ? kFiberSpins : kThreadSpins; spins > 0; --spins) {
    const std::uint32_t word = word_.load(std::memory_order_relaxed);  // Only a hint.
    if ((word & kLocked) == 0) return TakeUnlocked(/*woken=*/false, tag);
    if ((word & (kQueued | kWoken)) != 0) return false;
    base::CpuRelax();
  }
  return false;
}

// False: it is not locked any more. Never inlined: the compiler would make a way of its own for the first waiter, and
// dumps would show it apart from the others.
WEFT_NOINLINE bool FiberMutex::QueueUp(Waiter* waiter, bool woken, std::uint16_t hand_offs,
                                       Deadline deadline) noexcept {
  base::SpinLockGuard guard(queue_lock_);
  std::uint32_t word = word_.load(std::memory_order_relaxed);  // Only a guess; the exchange decides.
  for (;;) {
    if ((word & kLocked) == 0) return false;
    std::uint32_t next = word | kQueued;
    if (woken) next &= ~kWoken;
    if (hand_offs != 0) next |= kHandOff;
    // relaxed: the owner that sees the bits takes queue_lock_ before it looks at the queue.
    if (word_.compare_exchange_weak(word, next, std::memory_order_relaxed, std::memory_order_relaxed)) break;
  }
  waiter->granted = false;
  waiter->count = hand_offs;
  waiter->Prepare(deadline, Interruptible::kNo, WaitReason(WaitKind::kMutex, this));
  if (woken) {
    waiters_.PushFront(waiter);
  } else {
    waiters_.PushBack(waiter);
  }
  return true;
}

// Until the mutex is ours (true) or the deadline has passed (false).
bool FiberMutex::Contend(Waiter* waiter, bool woken, Deadline deadline) noexcept {
  Patience patience;
  unsigned losses_beside_waker = 0;  // in a row
  for (;;) {
    if (TakeUnlocked(woken, waiter->tag)) return true;
    if (deadline.expired()) return woken ? GiveUpWoken(waiter->tag) : false;
    std::uint16_t hand_offs = 0;  // to ask for
    if (woken) {
      if (patience.IsOverAfterLoss(kPatience)) hand_offs = 1;  // MX6
      // UnlockSlow() left the waker's worker in `argument`; a thread has none.
      const void* worker = scheduling_group::CurrentWorker();
      losses_beside_waker = worker != nullptr && worker == waiter->argument ? losses_beside_waker + 1 : 0;
      if (losses_beside_waker >= kLossesBesideWaker) hand_offs = kHandOffsInARow;
    }
    if (waiter->fiber() != nullptr && WEFT_UNLIKELY(ContentionSample::IsNext())) BeginSample(waiter);
    if (!QueueUp(waiter, woken, hand_offs, deadline)) {
      if (WEFT_UNLIKELY(waiter->sampled)) FinishSample(waiter, this, /*has_waited=*/false, deadline);
      continue;
    }
    const bool notified = waiter->Await(deadline) == WaitResult::kNotified;
    if (!notified) LeaveQueue(waiter);
    if (WEFT_UNLIKELY(waiter->sampled)) FinishSample(waiter, this, /*has_waited=*/true, deadline);
    if (!notified) return false;
    if (waiter->granted) return true;
    woken = true;
  }
}

// The waiter timed out.
void FiberMutex::LeaveQueue(Waiter* waiter) noexcept {
  base::SpinLockGuard guard(queue_lock_);
  if (!waiter->linked()) return;  // An unlock() passed over it, and has set the bits.
  waiters_.Remove(waiter);
  // relaxed: as in QueueUp(). (kHandOff left behind would do no harm: the next unlock(), on its slow way, clears it.)
  if (waiters_.empty()) word_.fetch_and(~(kQueued | kHandOff), std::memory_order_relaxed);
}

// The waiter was woken, lost, and has no more time. Clears kWoken while the mutex is locked, so that the next unlock()
// wakes another (MX2). True: the mutex became free, and is ours after all.
bool FiberMutex::GiveUpWoken(std::uint32_t tag) noexcept {
  for (;;) {
    if (TakeUnlocked(/*woken=*/true, tag)) return true;
    std::uint32_t word = word_.load(std::memory_order_relaxed);
    while ((word & kLocked) != 0) {
      // relaxed: carries nothing but the bit.
      if (word_.compare_exchange_weak(word, word & ~kWoken, std::memory_order_relaxed, std::memory_order_relaxed)) {
        return false;
      }
    }
  }
}

// By the owner, while nobody must be woken: frees the mutex. False: somebody must; `*word` is what it found.
bool FiberMutex::Release(std::uint32_t* word) noexcept {
  *word = word_.load(std::memory_order_relaxed);  // Only a guess; the exchange decides.
  while ((*word & (kQueued | kHandOff)) == 0 || (*word & (kWoken | kHandOff)) == kWoken) {
    // release: as in unlock().
    if (word_.compare_exchange_weak(*word, *word & (kFlags & ~kLocked), std::memory_order_release,
                                    std::memory_order_relaxed)) {
      return true;
    }
  }
  return false;
}

WEFT_NOINLINE void FiberMutex::UnlockSlow() noexcept {
  CheckOwner(word_.load(std::memory_order_relaxed));  // We own it: nobody else changes what is looked at.
  std::uint32_t word;
  while (!Release(&word)) {
    queue_lock_.lock();
    std::uint32_t passed_over = 0;
    auto* waiter = static_cast<Waiter*>(waiters_.ClaimFirst(&passed_over));
    const std::uint32_t queued = waiters_.empty() ? 0 : kQueued;
    if (waiter == nullptr) {
      // All have timed out. Not freed here: MX5. relaxed: as in QueueUp().
      word_.fetch_and(~(kQueued | kHandOff), std::memory_order_relaxed);
      queue_lock_.unlock();
      continue;
    }
    // A plain store: MX4. (Release() found kWoken clear, or kHandOff set.)
    word = kWoken | queued;
    if ((word_.load(std::memory_order_relaxed) & kHandOff) != 0) {
      waiter->granted = true;
      word = kLocked | waiter->tag | queued;
      if (queued != 0 && waiter->count > 1) {  // MX7
        static_cast<Waiter*>(waiters_.front())->count = static_cast<std::uint16_t>(waiter->count - 1);
        word |= kHandOff;
      }
    }
    const bool sampled = waiter->sampled;
    if (WEFT_LIKELY(!sampled)) waiter->argument = scheduling_group::CurrentWorker();  // For Contend().
    // release: as in unlock(). The wake carries it to a waiter that got it handed off.
    word_.store(word, std::memory_order_release);
    queue_lock_.unlock();
    if (WEFT_UNLIKELY(sampled)) static_cast<ContentionSample*>(waiter->argument)->End();
    waiter->Wake();
    return;
  }
}

void FiberMutex::Adopt(WaitList* claimed) noexcept {
  Waiter* wake_now = nullptr;
  {
    base::SpinLockGuard guard(queue_lock_);
    if (claimed->empty()) return;
    while (auto* waiter = static_cast<Waiter*>(claimed->PopFront())) {
      waiter->HandOn();
      if (waiter->fiber() != nullptr) {
        scheduling_group::SetWaitReason(waiter->fiber(), WaitReason(WaitKind::kMutex, this));
      }
      waiter->granted = false;
      waiters_.PushBack(waiter);
    }
    const bool several = !waiters_.IsSingle();
    std::uint32_t word = word_.load(std::memory_order_relaxed);  // Only a guess; the exchange decides.
    std::uint32_t next;
    do {
      // The unlock() of the owner, or of a woken waiter under way, will wake the first waiter (MX2).
      const bool others_will = (word & (kLocked | kWoken)) != 0;
      next = others_will ? word | kQueued : word | kWoken | (several ? kQueued : 0);
      // relaxed: as in QueueUp().
    } while (!word_.compare_exchange_weak(word, next, std::memory_order_relaxed, std::memory_order_relaxed));
    if ((word & (kLocked | kWoken)) == 0) {
      std::uint32_t passed_over = 0;
      wake_now = static_cast<Waiter*>(waiters_.ClaimFirst(&passed_over));
    }
  }
  if (wake_now != nullptr) wake_now->Wake();
}

void FiberMutex::LockAdopted(Waiter* waiter) noexcept {
  if (!waiter->granted) static_cast<void>(Contend(waiter, /*woken=*/true, Deadline::None()));
  owner_.Set();
}

void FiberMutex::FailWaitedFor() const noexcept {
  synchronization::FailWaitedFor("FiberMutex", static_cast<Waiter*>(waiters_.front())->fiber());
}

}  // namespace weft
