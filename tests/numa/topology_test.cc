// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/numa/machine/topology.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "weft/numa/memory/affinity.h"
#include "weft/tests/base/temporary_folder.h"

namespace weft::numa {
namespace {

using Ids = std::vector<int>;

Topology FromString(const std::string& description) {
  std::string error;
  auto topology = Topology::FromString(description, &error);
  EXPECT_TRUE(topology.has_value()) << error;
  return topology.value_or(Topology());
}

// TP1, TP2 and TP4.
void CheckInvariants(const Topology& topology) {
  ASSERT_FALSE(topology.cpus.empty());
  std::set<int> nodes_of_cpus;
  for (std::size_t i = 0; i < topology.cpus.size(); ++i) {
    const Topology::Cpu& cpu = topology.cpus[i];
    if (i > 0) {
      EXPECT_LT(topology.cpus[i - 1].os_id, cpu.os_id);
    }
    const Topology::Node* node = topology.FindNode(cpu.node);
    ASSERT_NE(node, nullptr);
    EXPECT_EQ(std::count(node->cpus.begin(), node->cpus.end(), cpu.os_id), 1);
    nodes_of_cpus.insert(cpu.node);
    for (const Topology::Cpu& other : topology.cpus) {
      if (other.core != cpu.core) continue;
      EXPECT_EQ(other.l3, cpu.l3);
      EXPECT_EQ(other.package, cpu.package);
      EXPECT_EQ(other.node, cpu.node);
    }
  }
  EXPECT_EQ(topology.nodes.size(), nodes_of_cpus.size());
  std::size_t cpus_in_nodes = 0;
  for (const Topology::Node& node : topology.nodes) {
    cpus_in_nodes += node.cpus.size();
    EXPECT_EQ(node.distances.size(), topology.nodes.size());
    EXPECT_TRUE(std::is_sorted(node.cpus.begin(), node.cpus.end()));
  }
  EXPECT_EQ(cpus_in_nodes, topology.cpus.size());
  for (const Topology::MemoryNode& memory : topology.memory_nodes) {
    EXPECT_EQ(topology.FindNode(memory.os_id), nullptr);
    EXPECT_FALSE(memory.cpus.empty());
    for (int cpu : memory.cpus) EXPECT_NE(topology.FindCpu(cpu), nullptr);
  }
}

TEST(Topology, OfTwoNodesWithTwoL3DomainsEach) {
  const Topology topology = FromString("numa:2 l3:2 core:4 pu:2");
  CheckInvariants(topology);
  ASSERT_EQ(topology.cpus.size(), 32u);
  ASSERT_EQ(topology.nodes.size(), 2u);
  EXPECT_EQ(topology.nodes[0].os_id, 0);
  EXPECT_EQ(topology.nodes[1].os_id, 1);
  EXPECT_EQ(topology.nodes[1].cpus.front(), 16);
  std::set<int> domains;
  std::set<int> cores;
  for (const Topology::Cpu& cpu : topology.cpus) {
    domains.insert(cpu.l3);
    cores.insert(cpu.core);
    EXPECT_EQ(cpu.node, cpu.os_id / 16);
    EXPECT_EQ(cpu.l3, cpu.os_id / 8);
    EXPECT_EQ(cpu.core, cpu.os_id / 2);
    EXPECT_EQ(cpu.smt, cpu.os_id % 2);
  }
  EXPECT_EQ(domains.size(), 4u);
  EXPECT_EQ(cores.size(), 16u);
  EXPECT_EQ(topology.Distance(0, 0), 10);
  EXPECT_GT(topology.Distance(0, 1), 10);
}

TEST(Topology, OfNodesWhoseNumbersAreSparse) {
  const Topology topology = FromString("numa:3(indexes=8,0,4) core:2 pu:1");
  CheckInvariants(topology);
  ASSERT_EQ(topology.nodes.size(), 3u);
  EXPECT_EQ(topology.nodes[0].os_id, 0);
  EXPECT_EQ(topology.nodes[1].os_id, 4);
  EXPECT_EQ(topology.nodes[2].os_id, 8);
  // The node's number is not its position: the first CPUs are beside node 8.
  EXPECT_EQ(topology.FindCpu(0)->node, 8);
  EXPECT_EQ(topology.FindNode(8)->cpus, Ids({0, 1}));
  EXPECT_EQ(topology.FindNode(1), nullptr);
  EXPECT_EQ(topology.Distance(8, 8), 10);
  EXPECT_GT(topology.Distance(8, 4), 10);
}

TEST(Topology, OfCpusWhoseNumbersAreInterleavedOverTheNodes) {
  const Topology topology = FromString("numa:2 core:2 pu:1(indexes=0,2,1,3)");
  CheckInvariants(topology);
  EXPECT_EQ(topology.nodes[0].cpus, Ids({0, 2}));
  EXPECT_EQ(topology.nodes[1].cpus, Ids({1, 3}));
}

TEST(Topology, WithoutAnL3ThePackageIsTheDomain) {
  const Topology topology = FromString("pack:2 core:4 pu:1");
  CheckInvariants(topology);
  EXPECT_EQ(topology.FindCpu(3)->l3, 0);
  EXPECT_EQ(topology.FindCpu(4)->l3, 1);
  EXPECT_EQ(topology.FindCpu(4)->package, 1);
}

TEST(Topology, OfSeveralPackagesInOneNodeAndSeveralNodesInOnePackage) {
  const Topology wide = FromString("numa:1 pack:2 l3:1 core:4 pu:1");
  CheckInvariants(wide);
  EXPECT_EQ(wide.nodes.size(), 1u);
  EXPECT_EQ(wide.cpus.back().package, 1);
  const Topology split = FromString("pack:1 numa:4 l3:1 core:2 pu:1");
  CheckInvariants(split);
  EXPECT_EQ(split.nodes.size(), 4u);
  EXPECT_EQ(split.cpus.back().package, 0);
}

// Node 0 is memory beside all CPUs (a CXL expander); nodes 1 and 2 are the packages' own.
TEST(Topology, AMemoryOnlyNodeWithTheLowestNumberTakesNoCpuFromTheOthers) {
  const Topology topology = FromString("[numa(memory=1GB indexes=1,2,0)] package:2 [numa(memory=1GB)] core:2 pu:1");
  CheckInvariants(topology);
  ASSERT_EQ(topology.nodes.size(), 2u);
  EXPECT_EQ(topology.nodes[0].os_id, 1);
  EXPECT_EQ(topology.nodes[0].cpus, Ids({0, 1}));
  EXPECT_EQ(topology.nodes[1].os_id, 2);
  EXPECT_EQ(topology.nodes[1].cpus, Ids({2, 3}));
}

TEST(Topology, AMemoryOnlyNodeIsKnownWithTheCpusBesideIt) {
  const Topology topology = FromString("[numa(memory=1GB indexes=1,2,0)] package:2 [numa(memory=1GB)] core:2 pu:1");
  EXPECT_EQ(topology.memory_nodes, (std::vector<Topology::MemoryNode>{{0, Ids({0, 1, 2, 3})}}));
  EXPECT_NE(topology.ToString().find("\nnode 0: memory only, beside CPUs 0-3\n"), std::string::npos)
      << topology.ToString();
  std::string error;
  const auto restricted = topology.Restrict({2}, &error);
  CheckInvariants(*restricted);
  // Node 1 has CPUs, which are not ours: it is no memory-only node.
  EXPECT_EQ(restricted->memory_nodes, (std::vector<Topology::MemoryNode>{{0, Ids({2})}}));
}

TEST(Topology, OfTwoKindsOfMemoryBesideTheSameCpusTheLowestNumberCounts) {
  const Topology topology = FromString("package:2 [numa(memory=1GB)] [numa(memory=1GB)] core:2 pu:1");
  CheckInvariants(topology);
  EXPECT_EQ(topology.nodes.size(), 2u);
  EXPECT_EQ(topology.cpus[0].node, 0);
  ASSERT_EQ(topology.memory_nodes.size(), 2u);
  EXPECT_EQ(topology.memory_nodes[0].cpus, Ids({0, 1}));
  EXPECT_EQ(topology.memory_nodes[1].cpus, Ids({2, 3}));
  std::string error;
  const auto restricted = topology.Restrict({0}, &error);
  CheckInvariants(*restricted);
  EXPECT_EQ(restricted->memory_nodes.size(), 1u);
}

TEST(Topology, OfOneCpu) {
  const Topology topology = FromString("pu:1");
  CheckInvariants(topology);
  EXPECT_EQ(topology.cpus.size(), 1u);
  EXPECT_EQ(topology.UsableCpuCount(), 1u);
}

TEST(Topology, OfMoreCpusThanACpuSetHolds) {
  const Topology topology = FromString("numa:16 core:128 pu:2");
  EXPECT_EQ(topology.cpus.size(), 4096u);
  EXPECT_EQ(topology.nodes.size(), 16u);
  EXPECT_NE(topology.FindCpu(4095), nullptr);
}

TEST(Topology, BadDescriptionsAreRefusedInOneLine) {
  const struct {
    const char* description;
    const char* expected;
  } cases[] = {
      {"", "it is no synthetic description"},
      {"nonsense", "it is no synthetic description"},
      {"numa:2 core:", "it is no synthetic description"},
      {"core:99999999 pu:99999", "it has 9.9999e+12 CPUs, 16384 are the most"},
      {"numa:2 16384", "it has 32768 CPUs"},
      {"/no/such/file.xml", "the file cannot be read: No such file"},
      {"no_such_file.xml", "the file cannot be read: No such file"},
      {"/dev/null", "it is no XML file"},
  };
  for (const auto& test : cases) {
    std::string error;
    EXPECT_FALSE(Topology::FromString(test.description, &error).has_value()) << test.description;
    EXPECT_NE(error.find(std::string("bad topology \"") + test.description + "\": " + test.expected), std::string::npos)
        << error;
    EXPECT_EQ(error.find('\n'), std::string::npos);
  }
}

// What lstopo writes for two nodes, numbers 0 and 3, shortened to what matters.
constexpr char kXml[] = R"(<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">
 <object type="Machine" os_index="0" cpuset="0xf" complete_cpuset="0xf" allowed_cpuset="0xf" nodeset="0x9"
         complete_nodeset="0x9" allowed_nodeset="0x9" gp_index="1">
  <object type="Package" os_index="0" cpuset="0x3" complete_cpuset="0x3" nodeset="0x1" complete_nodeset="0x1" gp_index="2">
   <object type="NUMANode" os_index="0" cpuset="0x3" complete_cpuset="0x3" nodeset="0x1" complete_nodeset="0x1" gp_index="3"
           local_memory="1073741824"/>
   <object type="Core" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" gp_index="4">
    <object type="PU" os_index="0" cpuset="0x1" complete_cpuset="0x1" nodeset="0x1" complete_nodeset="0x1" gp_index="5"/>
   </object>
   <object type="Core" os_index="1" cpuset="0x2" complete_cpuset="0x2" nodeset="0x1" complete_nodeset="0x1" gp_index="6">
    <object type="PU" os_index="1" cpuset="0x2" complete_cpuset="0x2" nodeset="0x1" complete_nodeset="0x1" gp_index="7"/>
   </object>
  </object>
  <object type="Package" os_index="1" cpuset="0xc" complete_cpuset="0xc" nodeset="0x8" complete_nodeset="0x8" gp_index="8">
   <object type="NUMANode" os_index="3" cpuset="0xc" complete_cpuset="0xc" nodeset="0x8" complete_nodeset="0x8" gp_index="9"
           local_memory="1073741824"/>
   <object type="Core" os_index="2" cpuset="0x4" complete_cpuset="0x4" nodeset="0x8" complete_nodeset="0x8" gp_index="10">
    <object type="PU" os_index="2" cpuset="0x4" complete_cpuset="0x4" nodeset="0x8" complete_nodeset="0x8" gp_index="11"/>
   </object>
   <object type="Core" os_index="3" cpuset="0x8" complete_cpuset="0x8" nodeset="0x8" complete_nodeset="0x8" gp_index="12">
    <object type="PU" os_index="3" cpuset="0x8" complete_cpuset="0x8" nodeset="0x8" complete_nodeset="0x8" gp_index="13"/>
   </object>
  </object>
 </object>
 <distances2 type="NUMANode" nbobjs="2" kind="5" name="NUMALatency" indexing="os">
  <indexes length="4">0 3 </indexes>
  <u64values length="12">10 31 32 10 </u64values>
 </distances2>
</topology>
)";

TEST(Topology, IsReadFromAnXmlFileWithItsDistances) {
  const TemporaryFolder folder;
  const Topology topology = FromString(folder.Write("topology.xml", kXml));
  CheckInvariants(topology);
  ASSERT_EQ(topology.nodes.size(), 2u);
  EXPECT_EQ(topology.nodes[1].os_id, 3);
  EXPECT_EQ(topology.nodes[1].cpus, Ids({2, 3}));
  EXPECT_EQ(topology.Distance(0, 3), 31);
  EXPECT_EQ(topology.Distance(3, 0), 32);
  EXPECT_EQ(topology.Distance(3, 3), 10);
}

// A package with CPUs 0 to 3, three cores. Node 0 is memory beside it, as `attributes`, `info` or `latency` say; node 1
// is its own.
std::string XmlOfTwoMemories(const std::string& attributes, const std::string& info, int latency) {
  const auto object = [](const std::string& type, int number, const std::string& cpus, const std::string& nodes) {
    static int next = 0;
    return "<object type=\"" + type + "\" os_index=\"" + std::to_string(number) + "\" cpuset=\"" + cpus +
           "\" complete_cpuset=\"" + cpus + "\" nodeset=\"" + nodes + "\" complete_nodeset=\"" + nodes +
           "\" gp_index=\"" + std::to_string(type == "NUMANode" ? 100 + number : ++next) + "\" ";
  };
  const auto pu = [&](int number, const std::string& cpus) { return object("PU", number, cpus, "0x3") + "/>"; };
  const auto memory = [](int node, int nanoseconds) {
    return "<memattr_value target_obj_gp_index=\"" + std::to_string(100 + node) +
           "\" target_obj_type=\"NUMANode\" value=\"" + std::to_string(nanoseconds) + "\" initiator_cpuset=\"0xf\"/>";
  };
  std::string xml = R"(<?xml version="1.0" encoding="UTF-8"?>
<!DOCTYPE topology SYSTEM "hwloc2.dtd">
<topology version="2.0">)";
  xml += object("Machine", 0, "0xf", "0x3") + "allowed_cpuset=\"0xf\" allowed_nodeset=\"0x3\">";
  xml += object("Package", 0, "0xf", "0x3") + ">";
  xml += object("NUMANode", 0, "0xf", "0x1") + "local_memory=\"1073741824\" " + attributes + ">" + info + "</object>";
  xml += object("NUMANode", 1, "0xf", "0x2") + "local_memory=\"1073741824\"/>";
  xml += object("Core", 0, "0x3", "0x3") + ">" + pu(0, "0x1") + pu(1, "0x2") + "</object>";
  xml += object("Core", 1, "0x4", "0x3") + ">" + pu(2, "0x4") + "</object>";
  xml += object("Core", 2, "0x8", "0x3") + ">" + pu(3, "0x8") + "</object>";
  xml += "</object></object>";
  if (latency != 0)
    xml += "<memattr name=\"Latency\" flags=\"6\">" + memory(0, latency) + memory(1, 100) + "</memattr>";
  xml += R"(<cpukind cpuset="0x3"><info name="CoreType" value="IntelCore"/></cpukind>)";
  xml += R"(<cpukind cpuset="0xc"><info name="CoreType" value="IntelAtom"/></cpukind>)";
  return xml + "</topology>\n";
}

