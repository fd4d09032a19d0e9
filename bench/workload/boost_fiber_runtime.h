// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Boost.Fiber, as far as it can express the workloads: only threads that run fibers can start fibers, and there are no
// timers without a fiber. Its workers never sleep as shipped (`suspend` is off), so two workers use two cores.
#ifndef WEFT_BENCH_WORKLOAD_BOOST_FIBER_RUNTIME_H_
#define WEFT_BENCH_WORKLOAD_BOOST_FIBER_RUNTIME_H_

#include <boost/fiber/all.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "weft/bench/workload/harness.h"
#include "weft/bench/workload/peer_sync.h"

namespace weft::bench {

// Threads that run fibers under one algorithm; each one's main fiber waits for jobs from outside.
class BoostFiberWorkers {
 public:
  using UseAlgorithm = void (*)(int workers);

  void Start(int workers, UseAlgorithm use_algorithm) {
    for (int i = 0; i < workers; ++i) {
      threads_.emplace_back([this, workers, use_algorithm] {
        use_algorithm(workers);
        RunJobs();
      });
    }
  }

  // Runs `job` in a fiber; the calling thread sleeps until it is done.
  void Run(const std::function<void()>& job) {
    std::promise<void> done;
    Post([&] {
      job();
      done.set_value();
    });
    done.get_future().wait();
  }

  void Stop() {
    Post({});
    for (std::thread& thread : threads_) thread.join();
    threads_.clear();
  }

 private:
  void Post(std::function<void()> job) {
    std::unique_lock lock(mutex_);
    jobs_.push_back(std::move(job));
    changed_.notify_all();
  }

  void RunJobs() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return !jobs_.empty(); });
      if (jobs_.front() == nullptr) return;  // Stays in the queue: it is for all workers.
      std::function<void()> job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      boost::fibers::fiber(boost::fibers::launch::post, std::move(job)).detach();
      lock.lock();
    }
  }

  boost::fibers::mutex mutex_;
  boost::fibers::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  std::vector<std::thread> threads_;
};

inline BoostFiberWorkers& TheBoostFiberWorkers() {
  // Never destroyed: its fibers may outlive main() when a workload fails.
  static auto* workers = new BoostFiberWorkers;
  return *workers;
}

struct BoostSharedWork {
  static constexpr const char* kName = "boost_shared_work";
  static void Use(int) { boost::fibers::use_scheduling_algorithm<boost::fibers::algo::shared_work>(); }
};

struct BoostWorkStealing {
  static constexpr const char* kName = "boost_work_stealing";
  static void Use(int workers) {
    boost::fibers::use_scheduling_algorithm<boost::fibers::algo::work_stealing>(static_cast<std::uint32_t>(workers));
  }
};

template <class Algorithm>
struct BoostFiberRuntime {
  static constexpr const char* kName = Algorithm::kName;
  static constexpr std::int64_t kSpawnDivisor = 1;
  static constexpr std::int64_t kBlockDivisor = 1;
  static constexpr std::int64_t kLiveDivisor = 1;
  static constexpr bool kStartsFromThreads = false;
  static constexpr bool kLightWeight = true;
  static constexpr bool kHasYield = true;
  static constexpr bool kHasTimers = false;
  static constexpr bool kHasChannel = true;

  using Mutex = boost::fibers::mutex;
  using ConditionVariable = boost::fibers::condition_variable;
  using Latch = PeerLatch<Mutex, ConditionVariable>;
  using Event = PeerEvent<Mutex, ConditionVariable>;

  class Channel {
   public:
    explicit Channel(std::size_t slots) : channel_(slots) {}
    void Put(int item) {
      Require(channel_.push(item) == boost::fibers::channel_op_status::success, "an open channel takes an item");
    }
    int Take() { return channel_.value_pop(); }

   private:
    boost::fibers::buffered_channel<int> channel_;
  };

  static void Start(int workers, int) { TheBoostFiberWorkers().Start(workers, Algorithm::Use); }
  static void Stop() { TheBoostFiberWorkers().Stop(); }

  template <class F>
  static bool Spawn(F&& f) {
    boost::fibers::fiber(boost::fibers::launch::post, std::forward<F>(f)).detach();
    return true;
  }

  template <class F>
  static void RunInside(F&& f) {
    TheBoostFiberWorkers().Run([&] { f(); });
  }

  static void Yield() { boost::this_fiber::yield(); }
  static void SleepFor(std::chrono::nanoseconds duration) { boost::this_fiber::sleep_for(duration); }
  static std::string DescribeGuards() { return "stacks of 128 KiB from malloc without guard pages"; }
};

}  // namespace weft::bench

#endif  // WEFT_BENCH_WORKLOAD_BOOST_FIBER_RUNTIME_H_
