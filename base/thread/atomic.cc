// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/base/thread/atomic.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "weft/base/report/log.h"

namespace weft::base {

namespace {

// Interrupts and switches, each of which is a full fence, come every few milliseconds.
constexpr std::chrono::milliseconds kLongerThanAnyStoreTakes{20};

bool Membarrier(int command) noexcept { return syscall(SYS_membarrier, command, 0, 0) == 0; }

bool Register() noexcept { return Membarrier(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED); }

std::atomic<bool>& Granted() noexcept {
  static std::atomic<bool> granted{Register()};
  return granted;
}

}  // namespace

// relaxed: it carries nothing.
bool HasHeavyFence() noexcept { return Granted().load(std::memory_order_relaxed); }

// Not inlined: errno's address, as in parker.cc.
WEFT_NOINLINE void HeavyFence() noexcept {
  const int saved_errno = errno;
  // Registers again: a process made by fork() may have to.
  if (!Membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED) && !(Register() && Membarrier(MEMBARRIER_CMD_PRIVATE_EXPEDITED))) {
    const int error = errno;
    std::this_thread::sleep_for(kLongerThanAnyStoreTakes);
    if (Granted().exchange(false, std::memory_order_relaxed)) {
      WEFT_LOG(WARNING, "membarrier() was allowed and is refused now: ", std::strerror(error),
               "; a thread that needs it sleeps for ", kLongerThanAnyStoreTakes.count(), " ms instead");
    }
  }
  errno = saved_errno;
}

}  // namespace weft::base
