// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/watch/watchdog.h"

#include <pthread.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <mutex>
#include <new>
#include <utility>
#include <variant>

#include "weft/base/report/log.h"
#include "weft/base/thread/watcher_acts.h"
#include "weft/context/stack/overflow_handler.h"
#include "weft/numa/memory/affinity.h"
#include "weft/scheduling_group/fiber/fiber_entity.h"
#include "weft/scheduling_group/group/scheduling_group.h"
#include "weft/scheduling_group/watch/descriptor_watch.h"
#include "weft/scheduling_group/worker/time_slice.h"

namespace weft::scheduling_group {
namespace {

// Of a name in the log; longer ones are cut.
constexpr std::size_t kLongestName = 127;

// Never destroyed: workers may outlive the end of main().
alignas(Watchdog) constinit std::byte memory[sizeof(Watchdog)]{};

// WD1. The parent's threads may hold its locks.
void MakeAnew() { ::new (static_cast<void*>(memory)) Watchdog; }

}  // namespace

Watchdog::WatchedWorker::WatchedWorker(const WorkerCounters* counters, const RunningFiber* current,
                                       SchedulingGroup* group, unsigned index)
    : counters_(counters), current_(current), group_(group), index_(index), is_over_(TimeSliceFlag()) {
  if (::pthread_getcpuclockid(::pthread_self(), &cpu_clock_) != 0) cpu_clock_ = CLOCK_MONOTONIC;
  Watchdog& watchdog = Get();
  {
    const std::lock_guard guard(watchdog.workers_lock_);
    next_ = watchdog.workers_;
    if (next_ != nullptr) next_->previous_ = this;
    watchdog.workers_ = this;
  }
  ParkClock::Advance();
  watchdog.GotUp();
}

Watchdog::WatchedWorker::~WatchedWorker() {
  {
    Watchdog& watchdog = Get();
    const std::lock_guard guard(watchdog.workers_lock_);
    if (next_ != nullptr) next_->previous_ = previous_;
    (previous_ != nullptr ? previous_->next_ : watchdog.workers_) = next_;
    if (watchdog.troubled_ == this) watchdog.troubled_ = nullptr;
  }
  is_over_->store(false, std::memory_order_relaxed);  // This thread's flag (TM3).
}

bool Watchdog::WatchedWorker::EndSlice() noexcept {
  // acquire: the turn. Pairs with the release in Check().
  static_cast<void>(is_over_->exchange(false, std::memory_order_acquire));
  return turn_over_.load(std::memory_order_relaxed) == Turn();  // Ordered by the exchange.
}

// True: the worker is awake.
bool Watchdog::WatchedWorker::Check(TimePoint now, WaitRecorder* long_slices) noexcept {
  if (asleep_.load(std::memory_order_relaxed)) return false;  // Late by one check at most.
  const std::uint64_t turn = Turn();
  if (turn != seen_turn_) {
    if (seen_last_ != TimePoint()) long_slices->RecordStolen(std::exchange(seen_last_, TimePoint()) - seen_at_, 1);
    seen_turn_ = turn;
    seen_cpu_ = kNotRead;
    seen_at_ = now;
    error_reported_ = false;
    return true;
  }
  if (current_->Look() != nullptr && Turn() == turn) seen_last_ = now;  // Else it sleeps in this turn.
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
std::optional<NamedSlice> Watchdog::WatchedWorker::LookAtFiber(TimePoint now) const {
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
  slice.scheduling_group = group_->id();
  slice.group_name = group_->name();
  slice.worker = index_;
  slice.thread = thread_;
  slice.ran_for = now - seen_at_;
  return slice;
}

Watchdog& Watchdog::Get() noexcept {
  static auto* const watchdog = [] {
    (void)::pthread_atfork(nullptr, nullptr, &MakeAnew);
    return ::new (static_cast<void*>(memory)) Watchdog;
  }();
  return *watchdog;
}

bool Watchdog::AddTeam() {
  const std::lock_guard guard(teams_lock_);
  if (teams_ == 0) {
    stopping_.store(false, std::memory_order_relaxed);  // Ordered by the start of the thread.
    try {
      thread_ = std::thread([this] { ThreadMain(); });
    } catch (const std::exception& error) {  // No thread, or no memory.
      WEFT_LOG(ERROR, "Watchdog: no thread: ", error.what());
      return false;
    }
  }
  ++teams_;
  return true;
}

void Watchdog::RemoveTeam() noexcept {
  const std::lock_guard guard(teams_lock_);
  if (--teams_ != 0) return;
  stopping_.store(true, std::memory_order_relaxed);  // Ordered by the parker.
  Wake();
  thread_.join();
}

void Watchdog::ThreadMain() noexcept {
  ::pthread_setname_np(::pthread_self(), "FiberWatchdog");
  // Its starter may be bound to a CPU.
  numa::RunWhereTheFirstThreadOf(::getpid());
  int quiet_checks = 0;
  next_warning_at_ = {};
  next_trouble_at_ = {};
  while (!stopping_.load(std::memory_order_relaxed)) {
    quiet_checks = Check() ? 0 : quiet_checks + 1;
    if (stacks_grow_ && many_stacks_ == 0) FindManyStacks();
    if (quiet_checks < kQuietChecks) {
      const auto pause = SliceLimits::on() ? kCheckEvery : std::min(kCheckEvery * (1 << quiet_checks), kMostPause);
      Sleep(switch_.parker(), std::chrono::steady_clock::now() + pause);
    } else {
      switch_.Off([this] { return AllSleep(); }, [this](base::Parker* parker) { Sleep(parker, TimePoint::max()); });
      quiet_checks = 0;
    }
  }
}

// In the timers' epoll, once there is one.
void Watchdog::Sleep(base::Parker* parker, TimePoint until) {
  if (timers_.open()) {
    if (!parker->BeginWaitElsewhere()) return;
    timers_.SleepUntil(until);
    (void)parker->EndWaitElsewhere();
  } else if (until == TimePoint::max()) {
    parker->Park();
  } else {
    (void)parker->ParkUntil(until);
  }
}

bool Watchdog::AddTimer(WatchTimers::Client* client, int* timer, std::error_code* error) {
  const bool was_open = timers_.open();
  if (!timers_.Add(client, timer, error)) return false;
  if (!was_open) Wake();  // From now on it sleeps there.
  return true;
}

// True: a worker is awake.
bool Watchdog::Check() noexcept {
  const base::WatcherActs acts;  // The hook may.
  checks_.store(checks_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  context::CheckOverflowHandlerNowAndThen();  // For workers that never sleep.
  ParkClock::Advance();
  const bool has_limits = SliceLimits::on();
  const TimePoint now = std::chrono::steady_clock::now();
  bool somebody_is_up = false;
  try {
    Reports reports;
    {
      const std::lock_guard guard(workers_lock_);
      for (WatchedWorker* worker = workers_; worker != nullptr; worker = worker->next_) {
        somebody_is_up |= worker->Check(now, &long_slices_);
        if (worker->StandsForGroup()) worker->group_watch_.Look(worker->group_, now);
      }
      if (now >= next_trouble_at_) reports.trouble = FindTrouble();
      if (has_limits && somebody_is_up) CheckLimits(now, &reports);
    }
    if (reports.trouble.has_value()) Report(*reports.trouble);
    if (reports.warning.has_value()) SliceLimits::Warn(*reports.warning, reports.others);
    if (reports.error.has_value()) SliceLimits::ReportError(*std::move(reports.error));
    if (checks() % kLookEvery == 0) LookAtDescriptors();
  } catch (const std::bad_alloc&) {
    // No memory for the lines either: a later check has them.
  }
  return somebody_is_up;
}

// One warning and one error at most; the next check finds the others.
void Watchdog::CheckLimits(TimePoint now, Reports* reports) {
  WatchedWorker* to_warn_of = nullptr;
  for (WatchedWorker* worker = workers_; worker != nullptr; worker = worker->next_) {
    if (worker->asleep_.load(std::memory_order_relaxed)) continue;  // As in Check().
    if (worker->IsPast(SliceLimits::warning(), now)) {
      if (to_warn_of != nullptr) ++reports->others;
      if (to_warn_of == nullptr || worker->warned_at_ < to_warn_of->warned_at_) to_warn_of = worker;
    }
    if (!reports->error.has_value() && !worker->error_reported_ && worker->IsPast(SliceLimits::error(), now)) {
      reports->error = worker->LookAtFiber(now);
      worker->error_reported_ = reports->error.has_value();
    }
  }
  if (to_warn_of == nullptr || now < next_warning_at_) return;
  reports->warning = to_warn_of->LookAtFiber(now);
  if (reports->warning.has_value()) {
    to_warn_of->warned_at_ = now;
    next_warning_at_ = now + SliceLimits::kWarnEvery;
  }
}

bool Watchdog::WatchedWorker::StandsForGroup() const noexcept {
  return index_ == 0 && !group_->of_loop() && !group_->stopping();
}

// Not before it matters: it opens files, and programs count on the numbers of those that they open themselves. Without
// the lock.
void Watchdog::FindManyStacks() noexcept {
  try {
    many_stacks_ = ManyStacksOfThisMachine();
  } catch (const std::exception&) {  // No memory: after a later check.
  }
}

// One at a check. Nothing while the pause after the last one goes on, which counts as not said.
std::optional<GroupTrouble> Watchdog::FindTrouble() {
  const auto for_each_group = [this](auto f) {
    for (const WatchedWorker* worker = workers_; worker != nullptr; worker = worker->next_) {
      if (worker->StandsForGroup()) f(*worker->group_, worker->group_watch_);
    }
  };
  for (WatchedWorker* worker = workers_; worker != nullptr; worker = worker->next_) {
    if (!worker->StandsForGroup()) continue;
    std::optional<GroupTrouble> trouble =
        worker->group_watch_.FindTrouble(*worker->group_, many_stacks_, for_each_group);
    stacks_grow_ = stacks_grow_ || worker->group_watch_.stacks_grow();
    if (!trouble.has_value()) continue;
    troubled_ = worker;
    if (auto* const standstill = std::get_if<Standstill>(&*trouble)) standstill->workers = WorkersOf(worker->group_);
    return trouble;
  }
  return std::nullopt;
}

std::vector<Standstill::Worker> Watchdog::WorkersOf(const SchedulingGroup* group) const {
  std::vector<Standstill::Worker> workers;
  for (const WatchedWorker* worker = workers_; worker != nullptr; worker = worker->next_) {
    if (worker->group_ == group) workers.push_back({worker->index_, worker->thread_});
  }
  std::sort(workers.begin(), workers.end(), [](const auto& one, const auto& other) { return one.index < other.index; });
  return workers;
}

// If the line fails it is not said.
void Watchdog::Report(const GroupTrouble& trouble) {
  const TimePoint begin = std::chrono::steady_clock::now();
  ReportTrouble(trouble);
  const TimePoint end = std::chrono::steady_clock::now();
  const std::lock_guard guard(workers_lock_);
  if (troubled_ != nullptr) troubled_->group_watch_.Said(trouble);
  next_trouble_at_ = end + std::min<std::chrono::nanoseconds>(kPauseAfterReport * (end - begin), kMostReportPause);
}

pid_t Watchdog::ThreadOf(const FiberEntity* fiber) noexcept {
  constexpr int kTries = 1000;  // The lock is held for some microseconds.
  std::unique_lock guard(workers_lock_, std::try_to_lock);
  for (int i = 0; i < kTries && !guard.owns_lock(); ++i) {
    std::this_thread::yield();
    static_cast<void>(guard.try_lock());
  }
  if (!guard.owns_lock()) return 0;
  for (const WatchedWorker* worker = workers_; worker != nullptr; worker = worker->next_) {
    if (worker->current_->Look() == fiber) return worker->thread_;
  }
  return 0;
}

bool Watchdog::AllSleep() noexcept {
  const std::lock_guard guard(workers_lock_);
  for (const WatchedWorker* worker = workers_; worker != nullptr; worker = worker->next_) {
    if (!worker->asleep_.load(std::memory_order_relaxed)) return false;  // Ordered by the fence in Off() (TM1).
  }
  return true;
}

}  // namespace weft::scheduling_group
