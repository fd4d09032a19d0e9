// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/supervisor.h"

#include <algorithm>
#include <iterator>
#include <mutex>
#include <optional>

#include "weft/base/report/check.h"
#include "weft/base/report/log.h"
#include "weft/fiber/exception.h"
#include "weft/sync/fiber_cancelled.h"
#include "weft/sync/wait/wait_queue.h"

namespace weft {

namespace {

// What to say of the end of a child.
std::string Describe(const std::exception_ptr& exception) {
  return exception != nullptr ? base::StrCat("has failed: ", Exception(exception).what()) : "has returned";
}

}  // namespace

struct Supervisor::Child {
  enum class State : std::uint8_t {
    kWaiting,   // to be started when it is due
    kRunning,   //
    kStopping,  // cancelled because of another one; to be started again
    kDone,
  };

  FiberAttributes attributes;
  RestartKind kind;
  base::UniqueFunction<void()> f;
  State state = State::kWaiting;
  TimePoint due{};  // at once
  TimePoint started{};
  std::size_t failures_in_a_row = 0;
  std::optional<FiberTask<void>> task;
  // Another child's failure has asked it to stop; `returned`: its function had returned by itself before (SV4).
  base::Atomic<bool> asked_to_stop{false};
  bool returned = false;
  // For Children(). relaxed: a snapshot.
  base::Atomic<std::uint64_t> fiber_id{0};
  base::Atomic<std::size_t> restarts{0};

  // Written by its fiber before `ended`.
  std::exception_ptr exception;
  bool cancelled = false;
  base::Atomic<bool> ended{false};
};

SupervisionFailed::SupervisionFailed(const std::string& text, std::string child, std::exception_ptr cause)
    : std::runtime_error(text), child_(std::move(child)), cause_(std::move(cause)) {}
SupervisionFailed::~SupervisionFailed() = default;

Supervisor::Supervisor(const Options& options) : options_(options) {
  const RestartBackoff& backoff = options.backoff;
  WEFT_CHECK(backoff.first.count() >= 0 && backoff.longest >= backoff.first, "Supervisor: a back-off of ",
             backoff.first.count(), " to ", backoff.longest.count(), " ns");
  WEFT_CHECK(backoff.jitter >= 0 && backoff.jitter <= 1, "Supervisor: a jitter of ", backoff.jitter,
             " is not between 0 and 1");
  random_ = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count()) ^
            reinterpret_cast<std::uintptr_t>(this);
}

Supervisor::~Supervisor() = default;

bool Supervisor::AddChild(const FiberAttributes& attributes, RestartKind kind, base::UniqueFunction<void()> f) {
  auto child = std::make_unique<Child>();
  child->attributes = attributes;
  child->kind = kind;
  child->f = std::move(f);
  {
    const std::scoped_lock lock(mutex_);
    if (over_) return false;
    added_.push_back(std::move(child));
  }
  wake_.Set();
  return true;
}

void Supervisor::Stop() noexcept {
  stop_.store(true, std::memory_order_relaxed);  // The event carries it.
  wake_.Set();
}

std::vector<Supervisor::ChildInfo> Supervisor::Children() const {
  const std::scoped_lock lock(mutex_);
  std::vector<ChildInfo> infos;
  for (const auto* list : {&children_, &added_}) {
    for (const auto& child : *list) {
      infos.push_back({child->attributes.name, child->fiber_id.load(std::memory_order_relaxed),
                       child->restarts.load(std::memory_order_relaxed)});
    }
  }
  return infos;
}

// --- In a child's fiber ---

void Supervisor::RunChild(Supervisor* self, Child* child) {
  std::exception_ptr exception;
  try {
    child->f();
    child->returned = !child->asked_to_stop.load(std::memory_order_relaxed);  // It carries nothing (SV4).
  } catch (const FiberCancelled&) {
    self->NoteEnd(child, nullptr, /*cancelled=*/true);
    throw;
  } catch (...) {
    exception = std::current_exception();
  }
  // Not in the handler, whose end is a touch of the exception.
  self->NoteEnd(child, std::move(exception), /*cancelled=*/false);
}

