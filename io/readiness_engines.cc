// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/readiness_engines.h"

#include "weft/base/check.h"
#include "weft/io/epoll_engine.h"
#ifdef WEFT_HAVE_LIBURING
#include "weft/io/uring_engine.h"
#endif

namespace weft::io {

std::unique_ptr<ReadinessEngine> MakeReadinessEngine(const std::string& name, std::error_code* error) {
  if (name == "epoll") return EpollEngine::Make(error);
#ifdef WEFT_HAVE_LIBURING
  if (name == "io_uring") return UringEngine::Make(error);
  WEFT_FATAL("--fiber_io_engine=", name, ": must be epoll or io_uring");
#else
  WEFT_FATAL("--fiber_io_engine=", name, ": must be epoll; this Weft was built without liburing");
#endif
}

}  // namespace weft::io
