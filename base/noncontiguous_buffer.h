// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// NoncontiguousBuffer: bytes in a row of reference-counted blocks. Buffers are joined, cut and copied without a copy of
// the bytes: buffers share the blocks. (brpc and folly call it IOBuf.)
// Sample:
//     NoncontiguousBuffer message;
//     message.Append(std::move(header));              // a std::string: kept, not copied
//     message.Append(std::move(body));                // a NoncontiguousBuffer
//     message.AppendCopy("\r\n");                     // goes behind what was copied before, if there is room
//     const NoncontiguousBuffer again = message;      // shares all blocks
//     NoncontiguousBuffer first = message.Cut(16);    // message is 16 bytes shorter
//     for (std::string_view block : message) Send(block);
//
// A buffer is a list of segments: parts of blocks (base/memory/buffer_block.h). Bytes that are copied or read into it
// go to its tail: the unused end of the block that it allocated last. Blocks grow with the buffer, from 512 bytes to 16
// KiB. A buffer that Cut() and Skip() have emptied keeps its tail; Clear() gives it up. A block lives while a buffer
// has a byte of it, so a short buffer may hold a long block; ToString() makes a copy that holds none.
//
// Invariants
//   NB1  No segment is empty, and ByteSize() is the sum of their sizes.
//   NB2  The bytes of a segment never change: buffers in several threads may share its block.
//   NB3  A block is the tail of at most one buffer, which alone writes to it, and only where no buffer has bytes yet:
//        copies and what is cut off get segments, but no tail. A tail without segments is written from its start again.
//
// Who may call: any fiber and any thread; nothing waits. One buffer is as thread-safe as a std::string; different
// buffers are independent, also those that share blocks. Dropping a block's last reference runs its deleter.
// Memory ordering: a deleter sees what all threads did with the block before they dropped it (BB1).
// Errors: more bytes than there are is misuse, and aborts.
#ifndef WEFT_BASE_NONCONTIGUOUS_BUFFER_H_
#define WEFT_BASE_NONCONTIGUOUS_BUFFER_H_

#include <sys/uio.h>

#include <algorithm>
#include <compare>
#include <cstddef>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/base/memory/buffer_block.h"
#include "weft/base/ref_ptr.h"
#include "weft/base/report/check.h"

namespace weft {

class NoncontiguousBuffer {
 public:
  // Over the blocks, as std::string_view; good until the buffer is changed.
  class Iterator {
   public:
    using iterator_category = std::random_access_iterator_tag;
    using value_type = std::string_view;
    using difference_type = std::ptrdiff_t;
    using pointer = const std::string_view*;
    using reference = const std::string_view&;

    // To be assigned to.
    Iterator() = default;
    reference operator*() const noexcept { return at_->bytes; }
    pointer operator->() const noexcept { return &at_->bytes; }
    reference operator[](difference_type n) const noexcept { return at_[n].bytes; }
    Iterator& operator++() noexcept { return *this += 1; }
    Iterator& operator--() noexcept { return *this += -1; }
    Iterator operator++(int) noexcept { return Iterator(at_++); }
    Iterator operator--(int) noexcept { return Iterator(at_--); }
    Iterator& operator+=(difference_type n) noexcept {
      at_ += n;
      return *this;
    }
    Iterator& operator-=(difference_type n) noexcept { return *this += -n; }
    friend Iterator operator+(Iterator a, difference_type n) noexcept { return a += n; }
    friend Iterator operator+(difference_type n, Iterator a) noexcept { return a += n; }
    friend Iterator operator-(Iterator a, difference_type n) noexcept { return a -= n; }
    friend difference_type operator-(Iterator a, Iterator b) noexcept { return a.at_ - b.at_; }
    friend auto operator<=>(const Iterator& a, const Iterator& b) noexcept = default;

   private:
    friend class NoncontiguousBuffer;
    explicit Iterator(const base::BufferSegment* at) : at_(at) {}

    const base::BufferSegment* at_ = nullptr;
  };

  // What Find() says when it finds nothing.
  static constexpr std::size_t npos = static_cast<std::size_t>(-1);  // NOLINT(readability-identifier-naming)

