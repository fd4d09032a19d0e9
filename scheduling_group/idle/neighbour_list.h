// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// NeighbourList: the groups that a group may steal from, nearest first. Neighbours: a group's present list.
//
// A group's partners are the neighbours that it may steal from and that have a slot in IdleGroups. It sends steal
// requests to them (steal_request.h), and its workers search them before they sleep (RS3).
//
// Invariants
//   NL1  A list does not change, but its counters do. One worker writes those of itself and a neighbour.
//   NL2  Neighbours::Get() returns an empty list until Publish(), and then the one that was published.
//   NL3  A group never steals from a neighbour whose steal_every_n is 0, and sends it no request.
//   SG5  steal_every_n is the rate at which workers search another group without a request. SG4 does not depend on it,
//        except that 0 means never. Its clock is a worker's count of idle searches: a neighbour is due at the count
//        noted at the last attempt. Requests, last searches and the search after a success ignore the rate, but note
//        their attempts, so that they do not add to it.
//
// A Group has slot(), its place in IdleGroups.
#ifndef WEFT_SCHEDULING_GROUP_IDLE_NEIGHBOUR_LIST_H_
#define WEFT_SCHEDULING_GROUP_IDLE_NEIGHBOUR_LIST_H_

#include <atomic>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "weft/base/report/check.h"
#include "weft/scheduling_group/idle/idle_groups.h"
#include "weft/scheduling_group/worker/worker_counters.h"

namespace weft::scheduling_group {

inline constexpr int kSameNodeDistance = 10;  // as in the ACPI table

template <class Group>
class NeighbourList {
 public:
  struct Neighbour {
    Group* group;
    // Without a request, steal at each n-th idle search (SG5); 0: never.
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

#endif  // WEFT_SCHEDULING_GROUP_IDLE_NEIGHBOUR_LIST_H_
