// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// BufferBlock: memory that NoncontiguousBuffers (noncontiguous_buffer.h) share. BufferSegments: a buffer's parts of
// such blocks.
//
//   OwnBlock        bytes behind the object, in one allocation; a buffer fills them little by little
//   KeptBlock<T>    bytes that a T owns (a string, an array, a deleter); full from the start
//
// Invariants
//   BB1  A block, and what it keeps, is destroyed once, when the last segment of it and the last tail have gone, by the
//        thread that dropped it; what other threads did with the bytes before comes first (RP2 in ref_ptr.h).
//   BB2  A segment is not empty, and lies in its block.
//
// Rejected: a pool of blocks. A block of 16 KiB costs 40 ns from malloc(3) and 14 to 38 ns from a pool under a lock
// (BM_AllocateBlock in bench/base/noncontiguous_buffer_benchmark.cc). Where glibc returns bursts of freed blocks to the
// kernel, and page faults cost more than that (BM_PassBlock), MALLOC_TRIM_THRESHOLD_ and MALLOC_TOP_PAD_ keep them.
#ifndef WEFT_BASE_MEMORY_BUFFER_BLOCK_H_
#define WEFT_BASE_MEMORY_BUFFER_BLOCK_H_

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <string_view>
#include <utility>

#include "weft/base/ref_ptr.h"

namespace weft::base {

class BufferBlock : public RefCounted<BufferBlock> {
 public:
  virtual ~BufferBlock() = default;

 protected:
  BufferBlock() = default;
};

class OwnBlock final : public BufferBlock {
 public:
  // With `capacity` bytes, which are not set.
  static RefPtr<OwnBlock> Make(std::size_t capacity) {
    return RefPtr<OwnBlock>::Adopt(new (Capacity{capacity}) OwnBlock(capacity));
  }

  char* begin() noexcept { return reinterpret_cast<char*>(this + 1); }
  char* end() noexcept { return begin() + capacity_; }
  std::size_t capacity() const noexcept { return capacity_; }

  static void operator delete(void* block) noexcept { ::operator delete(block); }

 private:
  struct Capacity {
    std::size_t bytes;
  };
  explicit OwnBlock(std::size_t capacity) : capacity_(capacity) {}
  static void* operator new(std::size_t size, Capacity capacity) { return ::operator new(size + capacity.bytes); }
  static void operator delete(void* block, Capacity /*capacity*/) noexcept { ::operator delete(block); }

  const std::size_t capacity_;
};

template <class T>
class KeptBlock final : public BufferBlock {
 public:
  explicit KeptBlock(T kept) : kept_(std::move(kept)) {}
  const T& kept() const noexcept { return kept_; }

 private:
  T kept_;
};

// Calls `deleter(data)` in its destructor.
template <class Deleter>
class ForeignBytes {
 public:
  ForeignBytes(const void* data, Deleter deleter) : data_(data), deleter_(std::move(deleter)) {}
  ForeignBytes(ForeignBytes&& other) noexcept
      : data_(other.data_), deleter_(std::move(other.deleter_)), armed_(std::exchange(other.armed_, false)) {}
  ForeignBytes& operator=(ForeignBytes&&) = delete;
  ~ForeignBytes() {
    if (armed_) deleter_(data_);
  }

 private:
  const void* const data_;
  Deleter deleter_;
  bool armed_ = true;
};

struct BufferSegment {
  RefPtr<BufferBlock> block;
  std::string_view bytes;
};

// A queue of segments: in the object while they are few, else in an array of its own.
class BufferSegments {
 public:
  BufferSegments() = default;
  BufferSegments(const BufferSegments& other) {
    Reserve(other.size());
    for (const BufferSegment& segment : other) push_back(segment);
  }
  BufferSegments(BufferSegments&& other) noexcept { Steal(&other); }
  BufferSegments& operator=(BufferSegments other) noexcept {
    clear();
    Steal(&other);
    return *this;
  }

  BufferSegment* begin() noexcept { return array() + begin_; }
  BufferSegment* end() noexcept { return array() + end_; }
  const BufferSegment* begin() const noexcept { return const_cast<BufferSegments*>(this)->begin(); }
  const BufferSegment* end() const noexcept { return const_cast<BufferSegments*>(this)->end(); }
  std::size_t size() const noexcept { return end_ - begin_; }
  bool empty() const noexcept { return begin_ == end_; }
  BufferSegment& front() noexcept { return *begin(); }
  BufferSegment& back() noexcept { return end()[-1]; }

  void push_back(BufferSegment segment) {
    if (end_ == capacity_) MakeRoom();
    array()[end_++] = std::move(segment);
  }
  void push_front(BufferSegment segment) {
    if (begin_ == 0) {
      push_back({});
      std::move_backward(begin(), end() - 1, end());
      front() = std::move(segment);
    } else {
      array()[--begin_] = std::move(segment);
    }
  }
  void pop_front() noexcept {
    front() = {};
    if (++begin_ == end_) begin_ = end_ = 0;
  }
  void clear() noexcept {
    for (BufferSegment& segment : *this) segment = {};
    heap_.reset();
    begin_ = end_ = 0;
    capacity_ = kInline;
  }

 private:
  static constexpr std::uint32_t kInline = 2;  // A header and a body.

  BufferSegment* array() noexcept { return heap_ ? heap_.get() : inline_; }

  void MakeRoom() {
    // Those that were popped have paid for the move of as many.
    if (begin_ != 0 && begin_ >= capacity_ / 2) {
      std::move(begin(), end(), array());
      end_ -= std::exchange(begin_, 0);
    } else {
      Reserve(std::size_t{2} * capacity_);
    }
  }
  void Reserve(std::size_t capacity) {
    if (capacity <= capacity_) return;
    auto larger = std::make_unique<BufferSegment[]>(capacity);
    std::move(begin(), end(), larger.get());
    heap_ = std::move(larger);
    capacity_ = static_cast<std::uint32_t>(capacity);
    end_ -= std::exchange(begin_, 0);
  }
  // We are empty.
  void Steal(BufferSegments* other) noexcept {
    if (!other->heap_) std::move(other->inline_, other->inline_ + kInline, inline_);
    heap_ = std::move(other->heap_);
    begin_ = std::exchange(other->begin_, 0);
    end_ = std::exchange(other->end_, 0);
    capacity_ = std::exchange(other->capacity_, kInline);
  }

  BufferSegment inline_[kInline];
  std::unique_ptr<BufferSegment[]> heap_;
  std::uint32_t begin_ = 0;
  std::uint32_t end_ = 0;
  std::uint32_t capacity_ = kInline;
};

}  // namespace weft::base

#endif  // WEFT_BASE_MEMORY_BUFFER_BLOCK_H_
