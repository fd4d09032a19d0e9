// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// ChildGroup: fibers that run parts of one call, which returns or throws when all of them have ended (collect.h). A
// FiberScope that keeps the first exception that counts.
//
// The group lies on the caller's stack, and so does what the children refer to.
//
// Invariants
//   CG1  No child outlives the group: FiberScope's destructor awaits them, whatever ends the call.
//   CG3  The first exception that counts is kept, cancels the others, and is rethrown when all have ended. Failed() is
//        true from then on.
//
// Memory ordering: what each child did is visible to the caller when Await() has returned or thrown.
#ifndef WEFT_FIBER_CHILD_GROUP_H_
#define WEFT_FIBER_CHILD_GROUP_H_

#include <cstddef>
#include <exception>

#include "weft/base/atomic.h"
#include "weft/fiber/fiber_scope.h"
#include "weft/sync/fiber_cancelled.h"

namespace weft::fiber::detail {

class ChildGroup {
 public:
  ChildGroup() : scope_({.policy = ScopePolicy::kCollect}) {}
  ChildGroup(const ChildGroup&) = delete;
  ChildGroup& operator=(const ChildGroup&) = delete;

  // Runs body(0) ... body(count - 1), each in a fiber. Throws FiberNotStarted if one cannot be started; those that were
  // are cancelled then. Once, with a `body` that lives until the group ends.
  template <class Body>
  void Start(std::size_t count, const Body& body) {
    for (std::size_t i = 0; i < count; ++i) {
      if (!scope_.Spawn(Child<Body>{this, &body, i})) FailNotStarted();
    }
  }

  // Returns when all have ended; throws the exception that was kept. The caller's own cancellation is thrown, too, when
  // all have ended.
  void Await();

  // Of a child: the exception that counts, unless there is one already; then the others are cancelled. CG3.
  void Fail(std::exception_ptr exception) noexcept;
  bool Failed() const noexcept {
    // relaxed: who acts on it only does less.
    return failed_.load(std::memory_order_relaxed);
  }

  // What counts has been reached: the others need not go on. Any child, or the caller.
  void CancelOthers() noexcept { static_cast<void>(scope_.Cancel()); }

 private:
  template <class Body>
  struct Child {
    void operator()() {
      try {
        (*body)(index);
      } catch (const FiberCancelled&) {
        throw;
      } catch (...) {
        group->Fail(std::current_exception());
      }
    }
    ChildGroup* group;
    const Body* body;
    std::size_t index;
  };

  [[noreturn]] static void FailNotStarted();

  base::Atomic<bool> failed_{false};
  std::exception_ptr exception_;  // Written by the child that set failed_, read when all have ended.
  FiberScope scope_;              // Last: its fibers refer to the others.
};

}  // namespace weft::fiber::detail

#endif  // WEFT_FIBER_CHILD_GROUP_H_
