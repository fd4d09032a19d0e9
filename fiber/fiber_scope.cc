// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/fiber_scope.h"

#include <exception>

#include "weft/base/report/log.h"
#include "weft/scheduling_group/fiber/park.h"
#include "weft/sync/fiber_cancelled.h"

namespace weft {

namespace {

std::string TextOf(const std::exception_ptr& exception) {
  try {
    std::rethrow_exception(exception);
  } catch (const std::exception& error) {
    return error.what();
  } catch (...) {
    return "an exception that is no std::exception";
  }
}

}  // namespace

FiberScope::FiberScope(const Options& options) : core_(options.policy, options.limit, options.nested) {
  if (!options.deadline.is_none()) core_.SetDeadline(options.deadline);
}

FiberScope::~FiberScope() {
  core_.CancelAndAwait();
  for (const std::exception_ptr& exception : core_.TakeExceptions()) {
    if (core_.policy() == ScopePolicy::kAllMustSucceed && std::uncaught_exceptions() == 0) {
      WEFT_LOG(ERROR, "FiberScope: a fiber has failed, and nobody called Wait(): ", TextOf(exception));
    }
  }
}

void FiberScope::Wait() {
  core_.Await();
  core_.ThrowFailure();
  synchronization::TestCancelledByChain();
}

bool FiberScope::RunBody(void (*body)(void*), void* argument) {
  struct Covers {
    explicit Covers(fiber::detail::ScopeCore* the_core) : core(the_core) { core->SetCovers(true); }
    ~Covers() { core->SetCovers(false); }
    fiber::detail::ScopeCore* core;
  };
  bool ended = true;
  try {
    const Covers covers(&core_);
    body(argument);
  } catch (const FiberCancelled&) {
    // Ours, unless a scope around this one is cancelled, too: then Wait() throws it.
    ended = false;
    Cancel();
  } catch (...) {
    Cancel();
    core_.Await();
    static_cast<void>(core_.TakeExceptions());
    throw;
  }
  Wait();
  return ended;
}

}  // namespace weft
