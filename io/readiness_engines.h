// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The engines there are (io/readiness_engine.h), by name.
#ifndef WEFT_IO_READINESS_ENGINES_H_
#define WEFT_IO_READINESS_ENGINES_H_

#include <memory>
#include <string>
#include <system_error>

#include "weft/io/readiness_engine.h"

namespace weft::io {

// "epoll", and "io_uring" where liburing was there when Weft was built; aborts if there is no engine of that name.
// nullptr, and *error says why: the system refuses it.
std::unique_ptr<ReadinessEngine> MakeReadinessEngine(const std::string& name, std::error_code* error);

// The same, but where the system refuses io_uring (a container's seccomp filter, kernel.io_uring_disabled, an old
// kernel) it is epoll, and the first time a line in the log says so. Too many open descriptors are no refusal.
std::unique_ptr<ReadinessEngine> MakeReadinessEngineOrEpoll(const std::string& name, std::error_code* error);

}  // namespace weft::io

#endif  // WEFT_IO_READINESS_ENGINES_H_
