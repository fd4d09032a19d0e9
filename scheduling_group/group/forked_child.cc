// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/group/forked_child.h"

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>

#include "weft/base/thread/cpu.h"
#include "weft/scheduling_group/fiber/outside_section.h"
#include "weft/scheduling_group/worker/current_worker.h"

namespace weft::scheduling_group {
namespace {

// relaxed: set while the process has one thread.
constinit std::atomic<bool> is_forked_child{false};

void Write(const char* text) noexcept {
  if (::write(STDERR_FILENO, text, std::strlen(text)) < 0) return;  // No one to report it to.
}

}  // namespace

void MarkForkedChild() noexcept {
  is_forked_child.store(true, std::memory_order_relaxed);
  SetCurrentWorker(nullptr);
  ForgetOtherThreadsSections();
}

bool IsForkedChild() noexcept { return is_forked_child.load(std::memory_order_relaxed); }

WEFT_NOINLINE WEFT_COLD void WarnOfForkedChild(const char* caller) noexcept {
  Write("Weft: ");
  Write(caller);
  Write(": ");
  Write(kForkedChildMessage);
  Write("\n");
}

void CheckNotForkedChild(const char* caller) noexcept {
  if (WEFT_LIKELY(!IsForkedChild())) return;
  WarnOfForkedChild(caller);
  std::abort();
}

}  // namespace weft::scheduling_group
