// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// WriteDump(): DumpFibers() on the calling thread, which may stand still for it. Any thread but one that takes part in
// what it reads: it allocates, and takes the locks of malloc(), of the loader and of the loop groups' pool.
#ifndef WEFT_OBSERVE_DUMP_WRITE_DUMP_H_
#define WEFT_OBSERVE_DUMP_WRITE_DUMP_H_

#include <chrono>
#include <iosfwd>

#include "weft/observe/dump/fiber_reader.h"
#include "weft/observe/dump_options.h"

namespace weft::observe {

// False: the filter is not understood, or there is no memory; one line on `out` says so. Fibers that have not been
// looked at by then are left out, and a line says so. With such a time, those that the filter leaves out are counted
// only: an owner that it leaves out has no name.
bool WriteDump(std::ostream& out, const DumpOptions& options,
               std::chrono::steady_clock::time_point look_until = FiberReader::kAlways) noexcept;

}  // namespace weft::observe

#endif  // WEFT_OBSERVE_DUMP_WRITE_DUMP_H_
