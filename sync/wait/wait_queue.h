// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// WaitQueue: fibers and threads wait here, in order, until they are notified, run out of time or are interrupted. All
// primitives of sync wait through this file: it is the only one that knows a fiber from a thread.
//
//      waiting                                             waking
//      -------                                             ------
//      Waiter waiter;          (on its own stack)          queue.lock()
//      queue.lock()                                        change the primitive's state
//      look at the primitive's state: must it wait?        waiter = queue.ClaimFirst(), or ClaimAll(&list)
//      queue.Enqueue(&waiter)  (fiber: kParking now)       queue.unlock()        last touch of the primitive (WQ2)
//      queue.unlock()                                      waiter->Wake(), or WakeAll(&list)
//      queue.Await(&waiter)    fiber: set the timer, park, disarm it
//                              thread: sleep on a futex until the deadline (thread_parker.h: or run its loop)
//                              not notified: leave the queue, under its lock
//
// Invariants (WS1 to WS8 in wait_state.h are those of how a wait ends)
//   WQ1  No lock is held while a fiber switches: Enqueue() only announces the park, Await() makes it, after unlock().
//   WQ2  A waker collects the waiters it has won into a list of its own, unlocks, wakes. After the unlock it never
//        touches the primitive, nor a waiter after its wake: a primitive may be destroyed once the waits have returned.
//   WQ3  A fiber parks once per wait, and the winner of the decision is the one who unparks it (FS2 in fiber_state.h).
//   WQ4  The timer is armed after the waiter is in the queue and disarmed before Await() returns: fire() never sees a
//        dead waiter. fire() takes no lock of ours, but claims by the decision word, under the lock of its timer shard.
//   WQ5  A waiter passed over by a notifier (its claim was lost: it timed out or was interrupted) is out of the list
//        but still has to pass the queue's lock: it is counted in passed_over_ until then. Drain() waits for these.
//
// Any fiber and any thread may call all of this, also without a runtime. Only waits, sleeps and yields switch or block.
// Memory ordering: what the waker did before it woke a waiter is visible to that waiter after Await().
//
// Rejected: global buckets keyed by address, as of futexes (unrelated objects contend, and a new object is woken for
// its predecessor); a queue without lock (a waiter that times out leaves from the middle; a spin lock costs 6 ns).
#ifndef WEFT_SYNC_WAIT_WAIT_QUEUE_H_
#define WEFT_SYNC_WAIT_WAIT_QUEUE_H_

#include <atomic>
#include <cstdint>

#include "weft/base/deadline.h"
#include "weft/base/thread/cpu.h"
#include "weft/base/thread/spin_lock.h"
#include "weft/base/thread/thread_annotations.h"
#include "weft/base/time/clock.h"
#include "weft/scheduling_group/fiber/fiber_entity.h"
#include "weft/scheduling_group/fiber/park.h"
#include "weft/scheduling_group/fiber/wait_reason.h"
#include "weft/scheduling_group/worker/thread_parker.h"
#include "weft/sync/wait/wait_state.h"

