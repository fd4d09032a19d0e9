// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/timer/callback/callback_runner.h"

#include <atomic>
#include <new>
#include <utility>

#include "weft/base/report/check.h"
#include "weft/base/report/log.h"
#include "weft/base/time/clock.h"
#include "weft/scheduling_group/fiber/fiber_factory.h"
#include "weft/timer/callback/callback_timer.h"
#include "weft/timer/queue/timer_node.h"
#include "weft/timer/queue/timer_shard.h"

namespace weft::timer {
namespace {

using scheduling_group::FiberEntity;
using scheduling_group::SchedulingGroup;

std::atomic<std::uint64_t> refused_fibers{0};

Tick TickOfNanoseconds(std::int64_t ns) noexcept {
  return TickOfDeadline(base::Clock::TimePoint(std::chrono::nanoseconds(ns)));
}

// In the timer's fiber, or on the timer thread.
void RunCallback(TimerEntry* entry) WEFT_NO_THREAD_SAFETY_ANALYSIS {
  TimerShard* shard = ShardOf(entry);
  shard->lock.lock();
  if ((WordOf(entry) & TimerEntry::kKilled) != 0) return EndEntry(shard, entry);  // CB2
  SetState(entry, TimerEntry::kRunning);
  entry->tick = Myself();
  const std::uint64_t id = TimerSlab::IdOf(entry, GenerationOfWord(WordOf(entry)));
  shard->lock.unlock();

  entry->type->invoke(entry->callable(), id);

  shard->lock.lock();
  // If the shard has been closed, DropCallbackTimers() has killed this timer, or will take it out of the queue.
  if ((WordOf(entry) & (TimerEntry::kPeriodic | TimerEntry::kKilled)) != TimerEntry::kPeriodic)
    return EndEntry(shard, entry);
  WideTimerEntry* periodic = Wide(entry);
  periodic->expires_ns = NextExpiry(periodic->expires_ns, periodic->interval_ns, shard->now());
  SetState(entry, TimerEntry::kArmed);
  const Tick tick = TickOfNanoseconds(periodic->expires_ns);
  const bool announce = shard->Add(entry, tick);
  shard->lock.unlock();
  if (announce) shard->Announce(tick);
}

// After no fiber was started for it, or its fiber was dropped before it ran.
void FireAgain(TimerEntry* entry, Tick tick) WEFT_NO_THREAD_SAFETY_ANALYSIS {
  TimerShard* shard = ShardOf(entry);
  shard->lock.lock();
  if ((WordOf(entry) & TimerEntry::kKilled) != 0) return EndEntry(shard, entry);  // Closed: as in RunCallback().
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
      WEFT_LOG_EVERY_SECOND(WARNING, "scheduling group ", group->Label(),
                            ": timers' fibers are refused, the run queue of ", group->options().run_queue_size,
                            " is full: they are tried again in a moment; consider a larger --fiber_run_queue_size");
    } else {
      WEFT_LOG_EVERY_SECOND(WARNING, "scheduling group ", group->Label(),
                            ": timers' fibers are refused, there is no memory for them: they are tried again in a "
                            "moment");
    }
  } catch (const std::bad_alloc&) {
    // No memory for the log line either.
  }
}

// The callable of a timer's fiber. If the fiber is dropped it arms the timer again.
class CallbackRun {
 public:
  explicit CallbackRun(TimerEntry* entry) noexcept : entry_(entry) {}
  CallbackRun(CallbackRun&& other) noexcept : entry_(std::exchange(other.entry_, nullptr)) {}
  ~CallbackRun() {
    if (entry_ != nullptr) FireAgain(entry_, TickOfDeadline(ShardOf(entry_)->now() + RetryPace::kShortestDelay));
  }
  void operator()() noexcept { RunCallback(std::exchange(entry_, nullptr)); }
  // No fiber has taken it.
  void Release() noexcept { entry_ = nullptr; }

 private:
  TimerEntry* entry_;
};

