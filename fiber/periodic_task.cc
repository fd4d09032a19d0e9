// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/periodic_task.h"

#include <exception>
#include <optional>
#include <utility>

#include "weft/base/fiber_clock.h"
#include "weft/base/report/check.h"
#include "weft/base/report/log.h"
#include "weft/base/time/clock.h"
#include "weft/fiber/this_fiber.h"
#include "weft/sync/cancel_scope.h"
#include "weft/timer/fiber_timer.h"

namespace weft {

namespace {

using std::chrono::nanoseconds;

void CheckSettings(const char* function, const PeriodicTask::Settings& settings) {
  WEFT_CHECK(settings.period.count() > 0, function, ": a period of ", settings.period.count(), " ns cannot be");
  WEFT_CHECK(settings.jitter.count() >= 0 && settings.jitter <= settings.period / 2, function, ": a jitter of ",
             settings.jitter.count(), " ns is not between 0 and half of the period");
}

}  // namespace

// Requests a stop when it is destroyed: at the end of the runtime, as the callback of a timer that is never enabled; at
// the fiber's end, as a part of what the fiber runs.
class PeriodicTask::StopsAtItsEnd {
 public:
  explicit StopsAtItsEnd(PeriodicTask* task) noexcept : task_(task) {}
  StopsAtItsEnd(StopsAtItsEnd&& other) noexcept : task_(std::exchange(other.task_, nullptr)) {}
  StopsAtItsEnd& operator=(StopsAtItsEnd&&) = delete;
  ~StopsAtItsEnd() {
    if (task_ != nullptr) task_->RequestStop();
  }
  void operator()() const noexcept {}

 private:
  PeriodicTask* task_;
};

bool PeriodicTask::Start(std::string name, const Settings& settings, base::UniqueFunction<void()> f) {
  CheckSettings("PeriodicTask::Start", settings);
  WEFT_CHECK(f != nullptr, "PeriodicTask::Start: the function is empty");
  WEFT_CHECK(!fiber_.Joinable(), "PeriodicTask::Start: it runs already, or was not stopped: call Stop() first");
  {
    std::scoped_lock lock(mutex_);
    settings_ = settings;
    running_ = true;
    stopping_ = false;
    forced_ = settings.run_at_once;
    last_due_ = last_end_ = FiberClock::now();
    random_ = static_cast<std::uint64_t>(last_due_.time_since_epoch().count()) ^ reinterpret_cast<std::uintptr_t>(this);
    DrawOffset();
  }
  f_ = std::move(f);
  end_of_runtime_ = CreateFiberTimer(Deadline::None(), StopsAtItsEnd(this));
  std::optional<Fiber> fiber;
  if (end_of_runtime_ != 0) {
    FiberAttributes attributes;
    attributes.name = name;
    fiber = Fiber::TryStart(attributes, [this, name = std::move(name), stops = StopsAtItsEnd(this)] { Loop(name); });
  }
  if (!fiber.has_value()) {
    KillFiberTimerAndWait(std::exchange(end_of_runtime_, 0));
    f_ = nullptr;
    std::scoped_lock lock(mutex_);
    running_ = false;
    return false;
  }
  fiber_ = *std::move(fiber);
  return true;
}

void PeriodicTask::RequestStop() noexcept {
  std::scoped_lock lock(mutex_);
  stopping_ = true;
  changed_.notify_all();  // Under the lock: Stop() may return, and we be destroyed, when it is free.
}

void PeriodicTask::Stop() {
  {
    std::scoped_lock lock(mutex_);
    WEFT_CHECK(
        runner_ == 0 || runner_ != GetFiberId(),
        "PeriodicTask::Stop: called by the task, which would wait for its own end (RequestStop() does not wait)");
  }
  if (!fiber_.Joinable()) return;
  RequestStop();
  fiber_.Join();
  KillFiberTimerAndWait(std::exchange(end_of_runtime_, 0));  // PT3
  f_ = nullptr;
}

void PeriodicTask::StopShielded() noexcept {
  Shielded([this] { Stop(); });
}

void PeriodicTask::ForceStep() {
  std::scoped_lock lock(mutex_);
  forced_ = true;
  changed_.notify_all();
}

void PeriodicTask::SetSettings(const Settings& settings) {
  CheckSettings("PeriodicTask::SetSettings", settings);
  std::scoped_lock lock(mutex_);
  settings_ = settings;
  DrawOffset();
  changed_.notify_all();
}

PeriodicTask::Settings PeriodicTask::settings() const {
  std::scoped_lock lock(mutex_);
  return settings_;
}

bool PeriodicTask::IsRunning() const {
  std::scoped_lock lock(mutex_);
  return running_ && !stopping_;
}

void PeriodicTask::Loop(const std::string& name) {
  std::unique_lock lock(mutex_);
  runner_ = GetFiberId();
  while (AwaitTurn(&lock)) {
    lock.unlock();
    const bool threw = !RunOnce(name);
    lock.lock();
    OnRunEnded(FiberClock::now());
    if (threw && settings_.stop_on_exception) stopping_ = true;
  }
}

// True: it is time for a run. False: none is to begin any more.
bool PeriodicTask::AwaitTurn(std::unique_lock<FiberMutex>* lock) {
  while (!stopping_) {
    if (std::exchange(forced_, false)) return true;
    const Deadline due = NextDue();
    if (due.expired()) {
      last_due_ += settings_.period;  // Not beyond the clock's end: that time, or one near it, has come.
      DrawOffset();
      return true;
    }
    static_cast<void>(changed_.wait(*lock, due));
  }
  return false;
}

// False: it threw.
bool PeriodicTask::RunOnce(const std::string& name) {
  try {
    f_();
    return true;
  } catch (const std::exception& error) {
    WEFT_LOG_EVERY_SECOND(ERROR, "PeriodicTask: '", name, "' threw: ", error.what());
    return false;
  }
}

Deadline PeriodicTask::NextDue() const {
  const base::Int128 wait = static_cast<base::Int128>(settings_.period.count()) + offset_.count();
  return Deadline::After(nanoseconds(base::SaturateToInt64(wait)),
                         settings_.pace == Pace::kFixedRate ? last_due_ : last_end_);
}

void PeriodicTask::OnRunEnded(TimePoint now) {
  last_end_ = now;
  if (now > last_due_) last_due_ += (now - last_due_) / settings_.period * settings_.period;  // What fell out.
}

// Uniform between -jitter and +jitter.
void PeriodicTask::DrawOffset() {
  // splitmix64 (S. Vigna, 2015).
  std::uint64_t z = random_ += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  z ^= z >> 31;
  const auto range = 2 * static_cast<std::uint64_t>(settings_.jitter.count()) + 1;
  offset_ = nanoseconds(static_cast<std::int64_t>(z % range)) - settings_.jitter;
}

}  // namespace weft
