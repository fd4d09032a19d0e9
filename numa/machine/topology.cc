// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/numa/machine/topology.h"

#include <hwloc.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cmath>
#include <cstring>
#include <fstream>
#include <functional>
#include <iterator>
#include <map>
#include <memory>
#include <set>
#include <sstream>
#include <tuple>
#include <utility>

#include "weft/base/report/check.h"
#include "weft/base/report/log.h"
#include "weft/numa/machine/cgroup.h"
#include "weft/numa/machine/cpu_list.h"
#include "weft/numa/memory/affinity.h"

namespace weft::numa {

namespace {

// Between nodes, if nothing better is known.
constexpr int kRemoteDistance = 20;

struct DestroyHwloc {
  void operator()(hwloc_topology_t topology) const { hwloc_topology_destroy(topology); }
};
using HwlocTopology = std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, DestroyHwloc>;

HwlocTopology NewHwloc() {
  hwloc_topology_t topology = nullptr;
  if (hwloc_topology_init(&topology) != 0) return nullptr;
  return HwlocTopology(topology);
}

// Numbers things densely, in the order in which they are first asked for.
class Numbering {
 public:
  int operator[](const void* thing) {
    return numbers_.try_emplace(thing, static_cast<int>(numbers_.size())).first->second;
  }

 private:
  std::map<const void*, int> numbers_;
};

// The nearest ancestor of the first of these types that exists, or the whole machine.
hwloc_obj_t AncestorOf(hwloc_topology_t topology, hwloc_obj_t pu, std::initializer_list<hwloc_obj_type_t> types) {
  for (hwloc_obj_type_t type : types) {
    if (hwloc_obj_t found = hwloc_get_ancestor_obj_by_type(topology, type, pu)) return found;
  }
  return hwloc_get_root_obj(topology);
}

// The nodes that hold CPUs, as the kernel says; empty for another machine than this one. hwloc lists CPUs of a node
// that holds none, too: those of the nearest nodes.
std::set<int> NodesThatHoldCpus(hwloc_topology_t topology) {
  if (hwloc_topology_is_thissystem(topology) == 0) return {};
  std::ifstream file("/sys/devices/system/node/has_cpu");
  const auto nodes = ParseCpuList(std::string(std::istreambuf_iterator<char>(file), {}));
  return nodes.has_value() ? std::set<int>(nodes->begin(), nodes->end()) : std::set<int>();
}

// Whether hwloc knows the node as memory beside the CPUs' own: HBM, persistent or CXL memory, that of a GPU.
bool IsFurtherMemory(hwloc_obj_t node) {
  if (hwloc_obj_get_info_by_name(node, "DAXDevice") != nullptr) return true;
  return node->subtype != nullptr && std::strcmp(node->subtype, "DRAM") != 0;
}

// From the CPU to the node, in nanoseconds; 0: hwloc does not know.
hwloc_uint64_t LatencyOf(hwloc_topology_t topology, hwloc_obj_t pu, hwloc_obj_t node) {
  hwloc_location initiator{};
  initiator.type = HWLOC_LOCATION_TYPE_CPUSET;
  initiator.location.cpuset = pu->cpuset;
  hwloc_uint64_t latency = 0;
  const int status = hwloc_memattr_get_value(topology, HWLOC_MEMATTR_ID_LATENCY, node, &initiator, 0, &latency);
  return status == 0 ? latency : 0;
}

// The node beside the CPU, of those that list it: the one that holds it, if the kernel says so; else the one with the
// fewest CPUs (a CXL expander may list all of a package or machine); of equals (DRAM and HBM) the one that is not known
// as further memory, then the nearest, then the lowest, which is the DRAM. A CPU that no node lists: the first node.
int NodeOf(hwloc_topology_t topology, hwloc_obj_t pu, const std::set<int>& that_hold_cpus) {
  using Rank = std::tuple<bool, int, bool, hwloc_uint64_t, int>;
  std::optional<Rank> best;
  for (hwloc_obj_t node = nullptr;
       (node = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, node)) != nullptr;) {
    if (!hwloc_bitmap_isset(node->cpuset, pu->os_index)) continue;
    const int number = static_cast<int>(node->os_index);
    const Rank rank(!that_hold_cpus.contains(number), hwloc_bitmap_weight(node->cpuset), IsFurtherMemory(node),
                    LatencyOf(topology, pu, node), number);
    if (!best || rank < *best) best = rank;
  }
  if (best) return std::get<4>(*best);
  hwloc_obj_t any = hwloc_get_obj_by_type(topology, HWLOC_OBJ_NUMANODE, 0);
  return any == nullptr ? 0 : static_cast<int>(any->os_index);
}

// TP6.
int KindOf(hwloc_topology_t topology, hwloc_obj_t pu) {
  int efficiency = -1;  // hwloc's word: larger is faster; -1: it does not know.
  const int kind = hwloc_cpukinds_get_by_cpuset(topology, pu->cpuset, 0);
  if (kind < 0) return 0;
  hwloc_cpukinds_get_info(topology, static_cast<unsigned>(kind), nullptr, &efficiency, nullptr, nullptr, 0);
  return std::max(efficiency, 0);
}

// hwloc takes 5 s for a machine of 65,536 CPUs, and memory in proportion; the largest real ones have 2,000.
constexpr double kMostCpus = 16'384;

// How many CPUs a synthetic description has, before hwloc makes them: the product of the counts ("core:4", or "4"),
// without brackets (memory) and parentheses (attributes).
double CountCpus(const std::string& description) {
  double product = 1;
  int depth = 0;
  for (std::size_t i = 0; i < description.size(); ++i) {
    const char c = description[i];
    if (c == '(' || c == '[') ++depth;
    if (c == ')' || c == ']') --depth;
    const bool begins = i == 0 || description[i - 1] == ':' || description[i - 1] == ' ';
    if (depth > 0 || !begins || c < '0' || c > '9') continue;
    double count = 0;
    for (; i < description.size() && description[i] >= '0' && description[i] <= '9'; ++i) {
      count = count * 10 + (description[i] - '0');
    }
    --i;  // The loop's ++.
    product *= count;
  }
  return product;
}

// From (os_id, os_id) to distance, for the pairs that hwloc knows.
std::map<std::pair<int, int>, int> ReadDistances(hwloc_topology_t topology) {
  std::map<std::pair<int, int>, int> result;
  unsigned count = 1;
  hwloc_distances_s* matrix = nullptr;
  const unsigned long kind = HWLOC_DISTANCES_KIND_MEANS_LATENCY;
  if (hwloc_distances_get_by_type(topology, HWLOC_OBJ_NUMANODE, &count, &matrix, kind, 0) != 0 || count == 0)
    return result;
  for (unsigned i = 0; i < matrix->nbobjs; ++i) {
    for (unsigned j = 0; j < matrix->nbobjs; ++j) {
      const std::pair key(static_cast<int>(matrix->objs[i]->os_index), static_cast<int>(matrix->objs[j]->os_index));
      result[key] = static_cast<int>(matrix->values[i * matrix->nbobjs + j]);
    }
  }
  hwloc_distances_release(topology, matrix);
  return result;
}

// Makes nodes (TP2) of the CPUs that are there.
void FillInNodes(const std::map<std::pair<int, int>, int>& known_distances, Topology* topology) {
  std::map<int, std::vector<int>> cpus_of_node;
  for (const Topology::Cpu& cpu : topology->cpus) cpus_of_node[cpu.node].push_back(cpu.os_id);
  topology->nodes.clear();
  for (auto& [os_id, cpus] : cpus_of_node) {
    Topology::Node node{os_id, std::move(cpus), {}};
    for (const auto& [other, unused] : cpus_of_node) {
      const auto known = known_distances.find({os_id, other});
      node.distances.push_back(known != known_distances.end() ? known->second
                               : os_id == other               ? kLocalDistance
                                                              : kRemoteDistance);
    }
    topology->nodes.push_back(std::move(node));
  }
}

// TP5.
std::vector<Topology::MemoryNode> ReadMemoryNodes(hwloc_topology_t source, const Topology& topology,
                                                  const std::set<int>& nodes_of_cpus) {
  std::vector<Topology::MemoryNode> result;
  for (hwloc_obj_t node = nullptr; (node = hwloc_get_next_obj_by_type(source, HWLOC_OBJ_NUMANODE, node)) != nullptr;) {
    Topology::MemoryNode memory{static_cast<int>(node->os_index), {}};
    if (nodes_of_cpus.contains(memory.os_id)) continue;
    for (const Topology::Cpu& cpu : topology.cpus) {
      if (hwloc_bitmap_isset(node->cpuset, static_cast<unsigned>(cpu.os_id))) memory.cpus.push_back(cpu.os_id);
    }
    if (!memory.cpus.empty()) result.push_back(std::move(memory));
  }
  std::sort(result.begin(), result.end(), [](auto& a, auto& b) { return a.os_id < b.os_id; });
  return result;
}

// `allowed`: nullptr = all that hwloc has.
Topology Convert(hwloc_topology_t source, const std::set<int>* allowed) {
  Topology topology;
  Numbering packages;
  Numbering caches;
  Numbering cores;
  std::map<int, int> threads_of_core;
  const std::set<int> that_hold_cpus = NodesThatHoldCpus(source);
  std::set<int> nodes_of_cpus;  // Of those that are not allowed, too.
  for (hwloc_obj_t pu = nullptr; (pu = hwloc_get_next_obj_by_type(source, HWLOC_OBJ_PU, pu)) != nullptr;) {
    const int os_id = static_cast<int>(pu->os_index);
    const int node = NodeOf(source, pu, that_hold_cpus);
    nodes_of_cpus.insert(node);
    if (allowed != nullptr && !allowed->contains(os_id)) continue;
    Topology::Cpu cpu;
    cpu.os_id = os_id;
    cpu.node = node;
    cpu.package = packages[AncestorOf(source, pu, {HWLOC_OBJ_PACKAGE})];
    cpu.l3 = caches[AncestorOf(source, pu, {HWLOC_OBJ_L3CACHE, HWLOC_OBJ_DIE, HWLOC_OBJ_PACKAGE, HWLOC_OBJ_GROUP})];
    hwloc_obj_t core = hwloc_get_ancestor_obj_by_type(source, HWLOC_OBJ_CORE, pu);
    cpu.core = cores[core != nullptr ? core : pu];
    cpu.smt = threads_of_core[cpu.core]++;
    cpu.kind = KindOf(source, pu);
    topology.cpus.push_back(cpu);
  }
  std::sort(topology.cpus.begin(), topology.cpus.end(), [](auto& a, auto& b) { return a.os_id < b.os_id; });
  FillInNodes(ReadDistances(source), &topology);
  topology.memory_nodes = ReadMemoryNodes(source, topology, nodes_of_cpus);
  return topology;
}

Topology FlatTopology(const std::vector<int>& cpus) {
  Topology topology;
  for (int os_id : cpus) {
    Topology::Cpu cpu;
    cpu.os_id = os_id;
    cpu.core = static_cast<int>(topology.cpus.size());
    topology.cpus.push_back(cpu);
  }
  FillInNodes({}, &topology);
  return topology;
}

std::vector<int> OnlineCpus() {
  std::ifstream file("/sys/devices/system/cpu/online");
  const auto cpus = ParseCpuList(std::string(std::istreambuf_iterator<char>(file), {}));
  return cpus.has_value() && !cpus->empty() ? *cpus : std::vector<int>{0};  // One thread can run in any case.
}

}  // namespace