namespace weft::synchronization {

using scheduling_group::FiberEntity;
using scheduling_group::WaitKind;
using scheduling_group::WaitReason;

// Whether a wait is a cancellation point, and what may then end it.
//
// While an exception unwinds the stack a wait cannot throw. Then a function that returns nothing waits until it has
// what it promises. One that returns a result can say that it has not, and does when a scope is cancelled that the
// fiber has entered since the unwinding began: the limit of a destructor's ShieldedFor() (cancel_node.h).
enum class Interruptible : std::uint8_t {
  kNo,
  kYes,     // its function returns nothing, or what it has waited for
  kResult,  // its function returns a result that can say that the wait was in vain
};

// What the calling fiber asks before it waits: these four, of which two are defined in cancel_node.cc.

// Whether the fiber's stack is being unwound, and its innermost scope was entered since that began.
bool IsInScopeOfUnwinding(const FiberEntity* self) noexcept;

// Whether the calling fiber's waits can be cancelled now. nullptr: a thread. One load for fibers outside of scopes.
inline bool MayBeCancelled(const FiberEntity* self, Interruptible how) noexcept {
  if (how == Interruptible::kNo || self == nullptr || !self->cancel_word.scoped()) return false;
  if (WEFT_LIKELY(!scheduling_group::IsUnwinding())) return true;
  return how == Interruptible::kResult && IsInScopeOfUnwinding(self);
}

// Cancels the scopes that count for the fiber and whose deadline has passed. True: there is one. Holding no lock.
bool CancelLate(const FiberEntity* self) noexcept;

// At a cancellation point of a fiber that may be cancelled: whether it is. Holding no lock.
inline bool IsToEnd(const FiberEntity* self) noexcept {
  return WEFT_UNLIKELY(self->cancel_word.pending_or_timed()) && (self->cancel_word.pending() || CancelLate(self));
}

// For destructors: destroying a primitive with waiters ends the process; the message names both. (They would wait for
// ever, or touch what is no more.) `waiter`: nullptr for a thread. Returns if the process ends anyhow (exit.h).
void FailWaitedFor(const char* primitive, const FiberEntity* waiter) noexcept;

// What a waker wakes instead of a fiber or a thread: one that waits for several things (select.h).
struct WakeTarget {
  void (*wake)(WakeTarget* self) noexcept;
};

// A fiber or thread that waits. Lives on its stack, for one wait at a time.
class Waiter : public WaitNode {
 public:
  Waiter() noexcept;  // The calling fiber or thread.
  // One of several waits: the wake goes to `target`.
  explicit Waiter(WakeTarget* target) noexcept : fiber_(nullptr), target_(target) {}

  // The owner, holding the lock that guards the list, before it enters it. From here on it must call Await(). `reason`:
  // for dumps, here and below.
  void Prepare(Deadline deadline, Interruptible interruptible, WaitReason reason = {}) noexcept;

  // The owner, holding no lock. Returns when the wait is decided and the owner was woken. If the result is not
  // kNotified, the caller must take the waiter out of its list, under the list's lock, if it is still linked.
  [[nodiscard]] WaitResult Await(Deadline deadline) noexcept;

  // The winner, holding no lock. Its last touch of the waiter.
  void Wake() noexcept;

  FiberEntity* fiber() const noexcept { return fiber_; }
  // The owner, after Await(): it was handed on to another list (WS7) and woken from there.
  bool adopted() const noexcept { return handed_on(); }

  // For the primitive that waits: what it wants, and what the waker gave it. Written before the wait, or by the winner.
  void* argument = nullptr;
  std::uint32_t tag = 0;
  std::uint16_t count = 0;
  bool granted = false;
  bool sampled = false;  // `argument` is its ContentionSample (contention.h)

 private:
  friend void WakeAll(WaitList* claimed) noexcept;

  WaitResult AwaitFiber(Deadline deadline) noexcept;
  WaitResult AwaitThread(Deadline deadline) noexcept;

  void WakeOther() noexcept;

  FiberEntity* const fiber_;  // nullptr: a thread, or a target
  WakeTarget* const target_ = nullptr;
  bool interruptible_ = false;
  DecisionWord own_word_{nullptr};
  scheduling_group::ThreadParker parker_;  // a thread's parker
};

// A fiber or thread that waits without a deadline, in no list: for a primitive that has a place for one. For a fiber it
// saves two read-modify-writes and a hundred instructions against a Waiter (ParkAndPublish() in park.h). The thread
// that takes the waiter out, by an exchange, ends the wait. A canceller does so by Withdraw(), so a wait that can be
// cancelled costs its notifier nothing. But the canceller must find the place while the primitive is still there:
//
//   waiter                                   canceller (cancel_node.h)
//   ------                                   -------------------------
//   current_wait = this, tagged              locks the cancel word
//   leaves its stack, Publish()              sets kPending
//   fence                                    fence
//   kPending?  EndPendingWait()              reads current_wait; Withdraw()
//   ... is woken                             unlocks, wakes
//   current_wait = null
//   fence
//   kPending?  locks the cancel word, unlocks it
//
// Invariants
//   SW1  A cancellation is not missed: kPending is set before Withdraw() looks at the place; the waiter enters the
//        place before it looks at kPending. Of the two fences one comes first.
//   SW2  While a canceller that has read current_wait under the lock uses the waiter or its primitive, Await() does not
//        return: the canceller did not read null, so the waiter's second fence comes after the canceller's. Hence it
//        sees kPending, and waits for the lock. So it is for EndPendingWait(), which has no fence: that of the
//        canceller who set kPending happened before, by the lock. (Where the fiber set it, or its spawner, the fiber
//        begins no wait in a place, or is still in that wait itself.)
class SoleWaiter {
 public:
  enum class Result : std::uint8_t { kNotPublished, kNotified, kInterrupted };

