// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// EntityStack: the free entities of one arena, as pointers, the most recently freed on top. Push() never allocates:
// whoever adds entities to the arena adds room for as many pointers, so that there is room for all of them.
//
//     bottom                                  top_
//     | block: full | <-> | block: full | <-> | block: in_top_ | <-> | block: empty | <-> ...
//
// Nothing is written into the entities: those whose memory went back to the system stay without.
//
// Invariants
//   ES1  The blocks below top_ are full, those above are empty.
//   ES2  There are never more pointers than room (the owner's: no entity is in the stack twice).
//
// Under the owner's lock. Rejected: a list linked through the entities (writes a line of each, and whoever takes 64 of
// them waits for 64 cache misses one after the other, under the lock); a vector (allocates when a fiber ends).
#ifndef WEFT_SCHEDULING_GROUP_ENTITY_STACK_H_
#define WEFT_SCHEDULING_GROUP_ENTITY_STACK_H_

#include <algorithm>
#include <cstddef>

#include "weft/base/check.h"

namespace weft::scheduling_group {

class FiberEntity;

template <std::size_t kBlockSize>
class EntityStack {
 public:
  struct Block {
    Block* below = nullptr;
    Block* above = nullptr;
    FiberEntity* entities[kBlockSize]{};
  };

  EntityStack() = default;
  EntityStack(const EntityStack&) = delete;
  EntityStack& operator=(const EntityStack&) = delete;

  std::size_t size() const { return size_; }

  // For ever.
  void AddBlock(Block* block) {
    if (top_ == nullptr) {
      top_ = last_ = block;
      return;
    }
    block->below = last_;
    last_->above = block;
    last_ = block;
  }

  // The last one is on top. Needs room for them (ES2).
  void Push(FiberEntity* const* entities, std::size_t n) {
    size_ += n;
    while (n != 0) {
      if (in_top_ == kBlockSize) {
        WEFT_CHECK(top_->above != nullptr, "EntityStack: an entity was given back twice");
        top_ = top_->above;
        in_top_ = 0;
      }
      const std::size_t now = std::min(n, kBlockSize - in_top_);
      std::copy_n(entities, now, top_->entities + in_top_);
      in_top_ += now;
      entities += now;
      n -= now;
    }
  }

  // Up to `n`, in the order in which they were pushed. How many.
  std::size_t Pop(FiberEntity** entities, std::size_t n) {
    n = std::min(n, size_);
    size_ -= n;
    for (std::size_t left = n; left != 0;) {
      if (in_top_ == 0) {
        top_ = top_->below;
        in_top_ = kBlockSize;
      }
      const std::size_t now = std::min(left, in_top_);
      in_top_ -= now;
      left -= now;
      std::copy_n(top_->entities + in_top_, now, entities + left);
    }
    return n;
  }

 private:
  Block* top_ = nullptr;
  Block* last_ = nullptr;
  std::size_t in_top_ = 0;
  std::size_t size_ = 0;
};

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_ENTITY_STACK_H_
