// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/timer/callback_timer.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <new>
#include <utility>

#include "weft/base/check.h"
#include "weft/base/log.h"
#include "weft/base/parker.h"
#include "weft/scheduling_group/current_worker.h"
#include "weft/scheduling_group/fiber_entity.h"
#include "weft/scheduling_group/group_registry.h"
#include "weft/scheduling_group/park.h"

namespace weft::timer {

ExecutionContextHooks execution_context_hooks;

namespace {

using scheduling_group::CurrentFiber;
using scheduling_group::CurrentWorker;
using scheduling_group::FiberEntity;
using scheduling_group::SchedulingGroup;
using scheduling_group::WorkerBase;

std::atomic<std::uint64_t> refused_fibers{0};

// Who waits for the end of a timer; on his own stack. `next` links the list that begins at the entry's `prev`.
struct EndWaiter : TimerLink {
  FiberEntity* fiber = nullptr;  // nullptr: a thread, which sleeps on `parker`
  base::Parker parker;
};

void WakeAll(TimerLink* waiters) {
  while (waiters != nullptr) {
    auto* waiter = static_cast<EndWaiter*>(waiters);
    waiters = waiter->next;  // Read before he may go.
    if (waiter->fiber != nullptr) {
      Unpark(waiter->fiber);
    } else {
      waiter->parker.Unpark();
    }
  }
}

// Something that no other fiber, and no other thread outside of fibers, has.
WEFT_TLS_ACCESSOR Tick Myself() noexcept {
  base::OpaqueBarrier();
  static thread_local char address;
  const FiberEntity* fiber = CurrentFiber();
  return fiber != nullptr ? reinterpret_cast<std::uintptr_t>(fiber) : reinterpret_cast<std::uintptr_t>(&address);
}

TimerEntry::State StateOf(std::uint64_t word) noexcept {
  return static_cast<TimerEntry::State>(word & TimerEntry::kStateMask);
}

TimerShard* ShardOf(TimerEntry* entry) noexcept { return TimerChunk::Of(entry)->shard; }

// Of a timer with kPeriodic or kHasContext.
WideTimerEntry* Wide(TimerEntry* entry) noexcept {
  WEFT_DCHECK(TimerChunk::Of(entry)->width == EntryWidth::kWide, "a narrow entry has no second line");
  return static_cast<WideTimerEntry*>(entry);
}

EntryWidth WidthFor(const CallbackType& type, std::uint64_t flags) noexcept {
  const bool fits =
      type.size <= TimerEntry::kNarrowCallable && (flags & (TimerEntry::kPeriodic | TimerEntry::kHasContext)) == 0;
  return fits ? EntryWidth::kNarrow : EntryWidth::kWide;
}

// Under the lock, which orders the word.
std::uint64_t WordOf(const TimerEntry* entry) noexcept { return entry->word.load(std::memory_order_relaxed); }
void SetState(TimerEntry* entry, TimerEntry::State state) noexcept {
  entry->word.store((WordOf(entry) & ~std::uint64_t{TimerEntry::kStateMask}) | state, std::memory_order_relaxed);
}
void SetKilled(TimerEntry* entry) noexcept {
  entry->word.store(WordOf(entry) | TimerEntry::kKilled, std::memory_order_relaxed);
}

void FireCallback(TimerNode* node, FireContext* context) {
  auto* entry = static_cast<TimerEntry*>(node);
  SetState(entry, TimerEntry::kFiring);
  entry->prev = nullptr;
  context->Run(entry);
}

// Ends a timer that is in no queue: destroys its callback, frees its memory, wakes who waits for that.
void End(TimerShard* shard, TimerEntry* entry) WEFT_RELEASE(shard->lock) {
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

// The entry that `id` is, with its shard locked; nullptr, and no lock, if it is gone.
TimerEntry* FindAndLock(std::uint64_t id) WEFT_NO_THREAD_SAFETY_ANALYSIS {
  TimerEntry* entry = TimerSlab::Find(id);
  // relaxed: a look that saves the lock. The id was made after the generation it is compared with, and who passed it to
  // us passed that too.
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
  return caller->current->execution_context;
}

// Under the lock. nullptr: closed, or no memory.
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

Tick TickOfNanoseconds(std::int64_t ns) noexcept {
  return TickOfDeadline(base::Clock::TimePoint(std::chrono::nanoseconds(ns)));
}

// Its fiber has begun, or the timer thread is about to run it.
void RunCallback(TimerEntry* entry) WEFT_NO_THREAD_SAFETY_ANALYSIS {
  TimerShard* shard = ShardOf(entry);
  shard->lock.lock();
  if ((WordOf(entry) & TimerEntry::kKilled) != 0) return End(shard, entry);  // CB2
  SetState(entry, TimerEntry::kRunning);
  entry->tick = Myself();
  const std::uint64_t id = TimerSlab::IdOf(entry, GenerationOfWord(WordOf(entry)));
  shard->lock.unlock();

  entry->type->invoke(entry->callable(), id);

  shard->lock.lock();
  // The shard may be closed by now: then DropCallbackTimers() has killed this timer, or will take it out of the queue.
  if ((WordOf(entry) & (TimerEntry::kPeriodic | TimerEntry::kKilled)) != TimerEntry::kPeriodic)
    return End(shard, entry);
  WideTimerEntry* periodic = Wide(entry);
  periodic->expires_ns = NextExpiry(periodic->expires_ns, periodic->interval_ns, shard->now());
  SetState(entry, TimerEntry::kArmed);
  const Tick tick = TickOfNanoseconds(periodic->expires_ns);
  const bool announce = shard->Add(entry, tick);
  shard->lock.unlock();
  if (announce) shard->Announce(tick);
}

// No fiber was started for it, or one that was has been dropped before it ran.
void FireAgain(TimerEntry* entry, Tick tick) WEFT_NO_THREAD_SAFETY_ANALYSIS {
  TimerShard* shard = ShardOf(entry);
  shard->lock.lock();
  if ((WordOf(entry) & TimerEntry::kKilled) != 0) return End(shard, entry);  // Closed: as in RunCallback().
  SetState(entry, TimerEntry::kArmed);
  const bool announce = shard->Add(entry, tick);
  shard->lock.unlock();
  if (announce) shard->Announce(tick);
  refused_fibers.fetch_add(1, std::memory_order_relaxed);  // Statistics only.
}

enum class Refusal { kNone, kQueueFull, kNoMemory };

void LogRefusal(Refusal refusal, const SchedulingGroup* group) noexcept {
  try {
    if (refusal == Refusal::kQueueFull) {
      WEFT_LOG_EVERY_SECOND(WARNING, "scheduling group ", group->id(),
                            ": timers' fibers are refused, the run queue of ", group->options().run_queue_size,
                            " is full: they are tried again in a moment; consider a larger --fiber_run_queue_size");
    } else {
      WEFT_LOG_EVERY_SECOND(WARNING, "scheduling group ", group->id(),
                            ": timers' fibers are refused, there is no memory for them: they are tried again in a "
                            "moment");
    }
  } catch (const std::bad_alloc&) {
    // The line must do without memory too: it is left out.
  }
}

// What a timer's fiber runs. Whatever becomes of the fiber, the entry gets its due.
class CallbackRun {
 public:
  explicit CallbackRun(TimerEntry* entry) noexcept : entry_(entry) {}
  CallbackRun(CallbackRun&& other) noexcept : entry_(std::exchange(other.entry_, nullptr)) {}
  ~CallbackRun() {
    if (entry_ != nullptr) FireAgain(entry_, TickOfDeadline(ShardOf(entry_)->now() + RetryPace::kShortestDelay));
  }
  void operator()() noexcept { RunCallback(std::exchange(entry_, nullptr)); }
  // It was not given to a fiber.
  void Release() noexcept { entry_ = nullptr; }

 private:
  TimerEntry* entry_;
};

// nullptr: no memory; the entry is still the caller's.
FiberEntity* NewCallbackFiber(TimerEntry* entry, SchedulingGroup* group) {
  scheduling_group::StartOptions options;
  // The entry is ours, kFiring: nobody writes this flag of its word, nor the context.
  if ((WordOf(entry) & TimerEntry::kHasContext) != 0) {
    options.execution_context = execution_context_hooks.add_reference(Wide(entry)->execution_context);
  }
  CallbackRun run(entry);
  FiberEntity* fiber = NewFiber(group, options, std::move(run));
  if (fiber == nullptr) {
    run.Release();  // NOLINT(bugprone-use-after-move): it was not moved where there is no fiber.
    if (options.execution_context != nullptr) execution_context_hooks.release(options.execution_context);
  }
  return fiber;
}

// A whole entry takes its place: kArmed or kCreated. Returns its id.
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
  // Referred to before the lock is taken: after it, who copies the callable needs no second hold, and what has been
  // copied into an entry cannot be refused any more, nor destroyed there and by the caller, too.
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
      std::memcpy(entry->callable(), callable, sizeof(void*));  // By far the most frequent size: no call.
    } else {
      std::memcpy(entry->callable(), callable, type->size);
    }
  } else {
    shard->lock.unlock();  // kEnding: the entry is ours.
    type->move(entry->callable(), callable);
    shard->lock.lock();
    if (!shard->open_to_callbacks()) {
      End(shard, entry);
      return 0;
    }
  }
  return Place(shard, entry, tick, enable);
}

