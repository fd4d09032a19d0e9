// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// FiberEntity: the control block of a fiber, from its creation to its end.
//
// A fiber that has not run yet is nothing but this: three cache lines with its callable in place (up to 64 bytes of
// captures, else on the heap). It has a stack only from its first run to its end: a queued fiber costs 192 bytes.
//
//   line 0   what a switch and a queue touch: state, saved context, link, group, stack, id, time stamp, cancel word. In
//            place of link and time stamp a parked fiber has what it waits for, and since when (wait_reason.h)
//   line 1   cold: what most fibers never set. A plain fiber's start and end do not touch it: kHasColdFields, in line
//            0, says whether name, sizes, owner, locals or context may be set. (Waits and scopes have their own marks.)
//   line 2   the callable until the fiber runs, which moves it to its stack; then the time-out of the wait it is in
//
// Entities come from EntityPool (entity_pool.h): their memory is never unmapped and never holds anything else, so a
// stale pointer reads a dead or another fiber, never garbage; ids tell them apart and are never reused.
//
// Who may touch what: state_ as fiber_state.h says; the rest belongs to the holder of the fiber (its creator, then the
// worker that acquired it, then the fiber itself). id(): anybody, as a snapshot. name(): the fiber itself, or anybody
// while no worker runs.
//
// Rejected: the time-out on the fiber's stack (the timer thread touches a page for each node: 100,000 sleepers woke 18
// ms late instead of 2, bench/workload --workload=sleepers); a pool of time-outs (memory to be trimmed); a control
// block in the top page of the stack (a queued fiber then needs a stack, and dumps walk stacks that may be unmapped).
#ifndef WEFT_SCHEDULING_GROUP_FIBER_FIBER_ENTITY_H_
#define WEFT_SCHEDULING_GROUP_FIBER_FIBER_ENTITY_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

#include "weft/base/report/check.h"
#include "weft/base/thread/atomic.h"
#include "weft/base/thread/cpu.h"
#include "weft/context/switch/context.h"
#include "weft/scheduling_group/fiber/cancel_word.h"
#include "weft/scheduling_group/fiber/fiber_state.h"
#include "weft/scheduling_group/fiber/wait_reason.h"
#include "weft/scheduling_group/watch/wait_samples.h"

namespace weft::context {
class StackPool;
}
namespace weft::synchronization {
struct CancelNode;
}

namespace weft::scheduling_group {

class SchedulingGroup;

// What outlives a fiber and is told of its end: the state that a join waits for, the scope of a child.
struct FiberOwner {
  // Called by the worker when the fiber is over and its stack is its own no more. Never blocks or switches; its last
  // touch of the owner is up to it.
  void (*on_exit)(FiberOwner* self) = nullptr;
};

// What the creator of a fiber may ask for.
struct StartOptions {
  // One byte, whose bits lie as in FiberEntity's flags: a start copies them at once. (Each field a byte: a child of a
  // scope that both workers run cost 87 ns rather than 78.)
  bool group_local : 1 = false;  // never leaves its scheduling group
  bool : 2;
  bool placed : 1 = false;  // its creator chose the group: it leaves it by a steal only
  bool : 1;
  std::uint8_t priority : 3 = 0;  // at most FiberEntity::kMaxPriority

  bool name_is_static = false;                   // it is never destroyed
  const char* name = nullptr;                    // copied, unless that says that it need not be
  std::size_t stack_size = 0;                    // 0: the group's default
  std::size_t guard_size = 0;                    // 0: the group's default
  void* execution_context = nullptr;             // a reference that the fiber's end gives back (FiberHooks)
  FiberOwner* owner = nullptr;                   // told of the fiber's end
  synchronization::CancelNode* scope = nullptr;  // the cancel scope that the fiber begins in
};

class alignas(base::kCacheLineSize) FiberEntity {
 public:
  static constexpr std::size_t kInlineCallable = 64;
  static constexpr std::size_t kWaitStorage = 64;
  static constexpr unsigned kMaxPriority = 7;

