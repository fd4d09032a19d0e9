// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/observe/dump_fibers.h"

#include <ios>
#include <new>
#include <optional>
#include <ostream>
#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "weft/observe/dump/fiber_filter.h"
#include "weft/observe/dump/fiber_reader.h"
#include "weft/observe/dump/fiber_report.h"
#include "weft/observe/dump/memory_reader.h"
#include "weft/observe/dump/stack_table.h"
#include "weft/observe/dump/stack_unwinder.h"
#include "weft/observe/wait_cycles.h"
#include "weft/observe/waits/std_mutex_waits.h"
#include "weft/scheduling_group/worker/current_worker.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/wait/wait_queue.h"

namespace weft {
namespace {

bool Dump(std::ostream& out, const DumpOptions& options) {
  std::string error;
  const std::optional<observe::FiberFilter> filter = observe::FiberFilter::Parse(options.filter, &error);
  if (!filter) {
    out << error << "\n";
    return false;
  }
  observe::MemoryReader memory;
  observe::StackUnwinder unwinder(options.stacks);
  observe::StackTable stacks(&unwinder, options.most_frames);
  observe::FiberReader reader(&memory, unwinder.why_not().empty() ? &stacks : nullptr);
  observe::FiberReport report(options, *filter, &unwinder, stacks);
  reader.ForEach([&report](observe::FiberRecord fiber) { report.Add(std::move(fiber)); });
  report.Write(out);
  // The stacks are above.
  if (options.format == DumpOptions::Format::kText && options.filter.empty()) {
    for (const WaitCycle& cycle : FindWaitCycles(/*stacks=*/false)) out << "\n" << cycle.ToString();
    for (const observe::StdMutexWait& wait : observe::FindStdMutexWaits(&memory)) {
      out << "\n" << observe::Describe(wait, &memory, /*stacks=*/false);
    }
  }
  return true;
}

bool DumpInThread(std::ostream& out, const DumpOptions& options) noexcept {
  // ios_base::failure: the caller finds the stream's state.
  try {
    try {
      return Dump(out, options);
    } catch (const std::bad_alloc&) {
      out << "DumpFibers: there is no memory for a dump\n";
    }
  } catch (const std::ios_base::failure&) {
    return false;
  }
  return false;
}

}  // namespace

bool DumpFibers(std::ostream& out, const DumpOptions& options) {
  if (scheduling_group::CurrentFiber() == nullptr) return DumpInThread(out, options);
  // Others run on the worker meanwhile. A thread of its own: all of the blocking pool's may be what is looked for.
  bool done = false;
  FiberEvent dumped;
  std::thread thread;
  try {
    thread = std::thread([&] {
      done = DumpInThread(out, options);
      dumped.Set();
    });
  } catch (const std::system_error&) {
    return DumpInThread(out, options);
  }
  synchronization::WaitAccess::WaitUncancelled(dumped);
  thread.join();
  return done;
}

}  // namespace weft
