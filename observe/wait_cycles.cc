// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/observe/wait_cycles.h"

#include <array>
#include <cstddef>
#include <cstdio>

#include "weft/base/report/str_cat.h"
#include "weft/observe/dump/memory_reader.h"
#include "weft/observe/dump/own_thread.h"
#include "weft/observe/dump/stack_unwinder.h"
#include "weft/observe/waits/frame_lines.h"
#include "weft/observe/waits/wait_graph.h"
#include "weft/scheduling_group/fiber/fiber_entity.h"
#include "weft/scheduling_group/fiber/wait_reason.h"

namespace weft {
namespace {

using observe::Park;
using observe::StackUnwinder;
using observe::WaitGraph;

constexpr std::size_t kMostName = 256;

std::string Seconds(std::chrono::milliseconds time) {
  std::array<char, 32> text;
  static_cast<void>(std::snprintf(text.data(), text.size(), "%.3g s", static_cast<double>(time.count()) / 1e3));
  return text.data();
}

WaitCycle Describe(const WaitGraph::Cycle& found, observe::MemoryReader* memory, StackUnwinder* unwinder) {
  WaitCycle cycle;
  cycle.may_end = found.may_end;
  for (std::size_t i = 0; i < found.fibers.size(); ++i) {
    const Park& park = found.fibers[i];
    WaitCycle::Member& member = cycle.members.emplace_back();
    member.id = park.id;
    if (park.name != 0) member.name = memory->ReadString(park.name, kMostName);
    member.reason = ToString(park.reason.kind());
    member.object = park.reason.object();
    member.waits_for = scheduling_group::ParkClock::Since(park.stamp);
    member.park = park.stamp;
    if (!found.stacks.empty()) member.stack = observe::FrameLines(unwinder, park.stack_low, found.stacks[i]);
  }
  return cycle;
}

std::string NameOf(const WaitCycle::Member& member) { return scheduling_group::DescribeFiber(member.name, member.id); }

// In front of the next one.
const char* RelationOf(const WaitCycle::Member& member) {
  if (member.reason == "join") return ", joins ";
  if (member.reason == "scope") return ", in which runs ";
  return ", owned by ";
}

}  // namespace

std::vector<WaitCycle> FindWaitCycles(bool stacks) {
  observe::MemoryReader memory;
  std::vector<WaitCycle> cycles;
  const std::vector<WaitGraph::Cycle> found = WaitGraph(&memory).FindCycles(stacks);
  const auto describe = [&] {
    StackUnwinder unwinder(stacks);
    for (const WaitGraph::Cycle& cycle : found) cycles.push_back(Describe(cycle, &memory, &unwinder));
  };
  if (stacks && !found.empty()) {
    observe::OnOwnThread(describe);
  } else {
    describe();
  }
  return cycles;
}

std::string WaitCycle::ToString() const {
  std::string text = base::StrCat("weft: ", members.size(), members.size() == 1 ? " fiber waits" : " fibers wait",
                                  members.size() == 1 ? " for itself" : " for each other in a cycle",
                                  may_end ? ", which may end by a deadline or a cancellation:\n" : ":\n");
  for (std::size_t i = 0; i < members.size(); ++i) {
    const Member& member = members[i];
    text += base::StrCat("  ", NameOf(member), ": ", member.reason);
    if (member.reason != "join") text += " " + observe::Hex(member.object);
    text += base::StrCat(", for ", Seconds(member.waits_for), RelationOf(member),
                         NameOf(members[(i + 1) % members.size()]), "\n");
  }
  for (const Member& member : members) text += observe::StackText(NameOf(member), member.stack);
  return text;
}

}  // namespace weft