void Supervisor::NoteEnd(Child* child, std::exception_ptr exception, bool cancelled) noexcept {
  child->exception = std::move(exception);
  child->cancelled = cancelled;
  // release: what the child did. Pairs with the acquire in HandleEnds(). SV1: the last touch of the child.
  child->ended.store(true, std::memory_order_release);
  wake_.Set();
}

// --- In Run() ---

// At the end of Run(), however it ends: no child is taken any more, and those that are left go.
class Supervisor::Ending {
 public:
  explicit Ending(Supervisor* supervisor) : supervisor_(supervisor) {}
  ~Ending() {
    std::vector<std::unique_ptr<Child>> left;  // Users' functions are destroyed without the lock.
    std::vector<std::unique_ptr<Child>> never_started;
    const std::scoped_lock lock(supervisor_->mutex_);
    supervisor_->over_ = true;
    left.swap(supervisor_->children_);
    never_started.swap(supervisor_->added_);
  }
  Ending(const Ending&) = delete;
  Ending& operator=(const Ending&) = delete;

 private:
  Supervisor* const supervisor_;
};

void Supervisor::Run() {
  WEFT_CHECK(!ran_.exchange(true, std::memory_order_relaxed), "Supervisor::Run: it has run already");
  const Ending ending(this);
  FiberScope scope({.policy = ScopePolicy::kCollect});  // SV3: goes first.
  RunChildren(scope);
  scope.Cancel();
  scope.Wait();
}

void Supervisor::RunChildren(FiberScope& scope) {
  for (;;) {
    wake_.Reset();  // SV2
    if (stop_.load(std::memory_order_relaxed)) return;
    TakeAdded();
    HandleEnds();
    const Deadline next = StartDue(scope);
    if (IsOver()) return;
    // Run() promises that all have ended: as a wait without a deadline.
    synchronization::CheckInterrupted(
        synchronization::WaitAccess::Wait(wake_, next, synchronization::Interruptible::kYes));
  }
}

void Supervisor::TakeAdded() {
  const std::scoped_lock lock(mutex_);
  for (auto& child : added_) children_.push_back(std::move(child));
  added_.clear();
}

bool Supervisor::IsOver() {
  if (!children_.empty() || options_.stays) return false;
  const std::scoped_lock lock(mutex_);
  over_ = added_.empty();
  return over_;
}

void Supervisor::HandleEnds() {
  bool some_done = false;
  for (std::size_t i = 0; i < children_.size(); ++i) {
    Child& child = *children_[i];
    // acquire: what it did. Pairs with the release in NoteEnd().
    if (!child.ended.load(std::memory_order_acquire)) continue;
    child.ended.store(false, std::memory_order_relaxed);  // Its fiber is past it.
    child.fiber_id.store(0, std::memory_order_relaxed);
    child.task.reset();
    const bool was_stopped = child.state == Child::State::kStopping;
    if (was_stopped || child.kind == RestartKind::kTemporary) LogException(child);
    if (was_stopped ? IsToRestartWithOthers(child) : IsToRestart(child)) {
      child.state = Child::State::kWaiting;
      if (!was_stopped) Restart(i);
    } else {
      child.state = Child::State::kDone;
      some_done = true;
    }
    child.exception = nullptr;
  }
  if (some_done) RemoveDone();
}

void Supervisor::RemoveDone() {
  std::vector<std::unique_ptr<Child>> gone;  // Users' functions are destroyed without the lock.
  const std::scoped_lock lock(mutex_);
  const auto done = std::stable_partition(children_.begin(), children_.end(),
                                          [](const auto& child) { return child->state != Child::State::kDone; });
  gone.assign(std::make_move_iterator(done), std::make_move_iterator(children_.end()));
  children_.erase(done, children_.end());
}

void Supervisor::LogException(const Child& child) {
  if (child.exception == nullptr) return;
  WEFT_LOG_EVERY_SECOND(WARNING, "Supervisor: child '", child.attributes.name, "' ", Describe(child.exception));
}

bool Supervisor::IsToRestart(const Child& child) {
  if (child.cancelled) return false;
  return child.kind == RestartKind::kPermanent || (child.kind == RestartKind::kTransient && child.exception != nullptr);
}

bool Supervisor::IsToRestartWithOthers(const Child& child) {
  return child.kind == RestartKind::kPermanent || (child.kind == RestartKind::kTransient && !child.returned);
}

