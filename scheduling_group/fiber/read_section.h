// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// ReadSection: a read-side critical section. While a plain thread is in one, the runtime that it uses stays.
//
// Plain threads start and wake fibers while another thread ends the runtime. That thread joins the workers before it
// frees the groups, and waits for all others by RCU (read-copy-update): they use what a published pointer leads to
// inside a section only; having unpublished it, the ending thread waits for all sections that may have found it.
//
//   a plain thread                        the thread that ends the runtime
//   --------------                        --------------------------------
//   enters: marks its slot                unpublishes
//   LightFence                            HeavyFence
//   reads what is published               for each slot that is marked: waits until that section has ended
//   uses it                               frees, or lets the next runtime have it
//   leaves: unmarks its slot
//
// Invariants
//   OS1  When WaitForReadSections() returns, all sections that began before the call have ended: no thread uses what
//        was unpublished before. (Either the waiter sees the section's mark, or the section sees nothing published.)
//   OS2  It waits for no section that begins after its first look at the slot. A slot counts its outermost sections, so
//        a new number means that the one seen has ended.
//   OS3  The waiter is woken: a section that ends looks for a waiter after it has unmarked its slot, and the waiter
//        announces itself before it looks at the slots. The fences are those of OS1.
//   OS4  What a section did is visible after the wait for it.
//
// Sections nest. A worker needs and enters none. A section must not wait for the end of the runtime. Enter and leave:
// any thread, even in destructors of thread_locals and pthread keys, in static initialization and at exit.
// WaitForReadSections(): one plain thread at a time, which is in no section.
//
// Checked in tests/model/read_section_model.cc.
// Source: M. Desnoyers, P. McKenney, A. Stern, M. Dagenais, J. Walpole, "User-Level Implementations of Read-Copy
// Update" (2012); this is their scheme with membarrier().
// Rejected: groups that are never freed (each restart with other options grows the process); a reference count (two
// writes to a shared line for each start); hazard pointers (one for each of several objects that a start visits).
#ifndef WEFT_SCHEDULING_GROUP_FIBER_READ_SECTION_H_
#define WEFT_SCHEDULING_GROUP_FIBER_READ_SECTION_H_

#include <atomic>
#include <cstdint>
#include <utility>

#include "weft/base/thread/atomic.h"
#include "weft/base/thread/cpu.h"
#include "weft/base/thread/parker.h"

#ifndef WEFT_MODEL_CHECK
#include "weft/scheduling_group/worker/current_worker.h"
#endif

namespace weft::scheduling_group {

// The waiter, if there is one. On a line that is only read while there is none.
struct alignas(base::kCacheLineSize) SectionWaiter {
  base::Atomic<bool> waiting{false};
  base::Parker parker;
};

// Where one thread marks its sections. `has_heavy_fence` is the same for all, or false here and true in Wait().
class alignas(base::kCacheLineSize) SectionSlot {
 public:
  // The slot's thread.
  void Enter(bool has_heavy_fence) noexcept {
    const std::uint64_t word = word_.load(std::memory_order_relaxed);  // Only we write it.
    // release: a waiter that sees this section sees what the one before it did (OS4). Pairs with Ended().
    word_.store(word + ((word & kDepth) == 0 ? kBegun + 1 : 1), std::memory_order_release);
    // OS1. Pairs with the HeavyFence in Wait().
    if (has_heavy_fence) {
      base::LightFence();
    } else {
      base::ThreadFence(std::memory_order_seq_cst);
    }
  }
  void Leave(bool has_heavy_fence, SectionWaiter* waiter) noexcept {
    // release: what was done in the section (OS4). Pairs with the acquire in Ended().
    word_.store(word_.load(std::memory_order_relaxed) - 1, std::memory_order_release);
    if (has_heavy_fence) {
      base::LightFence();  // OS3. As in Enter().
    } else {
      base::ThreadFence(std::memory_order_seq_cst);
    }
    if (waiter->waiting.load(std::memory_order_relaxed)) [[unlikely]] {
      (void)waiter->parker.Unpark();
    }
  }
  // Its thread does not exist any more, nor does the section.
  void Forget() noexcept { word_.store(word_.load(std::memory_order_relaxed) & ~kDepth, std::memory_order_relaxed); }
  bool inside() const noexcept { return (word_.load(std::memory_order_relaxed) & kDepth) != 0; }

