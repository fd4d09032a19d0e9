// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// NeighbourList: the groups that a group may steal from, nearest first. Neighbours: the list that a group has now.
//
// A group's partners are the neighbours that it may steal from, and that have a place in IdleGroups: it sends steal
// requests to them (steal_request.h), and its workers look there before they sleep (RS3).
//
// Invariants
//   NL1  A list does not change. Its counters do: those of one worker and one neighbour are written by that worker.
//   NL2  Neighbours::Get() returns an empty list until Publish(), and then the one that was published.
//   NL3  A neighbour whose steal_every_n is 0 is never stolen from, and is sent no request.
//   SG5  steal_every_n is the rate at which workers search another group by themselves, without a request; nothing of
//        SG4 depends on it, but that 0 means never. A worker has one clock for it, its counter of idle searches: a
//        neighbour is due when that has come to the number noted at the last attempt. Requests, last searches and what
//        follows a success are not bound to the rate, but note their attempts too, so that they and the rate do not add
//        up. The runtime's two ratios give neighbours another n, and nothing else.
//
// A Group has slot(), its place in IdleGroups.
#ifndef WEFT_SCHEDULING_GROUP_NEIGHBOUR_LIST_H_
#define WEFT_SCHEDULING_GROUP_NEIGHBOUR_LIST_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "weft/base/check.h"
#include "weft/scheduling_group/idle_groups.h"
#include "weft/scheduling_group/worker_counters.h"

namespace weft::scheduling_group {

inline constexpr int kSameNodeDistance = 10;  // as in the ACPI table

template <class Group>
class NeighbourList {
 public:
  struct Neighbour {
    Group* group;
    // Without a request, an attempt to steal at each n-th idle search (SG5); 0: never.
    unsigned steal_every_n;
    int distance = kSameNodeDistance;  // between the NUMA nodes of the two
    bool operator==(const Neighbour&) const = default;
  };

  NeighbourList(std::vector<Neighbour> neighbours, unsigned workers)
      : all(std::move(neighbours)), counters_(new StealCounters[all.size() * workers]) {
    for (const Neighbour& neighbour : all) {
      if (neighbour.steal_every_n == 0 || neighbour.group->slot() == IdleGroups::kNoSlot) continue;
      partners.push_back(neighbour.group);
      partner_mask.Add(neighbour.group->slot());
    }
  }

  StealCounters& counters(unsigned worker, std::size_t neighbour) const {
    return counters_[worker * all.size() + neighbour];
  }
  bool MayStealFrom(const Group& group) const noexcept {
    for (const Neighbour& neighbour : all) {
      if (neighbour.group == &group) return neighbour.steal_every_n != 0;
    }
    return false;
  }

  const std::vector<Neighbour> all;
  std::vector<Group*> partners;
  IdleGroups::Mask partner_mask;

 private:
  const std::unique_ptr<StealCounters[]> counters_;
};

template <class Group>
class Neighbours {
 public:
  using List = NeighbourList<Group>;

  explicit Neighbours(unsigned workers) : workers_(workers), none_({}, workers) {}

  // Any thread. acquire: the list. Pairs with the release in Publish().
  const List& Get() const noexcept { return *list_.load(std::memory_order_acquire); }

  // Once.
  void Publish(std::vector<typename List::Neighbour> neighbours) {
    WEFT_CHECK(published_ == nullptr, "SchedulingGroup::SetNeighbours: once");
    published_ = std::make_unique<const List>(std::move(neighbours), workers_);
    list_.store(published_.get(), std::memory_order_release);  // Pairs with the acquire in Get().
  }

 private:
  const unsigned workers_;
  const List none_;
  std::unique_ptr<const List> published_;
  std::atomic<const List*> list_{&none_};
};

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_NEIGHBOUR_LIST_H_
