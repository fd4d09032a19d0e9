// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/sync/wait/contention.h"

#include <features.h>
#include <sched.h>
#include <unwind.h>

#include <algorithm>
#include <atomic>

#include "weft/base/thread/cpu.h"
#include "weft/base/thread/spin_lock.h"
#include "weft/base/thread/thread_annotations.h"
#include "weft/scheduling_group/events/recorder.h"
#include "weft/scheduling_group/fiber/wait_reason.h"

// contention.h uses this name. initial-exec: at a fixed distance from the thread pointer.
extern "C" {
extern constinit thread_local std::uint64_t weft_waits_left;
__attribute__((tls_model("initial-exec"), visibility("hidden"),
               used)) constinit thread_local std::uint64_t weft_waits_left = 1;
}

namespace weft::synchronization {
namespace {

using TimePoint = std::chrono::steady_clock::time_point;

#if defined(__GLIBC__) && __GLIBC_PREREQ(2, 35)
constexpr bool kHasStacks = true;
#else
constexpr bool kHasStacks = false;
#endif

// --- Which waits ---

// Waits are counted in chunks: a wait takes one off weft_waits_left, and only the last one of a chunk looks at anything
// else.
class Sampler {
 public:
  // The chunk is full. True: its last wait is a sample. False: the next chunk has begun.
  bool IsAtSample(bool on) noexcept {
    passed_ += chunk_;
    // The rate may have fallen: after 0.1 s it is one whatever was drawn.
    if (on && (passed_ >= wanted_ || scheduling_group::ParkClock::Word() - tick_ >= kLongest)) return true;
    if (on) {
      BeginChunk();
    } else {
      Restart(kChunk);
    }
    return false;
  }

  // Of a sample: how many waits it stands for, those since the last one.
  std::uint64_t Take(TimePoint now) noexcept {
    const std::uint64_t weight = passed_;
    const auto took = static_cast<std::uint64_t>(std::max<std::int64_t>((now - last_).count(), 1));
    const auto every = static_cast<std::uint64_t>(ContentionSample::kEvery.count());
    const std::uint64_t rate = std::clamp<std::uint64_t>(weight * every / took, 1, kMostWaits);
    last_ = now;
    Restart(1 + Random() % (2 * rate - 1));
    return weight;
  }

 private:
  static constexpr std::uint64_t kChunk = 64;
  // In 5 ms no thread has so many: what keeps the numbers within bounds.
  static constexpr std::uint64_t kMostWaits = std::uint64_t{1} << 18;
  // In ParkClock's words: the upper half counts ticks.
  static constexpr std::uint64_t kLongest =
      static_cast<std::uint64_t>(std::chrono::milliseconds(100) / scheduling_group::ParkClock::kTick) << 32;

  void Restart(std::uint64_t wanted) noexcept {
    tick_ = scheduling_group::ParkClock::Word();
    passed_ = 0;
    wanted_ = wanted;
    BeginChunk();
  }
  void BeginChunk() noexcept {
    chunk_ = std::min(kChunk, wanted_ - passed_);
    weft_waits_left = chunk_;
  }

  // xorshift64 (G. Marsaglia, Xorshift RNGs, 2003). The seed: the thread's own address.
  std::uint64_t Random() noexcept {
    if (random_ == 0) random_ = reinterpret_cast<std::uintptr_t>(this) | 1;
    random_ ^= random_ << 13;
    random_ ^= random_ >> 7;
    random_ ^= random_ << 17;
    return random_;
  }