  // Any thread. acquire: as in Ended().
  std::uint64_t Look() const noexcept { return word_.load(std::memory_order_acquire); }
  // Whether the section that was seen as `word` has ended.
  bool Ended(std::uint64_t word) const noexcept {
    if ((word & kDepth) == 0) return true;
    const std::uint64_t now = word_.load(std::memory_order_acquire);  // Pairs with the release in Leave().
    return (now & kDepth) == 0 || now / kBegun != word / kBegun;
  }

  // Waits for the sections that are open in these slots. for_each_slot(visit) calls visit(slot) for each.
  template <class ForEachSlot>
  static void Wait(bool has_heavy_fence, SectionWaiter* waiter, ForEachSlot for_each_slot) {
    // relaxed: the fence orders it before the looks (OS3).
    waiter->waiting.store(true, std::memory_order_relaxed);
    // Pair with the fences in Enter() and Leave().
    if (has_heavy_fence) {
      base::HeavyFence();
    } else {
      base::ThreadFence(std::memory_order_seq_cst);
    }
    for_each_slot([&](const SectionSlot& slot) {
      const std::uint64_t word = slot.Look();
      while (!slot.Ended(word)) waiter->parker.Park();
    });
    waiter->waiting.store(false, std::memory_order_relaxed);
  }

 private:
  static constexpr std::uint64_t kBegun = std::uint64_t{1} << 16;  // Above it: the number of outermost sections begun.
  static constexpr std::uint64_t kDepth = kBegun - 1;              // Below it: the depth of nesting.

  base::Atomic<std::uint64_t> word_{0};
};

#ifndef WEFT_MODEL_CHECK

namespace read_section_internal {

extern constinit SectionWaiter waiter;
// relaxed, all loads: it changes once, from full fences to light ones, and the waiter's fence pairs with both.
extern constinit std::atomic<bool> has_heavy_fence;

// The calling thread's slot, entered.
WEFT_TLS_ACCESSOR SectionSlot* EnterSlotOfThread() noexcept;

}  // namespace read_section_internal

class ReadSection {
 public:
  WEFT_ALWAYS_INLINE ReadSection() noexcept : ReadSection(CurrentWorker()) {}
  // caller: CurrentWorker().
  WEFT_ALWAYS_INLINE explicit ReadSection(const WorkerBase* caller) noexcept
      : slot_(WEFT_LIKELY(caller != nullptr) ? nullptr : read_section_internal::EnterSlotOfThread()) {}
  WEFT_ALWAYS_INLINE ~ReadSection() {
    if (slot_ == nullptr) return;
    slot_->Leave(read_section_internal::has_heavy_fence.load(std::memory_order_relaxed),
                 &read_section_internal::waiter);
  }
  ReadSection(ReadSection&& other) noexcept : slot_(std::exchange(other.slot_, nullptr)) {}
  ReadSection& operator=(ReadSection&&) = delete;

  // Whether the calling thread is in one.
  static bool Inside() noexcept;

 private:
  SectionSlot* slot_;  // nullptr: the caller is a worker
};

// To be called before anything is published; until then sections use full fences. Asks the kernel, which may take 10 ms
// in a process with several threads.
void UseHeavyFenceForReadSections() noexcept;

void WaitForReadSections() noexcept;

// In a forked child, which has no other threads. Async-signal-safe.
void ForgetOtherThreadsSections() noexcept;

#endif  // WEFT_MODEL_CHECK

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_FIBER_READ_SECTION_H_
