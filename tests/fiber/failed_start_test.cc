// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// TryStartRuntime() without memory or threads: it returns an error in words, changes nothing, and the next start works
// (RT5 in fiber/runtime/runtime_instance.h).

#include <dlfcn.h>
#include <gtest/gtest.h>
#include <pthread.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <fstream>
#include <new>
#include <string>
#include <string_view>
#include <thread>

#include "weft/base/report/log.h"
#include "weft/base/thread/cpu.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/runtime.h"
#include "weft/fiber/runtime/runtime_instance.h"
#include "weft/scheduling_group/group/group_registry.h"
#include "weft/scheduling_group/group/scheduling_group.h"
#include "weft/scheduling_group/worker/worker_slot.h"
#include "weft/tests/fiber/runtime_fixture.h"
#include "weft/timer/worker/timer_worker.h"

#if !WEFT_ASAN && !WEFT_TSAN  // They replace the same functions.

namespace {

// Of the calling thread: allocations until the one that fails; 0: none does.
thread_local int allocations_left = 0;
std::atomic<int> threads_left{0};  // likewise
void (*before_refusal)() = nullptr;
std::atomic<bool> refuse_watchdog{false};
std::atomic<int> watchdog_refusals{0};

bool IsWatchdog() {
  std::array<char, 16> name{};
  return ::pthread_getname_np(::pthread_self(), name.data(), name.size()) == 0 &&
         std::string_view(name.data()) == "FiberWatchdog";
}

bool IsTheOne(int* left) { return *left != 0 && --*left == 0; }

void* Allocate(std::size_t size, std::size_t alignment) {
  if (IsTheOne(&allocations_left)) throw std::bad_alloc();
  if (refuse_watchdog && IsWatchdog()) {
    ++watchdog_refusals;
    throw std::bad_alloc();
  }
  void* memory = nullptr;
  if (alignment < sizeof(void*)) alignment = sizeof(void*);
  if (::posix_memalign(&memory, alignment, size != 0 ? size : 1) != 0) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t size) { return Allocate(size, alignof(std::max_align_t)); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return Allocate(size, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { std::free(memory); }

extern "C" int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*body)(void*),
                              void* argument) noexcept {
  using Create = int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*);
  static const auto create = reinterpret_cast<Create>(::dlsym(RTLD_NEXT, "pthread_create"));
  if (threads_left.load() != 0 && threads_left.fetch_sub(1) == 1) {
    if (before_refusal != nullptr) before_refusal();
    return EAGAIN;
  }
  return create(thread, attributes, body, argument);
}
#endif

namespace weft::fiber {
namespace {

int Threads() {
  std::ifstream status("/proc/self/status");
  std::string word;
  while (status >> word) {
    int count = 0;
    if (word == "Threads:" && status >> count) return count;
  }
  return -1;
}

RuntimeOptions TwoGroups() {
  RuntimeOptions options = OptionsOf({.workers = 2, .groups = 2});
  return options;
}

class FailedStart : public ::testing::Test {
 protected:
  FailedStart() {
    base::SetLogSink([](base::LogSeverity, const char*, int, std::string_view) {});  // A line for each thread refused.
    EXPECT_EQ(TerminateOnce(), std::size_t{0});  // Makes what is made once in a process.
    threads_ = Threads();
  }
  ~FailedStart() override { base::SetLogSink(nullptr); }

  static std::size_t TerminateOnce() {
    StartRuntime(TwoGroups());
    return TerminateRuntime();
  }

  void CheckRefused(const std::string& error) const {
    EXPECT_FALSE(IsRuntimeRunning());
    EXPECT_EQ(Threads(), threads_) << "threads are left";
    EXPECT_FALSE(StartFiberDetached([] {})) << "there is no runtime";
    EXPECT_FALSE(error.empty());
    EXPECT_EQ(error.find("runs already"), std::string::npos) << error;
  }

