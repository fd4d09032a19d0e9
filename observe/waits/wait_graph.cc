// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/observe/waits/wait_graph.h"

#include <algorithm>
#include <string>
#include <type_traits>
#include <utility>

#include "weft/base/ref_ptr.h"
#include "weft/context/stack/stack_registry.h"
#include "weft/fiber/start/join_state.h"
#include "weft/fiber/start/scope_core.h"
#include "weft/observe/dump/lock_owner_place.h"
#include "weft/sync/cancel/cancel_node.h"

namespace weft::observe {

using fiber::detail::JoinEdge;
using fiber::detail::JoinState;
using fiber::detail::ScopeCore;
using scheduling_group::FiberOwner;
using scheduling_group::WaitKind;
using synchronization::CancelNode;

namespace {

// Where a JoinState, which is no standard layout, has its members; and how its FiberOwner part is known.
struct JoinPlaces {
  std::size_t owner_part;
  std::size_t id;
  std::size_t fiber;
  std::size_t edge;
  void (*on_exit)(FiberOwner*);

  static const JoinPlaces& Get() {
    static const JoinPlaces places = [] {
      const base::RefPtr<JoinState> state = base::MakeRefCounted<JoinState>(std::string());
      const auto* const begin = reinterpret_cast<const char*>(state.Get());
      const auto place = [begin](const void* member) {
        return static_cast<std::size_t>(static_cast<const char*>(member) - begin);
      };
      return JoinPlaces{.owner_part = place(static_cast<const FiberOwner*>(state.Get())),
                        .id = place(&state->id),
                        .fiber = place(&state->scope.owner),
                        .edge = place(&state->join_edge),
                        .on_exit = state->on_exit};
    }();
    return places;
  }
};

// Its word comes first, and has its lock in bit 0.
static_assert(std::is_standard_layout_v<JoinEdge<JoinState>>);
constexpr std::uint64_t kLockOfEdge = 1;

bool IsOnStackOf(std::uint64_t address, std::uint64_t stack_top) {
  context::StackBounds bounds;
  return address < stack_top && context::FindStack(reinterpret_cast<const void*>(address), &bounds) &&
         stack_top > reinterpret_cast<std::uintptr_t>(bounds.low) &&
         stack_top <= reinterpret_cast<std::uintptr_t>(bounds.high);
}

// A wait that ends by itself, whatever the others do.
bool MayEnd(const Park& park) {
  return park.reason.timed() || (park.reason.kind() == WaitKind::kJoin && park.may_be_interrupted);
}

}  // namespace

std::vector<WaitGraph::Cycle> WaitGraph::FindCycles(bool with_stacks) {
  ReadParks();
  ReadEdges();
  std::vector<Cycle> cycles;
  for (const std::vector<Index>& candidate : Candidates()) {
    if (std::optional<Cycle> cycle = Confirm(candidate, with_stacks)) cycles.push_back(*std::move(cycle));
  }
  return cycles;
}

void WaitGraph::ReadParks() {
  parks_ = reader_.ReadAll().parks;
  by_entity_.clear();
  by_stack_top_.clear();
  for (Index i = 0; i < parks_.size(); ++i) {
    by_entity_.emplace(parks_[i].entity, i);
    by_stack_top_.emplace_back(parks_[i].stack_top, i);
  }
  std::sort(by_stack_top_.begin(), by_stack_top_.end());
}

void WaitGraph::ReadEdges() {
  edges_.clear();
  bool scopes = false;
  for (Index i = 0; i < parks_.size(); ++i) {
    std::optional<Index> to;
    switch (parks_[i].reason.kind()) {
      case WaitKind::kMutex:
      case WaitKind::kSharedMutex:
        to = LockOwner(parks_[i]);
        break;
      case WaitKind::kJoin:
        to = FiberJoined(parks_[i]);
        break;
      case WaitKind::kScope:
        scopes = true;
        break;
      default:
        break;
    }
    if (to) edges_[i].push_back(*to);
  }
  if (scopes) ReadScopeEdges();
}

// Nothing: it has none, a thread, or a fiber that is not parked.
std::optional<WaitGraph::Index> WaitGraph::LockOwner(const Park& park) {
  const std::optional<std::uint64_t> address = ReadAt<std::uint64_t>(PlaceOfOwner(park.reason));
  if (!address || *address == 0) return std::nullopt;
  const auto above = std::upper_bound(by_stack_top_.begin(), by_stack_top_.end(), std::pair(*address, parks_.size()));
  if (above == by_stack_top_.end() || !IsOnStackOf(*address, above->first)) return std::nullopt;  // WGR2
  return above->second;
}

std::optional<WaitGraph::Index> WaitGraph::FiberJoined(const Park& park) {
  const JoinPlaces& places = JoinPlaces::Get();
  if (park.owner == 0 || ReadAt<void (*)(FiberOwner*)>(park.owner) != places.on_exit) return std::nullopt;
  const std::optional<std::uint64_t> edge = ReadAt<std::uint64_t>(park.owner - places.owner_part + places.edge);
  if (!edge || (*edge & ~kLockOfEdge) == 0) return std::nullopt;
  const std::uint64_t target = *edge & ~kLockOfEdge;
  const std::optional<std::uint64_t> entity = ReadAt<std::uint64_t>(target + places.fiber);
  const std::optional<std::uint64_t> id = ReadAt<std::uint64_t>(target + places.id);
  if (!entity || !id) return std::nullopt;
  const auto found = by_entity_.find(*entity);
  if (found == by_entity_.end() || parks_[found->second].id != *id) return std::nullopt;  // WGR3
  return found->second;
}

void WaitGraph::ReadScopeEdges() {
  std::map<std::uint64_t, Index> waiters;  // by the scope
  for (Index i = 0; i < parks_.size(); ++i) {
    if (parks_[i].reason.kind() == WaitKind::kScope) waiters.emplace(parks_[i].reason.object(), i);
  }
  for (Index i = 0; i < parks_.size(); ++i) {
    const std::uint64_t scope = ScopeAround(parks_[i]);
    const auto behind = waiters.upper_bound(scope);
    if (scope == 0 || behind == waiters.begin()) continue;
    const auto& [begin, waiter] = *std::prev(behind);
    if (scope < begin + sizeof(ScopeCore)) edges_[waiter].push_back(i);
  }
}

// The innermost scope that the fiber was started in: the first of its chain that is not its own. 0: none.
std::uint64_t WaitGraph::ScopeAround(const Park& park) {
  static_assert(std::is_standard_layout_v<CancelNode>);
  constexpr int kMostScopes = 1000;  // What is read may be garbage.
  std::uint64_t node = park.innermost_scope;
  for (int i = 0; node != 0 && i < kMostScopes; ++i) {
    const std::optional<std::uint64_t> owner = ReadAt<std::uint64_t>(node + offsetof(CancelNode, owner));
    const std::optional<std::uint64_t> parent = ReadAt<std::uint64_t>(node + offsetof(CancelNode, parent));
    if (!owner || !parent) return 0;
    if (*owner != park.entity) return node;
    node = *parent;
  }
  return 0;
}

// One for each edge that closes a cycle, found by going along edges; deep first.
std::vector<std::vector<WaitGraph::Index>> WaitGraph::Candidates() const {
  enum class Seen : std::uint8_t { kNot, kOnPath, kDone };
  struct Step {
    Index at;
    std::size_t next = 0;  // of its edges
  };
  std::vector<std::vector<Index>> cycles;
  std::vector<Seen> seen(parks_.size(), Seen::kNot);
  std::vector<Step> path;
  for (const auto& [start, unused] : edges_) {
    if (seen[start] == Seen::kNot) path.push_back({.at = start});
    while (!path.empty() && cycles.size() < kMostCycles) {
      Step& step = path.back();
      seen[step.at] = Seen::kOnPath;
      const auto edges = edges_.find(step.at);
      if (edges == edges_.end() || step.next == edges->second.size()) {
        seen[step.at] = Seen::kDone;
        path.pop_back();
        continue;
      }
      const Index to = edges->second[step.next++];
      if (seen[to] == Seen::kOnPath) {
        auto first = std::find_if(path.begin(), path.end(), [to](const Step& one) { return one.at == to; });
        std::vector<Index>& cycle = cycles.emplace_back();
        for (; first != path.end(); ++first) cycle.push_back(first->at);
      } else if (seen[to] == Seen::kNot) {
        path.push_back({.at = to});
      }
    }
  }
  return cycles;
}

// Nothing: one of the fibers has run meanwhile (WGR1).
std::optional<WaitGraph::Cycle> WaitGraph::Confirm(const std::vector<Index>& candidate, bool with_stacks) {
  Cycle cycle;
  for (const Index i : candidate) {
    std::vector<std::uint64_t> stack;
    const std::optional<Park> again = reader_.ReadAgain(parks_[i], with_stacks ? &stack : nullptr);
    if (!again || !(*again == parks_[i])) return std::nullopt;
    cycle.may_end = cycle.may_end || MayEnd(*again);
    cycle.fibers.push_back(*again);
    if (with_stacks) cycle.stacks.push_back(std::move(stack));
  }
  return cycle;
}

}  // namespace weft::observe
