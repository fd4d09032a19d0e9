// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// The public functions for any thread at any time (of a family, one), and threads that call them all, again and again,
// while another starts and ends the runtime, or the process.
#ifndef WEFT_TESTS_STRESS_ANY_TIME_CALLS_H_
#define WEFT_TESTS_STRESS_ANY_TIME_CALLS_H_

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "weft/fiber/async.h"
#include "weft/fiber/exception.h"
#include "weft/fiber/execution_context.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/fiber_limiter.h"
#include "weft/fiber/fiber_local.h"
#include "weft/fiber/runtime.h"
#include "weft/fiber/this_fiber.h"
#include "weft/io/fiber_blocking.h"
#include "weft/io/wait_fd.h"
#include "weft/sync/fiber_channel.h"
#include "weft/sync/fiber_condition_variable.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_latch.h"
#include "weft/sync/fiber_mutex.h"
#include "weft/sync/fiber_semaphore.h"
#include "weft/timer/fiber_timer.h"

namespace weft::fiber {

// The promise about starts: as many have run as have returned true.  Leaky: the process may exit under the callers.
struct AnyTimeCounts {
  std::atomic<std::uint64_t> accepted{0};
  std::atomic<std::uint64_t> refused{0};
  std::atomic<std::uint64_t> run{0};
  std::atomic<std::uint64_t> woken{0};
};
inline AnyTimeCounts& TheCounts() {
  static auto* const counts = new AnyTimeCounts;
  return *counts;
}

inline void CountStart(bool accepted, std::uint64_t fibers = 1) {
  (accepted ? TheCounts().accepted : TheCounts().refused).fetch_add(fibers, std::memory_order_relaxed);
}
inline void CountRun() { TheCounts().run.fetch_add(1, std::memory_order_relaxed); }

struct AnyTimeCall {
  const char* name;
  void (*call)();
};

inline auto Soon() { return std::chrono::steady_clock::now() + std::chrono::microseconds(50); }
inline auto Later() { return std::chrono::steady_clock::now() + std::chrono::hours(1); }

// A fiber that waits, and a thread that wakes it: like the last wake-up of a runtime.
template <class Wait, class Wake>
void WakeAFiber(Wait wait, Wake wake) {
  std::optional<Fiber> fiber = Fiber::TryStart({}, [wait] {
    wait();
    CountRun();
    TheCounts().woken.fetch_add(1, std::memory_order_relaxed);
  });
  CountStart(fiber.has_value());
  wake();
  if (fiber.has_value()) fiber->Detach();
}

inline const auto& AnyTimeCalls() {
  static constexpr std::array kCalls = {
      // fiber/fiber.h
      AnyTimeCall{"StartFiberDetached", [] { CountStart(StartFiberDetached([] { CountRun(); })); }},
      AnyTimeCall{"StartFiberDetached in any group",
                  [] {
                    CountStart(StartFiberDetached({.scheduling_group = kUnspecifiedSchedulingGroup, .name = "any"},
                                                  [] { CountRun(); }));
                  }},
      AnyTimeCall{"StartFiberDetached in group 0",
                  [] {
                    CountStart(StartFiberDetached({.scheduling_group = 0, .scheduling_group_local = true},
                                                  [] { CountRun(); }));
                  }},
      AnyTimeCall{"StartFiberDetached unless overloaded",
                  [] { CountStart(StartFiberDetached({.refuse_if_overloaded = true}, [] { CountRun(); })); }},
      AnyTimeCall{"StartFiberDetached that starts another",
                  [] {
                    CountStart(StartFiberDetached([] {
                      CountRun();
                      CountStart(StartFiberDetached([] { CountRun(); }));
                    }));
                  }},
      AnyTimeCall{"BatchStartFiberDetached",
                  [] {
                    std::vector<std::function<void()>> batch(8, &CountRun);
                    CountStart(BatchStartFiberDetached(std::move(batch)), 8);
                  }},
      AnyTimeCall{"Fiber::TryStart and Join",
                  [] {
                    std::optional<Fiber> fiber = Fiber::TryStart({.name = "joined"}, [] {
                      FiberYield();
                      CountRun();
                    });
                    CountStart(fiber.has_value());
                    if (fiber.has_value()) fiber->Join();
                  }},
      // FindFiber(), fiber/async.h
      AnyTimeCall{"FindFiber and Join",
                  [] {
                    auto id = std::make_shared<std::atomic<std::uint64_t>>(0);  // 0: it has not begun
                    std::optional<Fiber> fiber = Fiber::TryStart({}, [id] {
                      id->store(GetFiberId(), std::memory_order_relaxed);
                      FiberYield();
                      CountRun();
                    });
                    CountStart(fiber.has_value());
                    if (std::optional<FoundFiber> found = FindFiber(id->load(std::memory_order_relaxed))) found->Join();
                    if (fiber.has_value()) fiber->Join();
                  }},
      AnyTimeCall{"Async",
                  [] {
                    try {
                      static_cast<void>(Async([] { CountRun(); }).Get());
                      CountStart(true);
                    } catch (const FiberNotStarted&) {
                      CountStart(false);
                    }
                  }},
      // fiber/this_fiber.h
      AnyTimeCall{"GetFiberCount", [] { static_cast<void>(GetFiberCount()); }},
      AnyTimeCall{"GetFiberQueueSize", [] { static_cast<void>(GetFiberQueueSize()); }},
      AnyTimeCall{"GetFiberId", [] { static_cast<void>(GetFiberId()); }},
      AnyTimeCall{"GetFiberName", [] { static_cast<void>(GetFiberName()); }},
      AnyTimeCall{"IsRunningInFiberWorker", [] { static_cast<void>(IsRunningInFiberWorker()); }},
      AnyTimeCall{"FiberSleepFor", [] { FiberSleepFor(std::chrono::microseconds(1)); }},
      // fiber/fiber_limiter.h
      AnyTimeCall{"TryAdmit", [] { static_cast<void>(TryAdmit()); }},
      AnyTimeCall{"IsOverloaded", [] { static_cast<void>(IsOverloaded()); }},
      AnyTimeCall{"GetAdmissionCounts", [] { static_cast<void>(GetAdmissionCounts()); }},
      // fiber/runtime.h
      AnyTimeCall{"IsRuntimeRunning", [] { static_cast<void>(IsRuntimeRunning()); }},
      AnyTimeCall{"GetSchedulingGroupCount", [] { static_cast<void>(GetSchedulingGroupCount()); }},
      AnyTimeCall{"GetSchedulingCounts", [] { static_cast<void>(GetSchedulingCounts()); }},
      AnyTimeCall{"GetSchedulingGroupSize", [] { static_cast<void>(GetSchedulingGroupSize()); }},
      AnyTimeCall{"GetConcurrencyHint", [] { static_cast<void>(GetConcurrencyHint()); }},
      AnyTimeCall{"GetSchedulingGroupName", [] { static_cast<void>(GetSchedulingGroupName(0)); }},
      AnyTimeCall{"SchedulingGroupNamed", [] { static_cast<void>(SchedulingGroupNamed("any")); }},
      AnyTimeCall{"GetSchedulingGroupAssignedNode", [] { static_cast<void>(GetSchedulingGroupAssignedNode(0)); }},
      // fiber/fiber_local.h, fiber/execution_context.h
      AnyTimeCall{"FiberLocal",
                  [] {
                    static auto* const local = new FiberLocal<std::vector<int>>;
                    (*local)->assign(1, 7);
                  }},
      AnyTimeCall{"FiberExecutionContext",
                  [] {
                    const auto context = FiberExecutionContext::Create();
                    CountStart(StartFiberDetached({.execution_context = context.Get()}, [] { CountRun(); }));
                  }},
      // timer/fiber_timer.h
      AnyTimeCall{"SetFiberTimer", [] { static_cast<void>(SetFiberTimer(Soon(), [] {})); }},
      AnyTimeCall{"SetFiberTimer and KillFiberTimer", [] { KillFiberTimer(SetFiberTimer(Later(), [] {})); }},
      AnyTimeCall{"SetFiberTimer, periodic",
                  [] {
                    const std::uint64_t id = SetFiberTimer(Soon(), std::chrono::microseconds(50), [] {});
                    std::this_thread::yield();
                    KillFiberTimerAndWait(id);
                  }},
      AnyTimeCall{
          "SetFiberDetachedTimer",
          [] { SetFiberDetachedTimer(Soon(), [owned = std::make_unique<int>(1)] { static_cast<void>(owned); }); }},
      AnyTimeCall{"CreateFiberTimer",
                  [] {
                    const std::uint64_t id =
                        CreateFiberTimer(Soon(), [] { CountStart(StartFiberDetached([] { CountRun(); })); });
                    EnableFiberTimer(id);
                    KillFiberTimer(id);
                  }},
      // sync: threads wake fibers
      AnyTimeCall{"FiberEvent",
                  [] {
                    auto event = std::make_shared<FiberEvent>();
                    WakeAFiber([event] { event->Wait(); }, [&] { event->Set(); });
                  }},
      AnyTimeCall{"FiberLatch",
                  [] {
                    auto latch = std::make_shared<FiberLatch>(1);
                    WakeAFiber([latch] { latch->Wait(); }, [&] { latch->CountDown(); });
                  }},
      AnyTimeCall{"FiberSemaphore",
                  [] {
                    auto semaphore = std::make_shared<FiberSemaphore>(0);
                    WakeAFiber([semaphore] { semaphore->Acquire(); }, [&] { semaphore->Release(); });
                  }},
      AnyTimeCall{"FiberMutex and FiberConditionVariable",
                  [] {
                    struct Shared {
                      FiberMutex mutex;
                      FiberConditionVariable changed;
                      bool done = false;
                    };
                    auto shared = std::make_shared<Shared>();
                    WakeAFiber(
                        [shared] {
                          std::unique_lock lock(shared->mutex);
                          shared->changed.wait(lock, [&] { return shared->done; });
                        },
                        [&] {
                          const std::scoped_lock lock(shared->mutex);
                          shared->done = true;
                          shared->changed.notify_all();
                        });
                  }},
      AnyTimeCall{"FiberChannel",
                  [] {
                    auto channel = std::make_shared<FiberChannel<int>>(0);
                    WakeAFiber([channel] { static_cast<void>(channel->Get()); }, [&] { channel->Close(); });
                  }},
      // io
      AnyTimeCall{"FiberBlocking", [] { FiberBlocking([] {}); }},
      AnyTimeCall{"GetFiberBlockingCounts", [] { static_cast<void>(GetFiberBlockingCounts()); }},
      AnyTimeCall{"WaitFd and CloseFd",
                  [] {
                    int ends[2];
                    if (::pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) return;
                    // This thread ends the fiber's wait, through the reactor of the fiber's group.
                    const bool started = StartFiberDetached([fd = ends[0]] {
                      static_cast<void>(io::WaitFd(fd, POLLIN));
                      static_cast<void>(io::CloseFd(fd));
                      CountRun();
                    });
                    CountStart(started);
                    if (!started) ::close(ends[0]);
                    ::close(ends[1]);
                  }},
  };
  return kCalls;
}

// Threads that make all these calls, each beginning with another one, until they are stopped.
class AnyTimeCallers {
 public:
  explicit AnyTimeCallers(unsigned threads) {
    for (unsigned t = 0; t < threads; ++t) {
      threads_.emplace_back([this, t] {
        const auto& calls = AnyTimeCalls();
        for (std::size_t i = t * 7; !stop_.load(std::memory_order_relaxed); ++i) {
          calls[i % calls.size()].call();
          if (i % calls.size() == 0) rounds_.fetch_add(1, std::memory_order_relaxed);
        }
      });
    }
  }
  ~AnyTimeCallers() {
    stop_.store(true, std::memory_order_relaxed);
    for (std::thread& thread : threads_) thread.join();
  }

  // How often a thread has made them all.
  std::uint64_t rounds() const { return rounds_.load(std::memory_order_relaxed); }

 private:
  std::atomic<bool> stop_{false};
  std::atomic<std::uint64_t> rounds_{0};
  std::vector<std::thread> threads_;
};

}  // namespace weft::fiber

#endif  // WEFT_TESTS_STRESS_ANY_TIME_CALLS_H_
