// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// In place of sync/wait/contention.h: a sample whose use the explorer watches (LC1). Each wait is one, or none is.
#ifndef WEFT_TESTS_MODEL_STUBS_CONTENTION_H_
#define WEFT_TESTS_MODEL_STUBS_CONTENTION_H_

#include <chrono>

#include "weft/tests/testing/interleave.h"

namespace weft::synchronization {

class ContentionSample {
 public:
  static inline bool each_wait = false;

  static bool IsNext() noexcept { return each_wait; }
  void End() noexcept { has_owner_.Write(true); }
  void Finish(const void*, std::chrono::steady_clock::time_point) noexcept { static_cast<void>(has_owner_.Read()); }

 private:
  model::Data<bool> has_owner_{false};
};

}  // namespace weft::synchronization

#endif  // WEFT_TESTS_MODEL_STUBS_CONTENTION_H_
