// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/watch/slice_monitor.h"

#include <pthread.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <utility>

#include "weft/base/report/log.h"
#include "weft/base/thread/watcher_acts.h"
#include "weft/context/stack/overflow_handler.h"
#include "weft/scheduling_group/fiber/fiber_entity.h"
#include "weft/scheduling_group/watch/group_attention.h"
#include "weft/scheduling_group/worker/time_slice.h"

namespace weft::scheduling_group {
namespace {

struct HookSlot {
  std::mutex mutex;
  std::shared_ptr<const SliceLimits::Hook> hook;  // guarded by mutex
};

// Never destroyed: the monitor may outlive the end of main().
HookSlot& TheHook() {
  static auto* const slot = new HookSlot;
  return *slot;
}

std::int64_t Milliseconds(std::chrono::nanoseconds time) noexcept { return time / std::chrono::milliseconds(1); }

std::string Describe(const NamedSlice& slice) {
  const std::string group_name = slice.group_name.empty() ? "" : " (" + slice.group_name + ")";
  return base::StrCat("worker ", slice.worker, " of scheduling group ", slice.scheduling_group, group_name, " has run ",
                      DescribeFiber(slice.name, slice.fiber_id), " for ", Milliseconds(slice.ran_for),
                      " ms without a switch");
}

}  // namespace

constinit std::atomic<bool> SliceLimits::on_{false};
constinit std::atomic<std::int64_t> SliceLimits::warning_ns_{0};
constinit std::atomic<std::int64_t> SliceLimits::error_ns_{0};
constinit base::SpinLock SliceLimits::reader_lock_;

void SliceLimits::Set(std::chrono::nanoseconds warning, std::chrono::nanoseconds error) noexcept {
  // relaxed: the start of the workers that have limits orders them.
  warning_ns_.store(warning.count(), std::memory_order_relaxed);
  error_ns_.store(error.count(), std::memory_order_relaxed);
  const bool on = warning.count() != 0 || error.count() != 0;
  if (on_.exchange(on, std::memory_order_relaxed) == on) return;
  on ? WatchLeaving() : UnwatchLeaving();  // So that a yield to nobody is seen.
}

void SliceLimits::SetHook(Hook hook) {
  auto shared = hook != nullptr ? std::make_shared<const Hook>(std::move(hook)) : nullptr;
  HookSlot& slot = TheHook();
  {
    const std::lock_guard lock(slot.mutex);
    std::swap(slot.hook, shared);
  }
  // The former one is destroyed here, without the lock.
}

void SliceLimits::Warn(const NamedSlice& slice, std::size_t others) {
  if (others == 0) {
    WEFT_LOG(WARNING, Describe(slice), " (--fiber_slice_warning_ms=", Milliseconds(warning()), ")");
  } else {
    WEFT_LOG(WARNING, Describe(slice), ", and ", others,
             " other workers theirs (--fiber_slice_warning_ms=", Milliseconds(warning()), ")");
  }
}

void SliceLimits::ReportError(NamedSlice slice) {
  WEFT_LOG(ERROR, Describe(slice), " (--fiber_slice_error_ms=", Milliseconds(error()), ")");
  std::shared_ptr<const Hook> hook;
  {
    HookSlot& slot = TheHook();
    const std::lock_guard lock(slot.mutex);
    hook = slot.hook;
  }
  slice.fiber_name = slice.name;
  if (hook != nullptr) (*hook)(slice);
}

namespace {

// Of a name in the log; longer ones are cut.
constexpr std::size_t kLongestName = 127;

}  // namespace

SliceMonitor::MonitoredWorker::MonitoredWorker(const WorkerCounters* counters, const RunningFiber* current, int group,
                                               std::string_view group_name, unsigned index)
    : counters_(counters),
      current_(current),
      group_(group),
      group_name_(group_name),
      index_(index),
      is_over_(TimeSliceFlag()) {
  if (::pthread_getcpuclockid(::pthread_self(), &cpu_clock_) != 0) cpu_clock_ = CLOCK_MONOTONIC;
  SliceMonitor& monitor = Get();
  {
    const std::lock_guard guard(monitor.workers_lock_);
    next_ = monitor.workers_;
    if (next_ != nullptr) next_->previous_ = this;
    monitor.workers_ = this;
  }
  ParkClock::Advance();
  monitor.switch_.GotUp();
}

SliceMonitor::MonitoredWorker::~MonitoredWorker() {
  {
    SliceMonitor& monitor = Get();
    const std::lock_guard guard(monitor.workers_lock_);
    if (next_ != nullptr) next_->previous_ = previous_;
    (previous_ != nullptr ? previous_->next_ : monitor.workers_) = next_;
  }
  is_over_->store(false, std::memory_order_relaxed);  // This thread's flag (TM3).
}

bool SliceMonitor::MonitoredWorker::EndSlice() noexcept {
  // acquire: the turn. Pairs with the release in Check().
  static_cast<void>(is_over_->exchange(false, std::memory_order_acquire));
  return turn_over_.load(std::memory_order_relaxed) == Turn();  // Ordered by the exchange.
}

// True: the worker is awake.
bool SliceMonitor::MonitoredWorker::Check(TimePoint now) noexcept {
  if (asleep_.load(std::memory_order_relaxed)) return false;  // Late by one check at most.
  const std::uint64_t turn = Turn();
  if (turn != seen_turn_) {
    seen_turn_ = turn;
    seen_cpu_ = kNotRead;
    seen_at_ = now;
    error_reported_ = false;
    return true;
  }
  timespec time{};
  if (::clock_gettime(cpu_clock_, &time) != 0) return true;
  const std::chrono::nanoseconds cpu = std::chrono::seconds(time.tv_sec) + std::chrono::nanoseconds(time.tv_nsec);
  if (seen_cpu_ == kNotRead) {
    seen_cpu_ = cpu;
  } else if (cpu - seen_cpu_ >= kMustHaveRun) {
    seen_cpu_ = kNotRead;  // With no fiber to yield to, the turn goes on.
    turn_over_.store(turn, std::memory_order_relaxed);
    is_over_->store(true, std::memory_order_release);  // Publishes the turn. Pairs with the acquire in EndSlice().
  }
  return true;
}

// Nothing: it has left the fiber.
std::optional<NamedSlice> SliceMonitor::MonitoredWorker::LookAtFiber(TimePoint now) const {
  NamedSlice slice;
  char name[kLongestName + 1];
  {
    const base::SpinLockGuard guard(SliceLimits::ReaderLock());
    const FiberEntity* const fiber = current_->Look();
    if (fiber == nullptr || Turn() != seen_turn_) return std::nullopt;  // In this order: LS1.
    slice.fiber_id = fiber->id();
    const std::size_t length = ::strnlen(fiber->name(), kLongestName);
    std::memcpy(name, fiber->name(), length);
    name[length] = '\0';
  }
  slice.name = name;
  slice.scheduling_group = group_;
  slice.group_name = group_name_;
  slice.worker = index_;
  slice.ran_for = now - seen_at_;
  return slice;
}

SliceMonitor& SliceMonitor::Get() noexcept {
  // Never destroyed: workers may outlive the end of main().
  alignas(SliceMonitor) static std::byte memory[sizeof(SliceMonitor)];
  static auto* const monitor = ::new (static_cast<void*>(memory)) SliceMonitor;
  return *monitor;
}

bool SliceMonitor::AddTeam() {
  const std::lock_guard guard(teams_lock_);
  if (teams_ == 0) {
    stopping_.store(false, std::memory_order_relaxed);  // Ordered by the start of the thread.
    try {
      thread_ = std::thread([this] { ThreadMain(); });
    } catch (const std::exception& error) {  // No thread, or no memory.
      WEFT_LOG(ERROR, "SliceMonitor: no thread: ", error.what());
      return false;
    }
  }
  ++teams_;
  return true;
}

void SliceMonitor::RemoveTeam() noexcept {
  const std::lock_guard guard(teams_lock_);
  if (--teams_ != 0) return;
  stopping_.store(true, std::memory_order_relaxed);  // Ordered by the parker.
  switch_.Wake();
  thread_.join();
}

void SliceMonitor::ThreadMain() noexcept {
  ::pthread_setname_np(::pthread_self(), "FiberTimeSlices");
  int quiet_checks = 0;
  next_warning_at_ = {};
  while (!stopping_.load(std::memory_order_relaxed)) {
    quiet_checks = Check() ? 0 : quiet_checks + 1;
    if (quiet_checks < kQuietChecks) {
      const auto pause = SliceLimits::on() ? kCheckEvery : std::min(kCheckEvery * (1 << quiet_checks), kMostPause);
      switch_.PauseUntil(std::chrono::steady_clock::now() + pause);
    } else {
      switch_.Off([this] { return AllSleep(); });
      quiet_checks = 0;
    }
  }
}

// True: a worker is awake.
bool SliceMonitor::Check() noexcept {
  const base::WatcherActs acts;  // The hook may.
  checks_.store(checks_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  context::CheckOverflowHandlerNowAndThen();  // For workers that never sleep.
  ParkClock::Advance();
  const bool has_limits = SliceLimits::on();
  const TimePoint now = has_limits ? std::chrono::steady_clock::now() : TimePoint();
  bool somebody_is_up = false;
  Reports reports;
  {
    const std::lock_guard guard(workers_lock_);
    for (MonitoredWorker* worker = workers_; worker != nullptr; worker = worker->next_) {
      somebody_is_up |= worker->Check(now);
    }
    if (has_limits && somebody_is_up) reports = CheckLimits(now);
  }
  if (reports.warning.has_value()) SliceLimits::Warn(*reports.warning, reports.others);
  if (reports.error.has_value()) SliceLimits::ReportError(*std::move(reports.error));
  return somebody_is_up;
}

// One warning and one error at most; the next check finds the others.
SliceMonitor::Reports SliceMonitor::CheckLimits(TimePoint now) {
  Reports reports;
  MonitoredWorker* to_warn_of = nullptr;
  for (MonitoredWorker* worker = workers_; worker != nullptr; worker = worker->next_) {
    if (worker->asleep_.load(std::memory_order_relaxed)) continue;  // As in Check().
    if (worker->IsPast(SliceLimits::warning(), now)) {
      if (to_warn_of != nullptr) ++reports.others;
      if (to_warn_of == nullptr || worker->warned_at_ < to_warn_of->warned_at_) to_warn_of = worker;
    }
    if (!reports.error.has_value() && !worker->error_reported_ && worker->IsPast(SliceLimits::error(), now)) {
      reports.error = worker->LookAtFiber(now);
      worker->error_reported_ = reports.error.has_value();
    }
  }
  if (to_warn_of == nullptr || now < next_warning_at_) return reports;
  reports.warning = to_warn_of->LookAtFiber(now);
  if (reports.warning.has_value()) {
    to_warn_of->warned_at_ = now;
    next_warning_at_ = now + SliceLimits::kWarnEvery;
  }
  return reports;
}

pid_t SliceMonitor::ThreadOf(const FiberEntity* fiber) noexcept {
  constexpr int kTries = 1000;  // The lock is held for some microseconds.
  std::unique_lock guard(workers_lock_, std::try_to_lock);
  for (int i = 0; i < kTries && !guard.owns_lock(); ++i) {
    std::this_thread::yield();
    static_cast<void>(guard.try_lock());
  }
  if (!guard.owns_lock()) return 0;
  for (const MonitoredWorker* worker = workers_; worker != nullptr; worker = worker->next_) {
    if (worker->current_->Look() == fiber) return worker->thread_;
  }
  return 0;
}

bool SliceMonitor::AllSleep() noexcept {
  const std::lock_guard guard(workers_lock_);
  for (const MonitoredWorker* worker = workers_; worker != nullptr; worker = worker->next_) {
    if (!worker->asleep_.load(std::memory_order_relaxed)) return false;  // Ordered by the fence in Off() (TM1).
  }
  return true;
}

}  // namespace weft::scheduling_group
