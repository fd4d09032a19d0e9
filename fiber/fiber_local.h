// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// FiberLocal<T>: a variable of which each fiber has its own; `thread_local` for fibers.
// Sample:
//   FiberLocal<Buffer> buffer;      // usually static, or a member of something that lives long
//   buffer->Append("...");          // this fiber's Buffer, made by its default constructor at first use
//
// A FiberLocal owns a LocalSlot (so does a FiberExecutionLocal: execution_context.h), given out by a LocalSlotRegistry.
// Indices are used again, lowest first, so a table has as many slots as variables live at a time. Serials are not used
// again: they tell an entry of an index's earlier owner from one of the present owner.
//
// A fiber that uses a FiberLocal gets a FiberLocalTable: slots that point to values, a list of the values by age, and
// room for small values, all in one allocation. A fiber that uses none pays one null pointer. Outside of fibers the
// values belong to the thread.
//
// Invariants
//   FV1  Only its own fiber (or thread) touches a value, so there are no locks.
//   FV2  A fiber destroys its values at its end, youngest first, on its own stack. The destructors may lock, wait,
//        sleep, and use FiberLocals (a value destroyed before is made anew, and destroyed in turn). A thread's are
//        destroyed when it ends, after its thread_locals; the main thread's at exit(), among them.
//   FV3  a value made through one FiberLocal is never seen through another that got its index: each has a serial of its
//        own. The left-over value is destroyed when its slot is wanted, or at the fiber's end.
//
// Who may call: any fiber and any thread. The pointer returned is valid until the fiber (thread) ends, on any worker.
// Rejected: destroying values on the worker's own stack (a destructor that blocks would block the worker); a hash table
// for large indices (slower than a vector with a slot for each FiberLocal).
#ifndef WEFT_FIBER_FIBER_LOCAL_H_
#define WEFT_FIBER_FIBER_LOCAL_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <new>
#include <type_traits>
#include <vector>

#include "weft/base/thread/cpu.h"

namespace weft {

namespace fiber::detail {

struct LocalSlot {
  std::uint64_t serial = 0;  // 0: no owner.
  std::uint32_t index = 0;
};

// Whether the library in which this lies is pinned. Hidden: each library has its own, also where several share a type.
[[gnu::visibility("hidden")]] inline constinit std::atomic<bool> library_is_pinned{false};

// Values are ended by functions of the library that has made them, when fibers, threads or contexts end. That library
// stays in memory from now on (base/thread/exit.h), and so does the one that has the variable. `is_pinned`: the
// caller's own library_is_pinned.
void PinLibraryOfLocal(std::atomic<bool>* is_pinned) noexcept;

// Any thread.
class LocalSlotRegistry {
 public:
  LocalSlotRegistry() = default;

  LocalSlotRegistry(const LocalSlotRegistry&) = delete;
  LocalSlotRegistry& operator=(const LocalSlotRegistry&) = delete;

  LocalSlot Acquire();
  void Release(LocalSlot slot);

 private:
  // A std::mutex: variables are made and ended when programs start and end, and nothing switches while it is held.
  std::mutex mutex_;
  std::uint64_t last_serial_ = 0;
  std::uint32_t indices_made_ = 0;
  std::vector<std::uint32_t> free_;  // A heap, lowest index first.
};

// What stands before each value.
struct FiberLocalHeader {
  FiberLocalHeader* older;
  std::uint64_t serial;
  void (*destroy)(FiberLocalHeader*);  // Ends the value; its memory is the table's business.
  std::uint32_t index;
  bool on_heap;
  std::uint8_t log2_alignment;
};

LocalSlotRegistry& FiberLocalSlots();

// The values of one fiber or thread.
class FiberLocalTable {
 public:
  FiberLocalTable() = default;
  ~FiberLocalTable();  // Destroys the values, FV2.

  FiberLocalTable(const FiberLocalTable&) = delete;
  FiberLocalTable& operator=(const FiberLocalTable&) = delete;

  // The caller's table; made if it has none.
  static FiberLocalTable& OfCaller();

  FiberLocalHeader* Find(LocalSlot slot) const {
    if (WEFT_UNLIKELY(slot.index >= size_)) return nullptr;
    FiberLocalHeader* header = slots_[slot.index];
    return WEFT_LIKELY(header != nullptr && header->serial == slot.serial) ? header : nullptr;
  }