  explicit SoleWaiter(void* argument) noexcept : argument_(argument) {}
  SoleWaiter(const SoleWaiter&) = delete;
  SoleWaiter& operator=(const SoleWaiter&) = delete;

  // The owner, holding no lock. A template, so that the worker makes a waiter known in one call. kNotPublished:
  // Publish() said false. Place has, both with the `argument` given above, and running where the waiter's own code does
  // not; they neither block nor switch:
  //   static bool Publish(SoleWaiter*, void* argument) noexcept    puts it into its place, by a read-modify-write after
  //                                                                which it touches it no more, and says true; or
  //                                                                says false
  //   static bool Withdraw(SoleWaiter*, void* argument) noexcept   takes it out again, by an acquire; false: it is not
  //                                                                there
  template <class Place>
  [[nodiscard]] Result Await(Interruptible interruptible, WaitReason reason = {}) noexcept;

  // The thread that took it out of its place, by an acquire; holding no lock. Its last touch of the waiter.
  void Wake() noexcept;

  FiberEntity* fiber() const noexcept { return fiber_; }

 private:
  friend class TakenWait;

  static constexpr std::uintptr_t kTag = 1;  // of current_wait

  template <class Place>
  static bool Publish(void* self) noexcept;
  template <class Place>
  static bool PublishCancellably(void* self) noexcept;
  template <class Place>
  void AwaitCancellably(FiberEntity* fiber, WaitReason reason) noexcept;
  static void AwaitCanceller(FiberEntity* fiber) noexcept;
  void AwaitAsThread() noexcept;

  FiberEntity* fiber_;  // nullptr: a thread; this and all but the argument: by Await()
  void* const argument_;
  bool (*withdraw_)(SoleWaiter* self, void* argument) noexcept;  // if it can be cancelled
  Result result_;
  scheduling_group::ThreadParker parker_;  // a thread's parker
};

// Any thread, holding no lock: wakes all, in order, with one wake-up pass for the fibers among them. Empties the list.
void WakeAll(WaitList* claimed) noexcept;

// The wait of a fiber that a canceller has ended: its result is kInterrupted. The fiber must be woken, once.
class TakenWait {
 public:
  // Any thread, holding the lock of fiber->cancel_word; kPending is set there, and a fence came after that (SW2).
  // If the fiber is in a wait that can be cancelled, and nobody has ended it yet, this ends it.
  static TakenWait Of(FiberEntity* fiber) noexcept;

  explicit operator bool() const noexcept { return fiber_ != nullptr; }
  // Woken by scheduling_group::UnparkPublished(), not Unpark().
  bool published() const noexcept { return published_; }
  // Any thread, holding no lock but those of cancel words.
  void Wake() const noexcept;

