// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/timer/callback/callback_timer.h"

#include <atomic>
#include <cstring>

#include "weft/base/deadline.h"
#include "weft/base/report/check.h"
#include "weft/scheduling_group/fiber/fiber_entity.h"
#include "weft/scheduling_group/fiber/park.h"
#include "weft/scheduling_group/group/group_registry.h"
#include "weft/scheduling_group/group/runtime_end.h"
#include "weft/scheduling_group/worker/current_worker.h"
#include "weft/scheduling_group/worker/thread_parker.h"
#include "weft/timer/queue/timer_node.h"
#include "weft/timer/queue/timer_shard.h"
#include "weft/timer/queue/timer_slab.h"

namespace weft::timer {

static_assert(TimerEntry::kInlineCallable == kInlineCallback);

ExecutionContextHooks execution_context_hooks;

namespace {

using scheduling_group::CurrentFiber;
using scheduling_group::CurrentWorker;
using scheduling_group::FiberEntity;
using scheduling_group::LostFibers;
using scheduling_group::WorkerBase;

// A waiter for a timer's end, on the waiter's stack; `next` links the list that begins at the entry's `prev`.
struct EndWaiter : TimerLink {
  FiberEntity* fiber = nullptr;  // nullptr: a thread, which sleeps on `parker`
  scheduling_group::ThreadParker parker;
};

void WakeAll(TimerLink* waiters) {
  while (waiters != nullptr) {
    auto* waiter = static_cast<EndWaiter*>(waiters);
    waiters = waiter->next;  // Read before the waiter may return.
    if (waiter->fiber != nullptr) {
      Unpark(waiter->fiber);
    } else {
      waiter->parker.Unpark();
    }
  }
}

EntryWidth WidthFor(const CallbackType& type, std::uint64_t flags) noexcept {
  const bool fits =
      type.size <= TimerEntry::kNarrowCallable && (flags & (TimerEntry::kPeriodic | TimerEntry::kHasContext)) == 0;
  return fits ? EntryWidth::kNarrow : EntryWidth::kWide;
}

// The entry with this id, with its shard locked. nullptr, without a lock: the timer has ended.
TimerEntry* FindAndLock(std::uint64_t id) WEFT_NO_THREAD_SAFETY_ANALYSIS {
  TimerEntry* entry = TimerSlab::Find(id);
  // relaxed: a check that saves the lock. The id was made, and passed to us, after its generation was stored.
  if (entry == nullptr || GenerationOfWord(entry->word.load(std::memory_order_relaxed)) != GenerationOfId(id)) {
    return nullptr;
  }
  TimerShard* shard = ShardOf(entry);
  shard->lock.lock();
  if (WEFT_LIKELY(GenerationOfWord(WordOf(entry)) == GenerationOfId(id))) return entry;
  shard->lock.unlock();
  return nullptr;
}

void* ContextToInherit(const WorkerBase* caller) {
  if (caller == nullptr || caller->current == nullptr || execution_context_hooks.add_reference == nullptr)
    return nullptr;
  return caller->current->execution_context();
}

// Under the lock. nullptr: the shard is closed, or there is no memory.
TimerEntry* Allocate(TimerShard* shard, EntryWidth width) WEFT_REQUIRES(shard->lock) {
  TimerSlab& slab = shard->slab(width);
  while (WEFT_LIKELY(shard->open_to_callbacks())) {
    if (TimerEntry* entry = slab.Allocate()) return entry;
    if (TimerChunk* chunk = slab.WithoutMemory()) {
      const std::uint32_t from = chunk->populated;
      const std::uint32_t to = TimerSlab::NextStep(from);
      shard->lock.unlock();
      TimerSlab::Populate(chunk, from, to);
      shard->lock.lock();
      if (chunk->populated == from) chunk->populated = to;
      continue;
    }
    shard->lock.unlock();
    TimerChunk* chunk = TimerSlab::NewChunk(shard, width, shard->node());
    shard->lock.lock();
    if (chunk == nullptr) break;
    slab.Adopt(chunk);
  }
  return nullptr;
}

// Makes a complete entry kArmed or kCreated. Returns its id.
std::uint64_t Place(TimerShard* shard, TimerEntry* entry, Tick tick, bool enable) WEFT_RELEASE(shard->lock) {
  const std::uint64_t id = TimerSlab::IdOf(entry, GenerationOfWord(WordOf(entry)));
  bool announce = false;
  if (enable) {
    SetState(entry, TimerEntry::kArmed);
    announce = shard->Add(entry, tick);
  } else {
    SetState(entry, TimerEntry::kCreated);
    entry->tick = tick;
  }
  shard->lock.unlock();
  if (WEFT_UNLIKELY(announce)) shard->Announce(tick);
  return id;
}

std::uint64_t Make(const CallbackTimerOptions& options, const CallbackType* type, void* callable,
                   bool enable) WEFT_NO_THREAD_SAFETY_ANALYSIS {
  const WorkerBase* caller = CurrentWorker();
  TimerShard* shard = ShardOfCaller(caller);
  if (WEFT_UNLIKELY(shard == nullptr)) {
    scheduling_group::CheckMayBeRefused(options.function);
    return 0;
  }
  const Tick tick = TickOfDeadline(options.at.time_point());
  // Take the reference before locking. Copying the callable then needs one lock hold, and an entry that owns a copy can
  // no longer be refused (which would destroy the callable twice).
  void* context = options.on_timer_thread ? nullptr : ContextToInherit(caller);
  if (context != nullptr) context = execution_context_hooks.add_reference(context);
  std::uint64_t flags = 0;
  if (options.on_timer_thread) flags |= TimerEntry::kOnTimerThread;
  if (options.interval.count() != 0) flags |= TimerEntry::kPeriodic;
  if (context != nullptr) flags |= TimerEntry::kHasContext;

  shard->lock.lock();
  TimerEntry* entry = Allocate(shard, WidthFor(*type, flags));
  if (WEFT_UNLIKELY(entry == nullptr)) {
    shard->lock.unlock();
    if (context != nullptr) execution_context_hooks.release(context);
    return 0;
  }
  entry->fire = &FireCallback;
  entry->type = type;
  entry->prev = nullptr;
  if (context != nullptr) Wide(entry)->execution_context = context;
  if ((flags & TimerEntry::kPeriodic) != 0) {
    Wide(entry)->interval_ns = options.interval.count();
    Wide(entry)->expires_ns = options.at.time_point().time_since_epoch().count();
  }
  // relaxed: under the lock.
  entry->word.store(WordOf(entry) | flags | TimerEntry::kEnding, std::memory_order_relaxed);
  if (WEFT_LIKELY(type->moved_by_copying)) {
    if (WEFT_LIKELY(type->size == sizeof(void*))) {
      std::memcpy(entry->callable(), callable, sizeof(void*));  // By far the most frequent size, without a call.
    } else {
      std::memcpy(entry->callable(), callable, type->size);
    }
  } else {
    shard->lock.unlock();  // kEnding: the entry is ours.
    type->move(entry->callable(), callable);
    shard->lock.lock();
    if (!shard->open_to_callbacks()) {
      EndEntry(shard, entry);
      return 0;
    }
  }
  return Place(shard, entry, tick, enable);
}

enum class Killed { kAtOnce, kLater, kNothingToKill };

// Kills what FindAndLock() found. kAtOnce: it has ended, and the lock was dropped. Else its holder will end it.
Killed KillLocked(TimerShard* shard, TimerEntry* entry) WEFT_NO_THREAD_SAFETY_ANALYSIS {
  const std::uint64_t word = WordOf(entry);
  const bool killed_before = (word & TimerEntry::kKilled) != 0;
  switch (StateOf(word)) {
    case TimerEntry::kArmed:
      shard->Remove(entry);
      entry->prev = nullptr;
      EndEntry(shard, entry);
      return Killed::kAtOnce;
    case TimerEntry::kCreated:
      EndEntry(shard, entry);
      return Killed::kAtOnce;
    case TimerEntry::kFiring:
      SetKilled(entry);
      return killed_before ? Killed::kNothingToKill : Killed::kLater;
    case TimerEntry::kRunning: {
      SetKilled(entry);
      const bool more_to_come = (word & TimerEntry::kPeriodic) != 0 && !killed_before;
      return more_to_come ? Killed::kLater : Killed::kNothingToKill;
    }
    default:  // kEnding; kFree, if the id is invalid.
      return Killed::kNothingToKill;
  }
}

// Whether the callback's fiber is one that never runs (again). Under the lock.
bool IsLost(TimerEntry* entry) noexcept {
  const TimerEntry::State state = StateOf(WordOf(entry));
  Tick fiber = 0;
  if (state == TimerEntry::kFiring) {
    // acquire: the fiber, which cannot end before it has had the lock. Pairs with the release in NewCallbackFiber().
    fiber = std::atomic_ref<Tick>(entry->tick).load(std::memory_order_acquire);
  } else if (state == TimerEntry::kRunning && (WordOf(entry) & TimerEntry::kOnTimerThread) == 0) {
    fiber = entry->tick;  // In kEnding it may be a thread.
  }
  return fiber != 0 && LostFibers::Has(reinterpret_cast<const scheduling_group::FiberEntity*>(fiber));
}

}  // namespace

std::string_view NameOf(const CallbackType& type) noexcept {
  // "constexpr const char* weft::timer::PhraseWithNameOf() [with Type = NAME]", or without "with".
  constexpr std::string_view kBefore = "Type = ";
  std::string_view name = type.phrase_with_name;
  if (const std::size_t begin = name.find(kBefore); begin != name.npos) name.remove_prefix(begin + kBefore.size());
  if (!name.empty() && name.back() == ']') name.remove_suffix(1);
  return name;
}

WEFT_TLS_ACCESSOR std::uint64_t Myself() noexcept {
  base::OpaqueBarrier();
  static thread_local char address;
  const FiberEntity* fiber = CurrentFiber();
  return fiber != nullptr ? reinterpret_cast<std::uintptr_t>(fiber) : reinterpret_cast<std::uintptr_t>(&address);
}

void EndEntry(TimerShard* shard, TimerEntry* entry) WEFT_RELEASE(shard->lock) {
  if (entry->type->destroy != nullptr || (WordOf(entry) & TimerEntry::kHasContext) != 0) {
    SetState(entry, TimerEntry::kEnding);
    entry->tick = Myself();
    const bool has_context = (WordOf(entry) & TimerEntry::kHasContext) != 0;
    shard->lock.unlock();
    if (entry->type->destroy != nullptr) entry->type->destroy(entry->callable());
    if (has_context) execution_context_hooks.release(Wide(entry)->execution_context);
    shard->lock.lock();
  }
  TimerLink* waiters = entry->prev;
  const bool memory_unused = shard->SlabOf(entry).Free(entry);
  shard->lock.unlock();
  WakeAll(waiters);
  if (WEFT_UNLIKELY(memory_unused)) shard->RequestTrim();
}

void WaitForEnd(TimerShard* shard, TimerEntry* entry) WEFT_RELEASE(shard->lock) {
  EndWaiter waiter;
  waiter.fiber = CurrentFiber();
  waiter.next = entry->prev;
  // The order does not matter: the thread that wakes us takes the lock after us.
  if (waiter.fiber != nullptr) {
    PrepareToPark(waiter.fiber, {scheduling_group::WaitKind::kTimerCallback, entry});
  } else {
    waiter.parker.Prepare();
  }
  entry->prev = &waiter;
  shard->lock.unlock();
  if (waiter.fiber != nullptr) {
    ParkPrepared(waiter.fiber);
  } else {
    static_cast<void>(waiter.parker.Park(Deadline::None()));
  }
}

void FireCallback(TimerNode* node, FireContext* context) {
  auto* entry = static_cast<TimerEntry*>(node);
  SetState(entry, TimerEntry::kFiring);
  entry->tick = 0;  // It has no fiber yet.
  entry->prev = nullptr;
  context->Run(entry);
}

std::uint64_t CreateCallbackTimer(const CallbackTimerOptions& options, const CallbackType* type, void* callable) {
  return Make(options, type, callable, /*enable=*/false);
}

std::uint64_t SetCallbackTimer(const CallbackTimerOptions& options, const CallbackType* type, void* callable) {
  return Make(options, type, callable, /*enable=*/true);
}

void EnableCallbackTimer(std::uint64_t id) WEFT_NO_THREAD_SAFETY_ANALYSIS {
  TimerEntry* entry = FindAndLock(id);
  if (entry == nullptr) return;
  TimerShard* shard = ShardOf(entry);
  if (StateOf(WordOf(entry)) != TimerEntry::kCreated) {
    shard->lock.unlock();
  } else if (!shard->open_to_callbacks()) {
    EndEntry(shard, entry);
  } else {
    Place(shard, entry, entry->tick, /*enable=*/true);
  }
}

bool KillCallbackTimer(std::uint64_t id) WEFT_NO_THREAD_SAFETY_ANALYSIS {
  TimerEntry* entry = FindAndLock(id);
  if (entry == nullptr) return false;
  TimerShard* shard = ShardOf(entry);
  const Killed killed = KillLocked(shard, entry);
  if (killed != Killed::kAtOnce) shard->lock.unlock();
  return killed != Killed::kNothingToKill;
}

bool KillCallbackTimerAndWait(std::uint64_t id) WEFT_NO_THREAD_SAFETY_ANALYSIS {
  TimerEntry* entry = FindAndLock(id);
  if (entry == nullptr) return false;
  TimerShard* shard = ShardOf(entry);
  const Killed killed = KillLocked(shard, entry);
  if (killed == Killed::kAtOnce) return true;

  const TimerEntry::State state = StateOf(WordOf(entry));
  const bool in_hand = state != TimerEntry::kFree;
  const bool in_our_hand = in_hand && state != TimerEntry::kFiring && entry->tick == Myself();
  const bool may_wait = ShardSetOfThread() == nullptr;
  const bool lost = LostFibers::Any() && !in_our_hand && IsLost(entry);
  if (WEFT_UNLIKELY(lost)) {
    shard->lock.unlock();
    LostFibers::Fail("KillFiberTimerAndWait", "the callback");
  } else if (in_hand && !in_our_hand && may_wait) {
    WaitForEnd(shard, entry);
  } else {
    shard->lock.unlock();
    WEFT_CHECK(may_wait || in_our_hand || !in_hand,
               "KillFiberTimerAndWait: the thread that runs the timers may not wait for one");
  }
  return killed == Killed::kLater;
}

std::size_t DropCallbackTimers(TimerShard* shard) WEFT_NO_THREAD_SAFETY_ANALYSIS {
  TimerLink* dropped = nullptr;
  std::size_t count = 0;
  shard->lock.lock();
  const auto drop = [&](TimerEntry* entry) WEFT_NO_THREAD_SAFETY_ANALYSIS {
    const TimerEntry::State state = StateOf(WordOf(entry));
    if (state == TimerEntry::kEnding) return;
    ++count;
    if (state == TimerEntry::kFiring || state == TimerEntry::kRunning) {
      SetKilled(entry);
      return;
    }
    if (state == TimerEntry::kArmed) {
      shard->Remove(entry);
      entry->prev = nullptr;
    }
    SetState(entry, TimerEntry::kEnding);
    entry->tick = Myself();
    entry->next = dropped;
    dropped = entry;
  };
  for (EntryWidth width : kEntryWidths) shard->slab(width).ForEachLive(drop);
  shard->lock.unlock();
  while (dropped != nullptr) {
    auto* entry = static_cast<TimerEntry*>(dropped);
    dropped = dropped->next;
    shard->lock.lock();
    EndEntry(shard, entry);
  }
  return count;
}

}  // namespace weft::timer
