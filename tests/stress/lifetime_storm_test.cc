// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// A storm of lifetimes: fibers in nested scopes over several groups wait at every primitive and at sockets, and are
// cancelled, interrupted and given up at random. Nothing may be lost, doubled or left: fibers, permits, items,
// descriptors.
//   WEFT_STORM_SECONDS=60 WEFT_STORM_SEEDS=20 stress_lifetime_storm      longer than the default

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "weft/fiber/fiber.h"
#include "weft/fiber/fiber_scope.h"
#include "weft/io/fiber_blocking.h"
#include "weft/io/wait_fd.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_channel.h"
#include "weft/sync/fiber_condition_variable.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_latch.h"
#include "weft/sync/fiber_mutex.h"
#include "weft/sync/fiber_semaphore.h"
#include "weft/sync/select.h"
#include "weft/tests/fiber/runtime_fixture.h"

namespace weft::fiber {
namespace {

using namespace std::chrono_literals;

int FromEnvironment(const char* name, int otherwise) {
  const char* const text = std::getenv(name);
  return text != nullptr ? std::atoi(text) : otherwise;
}

std::size_t OpenDescriptors() {
  std::size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
  return count;
}

class Interruption {};  // no std::exception: nothing but the storm catches it

// What the fibers share.
struct Sky {
  FiberSemaphore permits{16};
  FiberChannel<int> channel{8};
  FiberChannel<int> rendezvous{0};
  FiberMutex mutex;
  FiberConditionVariable changed;
  int version = 0;              // guarded by mutex
  std::atomic<int> put{0};      // items that were put
  std::atomic<int> got{0};      // and got
  std::atomic<int> holding{0};  // permits
  std::atomic<std::uint64_t> fibers{0};
  std::atomic<std::uint64_t> cancelled{0};
  std::atomic<bool> over{false};
};

class Storm {
 public:
  Storm(Sky* sky, std::uint64_t seed) : sky_(sky), random_(seed) {}

  // A fiber's life: waits here and there, and below it other fibers.
  void Live(int depth) {
    sky_->fibers.fetch_add(1, std::memory_order_relaxed);
    try {
      for (int i = Below(4); i >= 0 && !sky_->over; --i) {
        if (depth > 0 && Below(3) == 0) {
          Family(depth - 1);
        } else {
          WaitSomewhere();
        }
      }
    } catch (const FiberCancelled&) {
      sky_->cancelled.fetch_add(1, std::memory_order_relaxed);
      throw;
    }
  }

 private:
  int Below(int n) { return static_cast<int>(random_() % static_cast<std::uint64_t>(n)); }
  Deadline SoonOrNever() { return Below(2) == 0 ? Deadline(std::chrono::microseconds(Below(2000))) : Deadline::None(); }

  // A scope with children, left in one of many ways.
  void Family(int depth) {
    const auto live = [this, depth](std::uint64_t seed) {
      return [sky = sky_, depth, seed] { Storm(sky, seed).Live(depth); };
    };
    CancelScope around(Below(3) == 0 ? Deadline(std::chrono::microseconds(Below(3000))) : Deadline::None());
    static_cast<void>(around.Run([&] {
      FiberScope scope(
          {.policy = static_cast<ScopePolicy>(Below(3)),
           .limit = static_cast<std::size_t>(Below(4)),
           .deadline = Below(4) == 0 ? Deadline(std::chrono::microseconds(Below(2000))) : Deadline::None()});
      const int children = Below(6);
      try {
        for (int i = 0; i < children; ++i) {
          if (!scope.Spawn({.scheduling_group = kUnspecifiedSchedulingGroup}, live(random_()))) break;
        }
        switch (Below(8)) {
          case 0:
            scope.Cancel();
            break;
          case 1:
            throw std::runtime_error("the body fails");
          case 2:
            around.Cancel();
            break;
          case 3:
            InterruptOne(live(random_()));
            break;
          case 4:
            static_cast<void>(scope.Run([&] { WaitSomewhere(); }));
            break;
          default:
            WaitSomewhere();
        }
        scope.Wait();
      } catch (const std::runtime_error&) {
      }
    }));
  }

  // A fiber with a handle of its own.
  template <class F>
  void InterruptOne(F live) {
    Shielded([&] {  // A joinable Fiber must be joined.
      std::optional<Fiber> one = Fiber::TryStart({}, [live] {
        try {
          live();
        } catch (const Interruption&) {
        }
      });
      if (!one) return;
      if (Below(2) == 0) FiberYield();
      if (Below(2) == 0) one->Interrupt(Interruption());
      one->Cancel();
      one->Join();
    });
  }