  // Empty: no block, nothing allocated.
  NoncontiguousBuffer() = default;
  // A copy of the bytes.
  explicit NoncontiguousBuffer(std::string_view bytes) { AppendCopy(bytes); }
  // Shares the blocks.
  NoncontiguousBuffer(const NoncontiguousBuffer& other) : segments_(other.segments_), byte_size_(other.byte_size_) {}
  NoncontiguousBuffer& operator=(const NoncontiguousBuffer& other) {
    if (this != &other) *this = NoncontiguousBuffer(other);
    return *this;
  }
  // The other is empty afterwards, and has no tail.
  NoncontiguousBuffer(NoncontiguousBuffer&& other) noexcept
      : segments_(std::move(other.segments_)),
        byte_size_(std::exchange(other.byte_size_, 0)),
        tail_(std::move(other.tail_)),
        tail_at_(other.tail_at_) {}
  NoncontiguousBuffer& operator=(NoncontiguousBuffer&& other) noexcept {
    if (this == &other) return *this;
    segments_ = std::move(other.segments_);
    byte_size_ = std::exchange(other.byte_size_, 0);
    tail_ = std::move(other.tail_);
    tail_at_ = other.tail_at_;
    return *this;
  }

  // How many bytes there are, in all blocks.
  std::size_t ByteSize() const noexcept { return byte_size_; }
  // Whether there are none.
  bool Empty() const noexcept { return byte_size_ == 0; }
  // Gives up all blocks, the tail included. Skip(ByteSize()) keeps the tail.
  void Clear() noexcept {
    segments_.clear();
    byte_size_ = 0;
    tail_.Reset();
  }

  // Moves what `other` has to our end; it is empty afterwards.
  void Append(NoncontiguousBuffer&& other);
  // Shares the blocks of `other`, which may be this buffer.
  void Append(const NoncontiguousBuffer& other);
  // Keeps the string. A short one is copied (kCopyBelow).
  void Append(std::string text);
  // Takes over `data`, which new[] has allocated, and which delete[] frees. Not for copies: that is AppendCopy().
  void Append(char* data, std::size_t size);
  // Copies the bytes to the end: into the tail if there is room, else into a new block.
  void AppendCopy(std::string_view bytes);
  void AppendCopy(const void* data, std::size_t size) { AppendCopy({static_cast<const char*>(data), size}); }
  // Memory of others, which stays as it is until `deleter(data)` is called: once, by the thread that drops the last of
  // its bytes; at once if there are none. The deleter must not throw.
  template <class Deleter>
  void AppendForeign(const void* data, std::size_t size, Deleter deleter) {
    base::ForeignBytes<Deleter> owner(data, std::move(deleter));
    if (size != 0) Keep(std::move(owner), {static_cast<const char*>(data), size});
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
  // Shares `size` bytes from `offset` on; there are as many.
  NoncontiguousBuffer Slice(std::size_t offset, std::size_t size) const;

  // The first block; empty if there is none.
  std::string_view FirstContiguous() const noexcept {
    return segments_.empty() ? std::string_view() : segments_.begin()->bytes;
  }
  // The first `size` bytes (there are as many) in one piece, copied if need be. Good until the buffer is changed.
  std::string_view Contiguous(std::size_t size) {
    if (size <= FirstContiguous().size()) return FirstContiguous().substr(0, size);
    return MakeContiguous(size);
  }
  // The first block, and the end of the blocks.
  Iterator begin() const noexcept { return Iterator(segments_.begin()); }
  Iterator end() const noexcept { return Iterator(segments_.end()); }
  // All blocks; good until the buffer is changed.
  std::vector<std::string_view> Blocks() const;
  // Describes the bytes from `offset` on, as many as fit into `parts`, for writev(2). Returns how many parts it set.
  std::size_t FillIovecs(std::span<iovec> parts, std::size_t offset = 0) const noexcept;
  // A copy of all bytes in one piece.
  std::string ToString() const;
  // Copies `size` bytes from `offset` on; there are as many.
  void CopyTo(void* to, std::size_t size, std::size_t offset = 0) const;

  // Where `bytes` first begin, not before `from`; npos: nowhere.
  std::size_t Find(std::string_view bytes, std::size_t from = 0) const noexcept;
  // Whether it begins with `bytes`.
  bool StartsWith(std::string_view bytes) const noexcept {
    return bytes.size() <= byte_size_ && MatchesAt(begin(), 0, bytes);
  }
  // Whether the bytes are the same, however they are cut into blocks.
  friend bool operator==(const NoncontiguousBuffer& a, std::string_view b) noexcept {
    return a.byte_size_ == b.size() && a.StartsWith(b);
  }
  friend bool operator==(const NoncontiguousBuffer& a, const NoncontiguousBuffer& b) noexcept;

  // For a producer in place: room of at least `at_least` unset bytes, in a new block of `preferred` bytes if the tail
  // has less. Then Filled() appends the first `size` of them. In between the buffer must not be used.
  std::span<char> Room(std::size_t at_least, std::size_t preferred);
  std::span<char> Room(std::size_t at_least) { return Room(at_least, NextBlockSize()); }
  void Filled(std::size_t size);

  // Append() copies a shorter string. Copying it and keeping it cost the same at about 1,000 bytes (BM_AppendString).
  static constexpr std::size_t kCopyBelow = 512;

 private:
  // With the block's head they fill a size class of malloc().
  static constexpr std::size_t kSmallestBlock = 512 - sizeof(base::OwnBlock);
  static constexpr std::size_t kLargestBlock = (16 << 10) - sizeof(base::OwnBlock);

  std::size_t NextBlockSize() const noexcept { return std::clamp(byte_size_, kSmallestBlock, kLargestBlock); }

  void AppendSegment(base::BufferSegment segment) {
    byte_size_ += segment.bytes.size();
    segments_.push_back(std::move(segment));
  }
  template <class Owner>
  void Keep(Owner owner, std::string_view bytes) {
    AppendSegment({base::RefPtr<base::BufferBlock>::Adopt(new base::KeptBlock<Owner>(std::move(owner))), bytes});
  }
  // The first `size` bytes go to `taken`, or nowhere.
  void Consume(std::size_t size, NoncontiguousBuffer* taken);
  std::string_view MakeContiguous(std::size_t size);
  // Moves *offset, from the start of *block, into the block that has it.
  void Seek(Iterator* block, std::size_t* offset) const noexcept;
  bool MatchesAt(Iterator block, std::size_t offset, std::string_view bytes) const noexcept;

  base::BufferSegments segments_;
  std::size_t byte_size_ = 0;
  base::RefPtr<base::OwnBlock> tail_;  // NB3
  char* tail_at_ = nullptr;            // where its unused bytes begin
};

// Builds a buffer for a serializer that asks for room and gives back the rest, as Protobuf's ZeroCopyOutputStream.
// Sample:
//     NoncontiguousBufferBuilder builder;
//     const std::span<char> room = builder.Next();     // all of it counts as written
//     builder.BackUp(room.size() - Encode(room));
//     NoncontiguousBuffer encoded = builder.Take();
class NoncontiguousBufferBuilder {
 public:
  // For any number of bytes.
  NoncontiguousBufferBuilder() = default;
  // `expected`: how many bytes will come; so the blocks fit.
  explicit NoncontiguousBufferBuilder(std::size_t expected) : expected_(expected) {}

