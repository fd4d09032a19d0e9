// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// The composition root: the only file that knows all layers.  Read it to see how they are put together.
//
//   StartRuntime                                    TerminateRuntime
//   ------------                                    ----------------
//   1  options are checked                          1  plain threads are refused new fibers; fibers are not
//   2  the machine is read, groups are planned      2  timers with callbacks are dropped, none can be set any more
//   3  groups are made; they know their victims     3  drain: waits until all fibers have ended, up to
//   4  timer threads start                             terminate_timeout; sleeps and timed waits end in time
//   5  workers start                                4  timer threads stop: nothing is woken by time any more
//   6  the runtime and its groups are published     5  workers stop, each when its fiber suspends or ends
//                                                   6  both are unpublished, and whoever still looks is waited for
//                                                   7  unfinished fibers are logged, by name and id
//
// What fails before step 6 is undone: threads are stopped and joined, groups kept for the next start.
//
// All other threads may call whatever is said to be for any thread at any time: while the runtime starts, runs, ends,
// and when it has ended (but before the first one they are told to start it, by an abort). They look at it in an
// OutsideSection (outside_section.h). Which functions these are is listed in tests/stress/any_time_calls.h; the tests
// any_time and exit beside it call them all through restarts and exits.
//
// exit(), and the return from main(), need no TerminateRuntime(): workers and other threads go on until the process is
// gone, and nothing that they use has a destructor (tests/no_destructors.cmake).
//
// An unfinished fiber stays as it was when it last stopped, for ever: its stack is not unwound and nothing on
// it is destroyed (to run destructors under fibers that still refer to each other would be worse), and it never runs
// again, though waking it is harmless. Whoever joins it waits for ever. Step 5 waits for a fiber that computes without
// ever suspending, after a line in the log that says so.
//
// Invariants
//   RT1  at most one runtime runs; starting and terminating do not overlap (`phase` admits one caller).
//   RT2  once StartFiberDetached has said true the fiber runs, or step 7 counts it as unfinished.  (Step 1 refuses,
//        and waits for all OutsideSections: a spawner either sees the refusal, or its fiber is in its queue, and in the
//        count that step 3 looks at.)
//   RT3  after step 6 nobody but the terminating thread has a group of the runtime, or the runtime, in its hands: not
//        even a plain thread that woke the last fiber and was still inside the wake-up (SchedulingGroup::Notify) when
//        everything had ended. So groups without unfinished fibers are closed then: the memory of their queues, worker
//        slots and stacks goes back. What is left, a kilobyte and the group's poller, is used again by the next
//        runtimes, whatever their options: descriptors that outlive a runtime still refer to the poller (io/reactor.h).
//        Groups with unfinished fibers are kept apart as they are, and never run again.
//   RT4  hooks are set before the first fiber and never changed.
//   RT5  a start that fails has changed nothing: what it had made is gone, and the next start begins anew.
//   RT6  a child that was forked while no runtime ran uses no group of the parent's runtimes again: their pollers are
//        the parent's, too, which may start another runtime, and each would take the events of the other.

#include "weft/fiber/runtime.h"

#include <pthread.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "weft/base/check.h"
#include "weft/base/clock.h"
#include "weft/base/log.h"
#include "weft/context/overflow_handler.h"
#include "weft/fiber/blocking_limits.h"
#include "weft/fiber/execution_context.h"
#include "weft/fiber/fiber_limiter.h"
#include "weft/fiber/fiber_local.h"
#include "weft/fiber/runtime_flags.h"
#include "weft/fiber/runtime_plan.h"
#include "weft/fiber/start_fiber.h"
#include "weft/fiber/terminate_handler.h"
#include "weft/fiber/unfinished_fibers.h"
#include "weft/numa/node_memory.h"
#include "weft/numa/topology.h"
#include "weft/scheduling_group/drain.h"
#include "weft/scheduling_group/entity_pool.h"
#include "weft/scheduling_group/fiber_entity.h"
#include "weft/scheduling_group/forked_child.h"
#include "weft/scheduling_group/group_plan.h"
#include "weft/scheduling_group/group_registry.h"
#include "weft/scheduling_group/outside_section.h"
#include "weft/scheduling_group/park.h"
#include "weft/scheduling_group/scheduling_group.h"
#include "weft/scheduling_group/worker.h"
#include "weft/timer/callback_timer.h"
#include "weft/timer/shard_set.h"
#include "weft/timer/timer_worker.h"