  // Memory for a header and a value, from the room in the table if it fits.
  FiberLocalHeader* Allocate(std::size_t size, std::size_t alignment);
  // Gives back memory in which no value came to be.
  void Abandon(FiberLocalHeader* header);
  // The value behind `header` has been made: it is the youngest now, and found under `slot`.
  void Adopt(LocalSlot slot, FiberLocalHeader* header);
  // The same, but found by nobody: it only ends in its turn (OnFiberStop()).
  void AdoptWithoutSlot(FiberLocalHeader* header);

 private:
  static constexpr std::uint32_t kInlineSlots = 8;
  static constexpr std::size_t kRoom = 320;
  static constexpr std::uint32_t kNoIndex = ~std::uint32_t{0};

  void Destroy(FiberLocalHeader* header);
  void DestroyLeftOver(std::uint32_t index);
  void Grow(std::uint32_t index);

  FiberLocalHeader** slots_ = inline_slots_;
  std::uint32_t size_ = kInlineSlots;
  std::uint32_t room_used_ = 0;
  FiberLocalHeader* youngest_ = nullptr;
  FiberLocalHeader* inline_slots_[kInlineSlots] = {};
  std::vector<FiberLocalHeader*> more_slots_;
  alignas(std::max_align_t) std::byte room_[kRoom];
};

// Ends the values of the fiber whose table this is, and the table: a fiber's last act (runtime_hooks.cc).
void DestroyFiberLocalTable(FiberLocalTable* table);

}  // namespace fiber::detail

template <class T>
class FiberLocal {
 public:
  static_assert(!std::is_reference_v<T> && !std::is_const_v<T>, "FiberLocal<T>: T is a plain object type");

  // Inlined: the library that makes it is pinned, and not another one that has this constructor, too.
  WEFT_ALWAYS_INLINE FiberLocal() : slot_(fiber::detail::FiberLocalSlots().Acquire()) {
    fiber::detail::PinLibraryOfLocal(&fiber::detail::library_is_pinned);
  }
  ~FiberLocal() { fiber::detail::FiberLocalSlots().Release(slot_); }

  FiberLocal(const FiberLocal&) = delete;
  FiberLocal& operator=(const FiberLocal&) = delete;

  // The caller's T; value-initialised (an int is 0) when it is touched for the first time.
  T* Get() const {
    fiber::detail::FiberLocalTable& table = fiber::detail::FiberLocalTable::OfCaller();
    fiber::detail::FiberLocalHeader* header = table.Find(slot_);
    return WEFT_LIKELY(header != nullptr) ? Value(header) : Make(table);
  }
  T* operator->() const { return Get(); }
  T& operator*() const { return *Get(); }

 private:
  using Header = fiber::detail::FiberLocalHeader;

  static constexpr std::size_t kAlignment = alignof(T) > alignof(Header) ? alignof(T) : alignof(Header);
  static constexpr std::size_t kOffset = (sizeof(Header) + alignof(T) - 1) / alignof(T) * alignof(T);

  static T* Value(Header* header) {
    return std::launder(reinterpret_cast<T*>(reinterpret_cast<std::byte*>(header) + kOffset));
  }

  static void DestroyValue(Header* header) { Value(header)->~T(); }

  // T's constructor may use FiberLocals, wait and throw. So the value enters the table when it is whole.
  WEFT_NOINLINE T* Make(fiber::detail::FiberLocalTable& table) const {
    Header* header = table.Allocate(kOffset + sizeof(T), kAlignment);
    struct AbandonGuard {
      fiber::detail::FiberLocalTable& table;
      Header* header;
      ~AbandonGuard() {
        if (header != nullptr) table.Abandon(header);
      }
    } guard{table, header};
    T* value = ::new (static_cast<void*>(reinterpret_cast<std::byte*>(header) + kOffset)) T();
    guard.header = nullptr;
    fiber::detail::PinLibraryOfLocal(&fiber::detail::library_is_pinned);
    header->destroy = &DestroyValue;
    table.Adopt(slot_, header);
    return value;
  }

  const fiber::detail::LocalSlot slot_;
};

}  // namespace weft

#endif  // WEFT_FIBER_FIBER_LOCAL_H_
