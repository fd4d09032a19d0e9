// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// The one runtime of the process: starts and ends it, and answers questions about it. runtime_instance.h has its parts
// and the order in which they start and end.
//
// Functions for any thread may be called at any time, also while the runtime starts or ends and after its end; before
// the first runtime they abort. They use the runtime in a ReadSection (read_section.h). The tests any_time and
// exit call them all (tests/stress/any_time_calls.h) through restarts and exits.
//
// exit(), and the return from main(), need no TerminateRuntime(): workers and other threads continue until the process
// is gone, and nothing that they use has a destructor (tests/no_destructors.cmake).
//
// Invariants
//   RT1  at most one runtime runs; starting and terminating do not overlap (`phase` admits one caller).
//   RT4  hooks are set before the first fiber and never changed.

#include "weft/fiber/runtime.h"

#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/base/report/check.h"
#include "weft/base/report/log.h"
#include "weft/base/thread/exit.h"
#include "weft/fiber/fiber_attributes.h"
#include "weft/fiber/runtime/blocking_limits.h"
#include "weft/fiber/runtime/dump_hook.h"
#include "weft/fiber/runtime/recorder_level.h"
#include "weft/fiber/runtime/runtime_flags.h"
#include "weft/fiber/runtime/runtime_hooks.h"
#include "weft/fiber/runtime/runtime_instance.h"
#include "weft/fiber/runtime/runtime_plan.h"
#include "weft/numa/memory/affinity.h"
#include "weft/scheduling_group/fiber/read_section.h"
#include "weft/scheduling_group/group/group_registry.h"
#include "weft/scheduling_group/group/loop_groups.h"
#include "weft/scheduling_group/worker/current_worker.h"
#include "weft/timer/queue/timer_shard.h"