 private:
  int threads_ = 0;
};

#if !WEFT_ASAN && !WEFT_TSAN

void RunAFiberAndTerminate() {
  bool ran = false;
  Fiber([&] { ran = true; }).Join();
  EXPECT_TRUE(ran);
  EXPECT_EQ(TerminateRuntime(), std::size_t{0});
}

TEST_F(FailedStart, OutOfMemoryAtEachAllocationInTurn) {
  int failed = 0;
  for (int n = 1;; ++n) {
    std::string error;
    allocations_left = n;
    const bool started = TryStartRuntime(TwoGroups(), &error);
    const bool all_made = allocations_left != 0;  // It did not come to the n-th.
    allocations_left = 0;
    if (started) {
      RunAFiberAndTerminate();
      if (all_made) break;
      continue;
    }
    ++failed;
    ASSERT_FALSE(all_made) << error;
    ASSERT_NO_FATAL_FAILURE(CheckRefused(error));
  }
  EXPECT_GT(failed, 5);
  StartRuntime(TwoGroups());
  RunAFiberAndTerminate();
}

TEST_F(FailedStart, NoThreadAtEachThreadInTurn) {
  constexpr int kThreads = 2 + 4;  // of timers and of workers
  for (int n = 1; n <= kThreads; ++n) {
    std::string error;
    threads_left = n;
    EXPECT_FALSE(TryStartRuntime(TwoGroups(), &error)) << n;
    EXPECT_EQ(threads_left.load(), 0);
    ASSERT_NO_FATAL_FAILURE(CheckRefused(error));
    EXPECT_EQ(error.rfind("the system gave no thread for ", 0), std::size_t{0}) << error;
    StartRuntime(TwoGroups());
    RunAFiberAndTerminate();
  }
}

// What the fiber that was left behind finds when it is about to sleep.
struct Left {
  std::atomic<scheduling_group::SchedulingGroup*> group{nullptr};
  std::atomic<bool> goes_on{false};
  timer::TimerWorker* timers = nullptr;
  scheduling_group::SchedulingGroup* group_of_timers = nullptr;
};
Left left;

// WL3 in scheduling_group/worker/worker_slot.h: they were freed when the start had failed.
TEST_F(FailedStart, ItsTimersStayWhileAThreadLivesThatWasLeftBehind) {
  left.group = nullptr;
  left.goes_on = false;
  detail::RuntimeInstance::grace_for_threads_ = std::chrono::milliseconds(10);
  RuntimeOptions impatient = TwoGroups();
  impatient.terminate_timeout = std::chrono::milliseconds(10);
  StartRuntime(impatient);
  ASSERT_TRUE(StartFiberDetached([] {
    left.group = scheduling_group::CurrentGroup();
    while (!left.goes_on) {
    }
  }));
  while (left.group == nullptr) std::this_thread::yield();
  EXPECT_EQ(TerminateRuntime(), std::size_t{1});
  ASSERT_TRUE(scheduling_group::LeftThreads::Any());

  before_refusal = [] {
    // It finds none for its own group, which has ended; but it may have looked at that before.
    EXPECT_EQ(timer::TimerWorker::Of(left.group), nullptr);
    const scheduling_group::SchedulingGroup same_number({.id = left.group.load()->id(), .workers = 1});
    left.timers = timer::TimerWorker::Of(&same_number);
    if (left.timers != nullptr) left.group_of_timers = left.timers->group();
  };
  threads_left = 2 + 1;  // The first worker's.
  std::string error;
  EXPECT_FALSE(TryStartRuntime(impatient, &error));
  before_refusal = nullptr;
  ASSERT_NE(left.timers, nullptr);
  EXPECT_EQ(left.timers->group(), left.group_of_timers) << "they are gone";

  left.goes_on = true;
  while (scheduling_group::LeftThreads::Any()) std::this_thread::yield();
  detail::RuntimeInstance::grace_for_threads_ = detail::RuntimeInstance::kGraceForThreads;
  StartRuntime(TwoGroups());
  RunAFiberAndTerminate();
}

// Not a start: the Watchdog's report of a group that stands still. It ended the process.
TEST_F(FailedStart, TheWatchdogBearsThatThereIsNoMemoryForItsReport) {
  RuntimeOptions options = OptionsOf({1, 1});
  options.stall_warning = std::chrono::milliseconds(20);
  StartRuntime(options);
  std::atomic<bool> runs{false};
  std::atomic<bool> enough{false};
  ASSERT_TRUE(StartFiberDetached([&] {
    runs = true;
    while (!enough) std::this_thread::yield();
  }));
  while (!runs) std::this_thread::yield();
  std::atomic<bool> said{false};
  base::SetLogSink([&](base::LogSeverity, const char*, int, std::string_view) { said = true; });
  refuse_watchdog = true;
  ASSERT_TRUE(StartFiberDetached([] {}));
  while (watchdog_refusals == 0) std::this_thread::yield();
  EXPECT_FALSE(said);
  refuse_watchdog = false;
  while (!said) std::this_thread::yield();  // The later line.
  enough = true;
  EXPECT_EQ(TerminateRuntime(), std::size_t{0});
}
#endif

TEST_F(FailedStart, OptionsThatCannotBe) {
  RuntimeOptions options = TwoGroups();
  options.run_queue_size = 1000;
  std::string error;
  EXPECT_FALSE(TryStartRuntime(options, &error));
  EXPECT_EQ(error, "--fiber_run_queue_size=1000: must be a power of two in 16..16777216");
  CheckRefused(error);
  options = TwoGroups();
  options.topology = "numa:2 core:nonsense";
  error.clear();
  EXPECT_FALSE(TryStartRuntime(options, &error));
  CheckRefused(error);
}

TEST_F(FailedStart, ASecondRuntime) {
  const RuntimeOf runtime(Shape{1, 1});
  std::string error;
  EXPECT_FALSE(TryStartRuntime(TwoGroups(), &error));
  EXPECT_EQ(error, "the runtime runs already (or is starting or ending just now)");
  EXPECT_TRUE(IsRuntimeRunning());
}

}  // namespace
}  // namespace weft::fiber
