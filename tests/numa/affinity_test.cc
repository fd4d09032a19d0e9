// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/numa/memory/affinity.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <thread>
#include <vector>

#include "weft/numa/machine/cpu_list.h"

namespace weft::numa {
namespace {

using Cpus = std::vector<int>;

TEST(Affinity, AThreadRunsWhereItIsBound) {
  const Cpus allowed = ThreadCpus();
  ASSERT_FALSE(allowed.empty());
  EXPECT_TRUE(std::is_sorted(allowed.begin(), allowed.end()));
  for (int cpu : {allowed.front(), allowed.back()}) {
    std::thread([cpu] {
      EXPECT_FALSE(BindThread(Cpus({cpu})));
      EXPECT_EQ(ThreadCpus(), Cpus({cpu}));
      EXPECT_EQ(CurrentCpu(), cpu);
    }).join();
  }
  EXPECT_EQ(ThreadCpus(), allowed);  // Other threads are as before.
}

TEST(Affinity, AThreadMayBeBoundToSeveralCpus) {
  const Cpus allowed = ThreadCpus();
  std::thread([&] {
    EXPECT_FALSE(BindThread(allowed));
    EXPECT_EQ(ThreadCpus(), allowed);
  }).join();
}

TEST(Affinity, RefusalsAreReturned) {
  EXPECT_EQ(BindThread({}), std::errc::invalid_argument);
  EXPECT_EQ(BindThread(Cpus({-1})), std::errc::invalid_argument);
  EXPECT_EQ(BindThread(Cpus({kMaxCpuId + 1})), std::errc::invalid_argument);
  // A CPU that this machine does not have.
  EXPECT_EQ(BindThread(Cpus({kMaxCpuId})), std::errc::invalid_argument);
}

TEST(Affinity, MemoryNodesAreThoseOfTheProcessStatus) {
  std::ifstream status("/proc/self/status");
  const std::string key = "Mems_allowed_list:";
  std::string line;
  while (std::getline(status, line) && !line.starts_with(key)) {
  }
  if (MemoryNodes().empty()) GTEST_SKIP() << "the kernel does not say, as under a container's seccomp filter";
  EXPECT_EQ(MemoryNodes(), ParseCpuList(line.substr(line.find_first_of("0123456789")))) << line;
}

TEST(Affinity, MemoryBoundToANodeIsUsable) {
  constexpr std::size_t kSize = 1 << 16;
  void* memory = mmap(nullptr, kSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(memory, MAP_FAILED);
  EXPECT_FALSE(BindMemory(memory, kSize, -1));
  // On a machine with several nodes a container's seccomp filter may forbid it: then it returns an error, and the
  // memory is usable all the same.
  const std::error_code error = BindMemory(memory, kSize, 0);
  EXPECT_TRUE(!error || error == std::errc::operation_not_permitted) << error.message();
  std::fill_n(static_cast<char*>(memory), kSize, 'x');
  munmap(memory, kSize);
}

}  // namespace
}  // namespace weft::numa
