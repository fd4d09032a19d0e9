// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/observe/dump_fibers.h"

#include <ostream>
#include <system_error>
#include <thread>

#include "weft/observe/dump/write_dump.h"
#include "weft/scheduling_group/worker/current_worker.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/wait/wait_queue.h"

namespace weft {

bool DumpFibers(std::ostream& out, const DumpOptions& options) {
  if (scheduling_group::CurrentFiber() == nullptr) return observe::WriteDump(out, options);
  // Others run on the worker meanwhile. A thread of its own: all of the blocking pool's may be what is looked for.
  bool done = false;
  FiberEvent dumped;
  std::thread thread;
  try {
    thread = std::thread([&] {
      done = observe::WriteDump(out, options);
      dumped.Set();
    });
  } catch (const std::system_error&) {
    return observe::WriteDump(out, options);
  }
  synchronization::WaitAccess::WaitUncancelled(dumped);
  thread.join();
  return done;
}

}  // namespace weft
