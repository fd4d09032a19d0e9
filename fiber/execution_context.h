// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// FiberExecutionContext: the data of one piece of work (a request, say), however many fibers take part in it.
// FiberExecutionLocal<T>: a variable of which each context has its own.
// Sample:
//   static FiberExecutionLocal<TraceId> trace_id;
//   auto context = FiberExecutionContext::Create();
//   context->Execute([&] {                                       // it is Current() in here
//     *trace_id = NewTraceId();
//     Fiber([] { Log(*trace_id); }).Join();                      // and in there
//   });
//
// Each fiber (outside of fibers, each thread) has a current context, so Execute() may suspend and migrate. A new fiber
// gets the context given in its Attributes, or else that of its spawner, fiber or thread; a timer's callback, that of
// the fiber that set the timer. So a request's fibers share its values, which live until the last fiber has ended. Give
// a fiber that outlives it a context of its own: {.execution_context = FiberExecutionContext::Create().Get()}.
//
// The values hang in chunks of slots, one slot for each FiberExecutionLocal. Chunks are added and never moved, so an
// existing value is found without a lock.
//
// Invariants
//   EC1  Current() stays alive: Execute() or the fiber's start, which made it current, holds a reference.
//   EC2  The first caller makes a value, once; others wait for it. (A constructor that throws leaves it unmade. One
//        that asks for the value it makes ends the process, since it would wait for itself.)
//   EC3  values are destroyed youngest first, by Clear() or by whoever gives up the last reference, never under a lock.
//   EC4  as FV3 in fiber_local.h: an index used again never shows the former owner's value, which stays until EC3.
//
// Any fiber and any thread. All fibers in a context share what FiberExecutionLocal returns: T brings its own lock.
// Rejected: one mutex per context for making values (T's constructor could not use another FiberExecutionLocal).
#ifndef WEFT_FIBER_EXECUTION_CONTEXT_H_
#define WEFT_FIBER_EXECUTION_CONTEXT_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <mutex>
#include <type_traits>
#include <utility>

#include "weft/base/ref_ptr.h"
#include "weft/base/report/check.h"
#include "weft/base/report/str_cat.h"
#include "weft/base/thread/atomic.h"
#include "weft/base/thread/cpu.h"
#include "weft/fiber/fiber_local.h"
#include "weft/sync/fiber_mutex.h"

namespace weft {

template <class T>
class FiberExecutionLocal;

class FiberExecutionContext : public RefCounted<FiberExecutionContext> {
 public:
  // A new context, without values.
  static RefPtr<FiberExecutionContext> Create();

  // A reference to the current context; null if there is none.
  static RefPtr<FiberExecutionContext> Capture();

  // The current context, or nullptr. Alive as long as the caller stays in it.
  static FiberExecutionContext* Current() noexcept;

  // Calls f() with this as the current context, and returns what it returns. May be nested.
  template <class F>
  decltype(auto) Execute(F&& f) {
    const Scope scope(this);
    return std::invoke(std::forward<F>(f));
  }

  // Destroys all values, so that the context can be used for other work. The caller holds the only reference.
  void Clear();

  // Makes a context, or none (nullptr), current while it lives. Its maker destroys it, the last one made first.
  class Scope {
   public:
    // Makes `context` current for the calling fiber (thread), and holds a reference to it; nullptr: none is.
    explicit Scope(FiberExecutionContext* context);
    ~Scope();
    Scope(const Scope&) = delete;
    Scope& operator=(const Scope&) = delete;

   private:
    const base::RefPtr<FiberExecutionContext> context_;
    FiberExecutionContext* const outer_;
  };

 private:
  friend class base::RefCounted<FiberExecutionContext>;
  friend base::RefPtr<FiberExecutionContext> base::MakeRefCounted<FiberExecutionContext>();
  template <class T>
  friend class FiberExecutionLocal;

  // What the context knows of a value.
  struct Header {
    std::uint64_t serial;
    void (*destroy)(Header*);
    void* object;
    Header* older = nullptr;
  };

  struct Slot {
    base::Atomic<Header*> value{nullptr};
    FiberMutex making;
    base::Atomic<const void*> maker{nullptr};  // Caller() of the holder of `making`
  };

  struct Chunk {
    static constexpr std::uint32_t kSlots = 8;
    Slot slots[kSlots];
    base::Atomic<Chunk*> next{nullptr};
  };

  FiberExecutionContext() = default;
  ~FiberExecutionContext();

  Slot& SlotAt(std::uint32_t index) {
    if (WEFT_LIKELY(index < Chunk::kSlots)) return first_chunk_.slots[index];
    return SlotAtSlow(index);
  }
  Slot& SlotAtSlow(std::uint32_t index);
  void Adopt(Slot& slot, Header* header);
  // Who calls: equal for all calls by one fiber, or by one thread outside of fibers. Not to be held over its end.
  static const void* Caller() noexcept;
  void DestroyValues();

  static fiber::detail::LocalSlotRegistry& LocalSlots();