namespace weft {

namespace {

using fiber::PlanRuntime;
using fiber::RuntimePlan;
using fiber::detail::RuntimeInstance;
using scheduling_group::SchedulingGroup;

std::optional<RuntimePlan> Plan(const RuntimeOptions& options, std::string* error) {
  std::string why;
  std::optional<RuntimePlan> plan = PlanRuntime(options, &why);
  if (!plan.has_value()) {
    *error = "the scheduling groups cannot be planned: " + why;
    return std::nullopt;
  }
  static_assert(scheduling_group::LoopGroups::kFirstId >= static_cast<int>(scheduling_group::kMaxGroups));
  static_assert(timer::ShardSet::kMaxGroups >=
                scheduling_group::LoopGroups::kFirstId + scheduling_group::LoopGroups::kMost);
  const std::size_t count = plan->plan.groups.size();
  if (count > scheduling_group::kMaxGroups) {
    *error = base::StrCat(count, " scheduling groups are too many, at most ", scheduling_group::kMaxGroups,
                          ": ask for fewer workers (--fiber_concurrency_hint, --fiber_groups) or larger groups "
                          "(--fiber_scheduling_group_size)");
    return std::nullopt;
  }
  if (const std::string islands = fiber::DescribeIslands(plan->plan, options); !islands.empty()) {
    WEFT_LOG(WARNING, islands);
  }
  return plan;
}

enum class Phase { kStopped, kChanging, kRunning };

constinit std::atomic<Phase> phase{Phase::kStopped};

// If no runtime ran, the child may have one of its own.
void AfterForkInChild() {
  // The child of a fiber has inherited its worker's CPUs. A loop's thread is the user's.
  const scheduling_group::WorkerBase* const worker = scheduling_group::CurrentWorker();
  if (worker != nullptr && !worker->of_loop) numa::RunWhereTheFirstThreadOf(::getppid());
  if (phase.load(std::memory_order_relaxed) == Phase::kStopped) {
    // In the main context of a loop, whose fibers are the parent's: waits there block, and do not run them.
    if (worker != nullptr && worker->of_loop && worker->current == nullptr) {
      scheduling_group::SetCurrentWorker(nullptr);
    }
    scheduling_group::ForgetOtherThreadsSections();
    fiber::detail::RetiredGroups::BelongToParent();
    return;
  }
  scheduling_group::MarkForkedChild();
  scheduling_group::ForgetGroups();
  timer::ForgetShardSets();
  fiber::detail::the_runtime.store(nullptr, std::memory_order_relaxed);
  phase.store(Phase::kStopped, std::memory_order_relaxed);
}

// The result of `ask`; `if_none` if there is no runtime any more.
template <class Answer, class Ask>
Answer AskRuntime(const char* caller, Answer if_none, Ask ask) {
  const scheduling_group::ReadSection section;
  // A worker that was left behind is in no section, and its runtime has ended.
  const SchedulingGroup* const own = scheduling_group::CurrentGroup();
  if (own != nullptr && own->stopping()) return if_none;
  // acquire: the object.  Pairs with the release in Publish().
  if (const RuntimeInstance* runtime = fiber::detail::the_runtime.load(std::memory_order_acquire)) return ask(*runtime);
  scheduling_group::CheckRuntimeHasRun(caller);
  return if_none;
}

void CheckGroup(const char* caller, std::size_t group, std::size_t count) {
  WEFT_CHECK(group < count, caller, ": there is no scheduling group ", group, ", only 0 to ", count - 1);
}

}  // namespace

void fiber::detail::EnsureRuntimeHooks() {
  static std::once_flag hooks_installed;
  std::call_once(hooks_installed, [] {
    base::PinThisLibrary();  // By the caller, who may be in dlopen(), before there are threads that it may wait for.
    InstallRuntimeHooks(&AfterForkInChild);
  });
}

namespace {

// Those that have ended while a thread lived that was left behind (WL3 in scheduling_group/worker/worker_slot.h). RT1.
std::vector<std::unique_ptr<RuntimeInstance>>& KeptRuntimes() {
  static auto* const kept = new std::vector<std::unique_ptr<RuntimeInstance>>;
  return *kept;
}

// One that has ended, or has failed to start: a thread that was left behind in a group of the same number may have
// found its timers, too (TimerWorker::Of()). There is room: TryStart().
void KeepOrDestroy(std::unique_ptr<RuntimeInstance> runtime) noexcept {
  KeptRuntimes().push_back(std::move(runtime));
  if (RuntimeInstance::MayBeDestroyed()) KeptRuntimes().clear();
}

enum class Started {
  kYes,
  kImpossible,  // what the options ask for, on this machine
  kRefused,     // by the system, or because of what runs already
};
Started TryStart(const RuntimeOptions& options, std::string* error);

}  // namespace

void StartRuntime() {
  RuntimeOptions options;
  std::optional<std::string> wrong = fiber::CheckFlagFiles();
  if (!wrong.has_value()) wrong = fiber::ReadFlags(&options);
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
  // The user's mistake: one line and the exit code for wrong usage, no core.
  std::fprintf(stderr, "StartRuntime: %s\n", wrong->c_str());
  std::exit(2);
}

void StartRuntime(const RuntimeOptions& options) {
  std::string error;
  if (!TryStartRuntime(options, &error)) WEFT_FATAL("StartRuntime: ", error);
}

bool TryStartRuntime(const RuntimeOptions& options, std::string* error) {
  return TryStart(options, error) == Started::kYes;
}

namespace {

// Returns start()'s result; false, with the exception's text, if it throws.
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

Started TryStart(const RuntimeOptions& options, std::string* error) {
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
  std::unique_ptr<RuntimeInstance> runtime;
  const bool started = WithoutExceptions(error, [&] {
    fiber::detail::EnsureRuntimeHooks();
    if (std::optional<std::string> refused = fiber::detail::PrepareDumps(options)) {
      impossible = true;
      *error = *std::move(refused);
      return false;
    }
    std::optional<RuntimePlan> planned = Plan(options, error);
    impossible = !planned.has_value();
    if (impossible) return false;
    KeptRuntimes().reserve(KeptRuntimes().size() + 1);
    runtime = std::make_unique<RuntimeInstance>(options);
    return runtime->Start(options, *std::move(planned), error);
  });
  if (!started) {
    if (runtime != nullptr) {
      runtime->Undo();
      KeepOrDestroy(std::move(runtime));
    }
    fiber::detail::EndDumps();
    phase.store(Phase::kStopped, std::memory_order_release);  // As in TerminateRuntime().
    return impossible ? Started::kImpossible : Started::kRefused;
  }
  fiber::detail::SetBlockingLimits(options);
  fiber::detail::SetRecorderLevel(options.recorder, 0);
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
  std::unique_ptr<RuntimeInstance> runtime(fiber::detail::the_runtime.load(std::memory_order_relaxed));
  const std::size_t unfinished = runtime->Terminate();
  KeepOrDestroy(std::move(runtime));
  fiber::detail::EndDumps();
  phase.store(Phase::kStopped, std::memory_order_release);  // Pairs with the acquire in StartRuntime().
  return unfinished;
}

// acquire: what was done before StartRuntime() returned.  Pairs with the release there.
bool IsRuntimeRunning() noexcept { return phase.load(std::memory_order_acquire) == Phase::kRunning; }

void UnbindThread() {
  WEFT_CHECK(scheduling_group::CurrentWorker() == nullptr,
             "UnbindThread: called in a fiber, whose worker has its CPUs");
  numa::RunWhereTheFirstThreadOf(::getpid());
}

std::size_t GetSchedulingGroupCount() {
  return AskRuntime("GetSchedulingGroupCount", std::size_t{0},
                    [](const RuntimeInstance& r) { return r.group_count(); });
}

std::vector<scheduling_group::GroupCounts> GetSchedulingCounts() {
  return AskRuntime("GetSchedulingCounts", std::vector<scheduling_group::GroupCounts>(),
                    [](const RuntimeInstance& r) { return r.counts(); });
}

std::size_t GetSchedulingGroupSize() {
  return AskRuntime("GetSchedulingGroupSize", std::size_t{0},
                    [](const RuntimeInstance& r) { return r.largest_group(); });
}

std::size_t GetConcurrencyHint() {
  return AskRuntime("GetConcurrencyHint", std::size_t{0}, [](const RuntimeInstance& r) { return r.worker_count(); });
}

std::size_t GetCurrentSchedulingGroupIndex() {
  const SchedulingGroup* const group = scheduling_group::CurrentGroup();
  if (group == nullptr) {
    scheduling_group::CheckRuntimeHasRun("GetCurrentSchedulingGroupIndex");
    WEFT_FATAL("GetCurrentSchedulingGroupIndex: the caller is not a fiber");
  }
  return static_cast<std::size_t>(group->id());
}

std::size_t SchedulingGroupNamed(std::string_view name) {
  return AskRuntime("SchedulingGroupNamed", kNearestSchedulingGroup,
                    [&](const RuntimeInstance& r) { return r.GroupsNamed(name); });
}

std::string GetSchedulingGroupName(std::size_t scheduling_group) {
  constexpr const char* kName = "GetSchedulingGroupName";
  return AskRuntime(kName, std::string(), [&](const RuntimeInstance& runtime) {
    const SchedulingGroup* const own = scheduling_group::CurrentGroup();
    if (own != nullptr && own->of_loop() && scheduling_group == static_cast<std::size_t>(own->id())) {
      return std::string();
    }
    CheckGroup(kName, scheduling_group, runtime.group_count());
    return runtime.name(scheduling_group);
  });
}

int GetSchedulingGroupAssignedNode(std::size_t scheduling_group) {
  constexpr const char* kName = "GetSchedulingGroupAssignedNode";
  return AskRuntime(kName, -1, [&](const RuntimeInstance& runtime) {
    CheckGroup(kName, scheduling_group, runtime.group_count());
    return runtime.planned_node(scheduling_group);
  });
}

}  // namespace weft