  // At least one byte of room behind what was written.
  std::span<char> Next();
  // The last `size` bytes of the last Next() were not written.
  void BackUp(std::size_t size) {
    WEFT_CHECK(size <= pending_, "NoncontiguousBufferBuilder::BackUp: ", size, " bytes of ", pending_);
    pending_ -= size;
  }
  // Behind what was written: the bytes are copied, those of a buffer shared.
  void Append(std::string_view bytes) {
    Settle();
    buffer_.AppendCopy(bytes);
  }
  void Append(NoncontiguousBuffer bytes) {
    Settle();
    buffer_.Append(std::move(bytes));
  }
  // How many bytes were written so far; those of the last Next() count in full until BackUp().
  std::size_t ByteSize() const noexcept { return buffer_.ByteSize() + pending_; }
  // What was written. The builder begins anew.
  [[nodiscard]] NoncontiguousBuffer Take() {
    Settle();
    return std::exchange(buffer_, {});
  }

 private:
  void Settle() {
    if (pending_ != 0) buffer_.Filled(std::exchange(pending_, 0));
  }

  // Blocks of it are not mapped one by one by malloc(), whose threshold is 128 KiB.
  static constexpr std::size_t kLongest = (64 << 10) - sizeof(base::OwnBlock);

  NoncontiguousBuffer buffer_;
  std::size_t pending_ = 0;  // of the last Next()
  std::size_t expected_ = 0;
};

}  // namespace weft

#endif  // WEFT_BASE_NONCONTIGUOUS_BUFFER_H_
