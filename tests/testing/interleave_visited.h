// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The explored points of executions, each with the budgets that were left there.
//
// A fingerprint of 64 bits identifies a point. With n points the probability that two have the same is about n^2 /
// 2^65: one in a million for five million points; the second of two such points is not explored.
#ifndef WEFT_TESTS_TESTING_INTERLEAVE_VISITED_H_
#define WEFT_TESTS_TESTING_INTERLEAVE_VISITED_H_

#include <cstddef>
#include <cstdint>
#include <vector>

namespace weft::model {

class VisitedSet {
 public:
  struct Budget {
    std::uint8_t preemptions;
    std::uint8_t weak_choices;
  };

  VisitedSet() : entries_(1024) {}

  // False: it was visited with budgets at least as large, so all that can follow has been, or is being, explored.
  bool Insert(std::uint64_t key, Budget budget) {
    if (key == 0) key = 1;
    std::size_t i = key & (entries_.size() - 1);
    for (; entries_[i].key != 0; i = (i + 1) & (entries_.size() - 1)) {
      if (entries_[i].key != key) continue;
      Budget& known = entries_[i].budget;
      if (known.preemptions >= budget.preemptions && known.weak_choices >= budget.weak_choices) return false;
      if (budget.preemptions >= known.preemptions && budget.weak_choices >= known.weak_choices) known = budget;
      return true;
    }
    if (count_ >= kMaxVisited) return true;  // Explored again each time: slower, as complete.
    entries_[i] = {key, budget};
    if (++count_ * 2 > entries_.size()) Grow();
    return true;
  }
  std::uint64_t count() const { return count_; }

 private:
  struct Entry {
    std::uint64_t key = 0;
    Budget budget{};
  };
  void Grow() {
    std::vector<Entry> old(entries_.size() * 2);
    old.swap(entries_);
    for (const Entry& entry : old) {
      if (entry.key == 0) continue;
      std::size_t i = entry.key & (entries_.size() - 1);
      while (entries_[i].key != 0) i = (i + 1) & (entries_.size() - 1);
      entries_[i] = entry;
    }
  }

  static constexpr std::size_t kMaxVisited = std::size_t{1} << 23;  // 256 MiB with its slack

  std::vector<Entry> entries_;
  std::size_t count_ = 0;
};

}  // namespace weft::model

#endif  // WEFT_TESTS_TESTING_INTERLEAVE_VISITED_H_
