// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/readiness_engines.h"

#include <atomic>

#include "weft/base/check.h"
#include "weft/base/log.h"
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

std::unique_ptr<ReadinessEngine> MakeReadinessEngineOrEpoll(const std::string& name, std::error_code* error) {
  std::unique_ptr<ReadinessEngine> engine = MakeReadinessEngine(name, error);
  if (engine != nullptr || name == "epoll") return engine;
  if (*error == std::errc::too_many_files_open || *error == std::errc::too_many_files_open_in_system) return nullptr;
  static std::atomic_flag said;
  if (!said.test_and_set(std::memory_order_relaxed)) {  // relaxed: nothing is carried.
    WEFT_LOG(WARNING, "--fiber_io_engine=", name, ": the system refuses it (", error->message(), "): epoll is used");
  }
  error->clear();
  return EpollEngine::Make(error);
}

}  // namespace weft::io