Topology Topology::Detect() {
  std::vector<int> allowed = ThreadCpus();
  if (allowed.empty()) {  // hwloc would ask again and again.
    allowed = OnlineCpus();
    WEFT_LOG(WARNING, "the system refuses sched_getaffinity(2): this machine is taken for one node with the CPUs ",
             FormatCpuList(allowed), ", all of them ours");
    Topology topology = FlatTopology(allowed);
    topology.cpu_quota = ReadCpuQuota();
    return topology;
  }
  Topology topology;
  const HwlocTopology source = NewHwloc();
  // With nodes whose memory we may not use (cpuset.mems): our CPUs are beside them all the same.
  if (source != nullptr) hwloc_topology_set_flags(source.get(), HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
  if (source != nullptr && hwloc_topology_load(source.get()) == 0) {
    const std::set<int> filter(allowed.begin(), allowed.end());
    topology = Convert(source.get(), &filter);
  }
  if (topology.cpus.empty()) {
    WEFT_LOG(WARNING, "hwloc cannot read this machine's topology: taken for one node with the CPUs ",
             FormatCpuList(allowed));
    topology = FlatTopology(allowed);
  }
  topology.cpu_quota = ReadCpuQuota();
  return topology;
}

std::optional<Topology> Topology::FromString(const std::string& description, std::string* error) {
  const auto fail = [&](const std::string& what) {
    if (error != nullptr) *error = base::StrCat("bad topology \"", description, "\": ", what);
    return std::nullopt;
  };
  const HwlocTopology source = NewHwloc();
  if (source == nullptr) return fail("hwloc cannot be initialised");
  const bool is_path = description.find('/') != std::string::npos || description.ends_with(".xml");
  if (is_path) {
    if (access(description.c_str(), R_OK) != 0) return fail(std::string("the file cannot be read: ") + strerror(errno));
    if (hwloc_topology_set_xml(source.get(), description.c_str()) != 0) return fail("it is no XML file of hwloc");
  } else if (const double count = CountCpus(description); count > kMostCpus) {
    return fail(base::StrCat("it has ", count, " CPUs, ", kMostCpus, " are the most"));
  } else if (hwloc_topology_set_synthetic(source.get(), description.c_str()) != 0) {
    return fail(
        "it is no synthetic description of hwloc (e.g. \"numa:2 l3:2 core:4 pu:2\"), nor the path of an XML file");
  }
  if (hwloc_topology_load(source.get()) != 0) {
    // It depends on hwloc's XML parser which of the two calls notices.
    return fail(is_path ? "it is no XML file of hwloc" : "hwloc cannot load it");
  }
  Topology topology = Convert(source.get(), nullptr);
  if (topology.cpus.empty()) return fail("it has no CPU");
  return topology;
}

unsigned Topology::UsableCpuCount() const {
  const auto count = static_cast<double>(cpus.size());
  const double usable = cpu_quota ? std::min(count, std::ceil(*cpu_quota)) : count;
  return static_cast<unsigned>(std::max(1.0, usable));
}

const Topology::Cpu* Topology::FindCpu(int os_id) const {
  const auto found =
      std::lower_bound(cpus.begin(), cpus.end(), os_id, [](const Cpu& cpu, int id) { return cpu.os_id < id; });
  return found != cpus.end() && found->os_id == os_id ? &*found : nullptr;
}

const Topology::Node* Topology::FindNode(int os_id) const {
  const auto found =
      std::lower_bound(nodes.begin(), nodes.end(), os_id, [](const Node& node, int id) { return node.os_id < id; });
  return found != nodes.end() && found->os_id == os_id ? &*found : nullptr;
}

int Topology::Distance(int from_os_id, int to_os_id) const {
  const Node* from = FindNode(from_os_id);
  const Node* to = FindNode(to_os_id);
  WEFT_CHECK(from != nullptr && to != nullptr, "no node ", from == nullptr ? from_os_id : to_os_id);
  return from->distances[static_cast<std::size_t>(to - nodes.data())];
}

std::optional<Topology> Topology::Restrict(const std::vector<int>& cpu_os_ids, std::string* error) const {
  std::set<int> wanted;
  for (int os_id : cpu_os_ids) {
    if (FindCpu(os_id) == nullptr) {
      if (error != nullptr) {
        std::vector<int> ours;
        for (const Cpu& cpu : cpus) ours.push_back(cpu.os_id);
        std::sort(ours.begin(), ours.end());
        *error = base::StrCat("CPU ", os_id, " is not there, or not ours to use: ours are ", FormatCpuList(ours));
      }
      return std::nullopt;
    }
    wanted.insert(os_id);
  }
  if (wanted.empty()) {
    if (error != nullptr) *error = "no CPU is left";
    return std::nullopt;
  }
  Topology topology;
  topology.cpu_quota = cpu_quota;
  std::copy_if(cpus.begin(), cpus.end(), std::back_inserter(topology.cpus),
               [&](const Cpu& cpu) { return wanted.contains(cpu.os_id); });
  std::map<int, int> threads_of_core;
  for (Cpu& cpu : topology.cpus) cpu.smt = threads_of_core[cpu.core]++;
  std::map<std::pair<int, int>, int> distances;
  for (const Node& from : nodes) {
    for (std::size_t i = 0; i < nodes.size(); ++i) distances[{from.os_id, nodes[i].os_id}] = from.distances[i];
  }
  FillInNodes(distances, &topology);
  for (MemoryNode memory : memory_nodes) {
    std::erase_if(memory.cpus, [&](int cpu) { return !wanted.contains(cpu); });
    if (!memory.cpus.empty()) topology.memory_nodes.push_back(std::move(memory));
  }
  return topology;
}

std::string Topology::ToString() const {
  std::ostringstream text;
  text << cpus.size() << (cpus.size() == 1 ? " CPU" : " CPUs");
  if (cpu_quota) text << ", quota " << *cpu_quota << " CPUs";
  text << '\n';
  for (const Node& node : nodes) {
    text << "node " << node.os_id << ": CPUs " << FormatCpuList(node.cpus) << "; L3 domains";
    std::map<int, std::vector<int>> domains;
    for (int os_id : node.cpus) domains[FindCpu(os_id)->l3].push_back(os_id);
    for (const auto& [l3, members] : domains) text << " {" << FormatCpuList(members) << '}';
    std::map<int, std::vector<int>, std::greater<>> kinds;
    for (int os_id : node.cpus) kinds[FindCpu(os_id)->kind].push_back(os_id);
    if (kinds.size() > 1) text << "; kinds of cores, the fastest first";
    for (const auto& [kind, members] : kinds) {
      if (kinds.size() > 1) text << " {" << FormatCpuList(members) << '}';
    }
    text << "; distances";
    for (std::size_t i = 0; i < nodes.size(); ++i) text << ' ' << nodes[i].os_id << '=' << node.distances[i];
    text << '\n';
  }
  for (const MemoryNode& memory : memory_nodes) {
    text << "node " << memory.os_id << ": memory only, beside CPUs " << FormatCpuList(memory.cpus) << '\n';
  }
  return text.str();
}

}  // namespace weft::numa
