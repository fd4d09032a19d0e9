// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// JoinState: what a fiber and those who wait for it share: that it has ended, how, and the scope by which it is
// cancelled. Fiber and FiberTask are handles of it.
//
// Invariants
//   FB2  It is alive until both its owners, the handle and the fiber, have let go; so a handle may go away the moment
//        its wait has returned.
//   JS1  What the fiber writes of its outcome it writes before `ended` is set; the handle reads it after that.
//   JS2  A result that nobody has taken is destroyed by the fiber at its end or by the handle, whoever comes second
//        (TaskState::LetGo), so never by a worker between two fibers.
#ifndef WEFT_FIBER_JOIN_STATE_H_
#define WEFT_FIBER_JOIN_STATE_H_

#include <cstdint>
#include <exception>
#include <string>

#include "weft/base/atomic.h"
#include "weft/base/ref_ptr.h"
#include "weft/fiber/start_fiber.h"
#include "weft/sync/cancel_node.h"
#include "weft/sync/fiber_event.h"

namespace weft::fiber::detail {

class JoinState : public base::RefCounted<JoinState>, public scheduling_group::FiberOwner {
 public:
  explicit JoinState(std::string fiber_name);
  virtual ~JoinState();

  // `plan` becomes one of a fiber that has a reference to this.
  void Join(StartPlan* plan);
  // It was not started: gives that reference back.
  void NotStarted() noexcept { Release(); }

  // In messages.
  std::string Describe() const;

  const std::string name;
  // 0 until the fiber has been made. Written by the spawner before the fiber may run, read by both owners.
  std::uint64_t id = 0;
  FiberEvent ended;
  synchronization::CancelNode scope;  // the fiber's outermost one
  // Of a child of a FiberScope: told when all else is over.
  synchronization::ChildTable::Slot* slot = nullptr;
  // How it ended, of a FiberTask.
  std::exception_ptr exception;
  bool cancelled = false;
  base::Atomic<bool> let_go{false};  // JS2

 private:
  static void OnExit(scheduling_group::FiberOwner* self);
  static void OnMade(void* argument, scheduling_group::FiberEntity* fiber) noexcept;
};

// Its scopes are left, so that what ends it (captures, fiber locals) is not cancelled. The fiber itself.
void LeaveScopesOfCaller() noexcept;

}  // namespace weft::fiber::detail

#endif  // WEFT_FIBER_JOIN_STATE_H_
