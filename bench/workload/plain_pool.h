// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// PlainPool: what threads have to run tasks, a yardstick: one std::deque under a std::mutex, and a condition variable.
#ifndef WEFT_BENCH_WORKLOAD_PLAIN_POOL_H_
#define WEFT_BENCH_WORKLOAD_PLAIN_POOL_H_

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace weft::bench {

// Threads that take tasks from one queue.
class PlainPool {
 public:
  explicit PlainPool(int threads) {
    for (int i = 0; i < threads; ++i) {
      threads_.emplace_back([this] { Run(); });
    }
  }
  ~PlainPool() {
    {
      std::scoped_lock lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }

  void Post(std::function<void()> task) {
    {
      std::scoped_lock lock(mutex_);
      tasks_.push_back(std::move(task));
    }
    changed_.notify_one();
  }

 private:
  void Run() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return stop_ || !tasks_.empty(); });
      if (stop_) return;
      const std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      task();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  bool stop_ = false;
  std::vector<std::thread> threads_;
};

}  // namespace weft::bench

#endif  // WEFT_BENCH_WORKLOAD_PLAIN_POOL_H_
