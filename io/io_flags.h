// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The flags of input and output. Read when they are first needed; a value that cannot be is refused by a line that names
// flag, value and what is allowed, and ends the process.
#ifndef WEFT_IO_IO_FLAGS_H_
#define WEFT_IO_IO_FLAGS_H_

#include <string>

namespace weft::io {

// --fiber_io_engine. Any thread.
std::string IoEngineName();

}  // namespace weft::io

#endif  // WEFT_IO_IO_FLAGS_H_
