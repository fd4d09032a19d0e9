// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The memory of one execution of a scenario: all that `new` gives while it runs, taken back as a whole at the end, even
// if threads were abandoned in the middle. Addresses are the same in each execution.
//
// Replaces the program's operator new and delete (interleave_arena.cc), which are malloc and free outside of scenarios.
#ifndef WEFT_TESTS_TESTING_INTERLEAVE_ARENA_H_
#define WEFT_TESTS_TESTING_INTERLEAVE_ARENA_H_

#include <cstddef>

namespace weft::model {

// Ends the program: the explorer cannot go on.
[[noreturn]] void Die(const char* what);

class Arena {
 public:
  // Called for blocks that are freed while it is active.
  using FreeHook = void (*)(const void* block, std::size_t size);

  void Reset();
  void* Allocate(std::size_t size, std::size_t alignment);
  // `block` is of the arena.
  void Free(const void* block) const;
  bool Contains(const void* p) const noexcept;
  const void* end() const noexcept { return base_ + used_; }

  // While it is active, operator new allocates from here.
  bool active = false;
  FreeHook free_hook = nullptr;

 private:
  char* base_ = nullptr;
  std::size_t used_ = 0;
};

extern Arena arena;

// The explorer's own bookkeeping is not the scenario's memory.
class OutsideArena {
 public:
  OutsideArena() : was_active_(arena.active) { arena.active = false; }
  ~OutsideArena() { arena.active = was_active_; }
  OutsideArena(const OutsideArena&) = delete;
  OutsideArena& operator=(const OutsideArena&) = delete;

 private:
  const bool was_active_;
};

}  // namespace weft::model

#endif  // WEFT_TESTS_TESTING_INTERLEAVE_ARENA_H_
