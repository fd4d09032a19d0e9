// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/timer/callback/callback_entry.h"

#include "weft/base/deadline.h"
#include "weft/scheduling_group/fiber/fiber_entity.h"
#include "weft/scheduling_group/fiber/park.h"
#include "weft/scheduling_group/worker/current_worker.h"
#include "weft/scheduling_group/worker/thread_parker.h"

namespace weft::timer {

ExecutionContextHooks execution_context_hooks;

namespace {

using scheduling_group::CurrentFiber;
using scheduling_group::FiberEntity;

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

}  // namespace

std::string_view NameOf(const CallbackType& type) noexcept {
  // "constexpr const char* weft::timer::PhraseWithNameOf() [with Type = NAME]", or without "with".
  constexpr std::string_view kBefore = "Type = ";
  std::string_view name = type.phrase_with_name;
  if (const std::size_t begin = name.find(kBefore); begin != name.npos) name.remove_prefix(begin + kBefore.size());
  if (!name.empty() && name.back() == ']') name.remove_suffix(1);
  return name;
}

WEFT_TLS_ACCESSOR Tick Myself() noexcept {
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
    PrepareToPark(waiter.fiber);
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

}  // namespace weft::timer