enum class Killed { kAtOnce, kLater, kNothingToKill };

// Kills what FindAndLock() found. kAtOnce: it is gone and the lock was dropped. Else who has it in hand will end it.
Killed KillLocked(TimerShard* shard, TimerEntry* entry) WEFT_NO_THREAD_SAFETY_ANALYSIS {
  const std::uint64_t word = WordOf(entry);
  const bool killed_before = (word & TimerEntry::kKilled) != 0;
  switch (StateOf(word)) {
    case TimerEntry::kArmed:
      shard->Remove(entry);
      entry->prev = nullptr;
      End(shard, entry);
      return Killed::kAtOnce;
    case TimerEntry::kCreated:
      End(shard, entry);
      return Killed::kAtOnce;
    case TimerEntry::kFiring:
      SetKilled(entry);
      return killed_before ? Killed::kNothingToKill : Killed::kLater;
    case TimerEntry::kRunning: {
      SetKilled(entry);
      const bool more_to_come = (word & TimerEntry::kPeriodic) != 0 && !killed_before;
      return more_to_come ? Killed::kLater : Killed::kNothingToKill;
    }
    default:  // kEnding; kFree, if the id was made up.
      return Killed::kNothingToKill;
  }
}

// Sleeps until `entry`, which somebody has in hand, has ended. Drops the lock.
void WaitForEnd(TimerShard* shard, TimerEntry* entry) WEFT_RELEASE(shard->lock) {
  EndWaiter waiter;
  waiter.fiber = CurrentFiber();
  waiter.next = entry->prev;
  // These two in any order: who wakes us has had the lock after us.
  if (waiter.fiber != nullptr) PrepareToPark(waiter.fiber);
  entry->prev = &waiter;
  shard->lock.unlock();
  if (waiter.fiber != nullptr) {
    ParkPrepared(waiter.fiber);
  } else {
    waiter.parker.Park();
  }
}

}  // namespace

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
    End(shard, entry);
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
  if (in_hand && !in_our_hand && may_wait) {
    WaitForEnd(shard, entry);
  } else {
    shard->lock.unlock();
    WEFT_CHECK(may_wait || in_our_hand || !in_hand,
               "KillFiberTimerAndWait: the thread that runs the timers may not wait for one");
  }
  return killed == Killed::kLater;
}

