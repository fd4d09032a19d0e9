// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/base/thread/atomic.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <thread>
#include <vector>

#include "weft/base/report/build_mode.h"
#include "weft/base/thread/cpu.h"
#include "weft/tests/testing/patience.h"

namespace weft::base {
namespace {

// Two threads each store into their own variable and then load the other's. Counts how often neither saw the other's
// store.
template <class Fence>
int MissesOfEachOther(int rounds, Fence often, Fence rarely) {
  alignas(kCacheLineSize) std::atomic<int> x{0};
  alignas(kCacheLineSize) std::atomic<int> y{0};
  alignas(kCacheLineSize) std::atomic<int> x_turn{0};
  alignas(kCacheLineSize) std::atomic<int> y_turn{0};
  std::vector<int> saw_y(rounds);
  std::vector<int> saw_x(rounds);
  const auto meet = [](std::atomic<int>* own, std::atomic<int>* other, int round) {
    own->store(round, std::memory_order_release);
    for (int spins = 0; other->load(std::memory_order_acquire) < round; ++spins) {
      if (spins % 1024 == 1023) std::this_thread::yield();
      CpuRelax();
    }
  };
  std::thread thread([&] {
    for (int i = 1; i <= rounds; ++i) {
      meet(&x_turn, &y_turn, i);
      x.store(i, std::memory_order_relaxed);
      often();
      saw_y[i - 1] = y.load(std::memory_order_relaxed);
    }
  });
  for (int i = 1; i <= rounds; ++i) {
    meet(&y_turn, &x_turn, i);
    y.store(i, std::memory_order_relaxed);
    rarely();
    saw_x[i - 1] = x.load(std::memory_order_relaxed);
  }
  thread.join();
  int misses = 0;
  for (int i = 0; i < rounds; ++i) misses += saw_y[i] <= i && saw_x[i] <= i;
  return misses;
}

TEST(AsymmetricFence, OneOfTwoThreadsSeesTheOthersStore) {
  if (!HasHeavyFence()) GTEST_SKIP() << "this kernel has no membarrier(), or a filter of system calls refuses it";
  EXPECT_EQ(MissesOfEachOther(testing::Scaled(100'000), &LightFence, &HeavyFence), 0);
}

// Shows that the test above does not pass only because the two never meet.
// Not where calls between the store and the load let nearly every store become visible first: ThreadSanitizer's, and
// those of code that is not optimised.
#if !WEFT_TSAN && defined(__OPTIMIZE__)
TEST(AsymmetricFence, WithTwoLightOnesTheyMissEachOtherNowAndThen) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "one CPU";
  int misses = 0;
  for (int i = 0; i < 50 && misses == 0; ++i) misses = MissesOfEachOther(100'000, &LightFence, &LightFence);
  EXPECT_GT(misses, 0);
}
#endif

// --- Where the kernel refuses it: in processes of their own ---

bool ForbidMembarrier() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  sock_fprog program{.len = 4, .filter = filter};
  return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 && prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

// Tried by a child.
bool CanForbidMembarrier() {
  const pid_t child = fork();
  if (child == 0) _exit(ForbidMembarrier() ? 0 : 1);
  int status = -1;
  return waitpid(child, &status, 0) == child && status == 0;
}

TEST(AsymmetricFenceDeathTest, IsNotThereWhereItIsForbidden) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  if (!CanForbidMembarrier()) GTEST_SKIP() << "no seccomp";
  EXPECT_EXIT(
      {
        const bool forbidden = ForbidMembarrier();
        _exit(forbidden && !HasHeavyFence() ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

TEST(AsymmetricFenceDeathTest, AFilterThatComesLaterCostsTimeAndNothingElse) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  if (!HasHeavyFence() || !CanForbidMembarrier()) GTEST_SKIP() << "no membarrier(), or no seccomp";
  EXPECT_EXIT(
      {
        const bool forbidden_later = HasHeavyFence() && ForbidMembarrier();
        errno = 0;
        const auto begin = std::chrono::steady_clock::now();
        HeavyFence();
        const bool slept = std::chrono::steady_clock::now() - begin >= std::chrono::milliseconds(20);
        _exit(forbidden_later && slept && !HasHeavyFence() && errno == 0 ? 0 : 1);
      },
      ::testing::ExitedWithCode(0), "");
}

// A process made by fork() has its own address space.
TEST(AsymmetricFence, WorksInAForkedProcess) {
  if (!HasHeavyFence()) GTEST_SKIP() << "no membarrier()";
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    HeavyFence();
    _exit(HasHeavyFence() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

}  // namespace
}  // namespace weft::base
