// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// AddressRing: a bounded double-ended queue of addresses, in address space reserved once; memory backs what is used.
//
// A pool keeps its warm stacks in one: it pushes and pops at the new end and trims from the old end. Pushing never
// allocates, so it may be done under a spin lock. Not thread safe.
#ifndef WEFT_CONTEXT_STACK_ADDRESS_RING_H_
#define WEFT_CONTEXT_STACK_ADDRESS_RING_H_

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <new>

#include "weft/base/report/check.h"

namespace weft::context {

class AddressRing {
 public:
  // Room for `capacity` addresses, or fewer if address space is short (capacity()). Throws std::bad_alloc if none.
  explicit AddressRing(std::size_t capacity) : capacity_(std::bit_ceil(capacity)) {
    void* slots = MAP_FAILED;
    for (; slots == MAP_FAILED; capacity_ /= 2) {
      if (capacity_ == 0) throw std::bad_alloc();
      slots = mmap(nullptr, Bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
      if (slots != MAP_FAILED) break;
    }
    slots_ = static_cast<void**>(slots);
  }
  AddressRing(const AddressRing&) = delete;
  AddressRing& operator=(const AddressRing&) = delete;
  ~AddressRing() { munmap(slots_, Bytes()); }

  std::size_t capacity() const { return capacity_; }
  std::size_t size() const { return newest_ - oldest_; }

  void PushNewest(void* address) {
    WEFT_DCHECK(size() < capacity_);
    slots_[newest_++ & (capacity_ - 1)] = address;
    high_water_ = std::max(high_water_, newest_);
  }
  // Both require size() > 0. An empty ring starts again at the front, which memory backs already.
  void* PopNewest() {
    WEFT_DCHECK(size() > 0);
    void* address = slots_[--newest_ & (capacity_ - 1)];
    if (newest_ == oldest_) newest_ = oldest_ = 0;
    return address;
  }
  void* PopOldest() {
    WEFT_DCHECK(size() > 0);
    void* address = slots_[oldest_++ & (capacity_ - 1)];
    if (newest_ == oldest_) newest_ = oldest_ = 0;
    return address;
  }

  // Gives back memory that a larger past needed. One system call at most.
  void Compact() {
    if (high_water_ <= kKept || size() > kKept) return;
    if (oldest_ >= capacity_) {
      oldest_ -= capacity_;
      newest_ -= capacity_;
    }
    if (newest_ > capacity_) return;  // It wraps: try another time.
    std::memmove(slots_, slots_ + oldest_, size() * sizeof(void*));
    newest_ = high_water_ = size();
    oldest_ = 0;
    madvise(slots_ + kKept, Bytes() - kKept * sizeof(void*), MADV_DONTNEED);
  }

 private:
  static constexpr std::size_t kKept = 8192;  // 64 KiB: a whole number of pages, whatever their size.

  std::size_t Bytes() const { return capacity_ * sizeof(void*); }

  std::size_t capacity_;  // A power of two.
  void** slots_ = nullptr;
  std::size_t oldest_ = 0;  // Both count on until the ring is empty, and are masked when used.
  std::size_t newest_ = 0;
  std::size_t high_water_ = 0;  // Of newest_, since the last Compact().
};

}  // namespace weft::context

#endif  // WEFT_CONTEXT_STACK_ADDRESS_RING_H_
