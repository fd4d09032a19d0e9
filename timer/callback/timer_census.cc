// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/timer/callback/timer_census.h"

#include <algorithm>
#include <chrono>
#include <thread>

#include "weft/base/thread/thread_annotations.h"
#include "weft/timer/callback/callback_timer.h"
#include "weft/timer/queue/timer_shard.h"
#include "weft/timer/queue/timer_slab.h"

namespace weft::timer {
namespace {

constexpr std::size_t kPiece = 512;  // places in one hold of the lock
constexpr int kTries = 20;
constexpr std::chrono::milliseconds kBetweenTries{1};

// Copies of a piece's entries: nothing is allocated under the lock.
struct Seen {
  const CallbackType* type;
  Tick tick;
  std::uint64_t word;
};

bool TryFor(TimerShard* shard) WEFT_TRY_ACQUIRE(true, shard->lock) {
  for (int i = 0; i < kTries; ++i) {
    if (shard->lock.try_lock()) return true;
    std::this_thread::sleep_for(kBetweenTries);
  }
  return false;
}

// Returns the place after the piece; 0: the chunk is over. *seen has room for a piece.
std::size_t LookAt(TimerChunk* chunk, std::size_t from, std::vector<Seen>* seen) WEFT_REQUIRES(chunk->shard->lock) {
  const std::size_t end = chunk->live == 0 ? 0 : std::min<std::size_t>(chunk->used, kPlacesPerChunk);
  const std::size_t until = std::min(end, from + kPiece);
  for (std::size_t place = from; place < until; place += static_cast<std::size_t>(chunk->width)) {
    const TimerEntry* const entry = chunk->entry(place);
    const std::uint64_t word = WordOf(entry);
    const TimerEntry::State state = StateOf(word);
    if (state == TimerEntry::kArmed || state == TimerEntry::kFiring || state == TimerEntry::kRunning) {
      seen->push_back({entry->type, entry->tick, word});
    }
  }
  return until < end ? until : 0;
}

// Calls f(chunk) for each chunk of the process; f() returns false if its shard's lock was not to be had.
template <class F>
bool ForEachChunk(F f) {
  bool complete = true;
  std::vector<const TimerShard*> held;
  for (const std::atomic<TimerChunk*>& number : weft_timer_chunks) {
    // acquire: the chunk's header. Pairs with the release in NewChunk().
    TimerChunk* const chunk = number.load(std::memory_order_acquire);
    if (chunk == nullptr || std::find(held.begin(), held.end(), chunk->shard) != held.end() || f(chunk)) continue;
    held.push_back(chunk->shard);
    complete = false;
  }
  return complete;
}

}  // namespace

std::size_t CountCallbackTimers() {
  std::size_t count = 0;
  static_cast<void>(ForEachChunk([&count](TimerChunk* chunk) {
    if (!TryFor(chunk->shard)) return false;
    count += chunk->live;
    chunk->shard->lock.unlock();
    return true;
  }));
  return count;
}

TimerCensus TakeTimerCensus() {
  TimerCensus census;
  std::vector<const CallbackType*> types;  // of census.kinds: there are few
  const auto kind_of = [&](const CallbackType* type) -> TimerKind& {
    const auto known = std::find(types.begin(), types.end(), type);
    if (known != types.end()) return census.kinds[static_cast<std::size_t>(known - types.begin())];
    types.push_back(type);
    return census.kinds.emplace_back(TimerKind{.callback = NameOf(*type)});
  };
  std::vector<Seen> seen;
  seen.reserve(kPiece);
  census.complete = ForEachChunk([&](TimerChunk* chunk) {
    for (std::size_t place = TimerChunk::kFirstPlace; place != 0; seen.clear()) {
      if (!TryFor(chunk->shard)) return false;
      place = LookAt(chunk, place, &seen);
      chunk->shard->lock.unlock();
      for (const Seen& entry : seen) {
        TimerKind& kind = kind_of(entry.type);
        ++kind.count;
        ++census.count;
        if ((entry.word & TimerEntry::kPeriodic) != 0) ++kind.periodic;
        if (StateOf(entry.word) != TimerEntry::kArmed) continue;
        ++kind.armed;
        kind.next = std::min(kind.next, entry.tick);
        kind.last = std::max(kind.last, entry.tick);
      }
    }
    return true;
  });
  std::sort(census.kinds.begin(), census.kinds.end(),
            [](const TimerKind& a, const TimerKind& b) { return a.count > b.count; });
  return census;
}

}  // namespace weft::timer
