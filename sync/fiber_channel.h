// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// FiberChannel<T>: passes items from fibers and threads to fibers and threads, in order; of bounded capacity. With
// capacity 0 a Put() meets a Get() (rendezvous).
//
// Sample:
//   FiberChannel<int> channel(16);
//   Fiber producer([&] {
//     for (int i = 0; i < 100; ++i) {
//       if (channel.Put(i) != ChannelResult::kOk) break;    // closed
//     }
//     channel.Close();
//   });
//   for (const int item : channel) Use(item);               // to the end: closed, and nothing left in it
//   producer.Join();
//
// Who may call: any fiber and any thread. Put(), Get() and the loop over the channel may switch (a thread: block) and
// are cancellation points: when they throw, no item was put or taken. The others wait for no item and no room.
// Results: a ChannelResult (channel_result.h), of a Get() beside the item. Unless it is kOk, the item of a Put() is
// still the caller's, unchanged; so it is if the Put() throws.
//   TryPut, TryGet                  kOk, kClosed, kWouldBlock
//   Put, Get                        kOk, kClosed; also kTimedOut: with a deadline, or by the limit of a ShieldedFor()
//                                   while the stack unwinds (cancel_scope.h)
// Memory ordering: what X did before the Put() of an item is visible to Y after the Get() of that item; with capacity 0
// also what Y did before that Get() to X after the Put().
// Closing: Close() is the graceful end: further and waiting Put()s fail, what is in the channel can still be got, then
// Get() fails. CloseNow() also destroys what is in the channel. Both are final, and may be called again.
// Lifetime: may be destroyed as soon as all calls have returned. Items in it are destroyed with it.
//
// How it works. A ring of slots under a lock, and two lists, of getters and of putters that wait, each with a pointer
// to its item or to where it wants one. A putter gives its item straight to a waiting getter; a getter takes the oldest
// item and lets the first waiting putter fill the slot.
//
// Invariants
//   CH1  Getters wait only while the ring is empty and no putter waits; putters, while it is full and no getter waits.
//   CH2  Items are got in the order in which their Put()s took the lock.
//   CH3  A caller that has claimed a waiter may use its item without the lock until it wakes it. The last touch of the
//        channel is the unlock.
//   CH4  No code of T runs under a spin lock: it guards the ring only if T is trivially copyable; otherwise a
//        FiberMutex does, and a move constructor that waits makes others wait, and no worker.
// Rejected: a lock-free ring (Vyukov's): a putter suspended between taking a slot and filling it blocks all getters
// behind it, and waiting needs the lists, hence the lock, anyway.
#ifndef WEFT_SYNC_FIBER_CHANNEL_H_
#define WEFT_SYNC_FIBER_CHANNEL_H_

#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <type_traits>
#include <utility>

#include "weft/base/deadline.h"
#include "weft/base/report/check.h"
#include "weft/base/thread/spin_lock.h"
#include "weft/base/thread/thread_annotations.h"
#include "weft/sync/channel_result.h"
#include "weft/sync/fiber_cancelled.h"
#include "weft/sync/fiber_mutex.h"
#include "weft/sync/wait/wait_queue.h"

namespace weft {

template <class T>
class FiberChannel {
  static_assert(std::is_nothrow_move_constructible_v<T> && std::is_nothrow_destructible_v<T>,
                "an item that cannot be moved without an exception could be lost on the way");

 public:
  using value_type = T;

  // `capacity`: how many items it holds; 0: a Put() waits for its Get(). Allocates the slots.
  explicit FiberChannel(std::size_t capacity) : capacity_(capacity), slots_(new Slot[capacity]) {}
  FiberChannel(const FiberChannel&) = delete;
  FiberChannel& operator=(const FiberChannel&) = delete;
  ~FiberChannel() { CloseNow(); }

  // How many items it holds at most.
  std::size_t Capacity() const noexcept { return capacity_; }
  // Snapshots, for reports.
  std::size_t Size() const noexcept {
    Guard guard(lock_);
    return count_;
  }
  bool IsClosed() const noexcept {
    Guard guard(lock_);
    return closed_;
  }

