// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// StackGuards: what makes an overflow of a pool's stack show.
//
// A guard is made by MADV_GUARD_INSTALL (stack_memory.h), else by mprotect() as long as half of the process's mappings
// suffice, else there is none. Then ordinary memory in the guard's place is a canary: if it is not zero when the stack
// comes back, the process ends with a message; one warning says so in advance. The kind only ever goes down this list.
// Any thread: the notes about a stack pass to another thread together with the stack.
#ifndef WEFT_CONTEXT_STACK_STACK_GUARDS_H_
#define WEFT_CONTEXT_STACK_STACK_GUARDS_H_

#include <atomic>
#include <cstddef>

#include "weft/base/thread/atomic.h"
#include "weft/base/thread/cpu.h"
#include "weft/context/stack/stack_arenas.h"
#include "weft/context/stack/stack_memory.h"

namespace weft::context {

// Stacks per system call: more get no cheaper (bench/context/stack_pool_benchmark.cc, BM_Guards, BM_Discard).
inline constexpr std::size_t kStacksPerCall = 64;

class StackGuards {
 public:
  // wanted == false: neither guards nor canaries.
  StackGuards(StackMemory* memory, const StackLayout* layout, StackArenas* arenas, bool wanted)
      : memory_(memory), layout_(layout), arenas_(arenas), kind_(wanted ? Kind::kMadvise : Kind::kNone) {}
  StackGuards(const StackGuards&) = delete;
  StackGuards& operator=(const StackGuards&) = delete;

  // For stacks that no one else has seen yet. n <= kStacksPerCall.
  void Install(void* const* tops, std::size_t n);

  // Checks a stack without guard when it is given back.
  WEFT_ALWAYS_INLINE void CheckCanary(const void* top) {
    // relaxed: set before the first unguarded stack is handed out, and known to whoever receives one.
    if (WEFT_UNLIKELY(has_canaries_.load(std::memory_order_relaxed))) CheckCanarySlow(top);
  }

  // The slots of these words of arena.guarded, which are in the caller's hands, have become bare.
  void Forget(StackArena& arena, std::size_t first_word, std::size_t words);

  // All arenas have been unmapped.
  void ForgetAll();

  // relaxed, all three: statistics only.
  std::size_t by_madvise() const { return guarded_by_madvise_.load(std::memory_order_relaxed); }
  std::size_t by_mprotect() const { return guarded_by_mprotect_.load(std::memory_order_relaxed); }
  std::size_t unguarded() const { return unguarded_.load(std::memory_order_relaxed); }

 private:
  enum class Kind { kMadvise, kMprotect, kCanary, kNone };

  std::size_t ProtectEach(void* const* tops, std::size_t n);
  void CheckCanarySlow(const void* top);

  StackMemory* const memory_;
  const StackLayout* const layout_;
  StackArenas* const arenas_;
  base::Atomic<Kind> kind_;
  base::Atomic<bool> has_canaries_{false};
  base::Atomic<std::size_t> guarded_by_madvise_{0};
  base::Atomic<std::size_t> guarded_by_mprotect_{0};
  base::Atomic<std::size_t> unguarded_{0};
};

}  // namespace weft::context

#endif  // WEFT_CONTEXT_STACK_STACK_GUARDS_H_
