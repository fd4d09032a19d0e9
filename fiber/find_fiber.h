// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// FindFiber: finds a fiber by its id, so that code without its handle can join, cancel or interrupt it.
// Sample:
//   if (auto fiber = FindFiber(id)) {    // nothing: it has ended
//     fiber->Cancel();
//     if (!fiber->Join(5s)) Complain(fiber->Name());
//   }
//
// Ids (Fiber::Id(), FiberTask::Id(), GetFiberId()) are never used twice, so what is found is the fiber that was meant.
// It may end at any moment: then a FoundFiber is joined at once, and to cancel it does nothing.
//
// Found are fibers started through a Fiber (also detached since), a FiberTask or FiberScope::SpawnTask(). Plain fibers
// (StartFiberDetached, FiberScope::Spawn, Async) have no join state, and are not found: start a Fiber and detach it.
//
// How: a search of all fibers' entities (entity_pool.h), which checks the one with the id under the lock of its cancel
// word (JS4). It costs fibers nothing. It takes 4 us with 10,000 fibers, 70 us with 100,000 (BM_FindFiber).
//
// Who may call: any fiber and any thread. FindFiber(), Cancel(), Interrupt() do not switch.
// Memory ordering: what the fiber did is visible after Join(). A search that finds nothing orders nothing.
// Rejected: a table of all ids (an insertion and a removal for each fiber); ids that say where the entity is (27 bits
// for 89 million entities leave 37 for its uses: one each 100 ns would repeat an id after four hours).
#ifndef WEFT_FIBER_FIND_FIBER_H_
#define WEFT_FIBER_FIND_FIBER_H_

#include <concepts>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "weft/base/deadline.h"

namespace weft {

namespace fiber::detail {
class JoinState;
}

// Refers to a fiber, which may have ended. Copies refer to the same one.
class FoundFiber {
 public:
  FoundFiber(const FoundFiber& other) noexcept;
  FoundFiber& operator=(const FoundFiber& other) noexcept;
  ~FoundFiber();

  std::uint64_t Id() const noexcept;
  const std::string& Name() const noexcept;
  bool HasEnded() const noexcept;

  // Waits until the fiber has ended, as Fiber::Join() does. Any number of callers, also beside a join of its Fiber.
  void Join() const;
  // False: the deadline has passed.
  [[nodiscard]] bool Join(Deadline deadline) const;

  // As Fiber::Cancel() and Fiber::Interrupt(); also while somebody joins the fiber.
  bool Cancel() const noexcept;
  void Interrupt(std::exception_ptr exception) const noexcept;
  template <class E>
  requires(!std::same_as<std::remove_cvref_t<E>, std::exception_ptr>) void Interrupt(E&& exception) const {
    Interrupt(std::make_exception_ptr(std::forward<E>(exception)));
  }

 private:
  friend std::optional<FoundFiber> FindFiber(std::uint64_t id) noexcept;

  explicit FoundFiber(fiber::detail::JoinState* state) noexcept : state_(state) {}  // Takes over a reference.

  fiber::detail::JoinState* state_;
};

// Finds a fiber from its start until its function has returned (its fiber locals may be destroyed after that). Nothing:
// there is no such fiber, or it cannot be found (above).
[[nodiscard]] std::optional<FoundFiber> FindFiber(std::uint64_t id) noexcept;

}  // namespace weft

#endif  // WEFT_FIBER_FIND_FIBER_H_
