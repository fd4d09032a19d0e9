// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// WorkerMask: a set of workers of one scheduling group, numbered 0..63.  A value; all bit tricks are here.
#ifndef WEFT_BASE_THREAD_WORKER_MASK_H_
#define WEFT_BASE_THREAD_WORKER_MASK_H_

#include <bit>
#include <cstdint>

#include "weft/base/report/check.h"

namespace weft::base {

class WorkerMask {
 public:
  static constexpr unsigned kCapacity = 64;

  constexpr WorkerMask() = default;

  // The workers 0..n-1.
  static constexpr WorkerMask First(unsigned n) {
    WEFT_DCHECK(n <= kCapacity, "WorkerMask::First(", n, ")");
    return WorkerMask(n == 0 ? 0 : ~std::uint64_t{0} >> (kCapacity - n));
  }
  static constexpr WorkerMask Of(unsigned worker) { return WorkerMask(Bit(worker)); }
  // To and from the word of an atomic.
  static constexpr WorkerMask FromBits(std::uint64_t bits) { return WorkerMask(bits); }
  constexpr std::uint64_t bits() const { return bits_; }

  constexpr void Add(unsigned worker) { bits_ |= Bit(worker); }
  constexpr void Remove(unsigned worker) { bits_ &= ~Bit(worker); }
  constexpr bool Contains(unsigned worker) const { return (bits_ & Bit(worker)) != 0; }
  constexpr bool Empty() const { return bits_ == 0; }
  constexpr unsigned Count() const { return static_cast<unsigned>(std::popcount(bits_)); }

  // The set may not be empty.
  constexpr unsigned Lowest() const {
    WEFT_DCHECK(bits_ != 0, "the set is empty");
    return static_cast<unsigned>(std::countr_zero(bits_));
  }
  constexpr unsigned PopLowest() {
    const unsigned lowest = Lowest();
    bits_ &= bits_ - 1;
    return lowest;
  }

  friend constexpr WorkerMask operator&(WorkerMask a, WorkerMask b) { return WorkerMask(a.bits_ & b.bits_); }
  friend constexpr WorkerMask operator|(WorkerMask a, WorkerMask b) { return WorkerMask(a.bits_ | b.bits_); }
  // Those of `a` that are not in `b`.
  friend constexpr WorkerMask operator-(WorkerMask a, WorkerMask b) { return WorkerMask(a.bits_ & ~b.bits_); }
  friend constexpr bool operator==(WorkerMask, WorkerMask) = default;

 private:
  explicit constexpr WorkerMask(std::uint64_t bits) : bits_(bits) {}
  static constexpr std::uint64_t Bit(unsigned worker) {
    WEFT_DCHECK(worker < kCapacity, "worker ", worker);
    return std::uint64_t{1} << worker;
  }

  std::uint64_t bits_ = 0;
};

}  // namespace weft::base

#endif  // WEFT_BASE_THREAD_WORKER_MASK_H_