  FiberEntity() = default;
  FiberEntity(const FiberEntity&) = delete;
  FiberEntity& operator=(const FiberEntity&) = delete;

  std::uint64_t id() const noexcept { return id_.load(std::memory_order_relaxed); }  // A snapshot; carries nothing.
  const char* name() const noexcept { return name_ != nullptr ? name_ : ""; }
  const void* name_address() const noexcept { return name_; }  // For dumps, of a copy; nullptr: it has none.
  // The group it belongs to now: a thief, or a waker (idle/adoption.h), changes it while it holds the fiber.
  SchedulingGroup* group() const noexcept { return group_.load(std::memory_order_relaxed); }
  bool group_local() const noexcept { return (flags_ & kGroupLocal) != 0; }
  // Of its FiberAttributes, 0 .. kMaxPriority: for users' policies (scheduling_policy.h), nothing else reads it.
  unsigned priority() const noexcept { return flags_ >> kPriorityShift; }
  bool has_stack() const noexcept { return stack_top_ != nullptr; }
  const void* stack_top() const noexcept { return stack_top_; }
  // Of its StartOptions. The fiber itself; or anybody who holds the lock of its cancel word, while it is in a scope.
  FiberOwner* owner() const noexcept { return owner_; }
  // Told of the fiber's end, of one that has no other owner. The fiber itself, when its callable is done. (Here rather
  // than in StartOptions: in line 0, which has no room for it before.)
  void set_exit_owner(FiberOwner* owner) noexcept {
    WEFT_DCHECK(MayHaveMark(), "the callable has not begun");
    flags_ |= kHasExitOwner;
    exit_owner_ = owner;
  }
  FiberState& state() noexcept { return state_; }
  const FiberState& state() const noexcept { return state_; }

  // --- For scheduling_group only: the holder of the fiber ---
  enum class CallableOp { kRunAndDestroy, kDestroy };
  using Callable = void (*)(FiberEntity*, CallableOp);

  void set_group(SchedulingGroup* group) noexcept { group_.store(group, std::memory_order_relaxed); }
  // As set_group(). stacks: of the group that it leaves: a stack from there goes back there.
  void MoveTo(SchedulingGroup* group, context::StackPool* stacks) noexcept {
    if (has_stack() && !has_custom_stack()) set_custom_stack_pool(stacks);
    set_group(group);
  }
  bool MayBeAdopted() const noexcept { return (flags_ & (kGroupLocal | kPlaced)) == 0; }
  // The mark of idle/adoption.h. Before its callable has begun, and with an exit owner, a fiber keeps none.
  std::uintptr_t partner() const noexcept { return MayHaveMark() ? partner_ : 0; }
  void set_partner(std::uintptr_t mark) noexcept {
    if (MayHaveMark()) partner_ = mark;
  }
  void Run() noexcept { callable_(this, CallableOp::kRunAndDestroy); }

  // It is inside no cancel scope any more. (Never inlined: most fibers are in none.)
  void LeaveAllScopes() noexcept;

  std::size_t stack_size() const noexcept { return stack_size_; }
  std::size_t guard_size() const noexcept { return guard_size_; }

 private:
  friend class EntityPool;
  template <class F>
  friend FiberEntity* NewFiber(SchedulingGroup* group, const StartOptions& options, F&& f);
  friend FiberEntity* AllocateFiber(SchedulingGroup* group, const StartOptions& options);
  friend void DiscardFiber(FiberEntity* fiber) noexcept;
  friend void AbandonFiber(FiberEntity* fiber) noexcept;
  friend class Worker;
  friend struct GdbOffsets;

  // In place: needs no memory, and does not throw once it is made.
  template <class Decayed>
  static constexpr bool kFitsInPlace =
      sizeof(Decayed) <= kInlineCallable &&
      alignof(Decayed) <= base::kCacheLineSize&& std::is_nothrow_move_constructible_v<Decayed>;

