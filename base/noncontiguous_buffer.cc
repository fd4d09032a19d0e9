// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/base/noncontiguous_buffer.h"

#include <algorithm>
#include <cstring>
#include <memory>

namespace weft {

using base::BufferBlock;
using base::BufferSegment;
using base::OwnBlock;
using base::RefPtr;

void NoncontiguousBuffer::Append(NoncontiguousBuffer&& other) {
  WEFT_CHECK(this != &other, "NoncontiguousBuffer::Append: a buffer cannot be moved to its own end");
  for (BufferSegment& segment : other.segments_) AppendSegment(std::move(segment));
  other.Clear();
}

void NoncontiguousBuffer::Append(const NoncontiguousBuffer& other) {
  // By index: `other` may be this buffer, whose array moves.
  const std::size_t count = other.segments_.size();
  for (std::size_t i = 0; i < count; ++i) AppendSegment(other.segments_.begin()[i]);
}

void NoncontiguousBuffer::Append(std::string text) {
  if (text.size() < kCopyBelow) return AppendCopy(text);
  auto* const block = new base::KeptBlock<std::string>(std::move(text));
  AppendSegment({RefPtr<BufferBlock>::Adopt(block), block->kept()});
}

void NoncontiguousBuffer::Append(char* data, std::size_t size) {
  std::unique_ptr<char[]> owner(data);
  if (size != 0) Keep(std::move(owner), {data, size});
}

void NoncontiguousBuffer::AppendCopy(std::string_view bytes) {
  while (!bytes.empty()) {
    const std::span<char> room = Room(1, std::max(NextBlockSize(), std::min(bytes.size(), kLargestBlock)));
    const std::size_t part = std::min(bytes.size(), room.size());
    std::memcpy(room.data(), bytes.data(), part);
    Filled(part);
    bytes.remove_prefix(part);
  }
}

std::span<char> NoncontiguousBuffer::Room(std::size_t at_least, std::size_t preferred) {
  if (tail_ && tail_->HasOneRef()) tail_at_ = tail_->begin();  // NB3
  if (!tail_ || static_cast<std::size_t>(tail_->end() - tail_at_) < std::max<std::size_t>(at_least, 1)) {
    tail_ = OwnBlock::Make(std::max({at_least, preferred, std::size_t{1}}));
    tail_at_ = tail_->begin();
  }
  return {tail_at_, tail_->end()};
}

void NoncontiguousBuffer::Filled(std::size_t size) {
  if (size == 0) return;
  WEFT_CHECK(tail_ && size <= static_cast<std::size_t>(tail_->end() - tail_at_), "NoncontiguousBuffer::Filled: ", size,
             " bytes are more than Room() gave");
  BufferSegment* const last = segments_.empty() ? nullptr : &segments_.back();
  if (last != nullptr && last->block.Get() == tail_.Get() && last->bytes.data() + last->bytes.size() == tail_at_) {
    last->bytes = {last->bytes.data(), last->bytes.size() + size};
    byte_size_ += size;
  } else {
    AppendSegment({RefPtr<BufferBlock>(tail_.Get()), {tail_at_, size}});
  }
  tail_at_ += size;
}

void NoncontiguousBuffer::Consume(std::size_t size, NoncontiguousBuffer* taken) {
  byte_size_ -= size;
  while (size != 0) {
    BufferSegment& first = segments_.front();
    const std::size_t part = std::min(size, first.bytes.size());
    size -= part;
    if (part == first.bytes.size()) {
      if (taken != nullptr) taken->AppendSegment(std::move(first));
      segments_.pop_front();
    } else {
      if (taken != nullptr) taken->AppendSegment({first.block, first.bytes.substr(0, part)});
      first.bytes.remove_prefix(part);
    }
  }
}

NoncontiguousBuffer NoncontiguousBuffer::Slice(std::size_t offset, std::size_t size) const {
  WEFT_CHECK(offset <= byte_size_ && size <= byte_size_ - offset, "NoncontiguousBuffer::Slice: ", size, " bytes from ",
             offset, " on, of ", byte_size_);
  NoncontiguousBuffer slice;
  Iterator block = begin();
  for (Seek(&block, &offset); size != 0; ++block, offset = 0) {
    const std::string_view bytes = block->substr(offset, size);
    slice.AppendSegment({block.at_->block, bytes});
    size -= bytes.size();
  }
  return slice;
}

std::string_view NoncontiguousBuffer::MakeContiguous(std::size_t size) {
  WEFT_CHECK(size <= byte_size_, "NoncontiguousBuffer::Contiguous: ", size, " bytes of ", byte_size_);
  RefPtr<OwnBlock> block = OwnBlock::Make(size);
  const std::string_view bytes(block->begin(), size);
  CopyTo(block->begin(), size);
  Consume(size, nullptr);
  segments_.push_front({RefPtr<BufferBlock>(block.Get()), bytes});
  byte_size_ += size;
  return bytes;
}

std::vector<std::string_view> NoncontiguousBuffer::Blocks() const { return {begin(), end()}; }

std::size_t NoncontiguousBuffer::FillIovecs(std::span<iovec> parts, std::size_t offset) const noexcept {
  Iterator block = begin();
  Seek(&block, &offset);
  std::size_t count = 0;
  for (; block != end() && count < parts.size(); ++block, offset = 0) {
    const std::string_view bytes = block->substr(offset);
    parts[count++] = {.iov_base = const_cast<char*>(bytes.data()), .iov_len = bytes.size()};
  }
  return count;
}

std::string NoncontiguousBuffer::ToString() const {
  std::string text;
  text.reserve(byte_size_);
  for (const std::string_view block : *this) text += block;
  return text;
}

void NoncontiguousBuffer::CopyTo(void* to, std::size_t size, std::size_t offset) const {
  WEFT_CHECK(offset <= byte_size_ && size <= byte_size_ - offset, "NoncontiguousBuffer::CopyTo: ", size, " bytes from ",
             offset, " on, of ", byte_size_);
  Iterator block = begin();
  auto* at = static_cast<char*>(to);
  for (Seek(&block, &offset); size != 0; ++block, offset = 0) {
    const std::string_view bytes = block->substr(offset, size);
    std::memcpy(at, bytes.data(), bytes.size());
    at += bytes.size();
    size -= bytes.size();
  }
}

void NoncontiguousBuffer::Seek(Iterator* block, std::size_t* offset) const noexcept {
  for (; *block != end() && *offset >= (*block)->size(); ++*block) *offset -= (*block)->size();
}

bool NoncontiguousBuffer::MatchesAt(Iterator block, std::size_t offset, std::string_view bytes) const noexcept {
  for (; !bytes.empty(); ++block, offset = 0) {
    if (block == end()) return false;
    const std::string_view here = block->substr(offset, bytes.size());
    if (here != bytes.substr(0, here.size())) return false;
    bytes.remove_prefix(here.size());
  }
  return true;
}

std::size_t NoncontiguousBuffer::Find(std::string_view bytes, std::size_t from) const noexcept {
  if (from > byte_size_ || bytes.size() > byte_size_ - from) return npos;
  if (bytes.empty()) return from;
  Iterator block = begin();
  std::size_t offset = from;
  Seek(&block, &offset);
  for (std::size_t before = from - offset; block != end(); before += block->size(), ++block, offset = 0) {
    while ((offset = block->find(bytes.front(), offset)) != std::string_view::npos) {
      if (MatchesAt(block, offset, bytes)) return before + offset;
      ++offset;
    }
  }
  return npos;
}

bool operator==(const NoncontiguousBuffer& a, const NoncontiguousBuffer& b) noexcept {
  if (a.byte_size_ != b.byte_size_) return false;
  auto at = b.begin();
  std::size_t offset = 0;
  for (const std::string_view block : a) {
    if (!b.MatchesAt(at, offset, block)) return false;
    offset += block.size();
    b.Seek(&at, &offset);
  }
  return true;
}

std::span<char> NoncontiguousBufferBuilder::Next() {
  Settle();
  const std::size_t written = buffer_.ByteSize();
  // The first blocks of what is expected are as long as they can be.
  const std::span<char> room =
      expected_ > written ? buffer_.Room(1, std::min<std::size_t>(expected_ - written, kLongest)) : buffer_.Room(1);
  pending_ = room.size();
  return room;
}

}  // namespace weft
