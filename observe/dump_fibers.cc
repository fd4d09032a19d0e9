// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/observe/dump_fibers.h"

#include "weft/observe/dump/own_thread.h"
#include "weft/observe/dump/write_dump.h"

namespace weft {

bool DumpFibers(std::ostream& out, const DumpOptions& options) {
  bool done = false;
  observe::OnOwnThread([&] { done = observe::WriteDump(out, options); });
  return done;
}

}  // namespace weft
