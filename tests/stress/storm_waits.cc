// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <mutex>
#include <shared_mutex>

#include "weft/fiber/fiber.h"
#include "weft/io/fiber_blocking.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/select.h"

#include "stress/storm.h"

namespace weft::fiber {

using namespace std::chrono_literals;

void Storm::WaitSomewhere() {
  const auto place = static_cast<Place>(Below(static_cast<int>(Place::kTask)));
  const Visit visit(sky_, place);
  WaitAt(place);
}

void Storm::WaitAt(Place place) {
  switch (place) {
    case Place::kSleep:
      return Sleep();
    case Place::kYield:
      return FiberYield();
    case Place::kPermits:
      return TakePermit();
    case Place::kChannelPut:
      sky_->put += sky_->channel.Put(1, SoonOrNever()) == ChannelResult::kOk ? 1 : 0;
      return;
    case Place::kChannelGet:
      sky_->got += sky_->channel.Get(SoonOrNever()) ? 1 : 0;
      return;
    case Place::kQueuePut:
      sky_->put += sky_->queue.Put(1, SoonOrNever()) == ChannelResult::kOk ? 1 : 0;
      return;
    case Place::kQueueGet:
      sky_->got += sky_->queue.Get(SoonOrNever()) ? 1 : 0;
      return;
    case Place::kSelect:
      return SelectOne();
    case Place::kChanged:
      return AwaitChange();
    case Place::kChange:
      return Change();
    case Place::kSharedEvent:
      return SetOrAwaitEvent();
    case Place::kReadWrite:
      return ReadOrWrite();
    case Place::kTimedMutex:
      return LockInTime();
    case Place::kSeqLock:
      return ReadOrWriteSequence();
    case Place::kBlocking:
      return static_cast<void>(FiberBlocking([] {}, Deadline::None()));
    case Place::kWaitFd:
    case Place::kAccept:
    case Place::kConnect:
    case Place::kStreams:
      return UseSockets(place);
    default:
      return WaitForCertain(place);
  }
}

void Storm::Sleep() {
  if (Below(2) == 0) return FiberSleepFor(Soon(1000));
  // Its timer does not outlive the cancellation.
  EXPECT_FALSE(MoveOnAfter(Soon(1000), [] { FiberSleepFor(1h); }));
}

void Storm::TakePermit() {
  if (!sky_->permits.Acquire(SoonOrNever())) return;
  const struct Held {
    explicit Held(Sky* the_sky) : sky(the_sky) { EXPECT_LE(++sky->holding, Sky::kPermits); }
    ~Held() {
      --sky->holding;
      sky->permits.Release();
    }
    Sky* const sky;
  } held(sky_);
  FiberSleepFor(Soon(200));
}

void Storm::SelectOne() {
  Select(OnPut(sky_->rendezvous, 1, [&](ChannelResult result) { sky_->put += result == ChannelResult::kOk ? 1 : 0; }),
         OnGet(sky_->rendezvous, [&](const ChannelItem<int>& item) { sky_->got += item ? 1 : 0; }),
         OnGet(sky_->channel, [&](const ChannelItem<int>& item) { sky_->got += item ? 1 : 0; }),
         OnDeadline(Soon(1000)));
}

void Storm::AwaitChange() {
  std::unique_lock lock(sky_->mutex);
  const int seen = sky_->version;
  static_cast<void>(sky_->changed.wait(
      lock, [&] { return sky_->version != seen; }, SoonOrNever()));
}

void Storm::Change() {
  const std::scoped_lock lock(sky_->mutex);
  ++sky_->version;
  sky_->changed.notify_all();
}

void Storm::SetOrAwaitEvent() {
  if (Below(2) == 0) {
    static_cast<void>(sky_->event.Wait(SoonOrNever()));
  } else {
    sky_->event.Set();
    sky_->event.Reset();
  }
}

void Storm::ReadOrWrite() {
  const bool in_time = Below(2) == 0;
  if (Below(3) != 0) {
    std::shared_lock lock(sky_->shared_mutex, std::defer_lock);
    in_time ? static_cast<void>(lock.try_lock_for(Soon(500))) : lock.lock();
    if (!lock.owns_lock()) return;
    EXPECT_EQ(sky_->left, sky_->right);
    if (Below(4) == 0) FiberYield();
    return;
  }
  std::unique_lock lock(sky_->shared_mutex, std::defer_lock);
  in_time ? static_cast<void>(lock.try_lock_for(Soon(500))) : lock.lock();
  if (!lock.owns_lock()) return;
  ++sky_->left;
  if (Below(4) == 0) Shielded([] { FiberYield(); });
  ++sky_->right;
}

void Storm::LockInTime() {
  const std::unique_lock lock(sky_->timed_mutex, Soon(500));
  if (!lock.owns_lock()) return;
  ++sky_->timed_sections;
  ++sky_->sections;
  if (Below(2) == 0) FiberYield();
}

void Storm::ReadOrWriteSequence() {
  constexpr auto kRelaxed = std::memory_order_relaxed;
  if (Below(4) == 0) {
    sky_->seqlock.WriteSeqLock();
    sky_->first.store(sky_->first.load(kRelaxed) + 1, kRelaxed);
    if (Below(4) == 0) Shielded([] { FiberYield(); });
    sky_->second.store(sky_->second.load(kRelaxed) + 1, kRelaxed);
    sky_->seqlock.WriteSeqUnlock();
    return;
  }
  int first = 0;
  int second = 0;
  unsigned sequence = 0;
  do {
    sequence = sky_->seqlock.ReadSeqBegin();
    first = sky_->first.load(kRelaxed);
    second = sky_->second.load(kRelaxed);
  } while (sky_->seqlock.ReadSeqRetry(sequence) != 0);
  EXPECT_EQ(first, second);
}

}  // namespace weft::fiber
