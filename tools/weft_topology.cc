// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// weft_topology: how the runtime would fit itself to a machine, as text and as a picture.
//
//   weft_topology                                                    this machine, with the runtime's defaults
//   weft_topology --flagfile=conf/numa.flags                         ... with a program's flags
//   weft_topology --fiber_topology="numa:2 l3:4 core:8 pu:2"         another machine (hwloc synthetic or XML)
//   weft_topology --svg=plan.svg --title="our server"                the picture too
//
// Exit code 2: a flag, a flag file or an argument is impossible, as in other programs (StartRuntime()). 1: the picture
// cannot be written.

#include <gflags/gflags.h>

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <optional>
#include <set>
#include <string>

#include "weft/base/report/log.h"
#include "weft/fiber/runtime/runtime_flags.h"
#include "weft/fiber/runtime/runtime_plan.h"
#include "weft/fiber/runtime_options.h"

#include "topology_svg.h"

DEFINE_string(svg, "", "Where to write the picture, as SVG.");
DEFINE_string(title, "", "The picture's title; empty: the machine's description.");

namespace {

using weft::RuntimeOptions;
using weft::fiber::RuntimePlan;

int Fail(const std::string& why, int exit_code = 2) {
  std::cerr << "weft_topology: " << why << '\n';
  return exit_code;
}

std::string Rate(std::int64_t every_n) {
  if (every_n == 0) return "never";
  return every_n == 1 ? "at each idle search" : "at 1 of " + std::to_string(every_n) + " idle searches";
}

// Of all pairs of groups on different nodes.
std::set<std::int64_t> RatesAcrossNodes(const RuntimeOptions& options, const RuntimePlan& planned) {
  std::set<std::int64_t> rates;
  for (const auto& group : planned.plan.groups) {
    for (const auto& neighbour : group.neighbours) {
      if (!neighbour.same_node) rates.insert(weft::fiber::StealEveryN(neighbour, options));
    }
  }
  if (rates.empty()) rates.insert(std::max<std::int64_t>(options.cross_numa_work_stealing_ratio, 0));
  return rates;
}

// 0: never.
std::int64_t MostOften(std::set<std::int64_t> rates) {
  rates.erase(0);
  return rates.empty() ? 0 : *rates.begin();
}

// By distance there are several rates: from that of near nodes to that of far ones, and never across sockets.
std::string RateAcrossNodes(std::set<std::int64_t> rates) {
  const bool never = rates.erase(0) != 0;
  if (rates.empty()) return "across nodes never";
  std::string text = "across nodes " + Rate(*rates.begin());
  if (rates.size() > 1) text += " (the farthest: 1 of " + std::to_string(*rates.rbegin()) + ")";
  return never ? text + ", across sockets never" : text;
}

void PrintPlan(const RuntimeOptions& options, const RuntimePlan& planned) {
  std::set<int> packages;
  std::set<int> l3s;
  std::set<int> cores;
  for (const auto& cpu : planned.machine.cpus) {
    packages.insert(cpu.package);
    l3s.insert(cpu.l3);
    cores.insert(cpu.core);
  }
  const auto count = [](std::size_t n, const char* what) {
    return weft::base::StrCat(n, " ", what, n == 1 ? "" : "s");
  };
  std::cout << "machine: " << count(packages.size(), "package") << ", " << count(planned.machine.nodes.size(), "node")
            << ", " << count(l3s.size(), "L3 domain") << ", " << count(cores.size(), "core") << ", "
            << planned.machine.ToString() << "plan: " << count(planned.plan.groups.size(), "group") << ", "
            << count(planned.plan.WorkerCount(), "worker") << '\n'
            << planned.plan.ToString() << "stealing: in a node " << Rate(options.work_stealing_ratio) << ", "
            << RateAcrossNodes(RatesAcrossNodes(options, planned)) << '\n'
            << "pinning: each worker to "
            << (options.worker_disallow_cpu_migration ? "its CPU" : "the CPUs of its group") << '\n';
  const std::string islands = weft::fiber::DescribeIslands(planned.plan, options);
  if (!islands.empty()) std::cout << "note: " << islands << '\n';
}

}  // namespace

int main(int argc, char** argv) {
  gflags::SetUsageMessage("shows how Weft's runtime would fit itself to a machine");
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  if (argc > 1) return Fail(std::string("unknown argument ") + argv[1]);
  RuntimeOptions options;
  if (const auto error = weft::fiber::CheckFlagFiles()) return Fail(*error);
  if (const auto error = weft::fiber::ReadFlags(&options)) return Fail(*error);
  if (const auto error = weft::ValidateOptions(options)) return Fail(*error);
  std::string why;
  const std::optional<RuntimePlan> planned = weft::fiber::PlanRuntime(options, &why);
  if (!planned.has_value()) return Fail(why);
  PrintPlan(options, *planned);
  if (FLAGS_svg.empty()) return 0;

  const std::string machine = options.topology.empty() ? "this machine" : options.topology;
  std::ofstream file(FLAGS_svg);
  file << weft::tools::DrawTopology({.machine = planned->machine,
                                     .plan = planned->plan,
                                     .title = FLAGS_title.empty() ? machine : FLAGS_title,
                                     .steal_every_n = options.work_stealing_ratio,
                                     .cross_node_steal_every_n = MostOften(RatesAcrossNodes(options, *planned))});
  file.close();
  if (!file) return Fail("cannot write " + FLAGS_svg, /*exit_code=*/1);
  return 0;
}
