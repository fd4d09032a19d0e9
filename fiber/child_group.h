// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// ChildGroup: fibers that run parts of one call, which returns or throws when all of them have ended (collect.h).
//
// The group lies on the caller's stack, and so does what the children refer to. They are started as one batch: all of
// them or none. A count says how many have not ended; the last one sets an event.
//
// Invariants
//   CG1  No child outlives the group: the destructor awaits them, whatever ends the call, and cannot be cancelled.
//   CG2  A child touches the group last in its End(), and what the group's owner holds not at all after it.
//   CG3  The first exception that counts is kept, and rethrown when all have ended. Failed() is true from then on.
//
// Memory ordering: what each child did is visible to the caller when Await() has returned or thrown.
#ifndef WEFT_FIBER_CHILD_GROUP_H_
#define WEFT_FIBER_CHILD_GROUP_H_

#include <cstddef>
#include <exception>
#include <utility>
#include <vector>

#include "weft/base/atomic.h"
#include "weft/fiber/fiber.h"
#include "weft/sync/fiber_event.h"

namespace weft::fiber::detail {

class ChildGroup {
 public:
  ChildGroup() = default;
  ChildGroup(const ChildGroup&) = delete;
  ChildGroup& operator=(const ChildGroup&) = delete;
  ~ChildGroup();  // CG1

  // Runs body(0) ... body(count - 1), each in a fiber. Throws FiberNotStarted, and none runs, if they cannot be started.
  // Once, with a `body` that lives until Await() has returned.
  template <class Body>
  void Start(std::size_t count, const Body& body) {
    std::vector<Child<Body>> children;
    children.reserve(count);
    if (count == 0) return;
    for (std::size_t i = 0; i < count; ++i) children.push_back(Child<Body>{this, &body, i});
    // relaxed: the start makes it visible to the children.
    running_.store(count, std::memory_order_relaxed);
    if (!BatchStartFiberDetached(std::move(children))) FailNotStarted();
    pending_ = true;
  }

  // Returns when all have ended; throws the exception that was kept.
  void Await();

  // Of a child: the exception that counts, unless there is one already; then the others are cancelled. CG3.
  void Fail(std::exception_ptr exception) noexcept;
  bool Failed() const noexcept {
    // relaxed: who acts on it only does less.
    return failed_.load(std::memory_order_relaxed);
  }

  // What counts has been reached: the others need not go on. Any child, or the caller.
  void CancelOthers() noexcept {
    // Here the children that still run are cancelled, when there is cancellation. Until then they run to their end.
  }

 private:
  template <class Body>
  struct Child {
    void operator()() noexcept {
      try {
        (*body)(index);
      } catch (...) {
        group->Fail(std::current_exception());
      }
      group->End();
    }
    ChildGroup* group;
    const Body* body;
    std::size_t index;
  };

  [[noreturn]] static void FailNotStarted();
  void End() noexcept;

  base::Atomic<std::size_t> running_{0};
  base::Atomic<bool> failed_{false};
  std::exception_ptr exception_;  // Written by the child that set failed_, read when all have ended.
  bool pending_ = false;          // Children have been started, and not been awaited.
  FiberEvent all_ended_;
};

}  // namespace weft::fiber::detail

#endif  // WEFT_FIBER_CHILD_GROUP_H_