  // Waits for room (capacity 0: for a getter) and puts the item in. A cancellation point. kOk: it is in, or got. Else
  // the item is unchanged: kClosed, or kTimedOut.
  ChannelResult Put(T&& item, Deadline deadline = {}) {
    ChannelResult result;
    synchronization::BeginCancellationPoint();
    static_cast<void>(synchronization::CheckInterruptedWithResult(DoPut(&item, deadline, &result)));
    return result;
  }
  ChannelResult Put(const T& item, Deadline deadline = {}) { return Put(T(item), deadline); }
  // With capacity 0: kOk if a getter waits.
  ChannelResult TryPut(T&& item) noexcept WEFT_NO_THREAD_SAFETY_ANALYSIS {
    const ChannelResult result = TryPutLocked(&item);
    if (result == ChannelResult::kWouldBlock) lock_.unlock();
    return result;
  }
  ChannelResult TryPut(const T& item) { return TryPut(T(item)); }

  // Waits for an item, and takes the oldest one. A cancellation point. Without an item: closed and empty, or the
  // deadline has passed.
  ChannelItem<T> Get(Deadline deadline = {}) {
    ChannelItem<T> item;
    synchronization::BeginCancellationPoint();
    static_cast<void>(synchronization::CheckInterruptedWithResult(DoGet(&item, deadline)));
    return item;
  }
  // With capacity 0: kOk if a putter waits.
  ChannelItem<T> TryGet() noexcept WEFT_NO_THREAD_SAFETY_ANALYSIS {
    ChannelItem<T> item;
    item.result_ = TryGetLocked(&item.item_);
    if (item.result_ == ChannelResult::kWouldBlock) lock_.unlock();
    return item;
  }

  // Gets items until the channel is closed and empty. While the stack unwinds, the limit of a ShieldedFor() ends the
  // loop, too: call Get(), which says so.
  ChannelIterator<FiberChannel> begin() { return ChannelIterator<FiberChannel>(this); }
  std::default_sentinel_t end() const noexcept { return {}; }

  // No further item goes in, waiting Put()s fail; what is in it can still be got. Never switches if T is trivially
  // copyable.
  void Close() noexcept { Close(/*drop_items=*/false); }
  // The same, and the items in it are destroyed.
  void CloseNow() noexcept { Close(/*drop_items=*/true); }

 private:
  friend class synchronization::GetCase<T>;
  friend class synchronization::PutCase<T>;

  // CH4
  using Lock = std::conditional_t<std::is_trivially_copyable_v<T>, base::SpinLock, FiberMutex>;

  class WEFT_SCOPED_CAPABILITY Guard {
   public:
    explicit Guard(Lock& lock) noexcept WEFT_ACQUIRE(lock) : lock_(lock) { lock_.lock(); }
    ~Guard() WEFT_RELEASE() { lock_.unlock(); }
    Guard(const Guard&) = delete;
    Guard& operator=(const Guard&) = delete;

   private:
    Lock& lock_;
  };

  struct Slot {
    alignas(T) std::byte bytes[sizeof(T)];
    T* item() noexcept { return std::launder(reinterpret_cast<T*>(bytes)); }
  };

  // --- The ring ---

  void PushItem(T* item) noexcept WEFT_REQUIRES(lock_) {
    std::size_t at = head_ + count_;
    if (at >= capacity_) at -= capacity_;
    ::new (static_cast<void*>(slots_[at].bytes)) T(std::move(*item));
    ++count_;
  }
  void PopItem(std::optional<T>* item) noexcept WEFT_REQUIRES(lock_) {
    T* front = slots_[head_].item();
    item->emplace(std::move(*front));
    front->~T();
    if (++head_ == capacity_) head_ = 0;
    --count_;
  }

  // --- Attempts: lock, and unlock unless they say kWouldBlock ---

  ChannelResult TryPutLocked(T* item) noexcept WEFT_NO_THREAD_SAFETY_ANALYSIS {
    lock_.lock();
    return PutHere(item);
  }
  ChannelResult TryGetLocked(std::optional<T>* item) noexcept WEFT_NO_THREAD_SAFETY_ANALYSIS {
    lock_.lock();
    return GetHere(item);
  }

  // With the lock.
  ChannelResult PutHere(T* item) noexcept WEFT_NO_THREAD_SAFETY_ANALYSIS {
    if (closed_) {
      lock_.unlock();
      return ChannelResult::kClosed;
    }
    if (synchronization::Waiter* getter = ClaimFirst(&getters_)) {
      lock_.unlock();
      static_cast<std::optional<T>*>(getter->argument)->emplace(std::move(*item));  // CH3
      getter->granted = true;
      getter->Wake();
      return ChannelResult::kOk;
    }
    if (count_ < capacity_) {
      PushItem(item);
      lock_.unlock();
      return ChannelResult::kOk;
    }
    return ChannelResult::kWouldBlock;
  }