void RunDueCallbacks(TimerEntry* const* entries, std::size_t count, SchedulingGroup* group, CallbackThread* self) {
  FiberEntity* fibers[FireContext::kCapacity];
  TimerEntry* ours[FireContext::kCapacity];
  std::size_t fiber_count = 0;
  std::size_t our_count = 0;
  const std::size_t capacity = group != nullptr ? group->options().run_queue_size : 0;
  const std::size_t queued = group != nullptr ? group->queue_size() : 0;
  // Set by the first refusal, and then for the rest of the batch.
  Refusal refusal = Refusal::kNone;
  base::Clock::TimePoint now;
  RetryPace& pace = self->pace;
  if (WEFT_UNLIKELY(pace.no_memory())) {
    now = ShardOf(entries[0])->now();
    if (!pace.MayAskForMemory(now)) refusal = Refusal::kNoMemory;
  }
  for (std::size_t i = 0; i < count; ++i) {
    if ((WordOf(entries[i]) & TimerEntry::kOnTimerThread) != 0) {
      ours[our_count++] = entries[i];
      continue;
    }
    WEFT_CHECK(group != nullptr, "TimerWorker: a timer needs a fiber, and there is no group to start it in");
    if (WEFT_LIKELY(refusal == Refusal::kNone && queued + fiber_count < capacity)) {
      if (FiberEntity* fiber = NewCallbackFiber(entries[i], group)) {
        fibers[fiber_count++] = fiber;
        continue;
      }
    }
    const bool first = refusal == Refusal::kNone;
    if (first) {
      refusal = queued + fiber_count < capacity ? Refusal::kNoMemory : Refusal::kQueueFull;
      now = ShardOf(entries[i])->now();
    }
    FireAgain(entries[i], TickOfDeadline(pace.Next(now)));
    if (first && refusal == Refusal::kNoMemory) pace.OnNoMemory(now);
  }
  if (WEFT_UNLIKELY(refusal != Refusal::kNone)) LogRefusal(refusal, group);
  // SchedulingGroup::Start would wait for room (CB4). What others take of it between our look and the push is made up
  // for by the overflow list. From here on the fibers' entries may be gone.
  if (fiber_count != 0) {
    group->ReadyBatch(fibers, fiber_count, scheduling_group::ReadyReason::kStarted);
    pace.OnStarted();
  }
  if (our_count == 0) return;
  for (std::size_t i = 0; i < our_count; ++i) {
    self->running.store(ours[i]->type, std::memory_order_relaxed);  // relaxed: see CallbackThread.
    RunCallback(ours[i]);
  }
  self->running.store(nullptr, std::memory_order_relaxed);  // As above.
}

std::string_view NameOf(const CallbackType& type) noexcept {
  // "constexpr const char* weft::timer::PhraseWithNameOf() [with Type = NAME]", or without "with".
  constexpr std::string_view kBefore = "Type = ";
  std::string_view name = type.phrase_with_name;
  if (const std::size_t begin = name.find(kBefore); begin != name.npos) name.remove_prefix(begin + kBefore.size());
  if (!name.empty() && name.back() == ']') name.remove_suffix(1);
  return name;
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
    End(shard, entry);
  }
  return count;
}

std::int64_t NextExpiry(std::int64_t expires_ns, std::int64_t interval_ns, base::Clock::TimePoint now) noexcept {
  // In 128 bits: the first expiry may be any time point, and from the first of all to now is more than 63 bits.
  using base::clock_internal::Int128;
  const Int128 late_ns = Int128{now.time_since_epoch().count()} - expires_ns;
  const Int128 runs_missed = late_ns > 0 ? late_ns / interval_ns : 0;
  return base::clock_internal::Clamp(expires_ns + (runs_missed + 1) * interval_ns);
}

std::uint64_t RefusedCallbackFibers() noexcept { return refused_fibers.load(std::memory_order_relaxed); }

}  // namespace weft::timer