  Chunk first_chunk_;
  base::Atomic<Header*> youngest_{nullptr};
};

template <class T>
class FiberExecutionLocal {
 public:
  static_assert(!std::is_reference_v<T> && !std::is_const_v<T>, "FiberExecutionLocal<T>: T is a plain object type");

  // Inlined: the library that makes it is pinned, and not another one that has this constructor, too.
  WEFT_ALWAYS_INLINE FiberExecutionLocal() : slot_(FiberExecutionContext::LocalSlots().Acquire()) {
    fiber::detail::PinLibraryOfLocal(&fiber::detail::library_is_pinned);
  }
  ~FiberExecutionLocal() { FiberExecutionContext::LocalSlots().Release(slot_); }

  FiberExecutionLocal(const FiberExecutionLocal&) = delete;
  FiberExecutionLocal& operator=(const FiberExecutionLocal&) = delete;

  // The current context's T, value-initialised when it is asked for the first time. There must be a current context.
  T* Get() const {
    FiberExecutionContext* const context = FiberExecutionContext::Current();
    WEFT_CHECK(context != nullptr, "FiberExecutionLocal: used outside of FiberExecutionContext::Execute()");
    FiberExecutionContext::Slot& slot = context->SlotAt(slot_.index);
    // acquire: the value is whole. Pairs with the release store in FiberExecutionContext::Adopt().
    const FiberExecutionContext::Header* const header = slot.value.load(std::memory_order_acquire);
    if (WEFT_LIKELY(header != nullptr && header->serial == slot_.serial)) return static_cast<T*>(header->object);
    return Make(*context, slot);
  }
  T* operator->() const { return Get(); }
  T& operator*() const { return *Get(); }

  // Makes `object` the current context's T; aborts if there is one. deleter(object) ends it with the other values.
  void UnsafeInit(T* object, void (*deleter)(T*)) const {
    FiberExecutionContext* const context = FiberExecutionContext::Current();
    WEFT_CHECK(context != nullptr,
               "FiberExecutionLocal::UnsafeInit: called outside of FiberExecutionContext::Execute()");
    FiberExecutionContext::Slot& slot = context->SlotAt(slot_.index);
    const std::scoped_lock lock(slot.making);
    // relaxed: as in Make().
    const FiberExecutionContext::Header* const present = slot.value.load(std::memory_order_relaxed);
    WEFT_CHECK(present == nullptr || present->serial != slot_.serial,
               "FiberExecutionLocal::UnsafeInit: the context has a value already");
    auto* const given = new Given;
    given->serial = slot_.serial;
    given->object = object;
    given->deleter = deleter;
    fiber::detail::PinLibraryOfLocal(&fiber::detail::library_is_pinned);
    given->destroy = [](FiberExecutionContext::Header* header) {
      auto* const self = static_cast<Given*>(header);
      self->deleter(static_cast<T*>(self->object));
      delete self;
    };
    context->Adopt(slot, given);
  }

 private:
  struct Value : FiberExecutionContext::Header {
    T value{};
  };
  struct Given : FiberExecutionContext::Header {
    void (*deleter)(T*);
  };

  static void DestroyValue(FiberExecutionContext::Header* header) { delete static_cast<Value*>(header); }

  WEFT_NOINLINE T* Make(FiberExecutionContext& context, FiberExecutionContext::Slot& slot) const {
    const void* const self = FiberExecutionContext::Caller();
    // relaxed: only the caller writes what is equal to itself.
    WEFT_CHECK(slot.maker.load(std::memory_order_relaxed) != self,
               "FiberExecutionLocal: the constructor of T uses the FiberExecutionLocal that it is made for, T is ",
               base::TypeName<T>());
    const std::scoped_lock lock(slot.making);
    const MakerMark mark(&slot, self);
    // relaxed: the lock has shown us what its last holder stored.
    const FiberExecutionContext::Header* const present = slot.value.load(std::memory_order_relaxed);
    if (present != nullptr && present->serial == slot_.serial) return static_cast<T*>(present->object);
    auto* const made = new Value;
    made->serial = slot_.serial;
    made->object = &made->value;
    fiber::detail::PinLibraryOfLocal(&fiber::detail::library_is_pinned);
    made->destroy = &DestroyValue;
    context.Adopt(slot, made);
    return &made->value;
  }

  // Marks the slot while a value is made, also if T's constructor throws. Inside the lock.
  class MakerMark {
   public:
    MakerMark(FiberExecutionContext::Slot* slot, const void* maker) : slot_(slot) {
      slot_->maker.store(maker, std::memory_order_relaxed);
    }
    ~MakerMark() { slot_->maker.store(nullptr, std::memory_order_relaxed); }
    MakerMark(const MakerMark&) = delete;
    MakerMark& operator=(const MakerMark&) = delete;

   private:
    FiberExecutionContext::Slot* const slot_;
  };

  const fiber::detail::LocalSlot slot_;
};

}  // namespace weft

#endif  // WEFT_FIBER_EXECUTION_CONTEXT_H_
