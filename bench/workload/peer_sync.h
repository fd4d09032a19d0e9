// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// A latch and an event made of a peer's mutex and condition variable, for the peers that lack one of them.
#ifndef WEFT_BENCH_WORKLOAD_PEER_SYNC_H_
#define WEFT_BENCH_WORKLOAD_PEER_SYNC_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

namespace weft::bench {

template <class Mutex, class ConditionVariable>
class PeerEvent {
 public:
  void Wait() {
    std::unique_lock<Mutex> lock(mutex_);
    while (!set_) changed_.wait(lock);
  }

  void Set() {
    std::unique_lock<Mutex> lock(mutex_);
    set_ = true;
    changed_.notify_all();
  }

  void Reset() {
    std::unique_lock<Mutex> lock(mutex_);
    set_ = false;
  }

 private:
  Mutex mutex_;
  ConditionVariable changed_;
  bool set_ = false;
};

// The event is shared because the last CountDown() may still be inside it when the waiter destroys the latch.
template <class Mutex, class ConditionVariable>
class PeerLatch {
 public:
  explicit PeerLatch(std::int64_t count) : left_(count) {}

  void CountDown() {
    std::shared_ptr<Event> zero;
    std::int64_t left = left_.load(std::memory_order_relaxed);
    do {
      if (left == 1) zero = zero_;  // Before the count reaches zero and the waiter may go.
    } while (!left_.compare_exchange_weak(left, left - 1, std::memory_order_acq_rel));
    if (left == 1) zero->Set();
  }

  void Wait() { zero_->Wait(); }

 private:
  using Event = PeerEvent<Mutex, ConditionVariable>;

  std::atomic<std::int64_t> left_;
  const std::shared_ptr<Event> zero_ = std::make_shared<Event>();
};

}  // namespace weft::bench

#endif  // WEFT_BENCH_WORKLOAD_PEER_SYNC_H_
