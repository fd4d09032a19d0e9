// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/observe/dump/write_dump.h"

#include <ios>
#include <new>
#include <optional>
#include <ostream>
#include <set>
#include <string>
#include <utility>

#include "weft/observe/dump/fiber_filter.h"
#include "weft/observe/dump/fiber_report.h"
#include "weft/observe/dump/memory_reader.h"
#include "weft/observe/dump/running_stacks.h"
#include "weft/observe/dump/stack_table.h"
#include "weft/observe/dump/stack_unwinder.h"
#include "weft/observe/wait_cycles.h"
#include "weft/observe/waits/std_mutex_waits.h"

namespace weft::observe {
namespace {

using TimePoint = std::chrono::steady_clock::time_point;

// Without their stacks: these are above.
void WriteDeadlocks(std::ostream& out, MemoryReader* memory) {
  for (const WaitCycle& cycle : FindWaitCycles(/*stacks=*/false)) out << "\n" << cycle.ToString();
  for (const StdMutexWait& wait : FindStdMutexWaits(memory)) {
    out << "\n" << Describe(wait, memory, /*stacks=*/false);
  }
}

void AddDeadlocks(FiberReport* report, MemoryReader* memory) {
  report->Add(FindWaitCycles(/*stacks=*/false));
  for (const StdMutexWait& wait : FindStdMutexWaits(memory)) {
    std::string line = Describe(wait, memory, /*stacks=*/false);
    line.pop_back();  // Its end.
    report->Remark(std::move(line));
  }
}

// A misspelled name matches no fiber.
void RemarkOnGroup(const std::optional<std::string>& name, const std::set<std::string>& names, FiberReport* report) {
  if (!name || names.contains(*name)) return;
  std::string line = "no scheduling group is called '" + *name + "'";
  const char* separator = "; there are ";
  for (const std::string& known : names) line += std::exchange(separator, ", ") + known;
  report->Remark(std::move(line));
}

bool Write(std::ostream& out, const DumpOptions& options, TimePoint look_until) {
  std::string error;
  const std::optional<FiberFilter> filter = FiberFilter::Parse(options.filter, &error);
  if (!filter) {
    out << error << "\n";
    return false;
  }
  MemoryReader memory;
  StackUnwinder unwinder(options.stacks);
  StackTable stacks(&unwinder, options.most_frames);
  const bool has_stacks = unwinder.why_not().empty();
  RunningStacks running(has_stacks && options.running_stacks);
  FiberReader reader(&memory, has_stacks ? &stacks : nullptr, &running);
  FiberReport report(options, *filter, &unwinder, stacks);
  if (has_stacks && options.running_stacks && !running.why_not().empty()) {
    report.Remark("no stacks of running fibers are shown: " + running.why_not());
  }
  RemarkOnGroup(filter->group_name(), reader.GroupNames(), &report);
  // Then names of owners may be missing, which are not asked for.
  if (look_until != FiberReader::kAlways) {
    reader.ReadOnly([&filter](const FiberRecord& fiber) { return filter->MayAccept(fiber); });
  }
  if (!reader.ForEach([&report](FiberRecord fiber) { report.Add(std::move(fiber)); }, look_until)) {
    report.Remark("there are more fibers: the time was up");
  }
  if (reader.has_missed()) {
    report.Remark(
        "fibers are missing: this process may read its memory neither by process_vm_readv() nor by "
        "/proc/self/mem");
  }
  // Of a process that dies its locks may be held.
  const bool all = options.filter.empty() && look_until == FiberReader::kAlways;
  const bool is_text = options.format == DumpOptions::Format::kText;
  if (all) report.Add(timer::TakeTimerCensus());
  if (all && !is_text) AddDeadlocks(&report, &memory);
  report.Write(out);
  if (all && is_text) WriteDeadlocks(out, &memory);
  return true;
}

}  // namespace

bool WriteDump(std::ostream& out, const DumpOptions& options, TimePoint look_until) noexcept {
  // ios_base::failure: the caller finds the stream's state.
  try {
    try {
      return Write(out, options, look_until);
    } catch (const std::bad_alloc&) {
      out << "DumpFibers: there is no memory for a dump\n";
    }
  } catch (const std::ios_base::failure&) {
    return false;
  }
  return false;
}

}  // namespace weft::observe
