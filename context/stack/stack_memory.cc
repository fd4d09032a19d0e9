// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/context/stack/stack_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <numeric>

namespace weft::context {
namespace {

// Names that Debian 12's headers do not have yet.
constexpr int kMadvPopulateWrite = 23;  // MADV_POPULATE_WRITE, Linux 5.14
constexpr int kMadvGuardInstall = 102;  // MADV_GUARD_INSTALL, Linux 6.13
constexpr int kPidfdSelf = -10000;      // PIDFD_SELF, Linux 6.14

constexpr std::size_t kMaxRangesPerCall = 1024;  // UIO_MAXIOV

void* MapAt(void* low, std::size_t size, int flags) {
  flags |= MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK;
  low = mmap(low, size, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (low == MAP_FAILED) return nullptr;
  // A huge page would back the tops of sixteen stacks with all that lies between them. Refused where there are none.
  static_cast<void>(madvise(low, size, MADV_NOHUGEPAGE));
  return low;
}

// False: a range was refused, and those behind it were not tried.
bool AdviseOneByOne(std::span<const StackMemory::Range> ranges, int advice) {
  return std::all_of(ranges.begin(), ranges.end(), [advice](const StackMemory::Range& range) {
    return madvise(range.iov_base, range.iov_len, advice) == 0;
  });
}

bool Advise(std::span<const StackMemory::Range> ranges, int advice) {
  while (ranges.size() > 1) {
    const auto call = ranges.first(std::min(ranges.size(), kMaxRangesPerCall));
    const std::size_t bytes = std::accumulate(call.begin(), call.end(), std::size_t{0},
                                              [](std::size_t sum, const iovec& range) { return sum + range.iov_len; });
    const long done = syscall(SYS_process_madvise, kPidfdSelf, call.data(), call.size(), advice, 0);
    // An older kernel, or one range refused: all advice used here may be given twice.
    if (done < 0 || static_cast<std::size_t>(done) != bytes) break;
    ranges = ranges.subspan(call.size());
  }
  return AdviseOneByOne(ranges, advice);
}

std::size_t ReadNumber(const char* path) {
  const int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return 0;
  char text[32] = {};
  const ssize_t length = read(fd, text, sizeof(text) - 1);
  close(fd);
  return length > 0 ? std::strtoull(text, nullptr, 10) : 0;
}

}  // namespace

StackMemory* StackMemory::System() {
  static auto* system = new StackMemory;  // Never destroyed: pools in static objects outlive it otherwise.
  return system;
}

std::size_t StackMemory::PageSize() {
  static const auto size = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  return size;
}

void* StackMemory::Map(std::size_t size) { return MapAt(nullptr, size, 0); }

void StackMemory::Unmap(void* low, std::size_t size) { munmap(low, size); }

bool StackMemory::Renew(void* low, std::size_t size) { return MapAt(low, size, MAP_FIXED) != nullptr; }

bool StackMemory::InstallGuards(std::span<const Range> ranges) { return Advise(ranges, kMadvGuardInstall); }

bool StackMemory::Protect(Range range) { return mprotect(range.iov_base, range.iov_len, PROT_NONE) == 0; }

void StackMemory::Discard(std::span<const Range> ranges) { Advise(ranges, MADV_DONTNEED); }

void StackMemory::Populate(std::span<const Range> ranges) { Advise(ranges, kMadvPopulateWrite); }

std::size_t StackMemory::MaxMapCount() {
  constexpr std::size_t kKernelDefault = 65530;
  const std::size_t limit = ReadNumber("/proc/sys/vm/max_map_count");
  return limit != 0 ? limit : kKernelDefault;
}

bool StackMemory::TakeProtectedGuard() {
  // relaxed, in the whole function: a bound on a count, nothing is published through it.
  std::size_t limit = max_protected_guards_.load(std::memory_order_relaxed);
  if (limit == 0) {
    // Each guard adds two mappings: itself and the stack above it.
    limit = std::max<std::size_t>(MaxMapCount() / 4, 1);
    max_protected_guards_.store(limit, std::memory_order_relaxed);
  }
  if (protected_guards_.fetch_add(1, std::memory_order_relaxed) < limit) return true;
  protected_guards_.fetch_sub(1, std::memory_order_relaxed);
  return false;
}

void StackMemory::ReturnProtectedGuards(std::size_t count) {
  // relaxed: as in TakeProtectedGuard().
  protected_guards_.fetch_sub(count, std::memory_order_relaxed);
}

}  // namespace weft::context
