// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// StackRegistry: which stack does an address belong to?
//
// A table of the process's stack regions (one per arena of a pool) that signal handlers can read: no lock, no
// allocation. It grows by whole segments, which stay. A region is a row of equal slots:
//
//               -- increasing addresses -->
//     low                                                                   high
//     | guard | stack 0 ......... | guard | stack 1 ......... | ... |
//     |<-------- stride --------->|
//
// Invariants
//   SR1  An entry's `low` is written last when it is filled and cleared first when it is emptied; a reader skips an
//        entry whose `low` is zero.
//   SR2  A region is removed only when no stack of it is in use. Then only a wild pointer leads a reader into it (or
//        into a mixture of two, once the entry is reused), and the worst is a wrong sentence in a crash report.
//
// FindStack(): any thread, signal handlers. The others: any thread.
#ifndef WEFT_CONTEXT_STACK_STACK_REGISTRY_H_
#define WEFT_CONTEXT_STACK_STACK_REGISTRY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "weft/base/report/build_mode.h"
#include "weft/base/thread/cpu.h"

namespace weft::context {

struct StackRegion {
  char* low = nullptr;
  char* high = nullptr;  // low + a multiple of stride
  std::size_t stride = 0;
  std::size_t guard_size = 0;
};

// The slot of a stack: [guard_low, low) is its guard, [low, high) the stack.
struct StackBounds {
  char* guard_low = nullptr;
  char* low = nullptr;
  char* high = nullptr;
};

// False: there is no memory for a larger table.
[[nodiscard]] bool RegisterStackRegion(const StackRegion& region);
void UnregisterStackRegion(const StackRegion& region);

// True: `address` lies in a slot (its guard included), now in *bounds. Async-signal-safe.
bool FindStack(const void* address, StackBounds* bounds);

// The table itself, for debuggers (scheduling_group/group/gdb_layout.h): a chain of segments, each an array of entries
// and a pointer to the next segment. An entry has a StackRegion's four words, in its order.
struct StackTableLayout {
  const void* first_segment;
  std::uint64_t entries;     // of a segment, from its begin on
  std::uint64_t entry_size;  // of an entry, in bytes
  std::uint64_t next;        // where in a segment the pointer lies
};
extern const StackTableLayout stack_table_layout;

// LeakSanitizer (else nothing): no memory that this stack refers to is a leak, now and later.
void ShowStackToLeakChecker(const void* top);

// The same of each stack that a pool hands out from now on. (One that a fiber gets in this very moment may be missed.)
extern std::atomic<bool> leak_checker_sees_new_stacks;

WEFT_ALWAYS_INLINE void StackHandedOut([[maybe_unused]] const void* top) {
#if WEFT_ASAN
  // relaxed: nothing is published.
  if (WEFT_UNLIKELY(leak_checker_sees_new_stacks.load(std::memory_order_relaxed))) ShowStackToLeakChecker(top);
#endif
}

}  // namespace weft::context

#endif  // WEFT_CONTEXT_STACK_STACK_REGISTRY_H_
