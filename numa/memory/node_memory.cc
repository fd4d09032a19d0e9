// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/numa/memory/node_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <system_error>

#include "weft/base/report/log.h"
#include "weft/base/thread/cpu.h"
#include "weft/numa/memory/affinity.h"

#if WEFT_ASAN
#include <sanitizer/lsan_interface.h>
#endif

namespace weft::numa {
namespace {

std::size_t PageSize() {
  static const auto size = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return size;
}

// Where the next piece begins in its first page (NM2): at each line in turn, five lines apart.
std::size_t NextColour() {
  static std::atomic<std::size_t> next{0};
  // relaxed: it carries nothing.
  return next.fetch_add(1, std::memory_order_relaxed) * 5 * base::kCacheLineSize % PageSize();
}

std::size_t WholePages(std::size_t bytes) { return (bytes + PageSize() - 1) / PageSize() * PageSize(); }

}  // namespace

void* AllocateOnNode(std::size_t bytes, int node) {
  const std::size_t colour = NextColour();
  const std::size_t size = WholePages(colour + bytes);
  void* memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  if (const std::error_code error = BindMemory(memory, size, node)) {
    WEFT_LOG_EVERY_SECOND(WARNING, "memory meant for node ", node, " comes from anywhere: ", error.message());
  }
#if WEFT_ASAN
  __lsan_register_root_region(memory, size);  // Objects referred to from here only are no leak.
#endif
  return static_cast<std::byte*>(memory) + colour;
}

void FreeOnNode(void* memory, std::size_t bytes) noexcept {
  const std::size_t colour = reinterpret_cast<std::uintptr_t>(memory) % PageSize();
  void* mapping = static_cast<std::byte*>(memory) - colour;
  const std::size_t size = WholePages(colour + bytes);
#if WEFT_ASAN
  __lsan_unregister_root_region(mapping, size);
#endif
  ::munmap(mapping, size);
}

}  // namespace weft::numa
