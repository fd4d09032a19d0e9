// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// A flow a few functions deep for gdb_backtrace.cmake: gdb stops in StopHere(), and in StopOutside() while the flow is
// suspended.

#include "weft/base/thread/cpu.h"

#include "context/flow.h"

WEFT_NOINLINE void StopHere() { weft::base::OpaqueBarrier(); }

WEFT_NOINLINE void StopOutside([[maybe_unused]] const void* saved_stack_pointer) { weft::base::OpaqueBarrier(); }

WEFT_NOINLINE void InTheFlow(weft::context::Flow& self, int depth) {
  if (depth == 0) {
    StopHere();
    self.Suspend();
  } else {
    InTheFlow(self, depth - 1);
  }
  weft::base::OpaqueBarrier();  // No tail call.
}

int main() {
  weft::context::Carrier here;
  here.Init();
  weft::context::Flow flow([](weft::context::Flow& self) {
    InTheFlow(self, 3);
    InTheFlow(self, 5);
  });
  flow.Resume(&here);
  StopOutside(flow.context()->saved_stack_pointer());
  flow.Resume(&here);
  flow.Resume(&here);
}