TEST(Topology, OfTwoMemoriesWithTheSameCpusTheOneIsTheirsThatIsNotKnownAsFurtherMemory) {
  const TemporaryFolder folder;
  const struct {
    std::string attributes, info;
    int latency;
    int node;
  } cases[] = {
      {R"(subtype="CXL-DRAM")", "", 0, 1},
      {"", R"(<info name="DAXDevice" value="dax0.0"/>)", 0, 1},
      {"", "", 300, 1},
      {"", "", 90, 0},
      {R"(subtype="DRAM")", "", 0, 0},
      {"", "", 0, 0},
  };
  for (const auto& test : cases) {
    const Topology topology =
        FromString(folder.Write("topology.xml", XmlOfTwoMemories(test.attributes, test.info, test.latency)));
    CheckInvariants(topology);
    ASSERT_EQ(topology.nodes.size(), 1u);
    EXPECT_EQ(topology.nodes[0].os_id, test.node) << test.attributes << test.info << test.latency;
    ASSERT_EQ(topology.memory_nodes.size(), 1u);
    EXPECT_EQ(topology.memory_nodes[0].os_id, 1 - test.node);
  }
}

TEST(Topology, KnowsFastCoresAndSlowOnes) {
  const TemporaryFolder folder;
  const Topology topology = FromString(folder.Write("topology.xml", XmlOfTwoMemories("", "", 0)));
  EXPECT_GT(topology.FindCpu(1)->kind, topology.FindCpu(2)->kind);
  EXPECT_EQ(topology.FindCpu(0)->kind, topology.FindCpu(1)->kind);
  EXPECT_EQ(topology.FindCpu(2)->kind, topology.FindCpu(3)->kind);
  EXPECT_NE(topology.ToString().find("; kinds of cores, the fastest first {0,1} {2,3};"), std::string::npos)
      << topology.ToString();
  std::string error;
  EXPECT_EQ(topology.Restrict({1, 2}, &error)->FindCpu(1)->kind, topology.FindCpu(1)->kind);
  for (const Topology::Cpu& cpu : FromString("core:4 pu:2").cpus) EXPECT_EQ(cpu.kind, 0);
}

