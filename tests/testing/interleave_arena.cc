// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
#include "weft/tests/testing/interleave_arena.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>

namespace weft::model {
namespace {

constexpr std::size_t kSize = std::size_t{1} << 20;

}  // namespace

constinit Arena arena;

void Die(const char* what) {
  std::fprintf(stderr, "model: %s\n", what);
  std::abort();
}

void Arena::Reset() {
  if (base_ == nullptr) {
    base_ = static_cast<char*>(std::aligned_alloc(4096, kSize));
    if (base_ == nullptr) Die("no memory for the arena");
  }
  used_ = 0;
}

bool Arena::Contains(const void* p) const noexcept {
  const auto* at = static_cast<const char*>(p);
  return base_ != nullptr && base_ <= at && at < base_ + kSize;
}

// Free() needs the size, which stands in front of each block.
void* Arena::Allocate(std::size_t size, std::size_t alignment) {
  std::size_t at = used_ + sizeof(std::size_t);
  at = (at + alignment - 1) & ~(alignment - 1);
  if (at + size > kSize) Die("the scenario needs more memory than the arena has: raise Arena's kSize");
  used_ = at + size;
  std::memcpy(base_ + at - sizeof(std::size_t), &size, sizeof(size));
  return base_ + at;
}

void Arena::Free(const void* block) const {
  std::size_t size = 0;
  std::memcpy(&size, static_cast<const char*>(block) - sizeof(std::size_t), sizeof(size));
  if (active && free_hook != nullptr) free_hook(block, size);
}

namespace {

void* AllocateAnywhere(std::size_t size, std::size_t alignment) {
  if (arena.active) return arena.Allocate(size, alignment);
  void* memory = nullptr;
  if (posix_memalign(&memory, std::max(alignment, sizeof(void*)), size == 0 ? 1 : size) != 0) Die("out of memory");
  return memory;
}

void FreeAnywhere(void* memory) {
  if (memory == nullptr) return;
  if (arena.Contains(memory)) {
    arena.Free(memory);
  } else {
    std::free(memory);
  }
}

}  // namespace

}  // namespace weft::model

// The whole program's, so that allocations of the code under test are the scenario's, too.
void* operator new(std::size_t size) { return weft::model::AllocateAnywhere(size, __STDCPP_DEFAULT_NEW_ALIGNMENT__); }
void* operator new(std::size_t size, std::align_val_t alignment) {
  return weft::model::AllocateAnywhere(size, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t size) { return operator new(size); }
void* operator new[](std::size_t size, std::align_val_t alignment) { return operator new(size, alignment); }
void operator delete(void* memory) noexcept { weft::model::FreeAnywhere(memory); }
void operator delete(void* memory, std::size_t) noexcept { weft::model::FreeAnywhere(memory); }
void operator delete(void* memory, std::align_val_t) noexcept { weft::model::FreeAnywhere(memory); }
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept { weft::model::FreeAnywhere(memory); }
void operator delete[](void* memory) noexcept { weft::model::FreeAnywhere(memory); }
void operator delete[](void* memory, std::size_t) noexcept { weft::model::FreeAnywhere(memory); }
void operator delete[](void* memory, std::align_val_t) noexcept { weft::model::FreeAnywhere(memory); }
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept { weft::model::FreeAnywhere(memory); }