  enum : std::uint8_t {
    kGroupLocal = 1,
    kHasColdFields = 2,
    kHasExitOwner = 4,
    kPlaced = 8,
  };
  static constexpr int kPriorityShift = 5;  // the priority is in the bits above
  static_assert(kMaxPriority << kPriorityShift == 0xe0);

  // The word holds neither a callable nor an exit owner: the callable is on the fiber's stack. (Bit 63 is set in a
  // mark, and in no such address.)
  bool MayHaveMark() const noexcept { return partner_ == 0 || partner_ >> 63 != 0; }
  bool has_cold_fields() const noexcept { return (flags_ & kHasColdFields) != 0; }
  bool wants_own_stack() const noexcept { return has_cold_fields() && stack_size_ != 0; }
  bool has_custom_stack() const noexcept { return has_cold_fields() && custom_stack_pool_ != nullptr; }
  void set_custom_stack_pool(context::StackPool* pool) noexcept {
    flags_ |= kHasColdFields;
    custom_stack_pool_ = pool;
  }
  // At its end. Resets the cold fields.
  FiberOwner* TakeOwner() noexcept {
    FiberOwner* const of_options = has_cold_fields() ? ResetColdFields() : nullptr;
    return (flags_ & kHasExitOwner) != 0 ? exit_owner_ : of_options;
  }
  // Returns the owner that its options named.
  FiberOwner* ResetColdFields() noexcept;

  // Of a new fiber: the options that a plain one does not have, save its scope. False: there is no memory.
  [[nodiscard]] bool SetOptions(const StartOptions& options, std::size_t default_stack_size) noexcept;

  // False: there is no memory, and `f` is untouched. Throws what a constructor of F throws, and has done nothing then.
  template <class F>
  [[nodiscard]] bool Emplace(F&& f);

  // Line 0.
  FiberState state_;
  std::uint8_t flags_ = 0;  // Free: without a meaning.
  std::uint8_t arena_ = 0;  // EntityPool's

 public:
  CancelWord cancel_word;

 private:
  std::atomic<SchedulingGroup*> group_{nullptr};  // carried by the queues; atomic for reports
  void* stack_top_ = nullptr;
  std::atomic<std::uint64_t> id_{0};
  union {
    Callable callable_ = nullptr;  // before it has begun
    std::uintptr_t partner_;       // then; 0: none
    FiberOwner* exit_owner_;       // kHasExitOwner
  };

 public:
  context::Context context;
  FiberEntity* next = nullptr;  // links a ready fiber into a list of its policy, or of those without a stack
  ReadyStamp ready_stamp;       // of a ready fiber whose wait is measured

  // The fiber itself before a waker may find it, or the waker that holds it: in `next`, which a parked fiber has no
  // other use for (wait_reason.h).
  // relaxed, both: that waker may write (FiberMutex::Adopt()) while the fiber's worker, on its way to the next one,
  // records for what it parks: one reason or the other.
  void set_wait_reason(WaitReason reason) noexcept {
    std::atomic_ref(next).store(reinterpret_cast<FiberEntity*>(reason.word()), std::memory_order_relaxed);
  }
  // Of a parked fiber; a snapshot.
  WaitReason wait_reason() const noexcept {
    const FiberEntity* const word = std::atomic_ref(const_cast<FiberEntity*&>(next)).load(std::memory_order_relaxed);
    return WaitReason::FromWord(reinterpret_cast<std::uintptr_t>(word));
  }

 private:
  // Cold. Down to execution_context_: null in a free entity, and set only with kHasColdFields.
  alignas(base::kCacheLineSize) const char* name_ = nullptr;
  // Both at most 2^30. 0: the group's default; guard_size_ is 0 where stack_size_ is.
  std::uint32_t stack_size_ = 0;
  std::uint32_t guard_size_ : 31 = 0;
  std::uint32_t name_is_static_ : 1 = 0;  // of no meaning without a name
  context::StackPool* custom_stack_pool_ = nullptr;
  FiberOwner* owner_ = nullptr;
  void* fiber_local_slots_ = nullptr;
  void* execution_context_ = nullptr;

