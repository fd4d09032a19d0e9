// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/watch/group_attention.h"

#include <algorithm>
#include <cstddef>
#include <mutex>
#include <vector>

#include "weft/base/report/check.h"

namespace weft::scheduling_group {
namespace {

struct Watched {
  std::mutex mutex;
  std::size_t watchers = 0;  // guarded by mutex, all
  bool recorded = false;
  std::vector<GroupAttention*> groups;
};

// Never destroyed: groups may outlive the end of main().
Watched& TheWatched() {
  static auto* const watched = new Watched;
  return *watched;
}

}  // namespace

GroupAttention::GroupAttention() {
  Watched& watched = TheWatched();
  const std::lock_guard lock(watched.mutex);
  watched.groups.push_back(this);
  // relaxed: published with the group.
  bits_.store(static_cast<std::uint8_t>((watched.watchers != 0 ? kWatched : 0) | (watched.recorded ? kRecorded : 0)),
              std::memory_order_relaxed);
}

GroupAttention::~GroupAttention() {
  Watched& watched = TheWatched();
  const std::lock_guard lock(watched.mutex);
  std::erase(watched.groups, this);
}

void WatchLeaving() noexcept {
  Watched& watched = TheWatched();
  const std::lock_guard lock(watched.mutex);
  if (++watched.watchers != 1) return;
  // relaxed: the caller sees its own stores, on whatever worker it goes on, by what carries it there (GAT1).
  for (GroupAttention* group : watched.groups) {
    group->bits_.fetch_or(GroupAttention::kWatched, std::memory_order_relaxed);
  }
}

void UnwatchLeaving() noexcept {
  Watched& watched = TheWatched();
  const std::lock_guard lock(watched.mutex);
  WEFT_CHECK(watched.watchers != 0, "UnwatchLeaving: nobody watches");
  if (--watched.watchers != 0) return;
  for (GroupAttention* group : watched.groups) {
    group->bits_.fetch_and(static_cast<std::uint8_t>(~GroupAttention::kWatched), std::memory_order_relaxed);
  }
}

void RecordLeaving(bool recorded) noexcept {
  Watched& watched = TheWatched();
  const std::lock_guard lock(watched.mutex);
  watched.recorded = recorded;
  constexpr auto kBit = GroupAttention::kRecorded;
  for (GroupAttention* group : watched.groups) {  // relaxed: workers may be late to see it.
    if (recorded) {
      group->bits_.fetch_or(kBit, std::memory_order_relaxed);
    } else {
      group->bits_.fetch_and(static_cast<std::uint8_t>(~kBit), std::memory_order_relaxed);
    }
  }
}

}  // namespace weft::scheduling_group
