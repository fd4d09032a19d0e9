// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// FiberSharedMutex through all interleavings of a few fibers: writers exclude everybody, nobody is forgotten even if
// waiters time out, and the last owner may destroy it. The scheduler, the timers and the spin lock are those of
// tests/model/stubs.
#include <gtest/gtest.h>

#include <chrono>
#include <mutex>
#include <shared_mutex>

#include "weft/sync/fiber_shared_mutex.h"
#include "weft/sync/wait/wait_queue.h"
#include "weft/tests/model/fiber_world.h"
#include "weft/tests/testing/interleave.h"

// Drain() in a thread.
extern "C" int sched_yield() noexcept {
  weft::model::SpinHint();
  return 0;
}

namespace weft {
namespace {

using model::FiberWorld;
using Timers = FiberWorld::Timers;

constexpr std::chrono::hours kSoon{1};  // Time is the model's.

void Explore(const model::Options& options, void (*build)(model::Scenario&, FiberWorld&)) {
  const model::Result result = model::Explore(options, [&](model::Scenario& scenario) {
    FiberWorld world(scenario);
    build(scenario, world);
  });
  EXPECT_TRUE(result.passed) << result.report;
}

struct Guarded {
  FiberSharedMutex mutex;
  model::Data<int> value{0};

  void Write() {
    std::unique_lock lock(mutex);
    value.Write(value.Read() + 1);
  }
  void WriteIfInTime() {
    std::unique_lock lock(mutex, kSoon);
    if (lock.owns_lock()) value.Write(value.Read() + 1);
  }
  void Read() {
    std::shared_lock lock(mutex);
    static_cast<void>(value.Read());
  }
  void ReadIfInTime() {
    std::shared_lock lock(mutex, kSoon);
    if (lock.owns_lock()) static_cast<void>(value.Read());
  }
};

Guarded* NewGuarded(model::Scenario& scenario) {
  auto* guarded = new Guarded;
  scenario.Name(guarded, sizeof(*guarded), "guarded");
  scenario.AtEnd([guarded] {
    MODEL_CHECK(guarded->mutex.try_lock(), "something is left in the word");
    guarded->mutex.unlock();
  });
  return guarded;
}

TEST(FiberSharedMutexModel, TwoWritersAndAReader) {
  Explore({.name = "shared mutex: two writers, a reader", .preemptions = 3, .weak_choices = 1},
          [](model::Scenario& scenario, FiberWorld& world) {
            Guarded* guarded = NewGuarded(scenario);
            for (const char* name : {"writer 0", "writer 1"}) world.Fiber(name, Timers::kNo, [=] { guarded->Write(); });
            world.Fiber("reader", Timers::kNo, [=] { guarded->Read(); });
          });
}

TEST(FiberSharedMutexModel, AWriterAndTwoReaders) {
  Explore({.name = "shared mutex: a writer, two readers", .preemptions = 2, .weak_choices = 1},
          [](model::Scenario& scenario, FiberWorld& world) {
            Guarded* guarded = NewGuarded(scenario);
            world.Fiber("writer", Timers::kNo, [=] {
              guarded->Write();
              guarded->Write();
            });
            for (const char* name : {"reader 0", "reader 1"}) {
              world.Fiber(name, Timers::kNo, [=] {
                guarded->Read();
                guarded->Read();
              });
            }
          });
}

TEST(FiberSharedMutexModel, AWriterThatTimesOut) {
  Explore({.name = "shared mutex: timed writer, two readers", .preemptions = 3, .weak_choices = 1},
          [](model::Scenario& scenario, FiberWorld& world) {
            Guarded* guarded = NewGuarded(scenario);
            world.Fiber("timed", Timers::kYes, [=] { guarded->WriteIfInTime(); });
            for (const char* name : {"reader 0", "reader 1"}) world.Fiber(name, Timers::kNo, [=] { guarded->Read(); });
          });
  Explore({.name = "shared mutex: timed writer, writer, reader", .preemptions = 3, .weak_choices = 1},
          [](model::Scenario& scenario, FiberWorld& world) {
            Guarded* guarded = NewGuarded(scenario);
            world.Fiber("timed", Timers::kYes, [=] { guarded->WriteIfInTime(); });
            world.Fiber("writer", Timers::kNo, [=] { guarded->Write(); });
            world.Fiber("reader", Timers::kNo, [=] { guarded->Read(); });
          });
}

TEST(FiberSharedMutexModel, AReaderThatTimesOut) {
  Explore({.name = "shared mutex: timed reader, two writers", .preemptions = 3, .weak_choices = 1},
          [](model::Scenario& scenario, FiberWorld& world) {
            Guarded* guarded = NewGuarded(scenario);
            world.Fiber("timed", Timers::kYes, [=] { guarded->ReadIfInTime(); });
            for (const char* name : {"writer 0", "writer 1"}) world.Fiber(name, Timers::kNo, [=] { guarded->Write(); });
          });
}

// SM3: the first reader stays until the second is in, which may have queued behind a writer that then gave up.
TEST(FiberSharedMutexModel, AWriterThatTimesOutLetsTheReadersBehindItIn) {
  Explore({.name = "shared mutex: a writer gives up", .preemptions = 3, .weak_choices = 1},
          [](model::Scenario&, FiberWorld& world) {
            struct Meeting {
              FiberSharedMutex mutex;
              model::Parker second_is_in;
            };
            auto* meeting = new Meeting;
            world.Fiber("first reader", Timers::kNo, [=] {
              std::shared_lock lock(meeting->mutex);
              meeting->second_is_in.Park();
            });
            world.Fiber("timed writer", Timers::kYes, [=] { std::unique_lock lock(meeting->mutex, kSoon); });
            world.Fiber("second reader", Timers::kNo, [=] {
              std::shared_lock lock(meeting->mutex);
              meeting->second_is_in.Unpark();
            });
          });
}

// SM4
struct Counted {
  FiberSharedMutex mutex;
  model::Data<int> references;

