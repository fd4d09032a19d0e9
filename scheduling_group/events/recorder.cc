// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/events/recorder.h"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>

#include "weft/scheduling_group/fiber/fiber_entity.h"
#include "weft/scheduling_group/fiber/wait_reason.h"
#include "weft/scheduling_group/watch/group_attention.h"
#include "weft/scheduling_group/worker/current_worker.h"

namespace weft::scheduling_group {
namespace {

using Reading = base::CycleScale::Reading;

// An Owner in a word: 1 for a worker; its index; its group's; the number of the thread.
constexpr int kIndexShift = 1;
constexpr int kGroupShift = 8;
constexpr int kThreadShift = 32;
static_assert(Recorder::kMostWorkers == 1U << (kGroupShift - kIndexShift));

std::uint64_t OwnerWord(const WorkerBase* worker) noexcept {
  const auto thread = static_cast<std::uint64_t>(::syscall(SYS_gettid)) << kThreadShift;
  if (worker == nullptr) return thread;
  const auto group = static_cast<std::uint64_t>(worker->group_id) & ((1U << (kThreadShift - kGroupShift)) - 1);
  return thread | group << kGroupShift | std::uint64_t{worker->index} << kIndexShift | 1;
}

constinit thread_local RecorderRing* tls_ring = nullptr;
WEFT_TLS_ACCESSOR RecorderRing*& RingOfThread() noexcept {
  base::OpaqueBarrier();
  return tls_ring;
}

// Of pthread_key_create(): its destructor gives a thread's ring back. (A thread_local's would run at exit(), too.)
constexpr std::int64_t kNoKey = -1;
constinit std::atomic<std::int64_t> end_key{kNoKey};

// 0: not yet.
constinit std::atomic<std::uint64_t> since_cycles{0};
constinit std::atomic<std::int64_t> since_ns{0};

}  // namespace

constinit std::atomic<RecordLevel> Recorder::level_{RecordLevel::kOff};
constinit std::atomic<bool> Recorder::no_memory_{false};
constinit std::atomic<std::size_t> Recorder::wanted_{kRingOfWorker};
constinit std::atomic<RecorderRing*> Recorder::rings_{nullptr};
constinit std::atomic<std::size_t> Recorder::ring_count_{0};
constinit std::atomic<std::size_t> Recorder::refused_{0};

WEFT_COLD void Recorder::SetLevel(RecordLevel level, std::size_t events_of_worker) noexcept {
  if (level != RecordLevel::kOff && since_cycles.load(std::memory_order_relaxed) == 0) {
    base::CycleClock::Choose();
    pthread_key_t key{};
    if (::pthread_key_create(&key, [](void* ring) { ThreadEnds(ring); }) == 0) {
      end_key.store(std::int64_t{key}, std::memory_order_relaxed);  // Of two callers at once one wins; both are good.
    }
    const Reading now = Reading::Now();
    since_ns.store(now.time.time_since_epoch() / std::chrono::nanoseconds(1), std::memory_order_relaxed);
    since_cycles.store(now.cycles, std::memory_order_release);  // Pairs with the acquire in since().
  }
  // relaxed, all: threads may be late to see them.
  wanted_.store(std::bit_ceil(std::clamp(events_of_worker, kRingOfThread, kMostEvents)), std::memory_order_relaxed);
  no_memory_.store(false, std::memory_order_relaxed);
  level_.store(level, std::memory_order_relaxed);
  // Of two callers at once, whose RecordLeaving() comes last sees the level that stays: its lock orders the stores of
  // all before it. Otherwise switches might be recorded while the level is kOff.
  for (RecordLevel told = level;;) {
    RecordLeaving(told == RecordLevel::kFull);
    const RecordLevel now = level_.load(std::memory_order_relaxed);
    if (now == told) return;
    told = now;
  }
}

Reading Recorder::since() noexcept {
  Reading first;
  first.cycles = since_cycles.load(std::memory_order_acquire);  // Pairs with the release in SetLevel().
  first.time =
      std::chrono::steady_clock::time_point(std::chrono::nanoseconds(since_ns.load(std::memory_order_relaxed)));
  return first;
}

// --- Rings ---

WEFT_COLD RecorderRing* Recorder::Make(std::size_t capacity) noexcept {
  if (ring_count_.fetch_add(1, std::memory_order_relaxed) >= kMostRings) {
    ring_count_.fetch_sub(1, std::memory_order_relaxed);
    return nullptr;
  }
  constexpr std::size_t kHead =
      (sizeof(RecorderRing) + base::kCacheLineSize - 1) / base::kCacheLineSize * base::kCacheLineSize;
  const std::size_t bytes = kHead + capacity * sizeof(EventRing::Slot);
  void* const memory = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) {
    ring_count_.fetch_sub(1, std::memory_order_relaxed);
    return nullptr;
  }
  auto* const slots = reinterpret_cast<EventRing::Slot*>(static_cast<std::byte*>(memory) + kHead);  // Zero: as made.
  RecorderRing* const ring = ::new (memory) RecorderRing(slots, capacity);
  ring->next_ = rings_.load(std::memory_order_relaxed);
  // release: the ring. Pairs with the acquire in Visit() and in Take().
  while (!rings_.compare_exchange_weak(ring->next_, ring, std::memory_order_release, std::memory_order_relaxed)) {
  }
  return ring;
}

