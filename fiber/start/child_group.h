// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// ChildGroup: fibers that run parts of one call, which returns or throws when all of them have ended (collect.h). It
// lies on the caller's stack, and so does what the children refer to.
//
// Invariants
//   CG1  No child outlives the group: FiberScope's destructor awaits them, whatever ends the call.
//   CG3  The first exception cancels the others, and is rethrown when all have ended. IsOver() is true from then on.
//
// Memory ordering: what each child did is visible to the caller when Await() has returned or thrown.
#ifndef WEFT_FIBER_START_CHILD_GROUP_H_
#define WEFT_FIBER_START_CHILD_GROUP_H_

#include <cstddef>

#include "weft/fiber/fiber_scope.h"

namespace weft::fiber::detail {

class ChildGroup {
 public:
  ChildGroup() = default;
  ChildGroup(const ChildGroup&) = delete;
  ChildGroup& operator=(const ChildGroup&) = delete;

  // Runs body(0) ... body(count - 1), each in a fiber. Throws FiberNotStarted if one cannot be started; those that were
  // are cancelled then. Once, with a `body` that lives until the group ends.
  template <class Body>
  void Start(std::size_t count, const Body& body) {
    for (std::size_t i = 0; i < count; ++i) {
      if (!scope_.Spawn([&body, i] { body(i); })) FailNotStarted();
    }
  }

  // Waits until all have ended. Then throws the first exception, or the caller's own cancellation, if there is one.
  void Await();

  // The outcome is known: one has failed, or CancelOthers() was called.
  bool IsOver() const noexcept { return scope_.IsCancelled(); }

  // What counts has been reached: the others need not go on. Any child, or the caller.
  void CancelOthers() noexcept { static_cast<void>(scope_.Cancel()); }

 private:
  [[noreturn]] static void FailNotStarted();

  FiberScope scope_;
};

}  // namespace weft::fiber::detail

#endif  // WEFT_FIBER_START_CHILD_GROUP_H_