// nullptr: no memory; the entry is still the caller's.
FiberEntity* NewCallbackFiber(TimerEntry* entry, SchedulingGroup* group) {
  scheduling_group::StartOptions options;
  // We hold the entry (kFiring): no one else writes this flag or the context.
  if ((WordOf(entry) & TimerEntry::kHasContext) != 0) {
    options.execution_context = execution_context_hooks.add_reference(Wide(entry)->execution_context);
  }
  CallbackRun run(entry);
  FiberEntity* fiber = NewFiber(group, options, std::move(run));
  if (fiber == nullptr) {
    run.Release();  // NOLINT(bugprone-use-after-move): it was not moved where there is no fiber.
    if (options.execution_context != nullptr) execution_context_hooks.release(options.execution_context);
    return nullptr;
  }
  // release: the fiber. Pairs with the acquire in IsLost(), whose caller has the lock, which we need not take for this.
  std::atomic_ref<Tick>(entry->tick).store(reinterpret_cast<std::uintptr_t>(fiber), std::memory_order_release);
  return fiber;
}

}  // namespace

void CallbackRunner::RunDue(TimerEntry* const* entries, std::size_t count) {
  FiberEntity* fibers[FireContext::kCapacity];
  TimerEntry* ours[FireContext::kCapacity];
  std::size_t fiber_count = 0;
  std::size_t our_count = 0;
  const std::size_t capacity = group_ != nullptr ? group_->options().run_queue_size : 0;
  const std::size_t queued = group_ != nullptr ? group_->queue_size() : 0;
  // Set by the first refusal, and then for the rest of the batch.
  Refusal refusal = Refusal::kNone;
  base::Clock::TimePoint now;
  if (WEFT_UNLIKELY(pace_.no_memory())) {
    now = ShardOf(entries[0])->now();
    if (!pace_.MayAskForMemory(now)) refusal = Refusal::kNoMemory;
  }
  for (std::size_t i = 0; i < count; ++i) {
    if ((WordOf(entries[i]) & TimerEntry::kOnTimerThread) != 0) {
      ours[our_count++] = entries[i];
      continue;
    }
    WEFT_CHECK(group_ != nullptr, "TimerWorker: a timer needs a fiber, and there is no group to start it in");
    if (WEFT_LIKELY(refusal == Refusal::kNone && queued + fiber_count < capacity)) {
      if (FiberEntity* fiber = NewCallbackFiber(entries[i], group_)) {
        fibers[fiber_count++] = fiber;
        continue;
      }
    }
    const bool first = refusal == Refusal::kNone;
    if (first) {
      refusal = queued + fiber_count < capacity ? Refusal::kNoMemory : Refusal::kQueueFull;
      now = ShardOf(entries[i])->now();
    }
    FireAgain(entries[i], TickOfDeadline(pace_.Next(now)));
    if (first && refusal == Refusal::kNoMemory) pace_.OnNoMemory(now);
  }
  if (WEFT_UNLIKELY(refusal != Refusal::kNone)) LogRefusal(refusal, group_);
  // Not SchedulingGroup::Start(), which would wait for capacity (CB4). If others fill the queue between our check and
  // the push, the overflow list takes the rest. From here on the fibers' entries may be gone.
  if (fiber_count != 0) {
    group_->ReadyBatch(fibers, fiber_count, scheduling_group::ReadyReason::kStarted);
    pace_.OnStarted();
  }
  if (our_count == 0) return;
  for (std::size_t i = 0; i < our_count; ++i) {
    running_.store(ours[i]->type, std::memory_order_relaxed);  // relaxed: see running().
    RunCallback(ours[i]);
  }
  running_.store(nullptr, std::memory_order_relaxed);  // As above.
}

std::int64_t NextExpiry(std::int64_t expires_ns, std::int64_t interval_ns, base::Clock::TimePoint now) noexcept {
  // In 128 bits: the first expiry may be any time point, so the span up to now may exceed 63 bits.
  using base::Int128;
  const Int128 late_ns = Int128{now.time_since_epoch().count()} - expires_ns;
  const Int128 runs_missed = late_ns > 0 ? late_ns / interval_ns : 0;
  return base::SaturateToInt64(expires_ns + (runs_missed + 1) * interval_ns);
}

std::uint64_t RefusedCallbackFibers() noexcept { return refused_fibers.load(std::memory_order_relaxed); }

}  // namespace weft::timer
