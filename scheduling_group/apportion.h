// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// Apportion: shares a whole number out in proportion, by the method of the largest remainder.
#ifndef WEFT_SCHEDULING_GROUP_APPORTION_H_
#define WEFT_SCHEDULING_GROUP_APPORTION_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace weft::scheduling_group::planning {

// Shares `total`, or as much as fits, out in proportion to the capacities. The units left by rounding down go to the
// largest fractions, the first of equal ones first.
inline std::vector<unsigned> Apportion(unsigned total, const std::vector<unsigned>& capacities) {
  const std::uint64_t capacity = std::accumulate(capacities.begin(), capacities.end(), std::uint64_t{0});
  if (total >= capacity) return capacities;
  std::vector<unsigned> shares;
  std::vector<std::pair<std::uint64_t, std::size_t>> order;  // the largest fractions first, of equal ones the first
  for (std::size_t i = 0; i < capacities.size(); ++i) {
    const std::uint64_t share = std::uint64_t{total} * capacities[i];
    shares.push_back(static_cast<unsigned>(share / capacity));
    order.emplace_back(capacity - share % capacity, i);
  }
  unsigned left = total - std::accumulate(shares.begin(), shares.end(), 0U);
  std::sort(order.begin(), order.end());
  for (std::size_t i = 0; left > 0; ++i, --left) ++shares[order[i].second];
  return shares;
}

}  // namespace weft::scheduling_group::planning

#endif  // WEFT_SCHEDULING_GROUP_APPORTION_H_
