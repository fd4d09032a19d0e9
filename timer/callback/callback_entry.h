// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The life of a TimerEntry, for setters and killers (callback_timer.h) and for its run (callback_runner.h): its state
// (timer_entry.h), its end, and the wait for the end.
//
// Invariant
//   CB1  EndEntry() destroys a callback exactly once: after its last run, for the killer, or when the runtime stops.
// Called with the entry's shard locked, unless said otherwise. Callbacks and their destructors run without any lock.
#ifndef WEFT_TIMER_CALLBACK_CALLBACK_ENTRY_H_
#define WEFT_TIMER_CALLBACK_CALLBACK_ENTRY_H_

#include <atomic>
#include <cstdint>
#include <string_view>

#include "weft/base/report/check.h"
#include "weft/base/thread/cpu.h"
#include "weft/base/thread/thread_annotations.h"
#include "weft/timer/queue/timer_entry.h"
#include "weft/timer/queue/timer_node.h"
#include "weft/timer/queue/timer_shard.h"
#include "weft/timer/queue/timer_slab.h"

namespace weft::timer {

// Let timers inherit the execution context of their setter. The fiber layer sets them once, before the first timer.
struct ExecutionContextHooks {
  void* (*add_reference)(void* context) = nullptr;  // returns `context`
  void (*release)(void* context) = nullptr;
};
extern ExecutionContextHooks execution_context_hooks;

// The name of a callback's type, from `phrase_with_name`. Without a lock.
std::string_view NameOf(const CallbackType& type) noexcept;

// The calling fiber's or thread's own number, for TimerEntry::tick: which one runs the callback. Without a lock.
WEFT_TLS_ACCESSOR Tick Myself() noexcept;

inline TimerEntry::State StateOf(std::uint64_t word) noexcept {
  return static_cast<TimerEntry::State>(word & TimerEntry::kStateMask);
}

// Without a lock.
inline TimerShard* ShardOf(TimerEntry* entry) noexcept { return TimerChunk::Of(entry)->shard; }

// Of a timer with kPeriodic or kHasContext.
inline WideTimerEntry* Wide(TimerEntry* entry) noexcept {
  WEFT_DCHECK(TimerChunk::Of(entry)->width == EntryWidth::kWide, "a narrow entry has no second line");
  return static_cast<WideTimerEntry*>(entry);
}

// relaxed, these three: the lock orders the word.
inline std::uint64_t WordOf(const TimerEntry* entry) noexcept { return entry->word.load(std::memory_order_relaxed); }
inline void SetState(TimerEntry* entry, TimerEntry::State state) noexcept {
  entry->word.store((WordOf(entry) & ~std::uint64_t{TimerEntry::kStateMask}) | state, std::memory_order_relaxed);
}
inline void SetKilled(TimerEntry* entry) noexcept {
  entry->word.store(WordOf(entry) | TimerEntry::kKilled, std::memory_order_relaxed);
}

// Ends a timer that is in no queue: destroys its callback, frees its memory, wakes the waiters. Drops the lock.
void EndEntry(TimerShard* shard, TimerEntry* entry) WEFT_RELEASE(shard->lock);

// Sleeps until `entry`, which a fiber or thread holds, has ended. Drops the lock.
void WaitForEnd(TimerShard* shard, TimerEntry* entry) WEFT_RELEASE(shard->lock);

}  // namespace weft::timer

#endif  // WEFT_TIMER_CALLBACK_CALLBACK_ENTRY_H_
