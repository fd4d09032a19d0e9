// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// FiberBlockingBoundedQueue<T>: a first-in-first-out queue whose capacity is counted in weights (each item 1 unless a
// function says otherwise).
//
// Who may call: any fiber and any thread. Put(), Get(), the loop over the queue, Push() and Pop() may switch (a thread:
// block). All others lock a FiberMutex and so may, too, while somebody copies a large item in or out.
// Results: a ChannelResult (channel_result.h), of a Get() beside the item; "closed" is stopped. Unless it is kOk, a
// Put()'s item is still the caller's.
//   TryPut, TryGet       kOk, kClosed, kWouldBlock
//   Put, Get             kOk, kClosed; also kTimedOut: with a deadline, or by the limit of a ShieldedFor() while the
//                        stack unwinds (cancel_scope.h)
// tRPC-Cpp's forms say true for kOk, false for the rest:
//   Push, TryPush        Put, TryPut
//   Pop, TryPop          Get, TryGet; the item is assigned, or unchanged
// Capacity: an item goes in if the queue's weight with it is not above the capacity. So capacity 0 lets nothing in, and
// an item heavier than the capacity waits, or is refused, until SetCapacity() makes room for it.
// Stop() is final, and wakes all. Items in the queue can still be popped (not in tRPC-Cpp: docs/from_trpc.md).
// Memory ordering: what X did before the Put() of an item is visible to Y after the Get() of that item.
// Waits are cancellation points.
// Lifetime: may be destroyed as soon as all calls have returned.
//
// A deque, a mutex, two condition variables. FiberChannel is faster; this one has weights, a capacity that can be
// changed, and T may throw when moved.
// If T throws, the exception reaches the caller, and another waiter gets the room or the item instead. A Put() or a
// copy has left its target as it was, a Get() has taken nothing. The item is as T's move constructor leaves it; after a
// Pop() it and the caller's item are as T's move assignment leaves them. A loop over the queue moves an item once more
// after it was taken: if that throws, the item is lost.
#ifndef WEFT_SYNC_FIBER_BLOCKING_BOUNDED_QUEUE_H_
#define WEFT_SYNC_FIBER_BLOCKING_BOUNDED_QUEUE_H_

#include <cstddef>
#include <deque>
#include <iterator>
#include <memory>
#include <mutex>
#include <utility>

#include "weft/base/deadline.h"
#include "weft/base/unique_function.h"
#include "weft/sync/channel_result.h"
#include "weft/sync/fiber_condition_variable.h"
#include "weft/sync/fiber_mutex.h"

namespace weft {

template <class T>
class FiberBlockingBoundedQueue {
 public:
  using value_type = T;
  // What an item weighs. Called by several at a time.
  using WeightFunction = UniqueFunction<std::size_t(const T&)>;

  // Without a function each item weighs 1. The function is called by all that push, several at a time.
  explicit FiberBlockingBoundedQueue(std::size_t capacity, WeightFunction weight_of = nullptr)
      : capacity_(capacity), weight_of_(weight_of ? std::make_shared<WeightFunction>(std::move(weight_of)) : nullptr) {}

  // Items and settings are copied or moved, the weight function is shared; waiters stay with the queue they wait for.
  FiberBlockingBoundedQueue(const FiberBlockingBoundedQueue& other) : FiberBlockingBoundedQueue(0) { *this = other; }
  FiberBlockingBoundedQueue(FiberBlockingBoundedQueue&& other) : FiberBlockingBoundedQueue(0) {
    *this = std::move(other);
  }
  FiberBlockingBoundedQueue& operator=(const FiberBlockingBoundedQueue& other) {
    if (this == &other) return *this;
    std::scoped_lock lock(mutex_, other.mutex_);
    std::deque<Entry> copy = other.entries_;  // Throws, if at all, before anything has changed.
    entries_.swap(copy);
    TakeSettings(other);
    return *this;
  }
  FiberBlockingBoundedQueue& operator=(FiberBlockingBoundedQueue&& other) {
    if (this == &other) return *this;
    std::scoped_lock lock(mutex_, other.mutex_);
    entries_ = std::move(other.entries_);
    other.entries_.clear();
    TakeSettings(other);
    other.weight_ = 0;
    other.not_full_.notify_all();
    return *this;
  }

  // Waits for room, as the head of this file says, and puts the item in. A cancellation point. kOk: it is in.
  ChannelResult Put(T&& item, Deadline deadline = {}) {
    const std::size_t weight = Weigh(item);
    {
      std::unique_lock lock(mutex_);
      const auto may_go_on = [&] { return stopped_ || HasCapacityFor(weight); };
      if (!not_full_.wait(lock, may_go_on, deadline)) return ChannelResult::kTimedOut;
      if (stopped_) return ChannelResult::kClosed;
      Append(std::move(item), weight);
    }
    NotifyItem();
    return ChannelResult::kOk;
  }
  ChannelResult Put(const T& item, Deadline deadline = {}) { return Put(T(item), deadline); }
  // The same without waiting for room. kWouldBlock: there is none.
  ChannelResult TryPut(T&& item) {
    const std::size_t weight = Weigh(item);
    {
      std::scoped_lock lock(mutex_);
      if (stopped_) return ChannelResult::kClosed;
      if (!HasCapacityFor(weight)) return ChannelResult::kWouldBlock;
      Append(std::move(item), weight);
    }
    NotifyItem();
    return ChannelResult::kOk;
  }

  // The same with a copy.
  ChannelResult TryPut(const T& item) { return TryPut(T(item)); }

