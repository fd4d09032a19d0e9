// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// WaitGraph: which parked fibers wait for which, and where that goes round in a circle.
//
//   a fiber waits for         the fiber that
//   -----------------         --------------
//   a mutex                   owns it: the owner's address on its stack (sync/wait/lock_owner.h)
//   the end of a fiber        is joined without a deadline: JoinEdge, which joins without a cycle need, too
//   the end of a scope        each that was spawned into the scope: the chain of its cancel scopes leads there
//
// Others wait for nobody in particular: whoever sets an event or notifies a condition variable is not known before.
// Nor are owners that are threads, and readers of a FiberSharedMutex.
//
// Invariants
//   WGR1  A cycle is found only if all its fibers were parked at one instant, and each waited for the next: all parks
//         are read, then the edges, then the parks of the cycle's fibers once more (park_reader.h). A parked fiber
//         keeps what it owns, and neither ends nor leaves a scope, so its edges stay.
//   WGR2  An address on a fiber's stack in a mutex is that of its owner: only the owner stores its own (LO1 in
//         sync/wait/lock_owner.h).
//   WGR3  A join's target is named by its JoinState, which the joiner keeps (JE2 in fiber/start/join_state.h), and
//         found by entity and id: the entity may be another fiber's before those who join have been woken.
//
// Cost: 1 us for each fiber, and 6 us for each that waits for a mutex, a fiber or a scope; if one waits for a scope,
// for each that is in a scope. (100,000 that wait for one mutex: 0.6 s, beside a busy neighbour.) One thread at a time.
// Rejected: edges kept by the primitives (each lock would pay).
#ifndef WEFT_OBSERVE_WAITS_WAIT_GRAPH_H_
#define WEFT_OBSERVE_WAITS_WAIT_GRAPH_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <unordered_map>
#include <utility>
#include <vector>

#include "weft/observe/waits/park_reader.h"

namespace weft::observe {

class WaitGraph {
 public:
  // More are not reported: one fiber that holds what thousands want makes thousands of cycles.
  static constexpr std::size_t kMostCycles = 32;

  struct Cycle {
    std::vector<Park> fibers;  // each waits for the next, the last one for the first
    // Not for ever: one of the waits has a deadline, or is that of a cancelled fiber.
    bool may_end = false;
    std::vector<std::vector<std::uint64_t>> stacks;  // of the fibers, if they are wanted; empty: not readable
  };

  explicit WaitGraph(MemoryReader* memory) : reader_(memory), memory_(*memory) {}

  // Reads all anew.
  std::vector<Cycle> FindCycles(bool with_stacks);

 private:
  using Index = std::size_t;  // in parks_

  void ReadParks();
  void ReadEdges();
  std::optional<Index> LockOwner(const Park& park);
  std::optional<Index> FiberJoined(const Park& park);
  void ReadScopeEdges();
  std::uint64_t ScopeAround(const Park& park);
  std::vector<std::vector<Index>> Candidates() const;
  std::optional<Cycle> Confirm(const std::vector<Index>& candidate, bool with_stacks);

  template <class T>
  std::optional<T> ReadAt(std::uint64_t address) {
    T value;
    if (!memory_.Read(&value, address, sizeof(value))) return std::nullopt;
    return value;
  }

  ParkReader reader_;
  MemoryReader& memory_;
  std::vector<Park> parks_;
  std::unordered_map<std::uint64_t, Index> by_entity_;
  std::vector<std::pair<std::uint64_t, Index>> by_stack_top_;  // in order
  std::map<Index, std::vector<Index>> edges_;
};

}  // namespace weft::observe

#endif  // WEFT_OBSERVE_WAITS_WAIT_GRAPH_H_