WEFT_COLD RecorderRing* Recorder::Take(std::uint64_t owner, std::size_t capacity) noexcept {
  RecorderRing* ring = rings_.load(std::memory_order_acquire);
  for (; ring != nullptr; ring = ring->next_) {
    bool free = false;
    // acquire: the last owner's events. Pairs with the release of who gave it back.
    if (ring->events.capacity() == capacity && !ring->taken_.load(std::memory_order_relaxed) &&
        ring->taken_.compare_exchange_strong(free, true, std::memory_order_acquire)) {
      break;
    }
  }
  if (ring == nullptr) ring = Make(capacity);
  if (ring == nullptr) return nullptr;
  ring->first_.store(ring->events.count(), std::memory_order_relaxed);
  ring->owner_.store(owner, std::memory_order_release);  // first_ (REC2). Pairs with the acquire in Copy().
  return ring;
}

WEFT_COLD void Recorder::ThreadEnds(void* ring) noexcept {
  RingOfThread() = nullptr;
  // release: its events. Pairs with the acquire in Take().
  static_cast<RecorderRing*>(ring)->taken_.store(false, std::memory_order_release);
}

WEFT_COLD void Recorder::Retire(WorkerBase* worker) noexcept {
  RecorderRing* const ring = worker->events;
  if (ring == nullptr) return;
  worker->events = nullptr;
  ring->taken_.store(false, std::memory_order_release);  // Pairs with the acquire in Take().
}

WEFT_NOINLINE EventRing* Recorder::NewRingFor(WorkerBase* worker) noexcept {
  if (worker == nullptr) {
    if (RecorderRing* const ring = RingOfThread()) return &ring->events;  // It has one already.
  }
  if (no_memory_.load(std::memory_order_relaxed)) {
    refused_.fetch_add(1, std::memory_order_relaxed);
    return nullptr;
  }
  const context::KeepErrno keep(&context::ThisThreadErrno());
  RecorderRing* ring = nullptr;
  if (worker != nullptr) {
    Retire(worker);
    worker->events = ring = Take(OwnerWord(worker), wanted_.load(std::memory_order_relaxed));
  } else {
    const std::int64_t key = end_key.load(std::memory_order_relaxed);  // A number: carries nothing.
    ring = key != kNoKey ? Take(OwnerWord(nullptr), kRingOfThread) : nullptr;
    if (ring != nullptr && ::pthread_setspecific(static_cast<pthread_key_t>(key), ring) != 0) {
      ThreadEnds(ring);
      ring = nullptr;
    }
    RingOfThread() = ring;
  }
  if (ring != nullptr) return &ring->events;
  no_memory_.store(true, std::memory_order_relaxed);
  refused_.fetch_add(1, std::memory_order_relaxed);
  return nullptr;
}

std::size_t RecorderRing::Copy(EventRing::Words* out, std::size_t* begin, Recorder::Owner* owner) const noexcept {
  std::uint64_t number = 0;
  const std::size_t count = events.Copy(0, out, begin, &number);
  // acquire: first_. After the copy, and behind its fence: REC2.
  const std::uint64_t word = owner_.load(std::memory_order_acquire);
  const std::uint64_t first = first_.load(std::memory_order_relaxed);
  owner->worker = (word & 1) != 0;
  owner->index = static_cast<unsigned>(word >> kIndexShift) & ((1U << (kGroupShift - kIndexShift)) - 1);
  owner->group = static_cast<int>(word >> kGroupShift & ((1U << (kThreadShift - kGroupShift)) - 1));
  owner->thread = static_cast<std::uint32_t>(word >> kThreadShift);
  const std::uint64_t former = first > number ? std::min<std::uint64_t>(first - number, count) : 0;
  *begin += static_cast<std::size_t>(former);
  return count - static_cast<std::size_t>(former);
}

}  // namespace weft::scheduling_group
