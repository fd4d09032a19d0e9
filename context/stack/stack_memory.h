// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// StackMemory: the system calls that stacks are made of. Only this file knows which kernel supports what.
//
// Virtual, so that a test can simulate a kernel without guard regions, without mappings left or without memory.
//
// Guards: MADV_GUARD_INSTALL (Linux 6.13) marks pages in the page table only, and the marks survive Discard(). One
// mapping holds any number of guards, whereas mprotect() splits it for each (65,530 mappings by default: about 32,000
// stacks). Several ranges go to the kernel in one process_madvise() on PIDFD_SELF (Linux 6.14), else one by one:
// BM_Discard of bench/context/stack_pool_benchmark.cc takes 300 ns a stack against 1,300. Not by a pidfd of our own: a
// forked child would inherit it and advise its parent's memory.
// A core by gdb's gcore lacks what lies behind the first such guard of a mapping; tools/gdb/weft_gdb.py mends that.
// Any thread, all of it. Does not allocate.
#ifndef WEFT_CONTEXT_STACK_STACK_MEMORY_H_
#define WEFT_CONTEXT_STACK_STACK_MEMORY_H_

#include <sys/uio.h>

#include <cstddef>
#include <span>

#include "weft/base/thread/atomic.h"

namespace weft::context {

class StackMemory {
 public:
  using Range = iovec;  // Page aligned.

  StackMemory() = default;
  StackMemory(const StackMemory&) = delete;
  StackMemory& operator=(const StackMemory&) = delete;
  virtual ~StackMemory() = default;

  static StackMemory* System();
  static std::size_t PageSize();

  // Readable and writable, zero, nothing of it backed by memory yet, small pages only. nullptr: refused.
  [[nodiscard]] virtual void* Map(std::size_t size);
  virtual void Unmap(void* low, std::size_t size);
  // The range is as if Map() had just returned it: guards and page tables go as well. False: it is lost, and perhaps no
  // longer mapped.
  [[nodiscard]] virtual bool Renew(void* low, std::size_t size);

  // Touching these ranges is a SIGSEGV from now on. False: this kernel or this kind of memory does not support it; some
  // of them may have their guards.
  [[nodiscard]] virtual bool InstallGuards(std::span<const Range> ranges);
  // The same for one range, by a mapping of its own. False: refused.
  [[nodiscard]] virtual bool Protect(Range range);
  // The memory goes back; the ranges read as zero.
  virtual void Discard(std::span<const Range> ranges);
  // Backs the ranges with memory. A hint: what fails here is left to the first touch.
  virtual void Populate(std::span<const Range> ranges);

  // How many mappings a process may have (vm.max_map_count).
  virtual std::size_t MaxMapCount();

  // At most half of MaxMapCount() goes into guards made by Protect(), for all pools that use this object; the rest is
  // left to the program. False: used up.
  [[nodiscard]] bool TakeProtectedGuard();
  void ReturnProtectedGuards(std::size_t count);

 private:
  base::Atomic<std::size_t> protected_guards_{0};
  base::Atomic<std::size_t> max_protected_guards_{0};  // 0: MaxMapCount() not asked yet.
};

}  // namespace weft::context

#endif  // WEFT_CONTEXT_STACK_STACK_MEMORY_H_
