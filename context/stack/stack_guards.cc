// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/context/stack/stack_guards.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <span>

#include "weft/base/report/check.h"
#include "weft/base/report/log.h"

namespace weft::context {

// relaxed throughout: the kind is a hint, the counts are statistics, and a stack's notes reach other threads together
// with the stack.
void StackGuards::Install(void* const* tops, std::size_t n) {
  Kind kind = kind_.load(std::memory_order_relaxed);
  if (kind == Kind::kMadvise) {
    std::array<StackMemory::Range, kStacksPerCall> guards;
    for (std::size_t i = 0; i < n; ++i) guards[i] = layout_->GuardOf(tops[i]);
    if (memory_->InstallGuards(std::span<const StackMemory::Range>(guards).first(n))) {
      guarded_by_madvise_.fetch_add(n, std::memory_order_relaxed);
      return;
    }
    kind_.compare_exchange_strong(kind, Kind::kMprotect, std::memory_order_relaxed);
  }
  const std::size_t guarded = kind < Kind::kCanary ? ProtectEach(tops, n) : 0;
  if (guarded == n) return;
  unguarded_.fetch_add(n - guarded, std::memory_order_relaxed);
  if (kind == Kind::kNone) return;
  for (std::size_t i = guarded; i < n; ++i) {
    StackArena& arena = arenas_->Of(tops[i]);
    arena.canary.Add(arena.SlotOf(tops[i]));
  }
  has_canaries_.store(true, std::memory_order_relaxed);
  if (kind_.exchange(Kind::kCanary, std::memory_order_relaxed) != Kind::kCanary) {
    WEFT_LOG(WARNING, "StackPool: no more guard pages (", memory_->MaxMapCount(),
             " mappings are allowed, vm.max_map_count); further stacks are only checked when they come back");
  }
}

// Returns how many of them, from the first on, it has protected.
std::size_t StackGuards::ProtectEach(void* const* tops, std::size_t n) {
  std::size_t done = 0;
  for (; done < n && memory_->TakeProtectedGuard(); ++done) {
    if (!memory_->Protect(layout_->GuardOf(tops[done]))) {
      memory_->ReturnProtectedGuards(1);
      break;
    }
    StackArena& arena = arenas_->Of(tops[done]);
    arena.mprotected.Add(arena.SlotOf(tops[done]));
  }
  // relaxed: see Install().
  guarded_by_mprotect_.fetch_add(done, std::memory_order_relaxed);
  return done;
}

void StackGuards::Forget(StackArena& arena, std::size_t first_word, std::size_t words) {
  std::size_t guarded = 0;
  std::size_t mprotected = 0;
  std::size_t canaries = 0;
  for (std::size_t word = first_word; word < first_word + words; ++word) {
    guarded += static_cast<std::size_t>(std::popcount(arena.guarded.Word(word)));
    mprotected += static_cast<std::size_t>(std::popcount(arena.mprotected.Word(word)));
    canaries += static_cast<std::size_t>(std::popcount(arena.canary.Word(word)));
    arena.mprotected.SetWord(word, 0);
    arena.canary.SetWord(word, 0);
  }
  memory_->ReturnProtectedGuards(mprotected);
  // relaxed, all: statistics only.
  guarded_by_mprotect_.fetch_sub(mprotected, std::memory_order_relaxed);
  const bool no_guards = kind_.load(std::memory_order_relaxed) == Kind::kNone;
  unguarded_.fetch_sub(no_guards ? guarded : canaries, std::memory_order_relaxed);
  if (!no_guards) guarded_by_madvise_.fetch_sub(guarded - mprotected - canaries, std::memory_order_relaxed);
}

void StackGuards::ForgetAll() {
  // relaxed: nobody shares it any more.
  memory_->ReturnProtectedGuards(guarded_by_mprotect_.load(std::memory_order_relaxed));
}

// Only an overflowing stack writes to the guard's place. Reading a page that was never written costs no memory.
void StackGuards::CheckCanarySlow(const void* top) {
  const StackArena& arena = arenas_->Of(top);
  if (!arena.canary.Contains(arena.SlotOf(top))) return;
  const char* low = static_cast<const char*>(layout_->WholeStack(top).iov_base);
  const auto* words = reinterpret_cast<const std::uint64_t*>(low - layout_->guard_size());
  const bool intact =
      std::all_of(words, words + layout_->guard_size() / sizeof(*words), [](std::uint64_t word) { return word == 0; });
  WEFT_CHECK(intact, "stack overflow: a stack of ", layout_->stack_size(),
             " bytes without guard page was written to below its end (found when it was given back)");
}

}  // namespace weft::context