  // The caller owns the mutex.
  void Release() WEFT_NO_THREAD_SAFETY_ANALYSIS {
    const int left = references.Read() - 1;
    references.Write(left);
    mutex.unlock();
    if (left == 0) delete this;
  }
};

TEST(FiberSharedMutexModel, TheLastOwnerMayDestroyIt) {
  Explore({.name = "shared mutex: destroyed", .preemptions = 3, .weak_choices = 1},
          [](model::Scenario&, FiberWorld& world) {
            auto* counted = new Counted;
            counted->references.Write(3);
            for (const char* name : {"owner 0", "owner 1", "owner 2"}) {
              world.Fiber(name, Timers::kNo, [=]() WEFT_NO_THREAD_SAFETY_ANALYSIS {
                counted->mutex.lock();
                counted->Release();
              });
            }
          });
  Explore({.name = "shared mutex: destroyed after a time-out", .preemptions = 3, .weak_choices = 1},
          [](model::Scenario&, FiberWorld& world) {
            auto* counted = new Counted;
            counted->references.Write(2);
            world.Fiber("patient", Timers::kNo, [=]() WEFT_NO_THREAD_SAFETY_ANALYSIS {
              counted->mutex.lock();
              counted->Release();
            });
            world.Fiber("timed", Timers::kYes, [=]() WEFT_NO_THREAD_SAFETY_ANALYSIS {
              if (!counted->mutex.try_lock_for(kSoon)) counted->mutex.lock();
              counted->Release();
            });
          });
}

TEST(FiberSharedMutexModel, AWriterMayDestroyItAfterTheReaders) {
  Explore({.name = "shared mutex: destroyed after readers", .preemptions = 3, .weak_choices = 1},
          [](model::Scenario&, FiberWorld& world) {
            struct Shared {
              FiberSharedMutex mutex;
              base::Atomic<int> readers{2};
            };
            auto* shared = new Shared;
            for (const char* name : {"reader 0", "reader 1"}) {
              world.Fiber(name, Timers::kNo, [=] {
                std::shared_lock lock(shared->mutex);
                shared->readers.fetch_sub(1, std::memory_order_relaxed);
              });
            }
            world.Fiber("writer", Timers::kNo, [=] {
              for (bool all = false; !all;) {
                {
                  std::unique_lock lock(shared->mutex);
                  all = shared->readers.load(std::memory_order_relaxed) == 0;
                }
                if (!all) model::SpinHint();
              }
              delete shared;
            });
          });
}

}  // namespace
}  // namespace weft