  ChannelResult GetHere(std::optional<T>* item) noexcept WEFT_NO_THREAD_SAFETY_ANALYSIS {
    synchronization::Waiter* putter = nullptr;
    if (count_ != 0) {
      PopItem(item);
      putter = ClaimFirst(&putters_);
      if (putter != nullptr) PushItem(static_cast<T*>(putter->argument));  // CH2: into the ring, behind all others.
      lock_.unlock();
    } else {
      putter = ClaimFirst(&putters_);
      if (putter == nullptr) {
        if (!closed_) return ChannelResult::kWouldBlock;
        lock_.unlock();
        return ChannelResult::kClosed;
      }
      lock_.unlock();
      item->emplace(std::move(*static_cast<T*>(putter->argument)));  // CH3
    }
    if (putter != nullptr) {
      putter->granted = true;
      putter->Wake();
    }
    return ChannelResult::kOk;
  }

  // --- Waiting ---

  synchronization::WaitResult DoPut(T* item, Deadline deadline, ChannelResult* result) noexcept {
    *result = TryPutLocked(item);
    if (*result != ChannelResult::kWouldBlock) return synchronization::WaitResult::kNotified;
    return Await(&putters_, item, deadline, result);
  }
  synchronization::WaitResult DoGet(ChannelItem<T>* item, Deadline deadline) noexcept {
    item->result_ = TryGetLocked(&item->item_);
    if (item->result_ != ChannelResult::kWouldBlock) return synchronization::WaitResult::kNotified;
    return Await(&getters_, &item->item_, deadline, &item->result_);
  }

  // With the lock, which it gives up.
  synchronization::WaitResult Await(synchronization::WaitList* list, void* argument, Deadline deadline,
                                    ChannelResult* result) noexcept WEFT_NO_THREAD_SAFETY_ANALYSIS {
    *result = ChannelResult::kTimedOut;
    if (!deadline.is_none() && deadline.expired()) {
      lock_.unlock();
      return synchronization::WaitResult::kTimedOut;
    }
    synchronization::Waiter waiter;
    waiter.argument = argument;
    const auto kind =
        list == &putters_ ? synchronization::WaitKind::kChannelPut : synchronization::WaitKind::kChannelGet;
    waiter.Prepare(deadline, synchronization::Interruptible::kResult, {kind, this});
    list->PushBack(&waiter);
    lock_.unlock();
    const synchronization::WaitResult ended = waiter.Await(deadline);
    if (ended == synchronization::WaitResult::kNotified) {
      *result = waiter.granted ? ChannelResult::kOk : ChannelResult::kClosed;
    } else {
      Guard guard(lock_);
      if (waiter.linked()) list->Remove(&waiter);
    }
    return ended;
  }

  static synchronization::Waiter* ClaimFirst(synchronization::WaitList* list) noexcept {
    if (list->empty()) return nullptr;
    std::uint32_t passed_over = 0;
    return static_cast<synchronization::Waiter*>(list->ClaimFirst(&passed_over));
  }

  void Close(bool drop_items) noexcept {
    synchronization::WaitList claimed;
    std::uint32_t passed_over = 0;
    std::unique_ptr<Slot[]> dropped;  // Destroyed without the lock: CH4.
    std::size_t first = 0;
    std::size_t count = 0;
    {
      Guard guard(lock_);
      closed_ = true;
      getters_.ClaimAll(&claimed, &passed_over);
      putters_.ClaimAll(&claimed, &passed_over);
      if (drop_items && count_ != 0) {
        dropped = std::move(slots_);  // No one looks at it again: closed, and nothing in it.
        first = head_;
        count = std::exchange(count_, 0);
      }
    }
    synchronization::WakeAll(&claimed);
    for (; count != 0; --count) {
      dropped[first].item()->~T();
      if (++first == capacity_) first = 0;
    }
  }

  const std::size_t capacity_;
  mutable Lock lock_;
  bool closed_ WEFT_GUARDED_BY(lock_) = false;
  std::size_t head_ WEFT_GUARDED_BY(lock_) = 0;
  std::size_t count_ WEFT_GUARDED_BY(lock_) = 0;
  std::unique_ptr<Slot[]> slots_ WEFT_GUARDED_BY(lock_);
  synchronization::WaitList getters_ WEFT_GUARDED_BY(lock_);
  synchronization::WaitList putters_ WEFT_GUARDED_BY(lock_);
};

}  // namespace weft

#endif  // WEFT_SYNC_FIBER_CHANNEL_H_