  std::uint64_t chunk_ = 1;   // its length
  std::uint64_t passed_ = 0;  // waits since the last sample, in chunks that are full
  std::uint64_t wanted_ = 1;  // how many there are to be, with the next sample
  std::uint64_t tick_ = 0;
  std::uint64_t random_ = 0;
  TimePoint last_{};
};

constinit thread_local Sampler tls_sampler;

// No switch in here.
WEFT_TLS_ACCESSOR WEFT_COLD std::uint64_t TakeWeight(TimePoint now) noexcept {
  base::OpaqueBarrier();
  return tls_sampler.Take(now);
}

// --- Stacks ---

struct Frames {
  ContentionStack* stack;
  std::size_t count = 0;
};

_Unwind_Reason_Code AddFrame(_Unwind_Context* frame, void* argument) {
  auto* const frames = static_cast<Frames*>(argument);
  const std::uintptr_t address = _Unwind_GetIP(frame);
  if (address == 0 || frames->count == ContentionStack::kMostFrames) return _URC_END_OF_STACK;
  frames->stack->frames[frames->count++] = address;
  return _URC_NO_REASON;
}

WEFT_NOINLINE void TakeStack(ContentionStack* stack) noexcept {
  stack->frames = {};
  Frames frames{.stack = stack};
  _Unwind_Backtrace(&AddFrame, &frames);
}

// --- The table ---

constexpr std::size_t kProbes = 8;

struct Table {
  base::SpinLock lock;
  std::array<ContentionSite, Contention::kSites> sites WEFT_GUARDED_BY(lock);
};
constinit Table table;
constinit std::atomic<std::uint64_t> lost_waits{0};

std::size_t HashOf(const ContentionSite& site) noexcept {
  std::uint64_t hash = site.mutex;
  const auto add = [&hash](std::uint64_t word) { hash = (hash ^ word) * 0x9e3779b97f4a7c15 ^ hash >> 29; };
  for (const std::uintptr_t frame : site.waiter.frames) add(frame);
  for (const std::uintptr_t frame : site.owner.frames) add(frame);
  return static_cast<std::size_t>(hash ^ hash >> 32);
}

// Half of the table is for sites of several mutexes.
bool AddTo(const ContentionSite& site) noexcept WEFT_REQUIRES(table.lock) {
  constexpr std::size_t kHalf = Contention::kSites / 2;
  const std::size_t first = site.mutex != 0 ? 0 : kHalf;
  const std::size_t hash = HashOf(site);
  for (std::size_t i = 0; i < kProbes; ++i) {
    ContentionSite& place = table.sites[first + (hash + i) % kHalf];
    const bool same = place.mutex == site.mutex && place.waiter == site.waiter && place.owner == site.owner;
    if (place.waits != 0 && !same) continue;
    if (place.waits == 0) {
      place = site;
    } else {
      place.waits += site.waits;
      place.ns += site.ns;
    }
    return true;
  }
  return false;
}

}  // namespace

WEFT_TLS_ACCESSOR bool ContentionSample::IsLastOfChunk() noexcept {
  base::OpaqueBarrier();
  return --weft_waits_left == 0;
}

WEFT_TLS_ACCESSOR WEFT_COLD bool ContentionSample::IsSampleAtEndOfChunk() noexcept {
  base::OpaqueBarrier();
  return tls_sampler.IsAtSample(kHasStacks && scheduling_group::Recorder::on());
}

ContentionSample::ContentionSample() noexcept : since_(std::chrono::steady_clock::now()), weight_(TakeWeight(since_)) {}

WEFT_NOINLINE WEFT_COLD void ContentionSample::End() noexcept {
  until_ = std::chrono::steady_clock::now();
  TakeStack(&owner_);
  has_owner_ = true;
}

WEFT_NOINLINE WEFT_COLD void ContentionSample::Finish(const void* mutex, TimePoint deadline) noexcept {
  if (!has_owner_) {
    until_ = std::min(std::chrono::steady_clock::now(), deadline);
    owner_.frames = {};
  }
  ContentionSite site;
  site.mutex = reinterpret_cast<std::uintptr_t>(mutex);
  site.waits = weight_;
  site.ns = weight_ * static_cast<std::uint64_t>(std::max<std::int64_t>((until_ - since_).count(), 0));
  TakeStack(&site.waiter);
  site.owner = owner_;
  Contention::Add(site);
}

void Contention::Add(const ContentionSite& site) noexcept {
  bool added = false;
  if (table.lock.try_lock()) {
    added = AddTo(site);
    if (!added) {
      ContentionSite several = site;
      several.mutex = 0;
      added = AddTo(several);
    }
    table.lock.unlock();
  }
  if (!added) lost_waits.fetch_add(site.waits, std::memory_order_relaxed);
}

std::optional<std::size_t> Contention::Copy(ContentionSite* out) noexcept {
  constexpr std::chrono::seconds kLongest{1};  // The thread that has the table may wait for a CPU.
  const TimePoint begin = std::chrono::steady_clock::now();
  while (!table.lock.try_lock()) {
    if (std::chrono::steady_clock::now() - begin >= kLongest) return std::nullopt;
    ::sched_yield();
  }
  std::size_t count = 0;
  for (const ContentionSite& site : table.sites) {
    if (site.waits != 0) out[count++] = site;
  }
  table.lock.unlock();
  return count;
}

bool Contention::has_samples() noexcept { return kHasStacks; }

std::uint64_t Contention::lost() noexcept { return lost_waits.load(std::memory_order_relaxed); }

void Contention::Clear() noexcept {
  const base::SpinLockGuard guard(table.lock);
  table.sites = {};
  lost_waits.store(0, std::memory_order_relaxed);
}

}  // namespace weft::synchronization