void Supervisor::Restart(std::size_t index) {
  Child& failed = *children_[index];
  const TimePoint now = FiberClock::now();
  CountRestart(failed, now);
  failed.failures_in_a_row = now - failed.started >= options_.backoff.longest ? 1 : failed.failures_in_a_row + 1;
  const std::chrono::nanoseconds wait = BackoffOf(failed);
  failed.due = now + wait;
  WEFT_LOG_EVERY_SECOND(WARNING, "Supervisor: child '", failed.attributes.name, "' ", Describe(failed.exception),
                        "; starts again in ", std::chrono::duration_cast<std::chrono::milliseconds>(wait).count(),
                        " ms");
  if (options_.strategy == RestartStrategy::kOneForOne) return;
  const std::size_t first = options_.strategy == RestartStrategy::kRestForOne ? index + 1 : 0;
  for (std::size_t i = first; i < children_.size(); ++i) {
    Child& other = *children_[i];
    if (&other == &failed || other.state == Child::State::kDone) continue;
    other.due = std::max(other.due, failed.due);
    if (other.state != Child::State::kRunning) continue;
    other.state = Child::State::kStopping;
    other.asked_to_stop.store(true, std::memory_order_relaxed);  // SV4
    if (other.task.has_value()) other.task->Cancel();            // Else its start was refused.
  }
}

void Supervisor::CountRestart(const Child& child, TimePoint now) {
  while (!restarted_at_.empty() && now - restarted_at_.front() >= options_.period) restarted_at_.pop_front();
  if (restarted_at_.size() >= options_.max_restarts) {
    throw SupervisionFailed(base::StrCat("Supervisor: child '", child.attributes.name, "' ", Describe(child.exception),
                                         "; ", options_.max_restarts, " restarts within ",
                                         std::chrono::duration_cast<std::chrono::milliseconds>(options_.period).count(),
                                         " ms are the most"),
                            child.attributes.name, child.exception);
  }
  restarted_at_.push_back(now);
  restarts_.fetch_add(1, std::memory_order_relaxed);
}

std::chrono::nanoseconds Supervisor::BackoffOf(const Child& child) {
  const RestartBackoff& backoff = options_.backoff;
  std::chrono::nanoseconds wait = backoff.first;
  for (std::size_t i = 1; i < child.failures_in_a_row && wait < backoff.longest; ++i) {
    wait = wait > backoff.longest / 2 ? backoff.longest : 2 * wait;
    if (wait.count() == 0) return wait;
  }
  // splitmix64, by G. Steele, D. Lea and C. Flood (2014).
  std::uint64_t z = random_ += 0x9e3779b97f4a7c15;
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9;
  z = (z ^ (z >> 27)) * 0x94d049bb133111eb;
  const double share = static_cast<double>((z ^ (z >> 31)) >> 11) * 0x1p-53;
  return wait - std::chrono::nanoseconds(
                    static_cast<std::int64_t>(static_cast<double>(wait.count()) * backoff.jitter * share));
}

// When the next child is due.
Deadline Supervisor::StartDue(FiberScope& scope) {
  for (const auto& child : children_) {
    if (child->state == Child::State::kStopping) return Deadline::None();
  }
  Deadline next;
  std::optional<TimePoint> now;
  for (const auto& child : children_) {
    if (child->state != Child::State::kWaiting) continue;
    if (!now) now = FiberClock::now();
    if (child->due <= *now) {
      Start(scope, child.get());
    } else {
      next = std::min(next, Deadline(child->due));
    }
  }
  return next;
}

void Supervisor::Start(FiberScope& scope, Child* child) {
  const bool again = child->started != TimePoint{};
  if (again) child->restarts.fetch_add(1, std::memory_order_relaxed);
  child->started = FiberClock::now();
  child->state = Child::State::kRunning;
  child->returned = false;
  child->asked_to_stop.store(false, std::memory_order_relaxed);  // The task's start carries it.
  try {
    child->task.emplace(scope.SpawnTask(child->attributes, [this, child] { RunChild(this, child); }));
    child->fiber_id.store(child->task->Id(), std::memory_order_relaxed);
  } catch (const FiberNotStarted&) {
    NoteEnd(child, std::current_exception(), /*cancelled=*/false);  // As if it had failed.
  }
}

}  // namespace weft
