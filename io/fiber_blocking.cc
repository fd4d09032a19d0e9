// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/fiber_blocking.h"

#include <pthread.h>

#include <atomic>
#include <cstdint>
#include <exception>

#include "weft/base/report/log.h"
#include "weft/base/thread/cpu.h"
#include "weft/fiber/runtime/blocking_limits.h"

namespace weft {

namespace io {

namespace {

// Never destroyed: its threads may be in a call when the process exits, and static destructors may make calls.
struct ProcessPool {
  explicit ProcessPool(const fiber::BlockingLimits& the_limits)
      : limits(the_limits),
        pool({.threads = the_limits.threads,
              .queue_size = the_limits.queue_size,
              .idle_timeout = the_limits.idle_timeout,
              .make_thread = nullptr}) {}

  const fiber::BlockingLimits limits;
  // The newest version for these limits. relaxed, always: a wrong one only makes a caller choose again.
  std::atomic<std::uint64_t> version{0};
  BlockingPool pool;
  ProcessPool* next = nullptr;
};

// The existing pools: one for each set of limits for which one was needed (a duplicate, after a race of two makers,
// does no harm). Without locks, since fork() could copy a held one.
constinit std::atomic<ProcessPool*> pools{nullptr};
constinit std::atomic<ProcessPool*> current{nullptr};

// The child does not have the parent's threads, one of which may hold a pool's lock.
void ForgetThePools() {
  current.store(nullptr, std::memory_order_relaxed);
  pools.store(nullptr, std::memory_order_relaxed);
}

[[maybe_unused]] const int at_fork = ::pthread_atfork(nullptr, nullptr, &ForgetThePools);

ProcessPool* FindOrMakePool(const fiber::BlockingLimits& limits) {
  // acquire: the objects. Pairs with the release below.
  ProcessPool* const newest = pools.load(std::memory_order_acquire);
  for (ProcessPool* pool = newest; pool != nullptr; pool = pool->next) {
    if (pool->limits == limits) return pool;
  }
  auto* const made = new ProcessPool(limits);
  made->next = newest;
  // release: the object. acquire: the one that becomes its next.
  while (!pools.compare_exchange_weak(made->next, made, std::memory_order_acq_rel, std::memory_order_acquire)) {
  }
  return made;
}

WEFT_NOINLINE BlockingPool& ChoosePool() {
  const std::uint64_t version = fiber::BlockingLimitsVersion();  // Before the limits: they may be newer, not older.
  ProcessPool* const pool = FindOrMakePool(fiber::GetBlockingLimits());
  pool->version.store(version, std::memory_order_relaxed);
  // release: the object. Pairs with the acquire in ProcessBlockingPool().
  current.store(pool, std::memory_order_release);
  return pool->pool;
}

}  // namespace

BlockingPool& ProcessBlockingPool() {
  // acquire: the object. Pairs with the release in ChoosePool().
  ProcessPool* const pool = current.load(std::memory_order_acquire);
  if (pool == nullptr || pool->version.load(std::memory_order_relaxed) != fiber::BlockingLimitsVersion()) {
    return ChoosePool();
  }
  return pool->pool;
}

namespace detail {

void LogAbandonedException(const std::exception_ptr& exception) noexcept {
  try {
    std::rethrow_exception(exception);
  } catch (const std::exception& e) {
    WEFT_LOG_EVERY_SECOND(WARNING, "a blocking call whose caller had given it up has thrown: ", e.what());
  } catch (...) {
    WEFT_LOG_EVERY_SECOND(WARNING, "a blocking call whose caller had given it up has thrown something that is no ",
                          "std::exception");
  }
}

}  // namespace detail

}  // namespace io

io::BlockingCounts GetFiberBlockingCounts() noexcept {
  // acquire: as in ProcessBlockingPool().
  const io::ProcessPool* const pool = io::current.load(std::memory_order_acquire);
  return pool != nullptr ? pool->pool.counts() : io::BlockingCounts();
}

}  // namespace weft
