// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/slice_watch.h"

#include <pthread.h>

#include <algorithm>
#include <cstddef>
#include <exception>
#include <new>

#include "weft/base/log.h"
#include "weft/context/overflow_handler.h"
#include "weft/scheduling_group/time_slice.h"

namespace weft::scheduling_group {

SliceWatch::Watched::Watched(const WorkerCounters* counters) : counters_(counters), is_over_(TimeSliceFlag()) {
  if (::pthread_getcpuclockid(::pthread_self(), &cpu_clock_) != 0) cpu_clock_ = CLOCK_MONOTONIC;
  SliceWatch& watch = Get();
  {
    const std::lock_guard guard(watch.workers_lock_);
    next_ = watch.workers_;
    if (next_ != nullptr) next_->previous_ = this;
    watch.workers_ = this;
  }
  watch.switch_.GotUp();
}

SliceWatch::Watched::~Watched() {
  {
    SliceWatch& watch = Get();
    const std::lock_guard guard(watch.workers_lock_);
    if (next_ != nullptr) next_->previous_ = previous_;
    (previous_ != nullptr ? previous_->next_ : watch.workers_) = next_;
  }
  is_over_->store(false, std::memory_order_relaxed);  // The thread's own; SL3.
}

bool SliceWatch::Watched::EndSlice() noexcept {
  // acquire: the turn. Pairs with the release in Look().
  static_cast<void>(is_over_->exchange(false, std::memory_order_acquire));
  return turn_over_.load(std::memory_order_relaxed) == Turn();  // Ordered by the exchange.
}

// True: the worker is up.
bool SliceWatch::Watched::Look() noexcept {
  if (asleep_.load(std::memory_order_relaxed)) return false;  // Late by a look at most.
  const std::uint64_t turn = Turn();
  if (turn != seen_turn_) {
    seen_turn_ = turn;
    seen_cpu_ = kNotRead;
    return true;
  }
  timespec time{};
  if (::clock_gettime(cpu_clock_, &time) != 0) return true;
  const std::chrono::nanoseconds cpu = std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  if (seen_cpu_ == kNotRead) {
    seen_cpu_ = cpu;
  } else if (cpu - seen_cpu_ >= kMustHaveRun) {
    seen_cpu_ = kNotRead;  // If there is nobody to yield to the turn goes on.
    turn_over_.store(turn, std::memory_order_relaxed);
    is_over_->store(true, std::memory_order_release);  // release: the turn. Pairs with the acquire in EndSlice().
  }
  return true;
}

SliceWatch& SliceWatch::Get() noexcept {
  // Never destroyed: workers may outlive the end of main().
  alignas(SliceWatch) static std::byte memory[sizeof(SliceWatch)];
  static auto* const watch = ::new (static_cast<void*>(memory)) SliceWatch;
  return *watch;
}

bool SliceWatch::AddTeam() {
  const std::lock_guard guard(teams_lock_);
  if (teams_ == 0) {
    stopping_.store(false, std::memory_order_relaxed);  // Ordered by the start of the thread.
    try {
      thread_ = std::thread([this] { ThreadMain(); });
    } catch (const std::exception& error) {  // No thread, or no memory.
      WEFT_LOG(ERROR, "SliceWatch: no thread: ", error.what());
      return false;
    }
  }
  ++teams_;
  return true;
}

void SliceWatch::RemoveTeam() noexcept {
  const std::lock_guard guard(teams_lock_);
  if (--teams_ != 0) return;
  stopping_.store(true, std::memory_order_relaxed);  // Ordered by the parker.
  switch_.Wake();
  thread_.join();
}

void SliceWatch::ThreadMain() noexcept {
  ::pthread_setname_np(::pthread_self(), "FiberTimeSlices");
  int quiet_looks = 0;
  while (!stopping_.load(std::memory_order_relaxed)) {
    quiet_looks = Look() ? 0 : quiet_looks + 1;
    if (quiet_looks < kQuietLooks) {
      switch_.PauseUntil(std::chrono::steady_clock::now() + std::min(kLookEvery * (1 << quiet_looks), kMostPause));
    } else {
      switch_.Off([this] { return AllSleep(); });
      quiet_looks = 0;
    }
  }
}

// True: a worker is up.
bool SliceWatch::Look() noexcept {
  looks_.store(looks_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  context::CheckOverflowHandlerNowAndThen();  // For workers that never sleep.
  const std::lock_guard guard(workers_lock_);
  bool somebody_is_up = false;
  for (Watched* worker = workers_; worker != nullptr; worker = worker->next_) somebody_is_up |= worker->Look();
  return somebody_is_up;
}

bool SliceWatch::AllSleep() noexcept {
  const std::lock_guard guard(workers_lock_);
  for (const Watched* worker = workers_; worker != nullptr; worker = worker->next_) {
    if (!worker->asleep_.load(std::memory_order_relaxed)) return false;  // Ordered by the fence in Off() (SL1).
  }
  return true;
}

}  // namespace weft::scheduling_group
