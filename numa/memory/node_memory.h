// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Memory on a chosen NUMA node, for long-lived objects that the workers of one node touch all the time.
//
//   AllocateOnNode(), FreeOnNode()   whole pages
//   NodeArray<T>                     a fixed number of objects
//   OnNode, NodeAllocated            single objects: class X : NodeAllocated ... new (OnNode{node}) X(...)
//
// Each piece is a mapping of its own and costs at least a page: not for many small objects. The heap cannot do this: it
// hands out pages that were touched before, and these lie where their first user ran.
//
//   NM1  The node is a preference: if it has no memory left, or the kernel refuses to bind, the piece lies elsewhere
//        (BindMemory() in affinity.h; one line in the log a second).
//   NM2  Pieces begin at different places in their pages. A piece is hot at its beginning, and lines at the same place
//        of all pages share a few sets of the L1 cache.
// Any thread.
// Rejected: set_mempolicy() around constructors (the heap's pages are used already); libnuma (one more dependency).
#ifndef WEFT_NUMA_MEMORY_NODE_MEMORY_H_
#define WEFT_NUMA_MEMORY_NODE_MEMORY_H_

#include <cstddef>
#include <memory>
#include <new>
#include <span>
#include <type_traits>
#include <utility>

#include "weft/base/thread/cpu.h"

namespace weft::numa {

// Zeroed, on the boundary of a cache line. node -1: anywhere. Throws std::bad_alloc, as new does.
[[nodiscard]] void* AllocateOnNode(std::size_t bytes, int node);
void FreeOnNode(void* memory, std::size_t bytes) noexcept;

// Where a NodeAllocated object is to lie.
struct OnNode {
  int node = -1;
};

// Base of classes whose objects may lie on a node (plain new: anywhere). delete needs the size, so delete an object as
// its own type or through a virtual destructor. Aligned to a cache line, no more. If a constructor throws, the memory
// stays mapped.
class NodeAllocated {
 public:
  static void* operator new(std::size_t bytes) { return AllocateOnNode(bytes, -1); }
  static void* operator new(std::size_t bytes, std::align_val_t) { return AllocateOnNode(bytes, -1); }
  static void* operator new(std::size_t bytes, OnNode where) { return AllocateOnNode(bytes, where.node); }
  static void* operator new(std::size_t bytes, std::align_val_t, OnNode where) {
    return AllocateOnNode(bytes, where.node);
  }
  static void operator delete(void* memory, std::size_t bytes) noexcept { FreeOnNode(memory, bytes); }
  static void operator delete(void* memory, std::size_t bytes, std::align_val_t) noexcept { FreeOnNode(memory, bytes); }

 protected:
  NodeAllocated() = default;
  ~NodeAllocated() = default;
};

// Says of T that a zeroed object is a new one, so nothing is written: a page takes memory when it is first used.
struct ZeroIsNew {};
inline constexpr ZeroIsNew kZeroIsNew;

// `count` objects, value-initialised; none by default. const is about the array, not the objects.
template <class T>
class NodeArray {
  static_assert(alignof(T) <= base::kCacheLineSize);

 public:
  // NOLINTNEXTLINE(bugprone-sizeof-expression): T may be a pointer.
  NodeArray(std::size_t count, int node) : objects_(static_cast<T*>(AllocateOnNode(count * sizeof(T), node)), count) {
    std::uninitialized_value_construct_n(objects_.data(), count);
  }
  NodeArray(std::size_t count, int node, ZeroIsNew)
      : objects_(static_cast<T*>(AllocateOnNode(count * sizeof(T), node)), count) {
    static_assert(std::is_trivially_destructible_v<T>);
  }
  NodeArray() = default;
  NodeArray(NodeArray&& other) noexcept : objects_(std::exchange(other.objects_, {})) {}
  NodeArray& operator=(NodeArray&& other) noexcept {
    std::swap(objects_, other.objects_);
    return *this;
  }
  ~NodeArray() {
    if (objects_.empty()) return;
    std::destroy_n(objects_.data(), objects_.size());
    FreeOnNode(objects_.data(), objects_.size_bytes());
  }

  T& operator[](std::size_t i) const noexcept { return objects_[i]; }
  std::span<T> objects() const noexcept { return objects_; }

 private:
  std::span<T> objects_;
};

}  // namespace weft::numa

#endif  // WEFT_NUMA_MEMORY_NODE_MEMORY_H_