 private:
  FiberEntity* fiber_ = nullptr;
  bool published_ = false;
};

// Any thread, holding no lock. Ends the cancellable wait of a fiber whose kPending has been seen. The fiber may have
// been woken meanwhile, and even be another one by now.
void EndPendingWait(FiberEntity* fiber) noexcept;

// Waits for nothing but the deadline (kTimedOut) or a cancellation (kInterrupted). Fiber or thread; switches.
WaitResult SleepUntil(Deadline deadline, Interruptible interruptible) noexcept;
// The same for a time from now; reads the clock once. Zero or less: a yield.
WaitResult SleepFor(std::chrono::nanoseconds duration, Interruptible interruptible) noexcept;

// A fiber whose wait is over before it has begun, and which throws nothing. May switch.
void YieldIfUnwinding() noexcept;

// Lets others run: a fiber yields to fibers, a thread to threads.
void YieldFiberOrThread() noexcept;

template <class Place>
WEFT_ALWAYS_INLINE SoleWaiter::Result SoleWaiter::Await(Interruptible interruptible, WaitReason reason) noexcept {
  FiberEntity* const fiber = scheduling_group::CurrentFiber();
  fiber_ = fiber;
  if (fiber == nullptr) {
    parker_.Prepare();
    if (!Place::Publish(this, argument_)) return Result::kNotPublished;
    AwaitAsThread();
    return Result::kNotified;
  }
  result_ = Result::kNotified;
  if (MayBeCancelled(fiber, interruptible)) {
    AwaitCancellably<Place>(fiber, reason);
  } else {
    scheduling_group::ParkAndPublish(fiber, &Publish<Place>, this, reason);
  }
  return result_;
}

template <class Place>
bool SoleWaiter::Publish(void* self) noexcept {
  auto* const waiter = static_cast<SoleWaiter*>(self);
  if (Place::Publish(waiter, waiter->argument_)) return true;
  waiter->result_ = Result::kNotPublished;  // The owner still has it alone.
  return false;
}

template <class Place>
WEFT_ALWAYS_INLINE void SoleWaiter::AwaitCancellably(FiberEntity* fiber, WaitReason reason) noexcept {
  if (IsToEnd(fiber)) {
    YieldIfUnwinding();
    result_ = Result::kInterrupted;
    return;
  }
  withdraw_ = &Place::Withdraw;
  // release: a canceller finds the waiter complete. Pairs with the acquire in TakenWait::Of().
  fiber->current_wait.store(reinterpret_cast<void*>(reinterpret_cast<std::uintptr_t>(this) | kTag),
                            std::memory_order_release);
  scheduling_group::ParkAndPublish(fiber, &PublishCancellably<Place>, this, reason);
  fiber->current_wait.store(nullptr, std::memory_order_relaxed);  // The lock below orders it, if anything must.
  base::ThreadFence(std::memory_order_seq_cst);                   // SW2. Pairs with the fence in Interrupt().
  if (WEFT_UNLIKELY(fiber->cancel_word.pending())) AwaitCanceller(fiber);
}

template <class Place>
bool SoleWaiter::PublishCancellably(void* self) noexcept {
  FiberEntity* const fiber = static_cast<SoleWaiter*>(self)->fiber_;
  if (!Publish<Place>(self)) return false;
  // From here on *self may be gone, and the fiber another one.
  base::FenceAfterReadModifyWrite();  // SW1. Pairs with the fence in Interrupt().
  if (WEFT_UNLIKELY(fiber->cancel_word.pending())) EndPendingWait(fiber);
  return true;
}

class WEFT_CAPABILITY("WaitQueue") WaitQueue {
 public:
  constexpr WaitQueue() = default;
  WaitQueue(const WaitQueue&) = delete;
  WaitQueue& operator=(const WaitQueue&) = delete;

  // The destructor of the primitive.
  void CheckNobodyWaits(const char* primitive) const noexcept WEFT_NO_THREAD_SAFETY_ANALYSIS {
    if (WEFT_UNLIKELY(!waiters_.empty_hint())) FailWaitedFor(primitive, front()->fiber());
  }

  // Guards the queue and what the primitive keeps beside it.
  void lock() noexcept WEFT_ACQUIRE() WEFT_NO_THREAD_SAFETY_ANALYSIS { lock_.lock(); }
  void unlock() noexcept WEFT_RELEASE() WEFT_NO_THREAD_SAFETY_ANALYSIS { lock_.unlock(); }

  // For fast paths that have just seen a state which a waker publishes under the lock: that waker may still have to
  // unlock, its last touch of the primitive (WQ2). Afterwards it has, so that the caller may return, and destroy it.
  void AwaitQuiet() noexcept WEFT_EXCLUDES(this) WEFT_NO_THREAD_SAFETY_ANALYSIS {
    if (WEFT_LIKELY(!lock_.is_held())) return;
    lock_.lock();
    lock_.unlock();
  }

  bool empty() const noexcept WEFT_REQUIRES(this) WEFT_NO_THREAD_SAFETY_ANALYSIS { return waiters_.empty(); }
  // See WaitList::empty_hint().
  bool empty_hint() const noexcept WEFT_NO_THREAD_SAFETY_ANALYSIS { return waiters_.empty_hint(); }

  // --- The waiting side ---

  // All of it: enqueues, unlocks, waits, has left the queue.
  [[nodiscard]] WaitResult Wait(Waiter* waiter, Deadline deadline, Interruptible interruptible,
                                WaitReason reason = {}) noexcept WEFT_RELEASE();

