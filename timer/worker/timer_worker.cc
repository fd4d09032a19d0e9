// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/timer/worker/timer_worker.h"

#include <pthread.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "weft/base/report/check.h"
#include "weft/base/report/log.h"
#include "weft/base/thread/cpu.h"
#include "weft/base/thread/spin_lock.h"
#include "weft/numa/memory/affinity.h"
#include "weft/scheduling_group/events/recorder.h"
#include "weft/scheduling_group/fiber/park.h"
#include "weft/scheduling_group/group/group_registry.h"
#include "weft/scheduling_group/worker/current_worker.h"
#include "weft/scheduling_group/worker/worker_slot.h"
#include "weft/timer/callback/callback_runner.h"
#include "weft/timer/callback/callback_timer.h"
#include "weft/timer/queue/timer_node.h"
#include "weft/timer/queue/timer_shard.h"

namespace weft::timer {
namespace {

std::atomic<TimerWorker*> by_group[ShardSet::kMaxGroups];

// Shards for callers when there is no group (tests).
constexpr unsigned kShardsWithoutGroup = 1;

// Since Linux 6.12 a thread may ask for a shorter time slice, and then waits less for its turn: with eight busy workers
// on two CPUs the p99 halves (bench/workload --workload=sleepers --workers=8). The kernel may refuse it.
void AskForShortTimeSlices() {
  constexpr std::uint64_t kShortestSlice = 100'000;  // ns; the kernel grants no less
  struct {                                           // sched_attr, which the C library does not have
    std::uint32_t size;
    std::uint32_t policy;
    std::uint64_t flags;
    std::int32_t nice;
    std::uint32_t priority;
    std::uint64_t runtime;  // of SCHED_OTHER: the slice
    std::uint64_t deadline;
    std::uint64_t period;
  } attributes{};  // Valgrind does not know that the first call fills it.
  // Keeps everything else as inherited.
  if (syscall(SYS_sched_getattr, 0, &attributes, sizeof(attributes), 0) != 0) return;
  if (attributes.policy != SCHED_OTHER) return;
  attributes.runtime = kShortestSlice;
  static_cast<void>(syscall(SYS_sched_setattr, 0, &attributes, 0));
}

}  // namespace

WEFT_COLD TimerWorker::TimerWorker(Options options)
    : options_(std::move(options)),
      set_(ShardSet::Borrow(options_.group != nullptr ? options_.group->size() : kShardsWithoutGroup,
                            options_.group != nullptr ? options_.group->node() : -1, options_.clock)),
      group_id_(options_.group != nullptr ? options_.group->id() : 0),
      callback_runner_(options_.group) {
  set_->housekeeping().Reset(TickOfDeadline(base::Clock::TimePoint(options_.trim_after)));
  if (options_.group != nullptr && options_.group->of_loop()) {
    set_->alarm().SleepsElsewhere(
        [](void* group) noexcept { static_cast<scheduling_group::SchedulingGroup*>(group)->Notify(); }, options_.group);
  }
  set_->Register(group_id_, options_.for_all_threads);
  // release: *this. Pairs with the acquire in Of().
  by_group[group_id_].store(this, std::memory_order_release);
  // release: by_group. Pairs with the acquire in GroupWatch::Look().
  scheduling_group::read_timers.store(
      [](const scheduling_group::SchedulingGroup& group) {
        const TimerWorker* const timers = Of(&group);
        return timers != nullptr ? timers->LookAtThread() : scheduling_group::TimerThread();
      },
      std::memory_order_release);
}

WEFT_COLD std::string TimerWorker::Label() const {
  return options_.group != nullptr ? options_.group->Label() : std::to_string(group_id_);
}

WEFT_COLD TimerWorker::~TimerWorker() {
  if (!stopped_) Stop();
  Retire();
}

WEFT_COLD void TimerWorker::Retire() {
  if (std::exchange(retired_, true)) return;
  // relaxed: no thread may call Of() any more.
  by_group[group_id_].store(nullptr, std::memory_order_relaxed);
  if (by_driver_) options_.driver->Remove(this);
  set_->Unregister(group_id_);
  set_->alarm().SleepsElsewhere(nullptr, nullptr);
  if (life_.load(std::memory_order_relaxed) != Life::kLeft) {
    set_->GiveBack();
  } else {
    set_->Keep();  // The thread may use it.
  }
}

WEFT_COLD bool TimerWorker::Start() {
  WEFT_CHECK(!thread_.joinable() && !by_driver_ && !stopped_, "TimerWorker::Start: once");
  if (options_.driver != nullptr) {
    by_driver_ = true;
    options_.driver->Add(this);
    return true;
  }
  try {
    thread_ = std::thread([this] { ThreadMain(); });
  } catch (const std::system_error& error) {
    WEFT_LOG(ERROR, "no thread for the timers of scheduling group ", Label(), ": ", error.what());
    return false;
  }
  return true;
}

WEFT_COLD std::size_t TimerWorker::DropCallbacks() {
  std::size_t count = 0;
  // Close all before dropping any: a callback's destructor may set a timer.
  for (unsigned i = 0; i < set_->size(); ++i) set_->shard(i)->CloseToCallbacks();
  for (unsigned i = 0; i < set_->size(); ++i) count += DropCallbackTimers(set_->shard(i));
  return count;
}

WEFT_COLD TimerWorker::Dropped TimerWorker::Stop(Deadline give_up) {
  WEFT_CHECK(!stopped_, "TimerWorker::Stop: once");
  stopped_ = true;
  // relaxed: Earliest() reads it like a shard (alarm.h). Tick 1 comes before any until which the thread may sleep.
  stopping_.store(true, std::memory_order_relaxed);
  set_->alarm().Announce(1);
  if (thread_.joinable()) JoinThread(give_up);
  if (by_driver_) options_.driver->StopFiring(this);

  Dropped dropped;
  dropped.callbacks = DropCallbacks();
  for (unsigned i = 0; i < set_->size(); ++i) {
    TimerShard* shard = set_->shard(i);
    shard->Close();
    base::SpinLockGuard guard(shard->lock);
    dropped.waits += shard->DropAll();
  }
  TrimTimers();
  return dropped;
}

// True: the thread is the first to say so: it will be joined.
bool TimerWorker::BeginEnd() noexcept {
  Life runs = Life::kRuns;
  // relaxed: the parker, or LeftThreads, has the order.
  return life_.compare_exchange_strong(runs, Life::kEnds, std::memory_order_relaxed);
}

WEFT_COLD void TimerWorker::JoinThread(Deadline give_up) {
  const auto begin = std::chrono::steady_clock::now();
  auto complain_at = begin + options_.complain_after;
  while (!thread_ended_.ParkUntil(std::min(complain_at, give_up.time_point()))) {
    const auto now = std::chrono::steady_clock::now();
    if (give_up.expired(now)) {
      if (LeaveThread()) return;
      give_up = Deadline::After(options_.complain_after, now);  // It is late, but in no callback: it will come.
    }
    if (now < complain_at) continue;
    ComplainOfStop(std::chrono::duration_cast<std::chrono::milliseconds>(complain_at - begin));
    complain_at += 10 * options_.complain_after;
  }
  thread_.join();
}

// False: it is in no callback, or about to end.
bool TimerWorker::LeaveThread() {
  const CallbackType* const callback = callback_runner_.running();
  if (callback == nullptr) return false;
  scheduling_group::LeftThreads::Add();
  Life runs = Life::kRuns;
  if (!life_.compare_exchange_strong(runs, Life::kLeft, std::memory_order_relaxed)) {  // As in BeginEnd().
    scheduling_group::LeftThreads::Remove();
    return false;
  }
  WEFT_LOG(ERROR, "TerminateRuntime: a callback blocks the timer thread of scheduling group ", Label(), " (thread ",
           thread_id_.load(std::memory_order_relaxed), "), which is left behind: ", NameOf(*callback));
  thread_.detach();
  return true;
}

WEFT_COLD void TimerWorker::ComplainOfStop(std::chrono::milliseconds waited) {
  const int thread_id = thread_id_.load(std::memory_order_relaxed);  // For the log.
  if (const CallbackType* type = callback_runner_.running()) {
    WEFT_LOG(WARNING, "scheduling group ", Label(), " cannot stop: a callback blocks its timer thread (thread ",
             thread_id, ") for ", waited.count(), " ms now: ", NameOf(*type));
  } else {
    WEFT_LOG(WARNING, "scheduling group ", Label(), " cannot stop: its timer thread (thread ", thread_id,
             ") has not ended for ", waited.count(), " ms");
  }
}

TimerWorker* TimerWorker::Of(const scheduling_group::SchedulingGroup* group) noexcept {
  // A thread that was left behind may still be in a group that has ended; its number is that of another group then.
  if (WEFT_UNLIKELY(group->stopping())) return nullptr;
  // acquire: the object. Pairs with the release in the constructor.
  return by_group[static_cast<unsigned>(group->id()) % ShardSet::kMaxGroups].load(std::memory_order_acquire);
}

TimerWorker* TimerWorker::ForCaller() noexcept {
  const scheduling_group::SchedulingGroup* group = scheduling_group::NearestGroup();
  return group != nullptr ? Of(group) : nullptr;
}

void TimerWorker::Arm(WaitTimer* node, Deadline deadline) noexcept {
  set_->ShardFor(scheduling_group::CurrentWorker())->Arm(node, TickOfDeadline(deadline.time_point()));
}

void TimerWorker::ArmBeforePark(TimeOut* node, Deadline deadline) noexcept {
  scheduling_group::WorkerBase* const worker = scheduling_group::CurrentWorker();
  TimerShard* const shard = set_->ShardFor(worker);
  const Tick tick = TickOfDeadline(deadline.time_point());
  if (WEFT_LIKELY(worker->group == options_.group && !worker->of_loop)) {
    shard->ArmBeforePark(node, tick, worker);
  } else {
    shard->Arm(node, tick);
  }
}

bool TimerWorker::Disarm(WaitTimer* node) noexcept { return node->shard != nullptr && node->shard->Disarm(node); }

void TimerWorker::RequestTrim() noexcept { set_->housekeeping().Request(); }

WEFT_COLD std::size_t TimerWorker::armed() const noexcept {
  std::size_t count = 0;
  for (unsigned i = 0; i < set_->size(); ++i) {
    TimerShard* shard = set_->shard(i);
    base::SpinLockGuard guard(shard->lock);
    count += shard->size();
  }
  return count;
}

WEFT_COLD scheduling_group::TimerCounts TimerWorker::counts() const noexcept {
  scheduling_group::TimerCounts counts;
  counts.fired = fired();
  set_->fired().lateness.AddTo(&counts.lateness);
  for (unsigned i = 0; i < set_->size(); ++i) {
    TimerShard* shard = set_->shard(i);
    base::SpinLockGuard guard(shard->lock);
    counts.set += shard->added();
    counts.armed += shard->size();
  }
  return counts;
}

WEFT_COLD bool TimerWorker::asleep() const noexcept { return set_->alarm().asleep(); }

scheduling_group::TimerThread TimerWorker::LookAtThread() const noexcept {
  const int thread = thread_id_.load(std::memory_order_relaxed);  // For the log.
  if (thread == 0 || by_driver_ || base::HasTestTime()) return {};
  const Tick next = NextTimer();
  const auto now = options_.clock->now();
  if (next >= TickOfNow(now)) return {};
  const CallbackType* const callback = callback_runner_.running();
  return {.late = now - BeginOfTick(next),
          .thread = thread,
          .callback = callback != nullptr ? NameOf(*callback) : std::string_view()};
}

WEFT_COLD std::string TimerWorker::ThreadName() const {
  const std::string name = "TimerWorker_" + std::to_string(group_id_);
  return options_.group != nullptr ? options_.group->ThreadName(name, "_timer") : name;
}

Tick TimerWorker::Earliest() const noexcept {
  if (stopping_.load(std::memory_order_relaxed)) return 0;
  // A test clock moves for no housekeeping.
  return base::HasTestTime() ? NextTimer() : std::min(set_->housekeeping().next(), NextTimer());
}

Tick TimerWorker::NextTimer() const noexcept {
  Tick earliest = kNever;
  for (unsigned i = 0; i < set_->size(); ++i) earliest = std::min(earliest, set_->shard(i)->next());
  return earliest;
}

void TimerWorker::FireSome(TimerShard* shard, Tick now) {
  FireContext context;
  std::size_t fired = 0;
  Tick first = now;
  {
    base::SpinLockGuard guard(shard->lock);
    // kMore is redundant: next() says the same.
    static_cast<void>(shard->Advance(now, FireContext::kCapacity, [&](TimerNode* node) {
      if (fired++ == 0) first = node->tick;
      node->fire(node, &context);
    }));
  }
  // relaxed: statistics; written by this thread only.
  fired_.store(fired_.load(std::memory_order_relaxed) + fired, std::memory_order_relaxed);
  if (fired != 0) {
    // Once for all of them: a timer of its own costs as much as its record.
    set_->fired().lateness.RecordByMany(BeginOfTick(now) - BeginOfTick(std::min(first, now)), fired);
    scheduling_group::Recorder::Note(scheduling_group::EventKind::kTimers, context.ready_count(),
                                     context.entry_count());
  }
  if (context.ready_count() != 0) scheduling_group::UnparkRemote(context.ready(), context.ready_count());
  context.RunDeferred();
  if (context.entry_count() != 0) callback_runner_.RunDue(context.entries(), context.entry_count());
}

bool TimerWorker::FireOnce(Tick now) {
  bool fired = false;
  for (unsigned i = 0; i < set_->size(); ++i) {
    TimerShard* shard = set_->shard(i);
    if (shard->next() > now) continue;
    FireSome(shard, now);
    fired = true;
  }
  return fired;
}

Tick TimerWorker::RunDue() {
  for (;;) {
    const Tick now = TickOfNow(options_.clock->now());
    const bool fired = FireOnce(now);
    set_->housekeeping().RunIfDue(now, [this] {
      TrimTimers();
      return options_.trim ? options_.trim() : 0;
    });
    const Tick earliest = Earliest();
    if (!fired || earliest == 0) return earliest;
  }
}

void TimerWorker::RunDueFor() {
  constexpr int kMostPasses = 1'000;
  thread_id_.store(static_cast<int>(syscall(SYS_gettid)), std::memory_order_relaxed);  // For the log.
  SetShardSetOfThread(set_);
  for (int pass = 0; pass < kMostPasses && FireOnce(TickOfNow(options_.clock->now())); ++pass) {
  }
  SetShardSetOfThread(nullptr);
}

Tick TimerWorker::AnnounceSleep() {
  return set_->alarm().SleepElsewhere([this] { return Earliest(); });
}

void TimerWorker::WakeUp() { set_->alarm().WakeUp(); }

WEFT_COLD void TimerWorker::ThreadMain() {
  scheduling_group::ServeGroup(options_.group);
  pthread_setname_np(pthread_self(), ThreadName().c_str());
  if (options_.group != nullptr && !options_.group->options().cpus.empty()) {
    const std::vector<int> cpus(options_.group->options().cpus.begin(), options_.group->options().cpus.end());
    if (const std::error_code error = numa::BindThread(cpus)) {
      WEFT_LOG(WARNING, "the timers of scheduling group ", Label(), " are not bound to its CPUs: ", error.message());
    }
  }
  // By default the kernel may delay a time-out by 50 us to merge wake-ups; ours are few.
  prctl(PR_SET_TIMERSLACK, 1UL);
  AskForShortTimeSlices();
  thread_id_.store(static_cast<int>(syscall(SYS_gettid)), std::memory_order_relaxed);  // For the log.
  SetShardSetOfThread(set_);
  scheduling_group::SetThreadMayWait(false);
  while (RunDue() != 0) {
    set_->alarm().Sleep([this] { return Earliest(); });
    wake_ups_.store(wake_ups_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);  // As fired_.
  }
  SetShardSetOfThread(nullptr);
  if (BeginEnd()) {
    thread_ended_.Unpark();
  } else {
    scheduling_group::LeftThreads::Remove();
  }
}

void TimerWorker::TrimTimers() {
  for (unsigned i = 0; i < set_->size(); ++i) {
    for (EntryWidth width : kEntryWidths) TrimTimers(set_->shard(i), width);
  }
}

WEFT_COLD void TimerWorker::TrimTimers(TimerShard* shard, EntryWidth width) {
  for (;;) {
    shard->lock.lock();
    TimerChunk* chunk = shard->slab(width).TakeUnused();
    shard->lock.unlock();
    if (chunk == nullptr) break;
    TimerSlab::ReturnMemory(chunk);
    base::SpinLockGuard guard(shard->lock);
    shard->slab(width).PutBack(chunk);
  }
}

}  // namespace weft::timer