namespace weft::fiber {

namespace {

using scheduling_group::FiberEntity;
using scheduling_group::GroupPlan;
using scheduling_group::PlannedGroup;
using scheduling_group::SchedulingGroup;
using scheduling_group::WorkerTeam;
using timer::TimerWorker;

// ---- Hooks ----

void DestroyFiberLocals(FiberEntity* self) {
  detail::DestroyFiberLocalTable(static_cast<detail::FiberLocalTable*>(self->fiber_local_slots));
  self->fiber_local_slots = nullptr;
}

// May run on the stack of the fiber that ends, or on that of a caller whose start was refused.
void ReleaseExecutionContext(FiberEntity* fiber) {
  auto* const context = static_cast<FiberExecutionContext*>(std::exchange(fiber->execution_context, nullptr));
  context->Release();
  // Destructors of the context's values may have used fiber-locals anew.
  if (fiber->fiber_local_slots != nullptr) DestroyFiberLocals(fiber);
}

std::string DescribeCaller() {
  const FiberEntity* const self = scheduling_group::CurrentFiber();
  return self != nullptr ? detail::DescribeFiber(*self) : std::string();
}

// Async-signal-safe.
bool DescribeForOverflow(context::OverflowInfo* info) {
  const FiberEntity* const self = scheduling_group::CurrentFiber();
  if (self == nullptr) return false;
  info->name = self->name();
  info->id = self->id();
  info->stack_top = self->stack_top();
  return true;
}

void AfterForkInChild();

void InstallHooks() {
  scheduling_group::fiber_hooks = {.destroy_fiber_locals = &DestroyFiberLocals,
                                   .release_execution_context = &ReleaseExecutionContext};
  timer::execution_context_hooks = {
      .add_reference =
          [](void* context) {
            static_cast<FiberExecutionContext*>(context)->AddRef();
            return context;
          },
      .release = [](void* context) { static_cast<FiberExecutionContext*>(context)->Release(); }};
  base::SetCheckContextHook(&DescribeCaller);
  detail::InstallTerminateHandler();
  context::SetDescribeRunningFiber(&DescribeForOverflow);
  context::InstallOverflowHandler();
  detail::PrepareForLeakChecker();
  // No memory for it: a child is not told why nothing works, which is no reason not to start.
  (void)::pthread_atfork(nullptr, nullptr, &AfterForkInChild);
}

// ---- Plan ----

std::optional<RuntimePlan> Plan(const Options& options, std::string* error) {
  std::string why;
  std::optional<RuntimePlan> plan = PlanRuntime(options, &why);
  if (!plan.has_value()) {
    *error = "the scheduling groups cannot be planned: " + why;
    return std::nullopt;
  }
  static_assert(timer::ShardSet::kMaxGroups >= scheduling_group::kMaxGroups);
  const std::size_t count = plan->plan.groups.size();
  if (count > scheduling_group::kMaxGroups) {
    *error = base::StrCat(count, " scheduling groups are too many, at most ", scheduling_group::kMaxGroups,
                          ": ask for fewer workers (--fiber_concurrency_hint) or larger groups "
                          "(--fiber_scheduling_group_size)");
    return std::nullopt;
  }
  return plan;
}

// A plan for another machine (--fiber_topology) can be tried out anywhere: what of its CPUs this machine has,
std::vector<int> CpusHere(const PlannedGroup& planned, const numa::Topology& here) {
  std::vector<int> cpus = planned.cpus;
  std::erase_if(cpus, [&](int cpu) { return here.FindCpu(cpu) == nullptr; });
  return cpus;
}

// and the CPU of each worker, -1 where it is not here.
std::vector<int> WorkerCpusHere(const PlannedGroup& planned, const numa::Topology& here) {
  std::vector<int> cpus = planned.worker_cpus;
  for (int& cpu : cpus) {
    if (here.FindCpu(cpu) == nullptr) cpu = -1;
  }
  return cpus;
}

SchedulingGroup::Options GroupOptions(int id, const PlannedGroup& planned, const Options& options,
                                      const numa::Topology& here) {
  return {
      .id = id,
      .workers = planned.workers,
      .policy = options.scheduling_name,
      .run_queue_size = static_cast<std::size_t>(options.run_queue_size),
      .stack_size = static_cast<std::size_t>(options.stack_size),
      .guard_pages = options.stack_enable_guard_page,
      .guard_size = static_cast<std::size_t>(options.stack_guard_size),
      .node = here.FindNode(planned.node) != nullptr ? planned.node : -1,
      .cpus = CpusHere(planned, here),
      .worker_cpus = options.worker_disallow_cpu_migration ? WorkerCpusHere(planned, here) : std::vector<int>(),
      .start_timeout = options.start_timeout,
      .warm_stacks = static_cast<std::size_t>(options.stack_pool_size),
      .io_engine = options.io_engine,
      .max_ready_wait = options.limit_ready_wait,
  };
}

// ---- Groups that outlive their runtime (RT3) ----

// Used by whoever has won `phase`; never destroyed.
struct Retired {
  std::vector<std::unique_ptr<SchedulingGroup>> closed;
  std::vector<std::unique_ptr<SchedulingGroup>> with_unfinished_fibers;
  std::size_t unfinished_fibers = 0;
};

// In a forked child (RT6).
constinit std::atomic<bool> retired_are_the_parents{false};

Retired& TheRetired() {
  static auto* const retired = new Retired;
  return *retired;
}

void KeepTheParentsApart() {
  // relaxed: set while the process has one thread.
  if (!retired_are_the_parents.load(std::memory_order_relaxed)) return;
  auto& [closed, kept, count] = TheRetired();
  kept.reserve(kept.size() + closed.size());
  std::move(closed.begin(), closed.end(), std::back_inserter(kept));  // Descriptors may refer to their pollers.
  closed.clear();
  retired_are_the_parents.store(false, std::memory_order_relaxed);
}

std::unique_ptr<SchedulingGroup> ReuseOrMakeGroup(const SchedulingGroup::Options& options) {
  auto& closed = TheRetired().closed;
  const auto found =
      std::find_if(closed.begin(), closed.end(), [&](const auto& group) { return group->CanReopen(options); });
  if (found == closed.end()) {
    return std::unique_ptr<SchedulingGroup>(new (numa::OnNode{options.node}) SchedulingGroup(options));
  }
  (*found)->Reopen(options);  // May throw: before it leaves the list.
  std::unique_ptr<SchedulingGroup> group = std::move(*found);
  closed.erase(found);
  return group;
}

// ---- The runtime ----

class Runtime {
 public:
  explicit Runtime(const Options& options) : terminate_timeout_(options.terminate_timeout) {}
  ~Runtime();

