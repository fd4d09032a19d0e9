// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "resp_server/workspace.h"

#include <algorithm>
#include <cstring>
#include <memory>
#include <utility>

#include "resp_server/reply_writer.h"

namespace examples::resp {

std::span<char> ReadBuffer::Room(std::size_t missing) {
  if (begin_ == end_) begin_ = end_ = 0;
  // The rest of a request moves to the front, unless there is enough room behind it.
  if (begin_ != 0 && capacity_ - end_ < std::max(missing, capacity_ / 2)) {
    std::memmove(bytes_.get(), bytes_.get() + begin_, end_ - begin_);
    end_ -= std::exchange(begin_, 0);
  }
  if (end_ == capacity_) Resize(CapacityFor(missing));
  return {bytes_.get() + end_, capacity_ - end_};
}

std::size_t ReadBuffer::CapacityFor(std::size_t missing) const {
  const bool is_full = end_ - begin_ == capacity_;
  return is_full ? std::max(kBytes, std::min(end_ + missing, capacity_ * 2)) : capacity_;
}

void ReadBuffer::Resize(std::size_t capacity) {
  auto bytes = std::make_unique_for_overwrite<char[]>(capacity);
  if (end_ != begin_) std::memcpy(bytes.get(), bytes_.get() + begin_, end_ - begin_);
  end_ -= std::exchange(begin_, 0);
  bytes_ = std::move(bytes);
  capacity_ = capacity;
}

std::unique_ptr<Workspace> WorkspacePool::Take() {
  std::unique_ptr<Workspace> workspace = free_.Take();
  return workspace != nullptr ? std::move(workspace) : std::make_unique<Workspace>(limits_);
}

void WorkspacePool::Put(std::unique_ptr<Workspace> workspace) {
  // Memory that a long request or answer has taken is not kept.
  if (workspace->input.capacity() > ReadBuffer::kBytes || workspace->output.capacity() > 2 * ReplyWriter::kFlushAt) {
    return;
  }
  free_.Put(std::move(workspace));
}

}  // namespace examples::resp
