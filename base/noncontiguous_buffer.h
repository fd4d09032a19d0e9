// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// NoncontiguousBuffer: bytes in a row of blocks. Buffers are joined and cut without a copy of the bytes: a block is
// shared by the buffers that have a part of it.
// Sample:
//     NoncontiguousBuffer message;
//     message.Append(std::move(header));              // a std::string: kept, not copied
//     message.Append(std::move(body));                // a NoncontiguousBuffer
//     NoncontiguousBuffer first = message.Cut(16);    // message is 16 bytes shorter
//     for (std::string_view block : message.Blocks()) Send(block);
//
// Invariants
//   NB1  No block is empty, and ByteSize() is the sum of their sizes.
//   NB2  The bytes of a block never change: it may be shared between threads.
//
// One NoncontiguousBuffer is not thread-safe.
#ifndef WEFT_BASE_NONCONTIGUOUS_BUFFER_H_
#define WEFT_BASE_NONCONTIGUOUS_BUFFER_H_

#include <algorithm>
#include <cstddef>
#include <deque>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/base/check.h"

namespace weft {

class NoncontiguousBuffer {
 public:
  NoncontiguousBuffer() = default;
  NoncontiguousBuffer(const NoncontiguousBuffer&) = default;
  NoncontiguousBuffer& operator=(const NoncontiguousBuffer&) = default;
  NoncontiguousBuffer(NoncontiguousBuffer&& other) noexcept
      : blocks_(std::move(other.blocks_)), byte_size_(std::exchange(other.byte_size_, 0)) {
    other.blocks_.clear();
  }
  NoncontiguousBuffer& operator=(NoncontiguousBuffer&& other) noexcept {
    if (this == &other) return *this;
    blocks_ = std::move(other.blocks_);
    other.blocks_.clear();
    byte_size_ = std::exchange(other.byte_size_, 0);
    return *this;
  }

  std::size_t ByteSize() const noexcept { return byte_size_; }
  bool Empty() const noexcept { return byte_size_ == 0; }
  void Clear() noexcept {
    blocks_.clear();
    byte_size_ = 0;
  }

  // Adds what `other` has; it is empty afterwards.
  void Append(NoncontiguousBuffer&& other) {
    WEFT_CHECK(this != &other, "NoncontiguousBuffer::Append: a buffer cannot be appended to itself");
    for (const Block& block : other.blocks_) AppendBlock(block);
    other.Clear();
  }
  void Append(std::string text) {
    if (text.empty()) return;
    auto kept = std::make_shared<const std::string>(std::move(text));
    const std::string_view view = *kept;
    AppendBlock({std::move(kept), view});
  }
  // Takes over `data`, which new[] has allocated, and which delete[] frees.
  void Append(char* data, std::size_t size) {
    std::shared_ptr<const char[]> kept(data);
    if (size != 0) AppendBlock({std::move(kept), std::string_view(data, size)});
  }

  // Takes the first `size` bytes out; there are as many.
  NoncontiguousBuffer Cut(std::size_t size) {
    WEFT_CHECK(size <= byte_size_, "NoncontiguousBuffer::Cut: ", size, " bytes of ", byte_size_);
    NoncontiguousBuffer head;
    Consume(size, &head);
    return head;
  }
  // Drops the first `size` bytes; there are as many.
  void Skip(std::size_t size) {
    WEFT_CHECK(size <= byte_size_, "NoncontiguousBuffer::Skip: ", size, " bytes of ", byte_size_);
    Consume(size, nullptr);
  }

  // The first block; empty if there is none.
  std::string_view FirstContiguous() const noexcept {
    return blocks_.empty() ? std::string_view() : blocks_.front().bytes;
  }
  // All blocks; good until the buffer is changed.
  std::vector<std::string_view> Blocks() const {
    std::vector<std::string_view> views;
    views.reserve(blocks_.size());
    for (const Block& block : blocks_) views.push_back(block.bytes);
    return views;
  }
  // A copy of all bytes in one piece.
  std::string ToString() const {
    std::string text;
    text.reserve(byte_size_);
    for (const Block& block : blocks_) text += block.bytes;
    return text;
  }

 private:
  struct Block {
    std::shared_ptr<const void> owner;
    std::string_view bytes;
  };

  void AppendBlock(Block block) {
    const std::size_t size = block.bytes.size();
    blocks_.push_back(std::move(block));
    byte_size_ += size;
  }

  // The first `size` bytes go to `taken`, or nowhere.
  void Consume(std::size_t size, NoncontiguousBuffer* taken) {
    while (size != 0) {
      Block& first = blocks_.front();
      const std::size_t part = std::min(size, first.bytes.size());
      if (taken != nullptr) taken->AppendBlock({first.owner, first.bytes.substr(0, part)});
      first.bytes.remove_prefix(part);
      if (first.bytes.empty()) blocks_.pop_front();
      byte_size_ -= part;
      size -= part;
    }
  }

  std::deque<Block> blocks_;
  std::size_t byte_size_ = 0;
};

}  // namespace weft

#endif  // WEFT_BASE_NONCONTIGUOUS_BUFFER_H_
