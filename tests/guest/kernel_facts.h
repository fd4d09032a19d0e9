// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The kernel's facts about the machine, threads and memory. It asks the kernel itself, with parsers of its own, because
// the library's answers are compared with them.
#ifndef WEFT_TESTS_GUEST_KERNEL_FACTS_H_
#define WEFT_TESTS_GUEST_KERNEL_FACTS_H_

#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cctype>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>
#include <string>
#include <vector>

namespace weft::guest {

inline std::string ReadFile(const std::string& path) {
  std::ifstream file(path);
  std::string text{std::istreambuf_iterator<char>(file), {}};
  while (!text.empty() && std::isspace(static_cast<unsigned char>(text.back())) != 0) text.pop_back();
  return text;
}

inline std::vector<int> Numbers(const std::string& text, char separator) {
  std::vector<int> numbers;
  std::istringstream in(text);
  for (std::string number; std::getline(in, number, separator);) {
    if (!number.empty()) numbers.push_back(std::atoi(number.c_str()));
  }
  return numbers;
}

// "0-2,5" -> 0 1 2 5
inline std::vector<int> List(const std::string& text) {
  std::vector<int> numbers;
  std::istringstream in(text);
  for (std::string range; std::getline(in, range, ',');) {
    const std::vector<int> ends = Numbers(range, '-');
    for (int n = ends.front(); n <= ends.back(); ++n) numbers.push_back(n);
  }
  return numbers;
}

struct NodeFacts {
  std::vector<int> cpus;
  std::vector<int> distances;

  friend bool operator==(const NodeFacts&, const NodeFacts&) = default;
};

// By number.
inline std::map<int, NodeFacts> NodesOfKernel() {
  const std::string folder = "/sys/devices/system/node/";
  std::map<int, NodeFacts> nodes;
  for (int node : List(ReadFile(folder + "online"))) {
    const std::string name = folder + "node" + std::to_string(node);
    nodes[node] = {.cpus = List(ReadFile(name + "/cpulist")), .distances = Numbers(ReadFile(name + "/distance"), ' ')};
  }
  return nodes;
}

// What the emulator was asked for: GUEST_MACHINE, e.g. "0-3:10,21;4-7:21,10".
inline std::map<int, NodeFacts> NodesAskedFor() {
  const char* text = std::getenv("GUEST_MACHINE");
  std::map<int, NodeFacts> nodes;
  std::istringstream in(text != nullptr ? text : "");
  for (std::string node; std::getline(in, node, ';');) {
    const std::size_t colon = node.find(':');
    const int id = static_cast<int>(nodes.size());
    nodes[id] = {.cpus = List(node.substr(0, colon)), .distances = Numbers(node.substr(colon + 1), ',')};
  }
  return nodes;
}

inline int NodeOfCpu(int cpu) {
  for (const auto& [id, node] : NodesOfKernel()) {
    for (int other : node.cpus) {
      if (other == cpu) return id;
    }
  }
  return -1;
}

// The nodes that pages are on; -ENOENT: the page has no memory. One call for many: it first makes all CPUs empty their
// lists of fresh pages, which takes milliseconds.
inline std::vector<int> NodesOfPages(const std::vector<const void*>& addresses) {
  std::vector<int> status(addresses.size(), -EINVAL);
  // Without a list of nodes move_pages() moves nothing and says where the pages are.
  if (syscall(SYS_move_pages, 0, addresses.size(), addresses.data(), nullptr, status.data(), 0) != 0) {
    status.assign(addresses.size(), -errno);
  }
  return status;
}

// How many pages of [begin, begin + bytes) are on each node; pages without memory do not count.
inline std::map<int, std::size_t> PagesByNode(const void* begin, std::size_t bytes) {
  constexpr std::size_t kPage = 4096;
  std::vector<const void*> pages;
  const auto from = reinterpret_cast<std::uintptr_t>(begin);
  for (std::uintptr_t page = from / kPage * kPage; page < from + bytes; page += kPage) {
    pages.push_back(reinterpret_cast<const void*>(page));
  }
  std::map<int, std::size_t> count;
  for (int node : NodesOfPages(pages)) {
    if (node != -ENOENT && node != -EFAULT) ++count[node];
  }
  return count;
}

// The node that a page is on; quick for a single page, which gets memory by it.
inline int NodeOfPage(const void* address) {
  constexpr unsigned long kNodeOfAddress = 1 | 2;  // MPOL_F_NODE | MPOL_F_ADDR of <linux/mempolicy.h>
  int node = -1;
  if (syscall(SYS_get_mempolicy, &node, nullptr, 0UL, address, kNodeOfAddress) != 0) return -errno;
  return node;
}

// The CPUs that a thread of this process may run on, as sched_getaffinity() says.
inline std::vector<int> CpusOfThread(pid_t thread) {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<int> cpus;
  if (sched_getaffinity(thread, sizeof(set), &set) != 0) return cpus;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (CPU_ISSET(static_cast<std::size_t>(cpu), &set)) cpus.push_back(cpu);
  }
  return cpus;
}

// The same by /proc, for all threads of this process, by name.
inline std::multimap<std::string, std::vector<int>> CpusOfThreads() {
  std::multimap<std::string, std::vector<int>> threads;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(entry.path() / "status");
    constexpr const char* kKey = "Cpus_allowed_list:";
    for (std::string line; std::getline(file, line);) {
      if (line.rfind(kKey, 0) != 0) continue;
      threads.emplace(ReadFile((entry.path() / "comm").string()), List(line.substr(std::strlen(kKey) + 1)));
    }
  }
  return threads;
}

// Whether this run breaks the rule on purpose (init.sh).
inline bool Planted(const std::string& plant) {
  const char* text = std::getenv("GUEST_PLANT");
  return text != nullptr && plant == text;
}

}  // namespace weft::guest

#endif  // WEFT_TESTS_GUEST_KERNEL_FACTS_H_
