// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/observe/dump/memory_reader.h"

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>

#include "weft/base/report/check.h"
#include "weft/context/stack/stack_memory.h"

namespace weft::observe {

MemoryReader::~MemoryReader() {
  if (proc_fd_ >= 0) ::close(proc_fd_);
}

bool MemoryReader::Read(std::span<const Part> parts) noexcept {
  WEFT_DCHECK(parts.size() <= kMostParts, "MemoryReader::Read: too many parts");
  if (use_proc_) return ReadByProc(parts);
  std::array<iovec, kMostParts> to;
  std::array<iovec, kMostParts> from;
  std::size_t size = 0;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    to[i] = {parts[i].to, parts[i].size};
    from[i] = {reinterpret_cast<void*>(parts[i].from), parts[i].size};
    size += parts[i].size;
  }
  const ssize_t copied = ::process_vm_readv(::getpid(), to.data(), parts.size(), from.data(), parts.size(), 0);
  if (copied == static_cast<ssize_t>(size)) return true;
  if (copied >= 0 || errno == EFAULT) return false;
  use_proc_ = true;
  return ReadByProc(parts);
}

bool MemoryReader::ReadByProc(std::span<const Part> parts) noexcept {
  if (proc_fd_ < 0) proc_fd_ = ::open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
  if (proc_fd_ < 0) return false;
  return std::all_of(parts.begin(), parts.end(), [this](const Part& part) {
    return ::pread(proc_fd_, part.to, part.size, static_cast<off_t>(part.from)) == static_cast<ssize_t>(part.size);
  });
}

std::string MemoryReader::ReadString(std::uint64_t from, std::size_t most) {
  const std::size_t page = context::StackMemory::PageSize();
  std::string text;
  while (text.size() < most) {
    // Not beyond a page: the next one may not be there.
    std::array<char, 64> piece;
    const std::size_t size = std::min({most - text.size(), piece.size(), page - from % page});
    if (!Read(piece.data(), from, size)) break;
    const std::size_t length = ::strnlen(piece.data(), size);
    text.append(piece.data(), length);
    if (length < size) break;
    from += size;
  }
  return text;
}

}  // namespace weft::observe