TEST(Topology, TheQuotaCutsTheUsableCpus) {
  Topology topology = FromString("core:8 pu:1");
  EXPECT_EQ(topology.UsableCpuCount(), 8u);
  topology.cpu_quota = 2.5;
  EXPECT_EQ(topology.UsableCpuCount(), 3u);
  topology.cpu_quota = 2.0;
  EXPECT_EQ(topology.UsableCpuCount(), 2u);
  topology.cpu_quota = 0.1;
  EXPECT_EQ(topology.UsableCpuCount(), 1u);
  topology.cpu_quota = 100;
  EXPECT_EQ(topology.UsableCpuCount(), 8u);
}

TEST(Topology, RestrictLeavesTheChosenCpusAndTheirNodes) {
  Topology whole = FromString("numa:3(indexes=0,2,5) core:2 pu:2");
  whole.cpu_quota = 7;
  std::string error;
  const auto restricted = whole.Restrict({11, 1, 9, 9}, &error);
  ASSERT_TRUE(restricted.has_value()) << error;
  CheckInvariants(*restricted);
  ASSERT_EQ(restricted->nodes.size(), 2u);
  EXPECT_EQ(restricted->nodes[0].os_id, 0);
  EXPECT_EQ(restricted->nodes[1].os_id, 5);
  EXPECT_EQ(restricted->nodes[1].cpus, Ids({9, 11}));
  EXPECT_EQ(restricted->Distance(0, 5), whole.Distance(0, 5));
  EXPECT_EQ(restricted->cpu_quota, 7);
  EXPECT_EQ(restricted->FindCpu(1)->smt, 0);  // Its sibling is gone.

  EXPECT_FALSE(whole.Restrict({1, 12}, &error).has_value());
  EXPECT_NE(error.find("CPU 12"), std::string::npos);
  EXPECT_FALSE(whole.Restrict({}, &error).has_value());
}

