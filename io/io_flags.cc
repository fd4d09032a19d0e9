// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/io_flags.h"

#include <gflags/gflags.h>

DEFINE_string(fiber_io_engine, "epoll", "How the kernel is asked which descriptors are ready: epoll or io_uring.");

namespace weft::io {

std::string IoEngineName() { return FLAGS_fiber_io_engine; }

}  // namespace weft::io