  // In two steps, for who must do something between them. Await() must follow, with the same deadline.
  void Enqueue(Waiter* waiter, Deadline deadline, Interruptible interruptible, WaitReason reason = {}) noexcept
      WEFT_REQUIRES(this) WEFT_NO_THREAD_SAFETY_ANALYSIS {
    waiter->Prepare(deadline, interruptible, reason);
    waiters_.PushBack(waiter);
  }
  [[nodiscard]] WaitResult Await(Waiter* waiter, Deadline deadline) noexcept WEFT_EXCLUDES(this);

  // One of several waits (select.h), which has begun. LeaveUnnotified() must follow, unless it was notified.
  void EnqueueShared(Waiter* waiter) noexcept WEFT_REQUIRES(this) WEFT_NO_THREAD_SAFETY_ANALYSIS {
    waiters_.PushBack(waiter);
  }
  void LeaveUnnotified(Waiter* waiter) noexcept WEFT_REQUIRES(this) WEFT_NO_THREAD_SAFETY_ANALYSIS {
    if (waiter->linked()) {
      waiters_.Remove(waiter);
    } else {
      --passed_over_;  // WQ5
    }
  }

  // --- The waking side ---

  // The next in order; nullptr: no one waits. After unlock() the caller must call Wake() on it.
  [[nodiscard]] Waiter* ClaimFirst() noexcept WEFT_REQUIRES(this) WEFT_NO_THREAD_SAFETY_ANALYSIS {
    return static_cast<Waiter*>(waiters_.ClaimFirst(&passed_over_));
  }
  // All, to the back of `claimed`. After unlock() the caller must call WakeAll() on that.
  void ClaimAll(WaitList* claimed) noexcept WEFT_REQUIRES(this) WEFT_NO_THREAD_SAFETY_ANALYSIS {
    waiters_.ClaimAll(claimed, &passed_over_);
  }
  // The next in order, not claimed: only to look at. nullptr: no one.
  Waiter* front() const noexcept WEFT_REQUIRES(this) WEFT_NO_THREAD_SAFETY_ANALYSIS {
    return static_cast<Waiter*>(waiters_.front());
  }

  // For destructors that are allowed once all are notified: waits for those passed over to leave (WQ5). May yield.
  void Drain(const char* primitive = "WaitQueue") noexcept WEFT_EXCLUDES(this);

 private:
  base::SpinLock lock_;
  std::uint32_t passed_over_ WEFT_GUARDED_BY(lock_) = 0;
  WaitList waiters_ WEFT_GUARDED_BY(lock_);
};

static_assert(sizeof(WaitQueue) == 16);

// Waits of the primitives that do not throw, for the layers above and for what may not be cancelled.
struct WaitAccess {
  // kInterrupted: it was cancelled; CheckInterrupted() says so (kResult: CheckInterruptedWithResult()).
  template <class Primitive>
  [[nodiscard]] static WaitResult Wait(Primitive& primitive, Deadline deadline, Interruptible interruptible) noexcept {
    return primitive.WaitHow(deadline, interruptible);
  }
  // Of a FiberEvent or a FiberSemaphore that stands for something else.
  template <class Primitive>
  [[nodiscard]] static WaitResult Wait(Primitive& primitive, Deadline deadline, Interruptible interruptible,
                                       WaitReason reason) noexcept {
    return primitive.WaitHow(deadline, interruptible, reason);
  }

  template <class Primitive>
  static void WaitUncancelled(Primitive& primitive) noexcept {
    static_cast<void>(primitive.WaitHow(Deadline::None(), Interruptible::kNo));
  }
  template <class Primitive>
  static void WaitUncancelled(Primitive& primitive, WaitReason reason) noexcept {
    static_cast<void>(primitive.WaitHow(Deadline::None(), Interruptible::kNo, reason));
  }
  template <class Primitive>
  [[nodiscard]] static bool WaitUncancelled(Primitive& primitive, Deadline deadline) noexcept {
    return primitive.WaitHow(deadline, Interruptible::kNo) == WaitResult::kNotified;
  }
};

// select.h
template <class Primitive>
class QueueCase;
template <class T>
class GetCase;
template <class T>
class PutCase;

}  // namespace weft::synchronization

#endif  // WEFT_SYNC_WAIT_WAIT_QUEUE_H_