  // Steps 3 to 5.  False, with the reason, or an exception: what has been started is stopped by the destructor.
  [[nodiscard]] bool Start(const Options& options, RuntimePlan planned, std::string* error);
  // Step 6.
  void Publish() noexcept;

  // Steps 1 to 7; how many fibers have not finished.
  std::size_t Terminate();

  std::size_t group_count() const { return groups_.size(); }
  std::vector<scheduling_group::GroupCounts> counts() const {
    std::vector<scheduling_group::GroupCounts> counts;
    for (const auto& group : groups_) counts.push_back(scheduling_group::ReadCounts(*group));
    return counts;
  }
  std::size_t largest_group() const { return largest_group_; }
  std::size_t worker_count() const { return worker_count_; }
  int planned_node(std::size_t group) const { return plan_.groups[group].node; }

 private:
  void MakeGroups(const Options& options, const numa::Topology& here);
  void IntroduceNeighbours(const Options& options);
  bool StartTimers(std::string* error);
  bool StartWorkers(std::string* error);

  bool Drain();
  void StopWorkers();
  void Retire(std::size_t unfinished);

  const std::chrono::milliseconds terminate_timeout_;
  GroupPlan plan_;
  std::size_t largest_group_ = 0;
  std::size_t worker_count_ = 0;
  base::Deadline drain_deadline_;
  std::vector<std::unique_ptr<SchedulingGroup>> groups_;
  std::vector<SchedulingGroup*> group_pointers_;  // the same
  std::vector<std::unique_ptr<TimerWorker>> timers_;
  std::vector<std::unique_ptr<WorkerTeam>> teams_;
};

// Changed while `phase` is kChanging; used by workers, and in OutsideSections.
constinit std::atomic<Runtime*> the_runtime{nullptr};

bool Runtime::Start(const Options& options, RuntimePlan planned, std::string* error) {
  plan_ = std::move(planned.plan);
  // Before there are threads: with several the kernel takes 10 ms to grant it.
  scheduling_group::UseHeavyFenceForOutsideSections();
  MakeGroups(options, planned.here);
  IntroduceNeighbours(options);
  if (!StartTimers(error) || !StartWorkers(error)) return false;
  detail::ResetLimiter(static_cast<std::size_t>(options.limit_fibers), TheRetired().unfinished_fibers);
  return true;
}

void Runtime::MakeGroups(const Options& options, const numa::Topology& here) {
  KeepTheParentsApart();
  // Nothing may fail when it comes to give them back.
  TheRetired().closed.reserve(TheRetired().closed.size() + plan_.groups.size());
  TheRetired().with_unfinished_fibers.reserve(TheRetired().with_unfinished_fibers.size() + plan_.groups.size());
  groups_.reserve(plan_.groups.size());
  group_pointers_.reserve(plan_.groups.size());
  for (const PlannedGroup& planned : plan_.groups) {
    const int id = static_cast<int>(groups_.size());
    groups_.push_back(ReuseOrMakeGroup(GroupOptions(id, planned, options, here)));
    group_pointers_.push_back(groups_.back().get());
    largest_group_ = std::max<std::size_t>(largest_group_, planned.workers);
    worker_count_ += planned.workers;
  }
}

void Runtime::IntroduceNeighbours(const Options& options) {
  for (std::size_t i = 0; i < groups_.size(); ++i) {
    std::vector<SchedulingGroup::Neighbour> neighbours;
    for (const PlannedGroup::Neighbour& neighbour : plan_.groups[i].neighbours) {
      const std::int64_t every_n =
          neighbour.same_node ? options.work_stealing_ratio : options.cross_numa_work_stealing_ratio;
      if (every_n == 0) continue;
      neighbours.push_back({.group = groups_[static_cast<std::size_t>(neighbour.group)].get(),
                            .steal_every_n = static_cast<unsigned>(every_n),
                            .distance = neighbour.distance});
    }
    groups_[i]->SetNeighbours(std::move(neighbours));
  }
}

bool Runtime::StartTimers(std::string* error) {
  timers_.reserve(groups_.size());
  for (const auto& group : groups_) {
    TimerWorker::Options options;
    options.group = group.get();
    options.trim = [group = group.get()] { return group->TrimIdleMemory(); };
    timers_.push_back(std::make_unique<TimerWorker>(std::move(options)));
    group->SetIdleHook(
        {.call = [](void* timer) { static_cast<TimerWorker*>(timer)->RequestTrim(); }, .arg = timers_.back().get()});
    if (timers_.back()->Start()) continue;
    *error = base::StrCat("the system gave no thread for the timers of scheduling group ", group->id());
    return false;
  }
  return true;
}

bool Runtime::StartWorkers(std::string* error) {
  teams_.reserve(groups_.size());
  for (const auto& group : groups_) {
    teams_.push_back(std::make_unique<WorkerTeam>(group.get()));
    if (teams_.back()->Start()) continue;
    *error = base::StrCat("the system gave no thread for a worker of scheduling group ", group->id());
    return false;
  }
  return true;
}

void Runtime::Publish() noexcept {
  // The groups last: from then on there are fibers, which may ask for the runtime.
  // release: the object.  Pairs with the acquire in AskRuntime().
  the_runtime.store(this, std::memory_order_release);
  scheduling_group::SetGroups(group_pointers_);
}

void Runtime::StopWorkers() {
  for (const auto& group : groups_) group->Stop();
  for (const auto& team : teams_) team->Join();
}

// After Terminate() there is nothing left to do.
Runtime::~Runtime() {
  if (groups_.empty()) return;
  StopWorkers();
  timers_.clear();
  scheduling_group::WaitForOutsideSections();  // The poller's watchdog may be in one.
  Retire(/*unfinished=*/0);
}

// Waits for the end of all fibers but those of former runtimes that are unfinished already; false: the time is up.
bool Runtime::Drain() { return scheduling_group::WaitUntilNoFibers(drain_deadline_, TheRetired().unfinished_fibers); }

std::size_t Runtime::Terminate() {
  drain_deadline_ = base::Deadline::After(terminate_timeout_);
  detail::RefuseOutsiders(true);
  for (const auto& group : groups_) group->RefuseNewFibers();
  scheduling_group::WaitForOutsideSections();  // RT2
  for (const auto& timer : timers_) timer->DropCallbacks();

  if (!Drain()) detail::WarnOfFibersAlive(group_pointers_, terminate_timeout_);
  for (const auto& timer : timers_) timer->Stop();
  // A timer thread may have started a fiber for a callback that was due, as its last act.
  const bool drained = Drain();

  StopWorkers();
  the_runtime.store(nullptr, std::memory_order_relaxed);  // SetGroups() has a fence.
  scheduling_group::SetGroups({});                        // And waits (RT3).
  const std::size_t unfinished = drained ? 0 : detail::ReportUnfinishedFibers(group_pointers_);
  timers_.clear();
  Retire(unfinished);
  detail::RefuseOutsiders(false);
  return unfinished;
}

void Runtime::Retire(std::size_t unfinished) {
  Retired& retired = TheRetired();
  auto& list = unfinished == 0 ? retired.closed : retired.with_unfinished_fibers;
  for (auto& group : groups_) {
    group->SetIdleHook({});
    if (unfinished == 0) {
      group->Close();
    } else {
      (void)group->stacks().Trim(0);
    }
    list.push_back(std::move(group));
  }
  groups_.clear();
  (void)scheduling_group::EntityPool::Trim();
  retired.unfinished_fibers += unfinished;
}

// ---- The one runtime ----

enum class Phase { kStopped, kChanging, kRunning };

constinit std::atomic<Phase> phase{Phase::kStopped};

// Where no runtime was, the child may have one of its own.
void AfterForkInChild() {
  if (phase.load(std::memory_order_relaxed) == Phase::kStopped) {
    scheduling_group::ForgetOtherThreadsSections();
    retired_are_the_parents.store(true, std::memory_order_relaxed);
    return;
  }
  scheduling_group::MarkForkedChild();
  scheduling_group::ForgetGroups();
  timer::ForgetShardSets();
  the_runtime.store(nullptr, std::memory_order_relaxed);
  phase.store(Phase::kStopped, std::memory_order_relaxed);
}

// What `ask` says of the runtime; the default if there is none any more.
template <class Answer, class Ask>
Answer AskRuntime(const char* caller, Answer if_none, Ask ask) {
  const scheduling_group::OutsideSection section;
  // acquire: the object.  Pairs with the release in Publish().
  if (const Runtime* runtime = the_runtime.load(std::memory_order_acquire)) return ask(*runtime);
  scheduling_group::CheckRuntimeHasRun(caller);
  return if_none;
}

void CheckGroup(const char* caller, std::size_t group, std::size_t count) {
  WEFT_CHECK(group < count, caller, ": there is no scheduling group ", group, ", only 0 to ", count - 1);
}

}  // namespace

namespace {

enum class Started {
  kYes,
  kImpossible,  // as the options want it on this machine
  kRefused,     // by the system, or because of what runs already
};
Started TryStart(const Options& options, std::string* error);

}  // namespace

void StartRuntime() {
  Options options;
  std::optional<std::string> wrong = CheckFlagFiles();
  if (!wrong.has_value()) wrong = ReadFlags(&options);
  if (!wrong.has_value()) {
    std::string error;
    switch (TryStart(options, &error)) {
      case Started::kYes:
        return;
      case Started::kImpossible:
        wrong = std::move(error);
        break;
      case Started::kRefused:
        WEFT_FATAL("StartRuntime: ", error);
    }
  }
  // The user's mistake, not the program's: a line and the exit code of a wrong use, no core.
  std::fprintf(stderr, "StartRuntime: %s\n", wrong->c_str());
  std::exit(2);
}

void StartRuntime(const Options& options) {
  std::string error;
  if (!TryStartRuntime(options, &error)) WEFT_FATAL("StartRuntime: ", error);
}

bool TryStartRuntime(const Options& options, std::string* error) { return TryStart(options, error) == Started::kYes; }

namespace {

// What `start` returns, or false with what it has thrown.
template <class Start>
bool WithoutExceptions(std::string* error, Start start) noexcept {
  try {
    return start();
  } catch (const std::bad_alloc&) {
    *error = "out of memory";  // Short enough to need none.
  } catch (const std::exception& exception) {
    *error = exception.what();
  }
  return false;
}

Started TryStart(const Options& options, std::string* error) {
  if (scheduling_group::IsForkedChild()) {
    *error = scheduling_group::kForkedChildMessage;
    return Started::kRefused;
  }
  bool impossible = false;
  const bool valid = WithoutExceptions(error, [&] {
    std::optional<std::string> wrong = ValidateOptions(options);
    impossible = wrong.has_value();
    if (impossible) *error = *std::move(wrong);
    return !impossible;
  });
  if (!valid) return impossible ? Started::kImpossible : Started::kRefused;
  Phase expected = Phase::kStopped;
  // acquire: what the last TerminateRuntime() left.  Pairs with its release store.
  if (!phase.compare_exchange_strong(expected, Phase::kChanging, std::memory_order_acquire)) {
    *error = "the runtime runs already (or is starting or ending just now)";
    return Started::kRefused;
  }
  std::unique_ptr<Runtime> runtime;
  const bool started = WithoutExceptions(error, [&] {
    static std::once_flag hooks_installed;
    std::call_once(hooks_installed, InstallHooks);
    std::optional<RuntimePlan> planned = Plan(options, error);
    impossible = !planned.has_value();
    if (impossible) return false;
    runtime = std::make_unique<Runtime>(options);
    return runtime->Start(options, *std::move(planned), error);
  });
  if (!started) {
    runtime.reset();
    phase.store(Phase::kStopped, std::memory_order_release);  // As in TerminateRuntime().
    return impossible ? Started::kImpossible : Started::kRefused;
  }
  detail::SetBlockingLimits(options);
  runtime.release()->Publish();
  phase.store(Phase::kRunning, std::memory_order_release);  // Pairs with the acquires of TerminateRuntime() and others.
  return Started::kYes;
}

}  // namespace

std::size_t TerminateRuntime() {
  if (scheduling_group::IsForkedChild()) {
    scheduling_group::WarnOfForkedChild("TerminateRuntime");
    return 0;
  }
  WEFT_CHECK(scheduling_group::CurrentWorker() == nullptr,
             "TerminateRuntime: called in a fiber, which would wait for its own end");
  WEFT_CHECK(timer::ShardSetOfThread() == nullptr,
             "TerminateRuntime: called by a timer's callback, on a thread that it would wait for");
  Phase expected = Phase::kRunning;
  WEFT_CHECK(phase.compare_exchange_strong(expected, Phase::kChanging, std::memory_order_acquire),
             "TerminateRuntime: the runtime does not run (or is starting or ending just now)");
  // relaxed: the phase carries it.
  const std::unique_ptr<Runtime> runtime(the_runtime.load(std::memory_order_relaxed));
  const std::size_t unfinished = runtime->Terminate();
  phase.store(Phase::kStopped, std::memory_order_release);  // Pairs with the acquire in StartRuntime().
  return unfinished;
}

// acquire: what was done before StartRuntime() returned.  Pairs with the release there.
bool IsRuntimeRunning() noexcept { return phase.load(std::memory_order_acquire) == Phase::kRunning; }

std::size_t GetSchedulingGroupCount() {
  return AskRuntime("GetSchedulingGroupCount", std::size_t{0}, [](const Runtime& r) { return r.group_count(); });
}

std::vector<scheduling_group::GroupCounts> GetSchedulingCounts() {
  return AskRuntime("GetSchedulingCounts", std::vector<scheduling_group::GroupCounts>(),
                    [](const Runtime& r) { return r.counts(); });
}

std::size_t GetSchedulingGroupSize() {
  return AskRuntime("GetSchedulingGroupSize", std::size_t{0}, [](const Runtime& r) { return r.largest_group(); });
}

std::size_t GetConcurrencyHint() {
  return AskRuntime("GetConcurrencyHint", std::size_t{0}, [](const Runtime& r) { return r.worker_count(); });
}

std::size_t GetCurrentSchedulingGroupIndex() {
  const SchedulingGroup* const group = scheduling_group::CurrentGroup();
  if (group == nullptr) {
    scheduling_group::CheckRuntimeHasRun("GetCurrentSchedulingGroupIndex");
    WEFT_FATAL("GetCurrentSchedulingGroupIndex: the caller is not a fiber");
  }
  return static_cast<std::size_t>(group->id());
}

int GetSchedulingGroupAssignedNode(std::size_t scheduling_group) {
  constexpr const char* kName = "GetSchedulingGroupAssignedNode";
  return AskRuntime(kName, -1, [&](const Runtime& runtime) {
    CheckGroup(kName, scheduling_group, runtime.group_count());
    return runtime.planned_node(scheduling_group);
  });
}

}  // namespace weft::fiber