  // Waits for an item, and takes the oldest one. A cancellation point.
  ChannelItem<T> Get(Deadline deadline = {}) {
    ChannelItem<T> item;
    item.result_ = AwaitFirst([&](T&& first) { item.item_.emplace(std::move(first)); }, deadline);
    return item;
  }
  // The same without waiting for an item.
  ChannelItem<T> TryGet() {
    ChannelItem<T> item;
    item.result_ = AttemptFirst([&](T&& first) { item.item_.emplace(std::move(first)); });
    return item;
  }

  // Gets items until the queue is stopped and empty.
  ChannelIterator<FiberBlockingBoundedQueue> begin() { return ChannelIterator<FiberBlockingBoundedQueue>(this); }
  std::default_sentinel_t end() const noexcept { return {}; }

  // tRPC-Cpp's forms.
  bool Push(T&& item, Deadline deadline = {}) { return Put(std::move(item), deadline) == ChannelResult::kOk; }
  [[nodiscard]] bool TryPush(T&& item) { return TryPut(std::move(item)) == ChannelResult::kOk; }
  bool Pop(T& item, Deadline deadline = {}) {
    return AwaitFirst([&](T&& first) { item = std::move(first); }, deadline) == ChannelResult::kOk;
  }
  [[nodiscard]] bool TryPop(T& item) {
    return AttemptFirst([&](T&& first) { item = std::move(first); }) == ChannelResult::kOk;
  }

  // The weight of what is in it.
  std::size_t Size() const {
    std::scoped_lock lock(mutex_);
    return weight_;
  }
  // How much weight it may hold.
  std::size_t Capacity() const {
    std::scoped_lock lock(mutex_);
    return capacity_;
  }
  // Less than Size() is fine: no item is let in until there is room.
  void SetCapacity(std::size_t capacity) {
    {
      std::scoped_lock lock(mutex_);
      capacity_ = capacity;
    }
    not_full_.notify_all();
  }

  // No further item goes in; waiting Put()s fail. What is in it can still be taken. Final.
  void Stop() {
    {
      std::scoped_lock lock(mutex_);
      stopped_ = true;
    }
    not_full_.notify_all();
    not_empty_.notify_all();
  }

 private:
  struct Entry {
    Entry(T&& the_item, std::size_t its_weight) : item(std::move(the_item)), weight(its_weight) {}
    T item;
    std::size_t weight;
  };

  // Around what may throw, with the mutex held: a waiter that does not take what it was woken for wakes another.
  class ThrowGuard {
   public:
    ThrowGuard(FiberBlockingBoundedQueue* queue, void (FiberBlockingBoundedQueue::*notify)())
        : queue_(queue), notify_(notify) {}
    ~ThrowGuard() {
      if (notify_ != nullptr) (queue_->*notify_)();
    }
    ThrowGuard(const ThrowGuard&) = delete;
    ThrowGuard& operator=(const ThrowGuard&) = delete;
    void Done() { notify_ = nullptr; }

   private:
    FiberBlockingBoundedQueue* const queue_;
    void (FiberBlockingBoundedQueue::*notify_)();
  };

  // take(T&&) moves the oldest item away.
  template <class Take>
  ChannelResult AwaitFirst(Take take, Deadline deadline) {
    {
      std::unique_lock lock(mutex_);
      not_empty_.wait(
          lock, [&] { return stopped_ || !entries_.empty(); }, deadline);
      if (entries_.empty()) return stopped_ ? ChannelResult::kClosed : ChannelResult::kTimedOut;
      TakeFirst(take);
    }
    NotifyCapacity();
    return ChannelResult::kOk;
  }
  template <class Take>
  ChannelResult AttemptFirst(Take take) {
    {
      std::scoped_lock lock(mutex_);
      if (entries_.empty()) return stopped_ ? ChannelResult::kClosed : ChannelResult::kWouldBlock;
      TakeFirst(take);
    }
    NotifyCapacity();
    return ChannelResult::kOk;
  }

  // mutex_ is held in these. (std::scoped_lock is not annotated, so neither are they.)
  bool HasCapacityFor(std::size_t weight) const { return weight_ <= capacity_ && weight <= capacity_ - weight_; }
  void Append(T&& item, std::size_t weight) {
    ThrowGuard guard(this, &FiberBlockingBoundedQueue::NotifyCapacity);
    entries_.emplace_back(std::move(item), weight);  // One move: an item that throws is lost in no temporary.
    guard.Done();
    weight_ += weight;
  }
  template <class Take>
  void TakeFirst(Take& take) {
    Entry& first = entries_.front();
    ThrowGuard guard(this, &FiberBlockingBoundedQueue::NotifyItem);
    take(std::move(first.item));
    guard.Done();
    weight_ -= first.weight;
    entries_.pop_front();
  }
  void TakeSettings(const FiberBlockingBoundedQueue& other) {
    weight_ = other.weight_;
    capacity_ = other.capacity_;
    weight_of_ = other.weight_of_;
    stopped_ = other.stopped_;
    not_empty_.notify_all();
    not_full_.notify_all();
  }

  std::size_t Weigh(const T& item) const { return weight_of_ != nullptr ? (*weight_of_)(item) : 1; }

  // Room for one item of weight 1 is room for one waiter. Otherwise the second may fit where the first does not.
  void NotifyCapacity() {
    if (weight_of_ != nullptr) {
      not_full_.notify_all();
    } else {
      not_full_.notify_one();
    }
  }

  void NotifyItem() { not_empty_.notify_one(); }

  mutable FiberMutex mutex_;  // guards all that follows, but for the condition variables
  FiberConditionVariable not_empty_;
  FiberConditionVariable not_full_;
  std::deque<Entry> entries_;
  std::size_t weight_ = 0;
  std::size_t capacity_;
  std::shared_ptr<WeightFunction> weight_of_;
  bool stopped_ = false;
};

}  // namespace weft

#endif  // WEFT_SYNC_FIBER_BLOCKING_BOUNDED_QUEUE_H_