TEST(Topology, PrintsALineForEachNode) {
  Topology topology = FromString("numa:2(indexes=0,3) l3:2 core:2 pu:1");
  topology.cpu_quota = 1.5;
  EXPECT_EQ(topology.ToString(),
            "8 CPUs, quota 1.5 CPUs\n"
            "node 0: CPUs 0-3; L3 domains {0,1} {2,3}; distances 0=10 3=20\n"
            "node 3: CPUs 4-7; L3 domains {4,5} {6,7}; distances 0=20 3=10\n");
}

TEST(TopologyOfThisMachine, HasTheCpusThatThisThreadMayUse) {
  const Topology topology = Topology::Detect();
  CheckInvariants(topology);
  Ids cpus;
  for (const Topology::Cpu& cpu : topology.cpus) cpus.push_back(cpu.os_id);
  EXPECT_EQ(cpus, ThreadCpus());
}

TEST(TopologyOfThisMachine, FollowsTheAffinityMask) {
  const int last = ThreadCpus().back();
  std::thread([last] {
    ASSERT_FALSE(BindThread(Ids({last})));
    const Topology topology = Topology::Detect();
    CheckInvariants(topology);
    ASSERT_EQ(topology.cpus.size(), 1u);
    EXPECT_EQ(topology.cpus[0].os_id, last);
  }).join();
}

TEST(TopologyDeathTest, RefusesTheDistanceOfANodeThatIsNotThere) {
  const Topology topology = FromString("numa:2(indexes=0,3) pu:1");
  EXPECT_DEATH(topology.Distance(0, 1), "no node 1");
}

}  // namespace
}  // namespace weft::numa
