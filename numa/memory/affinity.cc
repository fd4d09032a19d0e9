// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/numa/memory/affinity.h"

#include <pthread.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "weft/numa/machine/cpu_list.h"

namespace weft::numa {

namespace {

// A cpu_set_t of any size (the fixed one ends at 1,024 CPUs).
class CpuSet {
 public:
  explicit CpuSet(int cpus) : bytes_(CPU_ALLOC_SIZE(cpus)), set_(CPU_ALLOC(cpus)) { CPU_ZERO_S(bytes_, set_.get()); }
  cpu_set_t* get() const { return set_.get(); }
  std::size_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(cpu_set_t* set) const { CPU_FREE(set); }
  };
  std::size_t bytes_;
  std::unique_ptr<cpu_set_t, Free> set_;
};

bool ReadSeveralNodes() {
  std::ifstream file("/sys/devices/system/node/online");
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  const auto nodes = ParseCpuList(text);
  return nodes.has_value() && nodes->size() > 1;
}

}  // namespace

std::error_code BindThread(std::span<const int> cpus) {
  if (cpus.empty()) return std::make_error_code(std::errc::invalid_argument);
  const auto [lowest, highest] = std::minmax_element(cpus.begin(), cpus.end());
  if (*lowest < 0 || *highest > kMaxCpuId) return std::make_error_code(std::errc::invalid_argument);
  CpuSet set(*highest + 1);
  for (int cpu : cpus) CPU_SET_S(static_cast<std::size_t>(cpu), set.bytes(), set.get());
  return {pthread_setaffinity_np(pthread_self(), set.bytes(), set.get()), std::generic_category()};
}

void RunWhereTheFirstThreadOf(pid_t process) noexcept {
  unsigned long mask[1024];  // 65,536 CPUs; the kernel has 8,192 at most
  const long bytes = ::syscall(SYS_sched_getaffinity, process, sizeof(mask), mask);
  if (bytes > 0) ::syscall(SYS_sched_setaffinity, 0, static_cast<std::size_t>(bytes), mask);
}

int CurrentCpu() { return sched_getcpu(); }

int CurrentNode() {
  unsigned node = 0;
  return ::getcpu(nullptr, &node) == 0 ? static_cast<int>(node) : -1;
}

std::vector<int> ThreadCpus() {
  std::vector<int> cpus;
  // The kernel refuses a set smaller than its own number of possible CPUs: try larger ones.
  for (int capacity = 1024; capacity <= kMaxCpuId + 1; capacity *= 2) {
    CpuSet set(capacity);
    const int error = pthread_getaffinity_np(pthread_self(), set.bytes(), set.get());
    if (error == EINVAL) continue;
    if (error != 0) break;
    for (int cpu = 0; cpu < capacity; ++cpu) {
      if (CPU_ISSET_S(static_cast<std::size_t>(cpu), set.bytes(), set.get())) cpus.push_back(cpu);
    }
    break;
  }
  return cpus;
}

bool HasSeveralNodes() {
  static const bool several_nodes = ReadSeveralNodes();
  return several_nodes;
}

std::vector<int> MemoryNodes() {
  constexpr std::size_t kBits = sizeof(unsigned long) * CHAR_BIT;
  constexpr unsigned long kMemsAllowed = 4;  // MPOL_F_MEMS_ALLOWED of <linux/mempolicy.h>
  // The kernel refuses a mask smaller than its own number of possible nodes, 1,024 at most.
  std::array<unsigned long, 4096 / kBits> mask{};
  std::vector<int> nodes;
  if (syscall(SYS_get_mempolicy, nullptr, mask.data(), mask.size() * kBits, nullptr, kMemsAllowed) != 0) return nodes;
  for (std::size_t node = 0; node < mask.size() * kBits; ++node) {
    if ((mask[node / kBits] >> (node % kBits) & 1) != 0) nodes.push_back(static_cast<int>(node));
  }
  return nodes;
}

std::error_code BindMemory(void* address, std::size_t length, int node) {
  if (node < 0 || !HasSeveralNodes()) return {};
  constexpr std::size_t kBits = sizeof(unsigned long) * CHAR_BIT;
  constexpr long kPreferred =
      1;  // MPOL_PREFERRED of <linux/mempolicy.h>.  Not MPOL_BIND: a full node must not kill us.
  std::vector<unsigned long> mask(static_cast<std::size_t>(node) / kBits + 1);
  mask[static_cast<std::size_t>(node) / kBits] = 1UL << (static_cast<std::size_t>(node) % kBits);
  // + 1: the kernel uses one bit less than it is told.
  if (syscall(SYS_mbind, address, length, kPreferred, mask.data(), mask.size() * kBits + 1, 0) != 0) {
    const std::error_code error(errno, std::generic_category());
    if (error != std::errc::invalid_argument) return error;
    const std::vector<int> nodes = MemoryNodes();
    const bool gives_none = !nodes.empty() && std::find(nodes.begin(), nodes.end(), node) == nodes.end();
    return gives_none ? std::error_code() : error;
  }
  return {};
}

}  // namespace weft::numa
