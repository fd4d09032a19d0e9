// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// EntityStack: pointers to the free entities of one arena, the most recently freed on top. Push() never allocates: each
// chunk of entities brings a block with room for as many pointers. Nothing is written into the entities, so memory
// given back to the system stays there.
//
//     bottom                                  top_
//     | block: full | <-> | block: full | <-> | block: in_top_ | <-> | block: empty | <-> ...
//
// Invariants
//   ES1  The blocks below top_ are full, those above are empty.
//   ES2  There are never more pointers than room, since the owner never pushes an entity that is in the stack.
//
// Under the owner's lock. Rejected: a list linked through the entities (it writes a line of each, and taking 64 of them
// is 64 cache misses one after the other, under the lock); a vector (it allocates when a fiber ends).
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

  // The block stays for ever.
  void AddBlock(Block* block) {
    if (top_ == nullptr) {
      top_ = last_ = block;
      return;
    }
    block->below = last_;
    last_->above = block;
    last_ = block;
  }

  // The last one comes on top. There must be room (ES2).
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

  // Pops up to `n`, in the order in which they were pushed. Returns how many.
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