 public:
  // --- For the layers above ---
  // fiber/fiber_local; destroyed by FiberHooks on the fiber's own stack.
  void* fiber_local_slots() const noexcept { return has_cold_fields() ? fiber_local_slots_ : nullptr; }
  void set_fiber_local_slots(void* slots) noexcept {
    flags_ |= kHasColdFields;
    fiber_local_slots_ = slots;
  }
  // fiber/execution_context; given back by FiberHooks.
  void* execution_context() const noexcept { return has_cold_fields() ? execution_context_ : nullptr; }
  void set_execution_context(void* to) noexcept {
    flags_ |= kHasColdFields;
    execution_context_ = to;
  }
  base::Atomic<void*> current_wait{nullptr};  // sync/wait_queue: the wait that a cancellation would end
  // sync/cancel_node; guarded by the lock of cancel_word. nullptr: it is in none.
  synchronization::CancelNode* innermost_scope() const noexcept {
    return cancel_word.scoped() ? innermost_if_scoped : nullptr;
  }
  synchronization::CancelNode* innermost_if_scoped = nullptr;
  // sync/wait_queue: the time-out of the wait in which the running fiber is. kWaitStorage bytes, on a cache line.
  void* wait_storage() noexcept {
    WEFT_DCHECK((flags_ & kHasExitOwner) != 0 || MayHaveMark(),
                "a start procedure waits with a time-out while it is moved to its fiber's stack");
    return storage_;
  }
  const void* wait_storage_of_copy() const noexcept { return storage_; }  // For dumps, of a copy.

 private:
  static_assert(kWaitStorage == kInlineCallable);
  alignas(base::kCacheLineSize) std::byte storage_[kInlineCallable];
};

#if !WEFT_ASAN && !WEFT_TSAN
static_assert(sizeof(FiberEntity) == 3 * base::kCacheLineSize, "a queued fiber is to cost at most 200 bytes");
#endif

// Layers above tear down what they hung on a fiber; called on the fiber's own stack, where they may block. Set once by
// fiber/runtime/runtime_hooks.cc before the first fiber runs.
struct FiberHooks {
  void (*destroy_fiber_locals)(FiberEntity*) = nullptr;
  void (*release_execution_context)(FiberEntity*) = nullptr;
};
extern FiberHooks fiber_hooks;

template <class F>
bool FiberEntity::Emplace(F&& f) {
  using Decayed = std::decay_t<F>;
  // An exception that leaves a start procedure ends the process, as in std::thread: noexcept makes the terminate
  // handler see the stack of the throw.
  if constexpr (kFitsInPlace<Decayed>) {
    ::new (static_cast<void*>(storage_)) Decayed(std::forward<F>(f));
    callable_ = [](FiberEntity* fiber, CallableOp op) noexcept {
      auto* stored = std::launder(reinterpret_cast<Decayed*>(fiber->storage_));
      if (op == CallableOp::kDestroy) {
        stored->~Decayed();
        return;
      }
      Decayed callable(std::move(*stored));
      stored->~Decayed();
      fiber->partner_ = 0;  // Now the storage is free.
      callable();
    };
  } else {
    auto* made = new (std::nothrow) Decayed(std::forward<F>(f));
    if (made == nullptr) return false;
    ::new (static_cast<void*>(storage_)) Decayed*(made);
    callable_ = [](FiberEntity* fiber, CallableOp op) noexcept {
      auto* callable = *std::launder(reinterpret_cast<Decayed**>(fiber->storage_));
      fiber->partner_ = 0;  // As above.
      if (op == CallableOp::kRunAndDestroy) (*callable)();
      delete callable;
    };
  }
  return true;
}

// For messages: "fiber 'parser' (id 42)", or "fiber (unnamed) (id 43)".
inline std::string DescribeFiber(std::string_view name, std::uint64_t id) {
  if (name.empty()) return base::StrCat("fiber ", base::kUnnamedFiber, " (id ", id, ")");
  return base::StrCat("fiber '", name, "' (id ", id, ")");
}

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_FIBER_FIBER_ENTITY_H_
