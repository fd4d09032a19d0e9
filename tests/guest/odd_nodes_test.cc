// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// A machine with a node that has no memory (2) and one that has no CPU (3). init.sh runs these tests twice: as they
// are, and in a control group with the memory of one node only (GUEST_CPUSET).

#include <gtest/gtest.h>

#include <atomic>
#include <cstddef>
#include <cstdlib>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "weft/base/report/log.h"
#include "weft/fiber/runtime.h"
#include "weft/numa/machine/topology.h"
#include "weft/numa/memory/affinity.h"

#include "guest/guest_fixture.h"
#include "guest/kernel_facts.h"

namespace weft::guest {
namespace {

using numa::Topology;

class GuestOddNodes : public GuestTest {
 protected:
  void SetUp() override {
    for (const auto& [id, node] : NodesAskedFor()) odd_ = odd_ || node.cpus.empty();
    if (!odd_) GTEST_SKIP() << "each node of this machine has CPUs and memory";
  }
  void TearDown() override {
    GuestTest::TearDown();
    base::SetLogSink({});
  }

  void NoteWarnings() {
    base::SetLogSink([this](base::LogSeverity severity, const char*, int, std::string_view text) {
      const std::scoped_lock guard(lock_);
      if (severity != base::LogSeverity::kInfo) warnings_.append(text).append("\n");
    });
  }
  std::string warnings() {
    const std::scoped_lock guard(lock_);
    return warnings_;
  }

 private:
  bool odd_ = false;
  std::mutex lock_;
  std::string warnings_;
};

TEST_F(GuestOddNodes, AreThoseThatWereAskedFor) {
  EXPECT_TRUE(NodesOfKernel() == NodesAskedFor());
  const char* const only = std::getenv("GUEST_CPUSET");
  EXPECT_EQ(numa::MemoryNodes(), only != nullptr ? List(only) : List(ReadFile("/sys/devices/system/node/has_memory")));
}

TEST_F(GuestOddNodes, EachCpuIsOnTheNodeThatHoldsItWhateverMemoryIsThere) {
  const Topology topology = Topology::Detect();
  ASSERT_EQ(topology.cpus.size(), List(ReadFile("/sys/devices/system/cpu/online")).size());
  for (const Topology::Cpu& cpu : topology.cpus) EXPECT_EQ(cpu.node, NodeOfCpu(cpu.os_id)) << "CPU " << cpu.os_id;
  std::vector<int> nodes;
  for (const Topology::Node& node : topology.nodes) nodes.push_back(node.os_id);
  EXPECT_EQ(nodes, (std::vector<int>{0, 1, 2}));
  ASSERT_EQ(topology.memory_nodes.size(), 1U);
  EXPECT_EQ(topology.memory_nodes[0].os_id, 3);
}

TEST_F(GuestOddNodes, GroupsAreOnTheNodesOfTheirCpusAndNobodyIsWarned) {
  NoteWarnings();
  Start(OneGroupPerNode());
  ASSERT_EQ(Groups().size(), 3U);
  for (std::size_t g = 0; g < 3; ++g) {
    EXPECT_EQ(GetSchedulingGroupAssignedNode(g), NodeOf(*Groups()[g]));
    EXPECT_EQ(GetSchedulingGroupAssignedNode(g), static_cast<int>(g));
  }
  std::atomic<int> ran{0};
  OnEachWorker([&] { ran.fetch_add(1); });
  EXPECT_EQ(ran.load(), 8);
  Stop();
  EXPECT_EQ(warnings(), "");
}

}  // namespace
}  // namespace weft::guest