  void WaitSomewhere() {
    switch (Below(10)) {
      case 0:
        FiberSleepFor(std::chrono::microseconds(Below(1000)));
        break;
      case 1:
        FiberYield();
        break;
      case 2:
        if (sky_->permits.Acquire(SoonOrNever())) HoldPermit();
        break;
      case 3:
        if (sky_->channel.Put(1, SoonOrNever()) == ChannelResult::kOk) ++sky_->put;
        break;
      case 4:
        if (sky_->channel.Get(SoonOrNever())) ++sky_->got;
        break;
      case 5:
        Select(OnPut(sky_->rendezvous, 1, [&](ChannelResult result) { sky_->put += result == ChannelResult::kOk; }),
               OnGet(sky_->rendezvous, [&](const ChannelItem<int>& item) { sky_->got += item ? 1 : 0; }),
               OnGet(sky_->channel, [&](const ChannelItem<int>& item) { sky_->got += item ? 1 : 0; }),
               OnDeadline(std::chrono::microseconds(Below(1000))));
        break;
      case 6: {
        std::unique_lock lock(sky_->mutex);
        const int seen = sky_->version;
        static_cast<void>(sky_->changed.wait(
            lock, [&] { return sky_->version != seen; }, SoonOrNever()));
        break;
      }
      case 7: {
        const std::scoped_lock lock(sky_->mutex);
        ++sky_->version;
        sky_->changed.notify_all();
        break;
      }
      case 8: {
        int ends[2];
        if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) break;
        static_cast<void>(io::WaitFd(ends[0], POLLIN, SoonOrNever().is_none() ? Deadline(3ms) : Deadline(200us)));
        static_cast<void>(io::CloseFd(ends[0]));
        static_cast<void>(io::CloseFd(ends[1]));
        break;
      }
      default:
        static_cast<void>(FiberBlocking([] {}, Deadline::None()));
    }
  }

  void HoldPermit() {
    struct Held {
      explicit Held(Sky* the_sky) : sky(the_sky) { EXPECT_LE(++sky->holding, 16); }
      ~Held() {
        --sky->holding;
        sky->permits.Release();
      }
      Sky* sky;
    } held(sky_);
    FiberSleepFor(std::chrono::microseconds(Below(200)));
  }

  Sky* const sky_;
  std::mt19937_64 random_;
};

TEST(LifetimeStorm, NothingIsLostDoubledOrLeft) {
  const int seeds = std::max(1, FromEnvironment("WEFT_STORM_SEEDS", 4));
  const auto length = std::chrono::milliseconds(1000 * FromEnvironment("WEFT_STORM_SECONDS", 2) / seeds);
  std::size_t descriptors = 0;
  std::uint64_t fibers = 0;
  for (int seed = 1; seed <= seeds; ++seed) {
    SCOPED_TRACE(seed);
    Sky sky;
    {
      const RuntimeOf runtime(Shape{seed % 2 == 0 ? 1 : 2, 2});
      // Wakes that no fiber of the storm is sure to make.
      std::thread wind([&] {
        while (!sky.over) {
          if (sky.channel.TryPut(1) == ChannelResult::kOk) ++sky.put;
          if (sky.channel.TryGet()) ++sky.got;
          {
            const std::scoped_lock lock(sky.mutex);
            ++sky.version;
          }
          sky.changed.notify_all();
          std::this_thread::sleep_for(50us);
        }
      });
      Fiber root([&] {
        FiberScope scope({.policy = ScopePolicy::kCollect, .limit = 64, .deadline = length});
        std::mt19937_64 random(static_cast<std::uint64_t>(seed));
        try {
          while (!scope.IsCancelled()) {
            if (!scope.Spawn([&sky, seed_of_one = random()] { Storm(&sky, seed_of_one).Live(4); })) FiberYield();
          }
        } catch (...) {
          scope.Cancel();
        }
        scope.Wait();
      });
      root.Join();
      sky.over = true;
      wind.join();
      EXPECT_EQ(GetFiberCount(), 0U) << "something outlived its scope";
    }
    while (sky.channel.TryGet()) ++sky.got;
    EXPECT_EQ(sky.put, sky.got);
    EXPECT_EQ(sky.holding, 0);
    int permits = 0;
    while (sky.permits.TryAcquire()) ++permits;
    EXPECT_EQ(permits, 16);
    fibers += sky.fibers;
    EXPECT_GT(sky.cancelled, 0U);
    // The first two rounds make what the process keeps: a reactor for each group, and the like.
    if (seed <= 2) descriptors = OpenDescriptors();
  }
  EXPECT_EQ(OpenDescriptors(), descriptors);
  RecordProperty("fibers", std::to_string(fibers));
  std::printf("%llu fibers\n", static_cast<unsigned long long>(fibers));
}

}  // namespace
}  // namespace weft::fiber
