// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// How a fiber gets started: what Fiber, StartFiberDetached and BatchStartFiberDetached have in common.
//
// A start is three steps. The shortest way, StartPlain(), has no plan to keep; with attributes, Start():
//
//   plan   GroupFor(), PlanStart()           where the fiber goes, or that it is refused; its callable is untouched
//   make   NewFiber() (fiber_factory.h)      the control block, with options and callable
//   push   SubmitPlain(), Submit()           hands it to its group, or takes it back if the group refuses
//
// Invariants
//   ST1  a callable is run once, or its start was refused or threw and it has not run; never both, never neither.
//   ST2  PlanStart's reference to an execution context is given back once: by the fiber's end, a refusal, or the plan.
//   ST3  From the look at whether starts are refused to the hand-off the spawner is in one ReadSection: the group
//        stays, and TerminateRuntime(), which refuses and then waits for these sections, counts the fiber (RT2).
//   ST4  A start by a plain thread is refused while no runtime runs, or one ends; before the first one, by an abort.
//   ST5  A start throws what copying or moving the callable throws, and has done nothing then. No memory is a refusal.
//
// Any thread, any fiber.
#ifndef WEFT_FIBER_START_START_FIBER_H_
#define WEFT_FIBER_START_START_FIBER_H_

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <utility>
#include <vector>

#include "weft/base/thread/cpu.h"
#include "weft/base/unique_function.h"
#include "weft/fiber/fiber_attributes.h"
#include "weft/scheduling_group/fiber/fiber_entity.h"
#include "weft/scheduling_group/fiber/fiber_factory.h"
#include "weft/scheduling_group/fiber/read_section.h"
#include "weft/scheduling_group/worker/current_worker.h"

namespace weft::fiber::detail {

// A reference to an execution context, or none: of a plan, until its fiber has it.
class ContextReference {
 public:
  ContextReference() = default;
  ContextReference(ContextReference&& other) noexcept : context_(std::exchange(other.context_, nullptr)) {}
  ContextReference& operator=(ContextReference&&) = delete;
  ~ContextReference() {
    if (WEFT_UNLIKELY(context_ != nullptr)) Release();
  }
  void Own(void* context) noexcept { context_ = context; }
  void GiveAway() noexcept { context_ = nullptr; }

 private:
  void Release() noexcept;

  void* context_ = nullptr;
};

struct StartPlan {
  StartPlan() : StartPlan(scheduling_group::CurrentWorker()) {}
  explicit StartPlan(const scheduling_group::WorkerBase* caller) : section(caller) {}

  scheduling_group::ReadSection section;       // ST3
  StartRefusal refusal = StartRefusal::kNone;  // If it is another, nothing else counts.
  scheduling_group::SchedulingGroup* group = nullptr;
  scheduling_group::StartOptions options;
  ContextReference context;  // options.execution_context (ST2)
  Launch policy = Launch::Post;
  // Called when the fiber has been made, before it may run (and then perhaps is not started).
  void (*made)(void* argument, scheduling_group::FiberEntity* fiber) noexcept = nullptr;
  void* made_argument = nullptr;
};

// Not 0: some or all starts are refused, see StartIsRefused().
extern std::atomic<std::uint32_t> refusals;
// In this group, of the caller. Slow: for a caller that has seen `refusals`.
bool StartIsRefused(const scheduling_group::SchedulingGroup* group);

// While at least one stands, every start is refused (testing.h).
void ForbidStarts();
void AllowStarts();
// Starts by plain threads are refused from now on, or no more (runtime_instance.cc).
void RefuseOutsiders(bool refuse);

// For a plain thread: one of its node. nullptr: no runtime runs, and the start is refused (ST4).
scheduling_group::SchedulingGroup* FindAnyGroup(const char* caller);

// `worker`: CurrentWorker(); nullptr: the caller is in a ReadSection. Returns nullptr: refused.
inline scheduling_group::SchedulingGroup* GroupFor(const char* caller, const scheduling_group::WorkerBase* worker) {
  scheduling_group::SchedulingGroup* const group =
      WEFT_LIKELY(worker != nullptr) ? worker->group : FindAnyGroup(caller);
  // relaxed: it is read in the section (ST3).
  const bool some_refused = refusals.load(std::memory_order_relaxed) != 0;
  return WEFT_UNLIKELY(some_refused) && StartIsRefused(group) ? nullptr : group;
}

// Both abort, naming `caller`, if there has never been a runtime; the second also for attributes that cannot be.
inline StartPlan PlanStart(const char* caller) {
  const scheduling_group::WorkerBase* const worker = scheduling_group::CurrentWorker();
  StartPlan plan(worker);
  plan.group = GroupFor(caller, worker);
  if (WEFT_UNLIKELY(plan.group == nullptr)) plan.refusal = StartRefusal::kNoRuntime;
  return plan;
}
StartPlan PlanStart(const char* caller, const FiberAttributes& attributes);
// The second's check of numbers.
void CheckAttributes(const char* caller, const FiberAttributes& attributes);

// `fiber` has been made for `plan`; nullptr: it could not be. If it is refused, its callable has been destroyed.
[[nodiscard]] StartRefusal Submit(StartPlan& plan, scheduling_group::FiberEntity* fiber);
// The same without a plan, for what needs none.
[[nodiscard]] StartRefusal SubmitPlain(scheduling_group::SchedulingGroup* group, scheduling_group::FiberEntity* fiber);

// Fibers that have been made and are still ours: discarded if nobody gets them.
class NewFibers {
 public:
  NewFibers() = default;
  NewFibers(const NewFibers&) = delete;
  NewFibers& operator=(const NewFibers&) = delete;
  ~NewFibers() { DiscardAll(); }

  [[nodiscard]] bool Reserve(std::size_t count) noexcept;                                // false: there is no memory
  void Add(scheduling_group::FiberEntity* fiber) noexcept { fibers_.push_back(fiber); }  // there is room
  // All of them, at least one, in the plan's execution context or else the caller's; or none and false.
  [[nodiscard]] bool Submit(const StartPlan& plan);

 private:
  void DiscardAll() noexcept;

  std::vector<scheduling_group::FiberEntity*> fibers_;
};

// For a caller whose start was refused, before an exception or the end of the process says so. Does not return to a
// fiber whose workers have been told to stop: it is parked for good, and counts as unfinished (TerminateRuntime()).
void ParkForGoodIfGroupStops();
// That, and then throws FiberNotStarted.
[[noreturn]] void ThrowNotStarted(std::string_view name, StartRefusal why);

[[noreturn]] void FailEmptyCallable(const char* caller);

// An empty std::function would throw on the fiber's stack, where nobody knows who started it.
template <class F>
void CheckNotEmpty(const char* caller, const F& f) {
  if constexpr (base::kMayBeEmpty<F>) {
    if (WEFT_UNLIKELY(f == nullptr)) FailEmptyCallable(caller);
  }
}

// Whether F can be called with copies of its arguments, as by std::thread; or else with what their std::refs refer to.
template <class F, class... Args>
concept TakesCopies = std::invocable<std::decay_t<F>, std::decay_t<Args>...>;
template <class F, class... Args>
concept TakesReferred = std::invocable<std::decay_t<F>, std::unwrap_ref_decay_t<Args>...>;

// A function and its arguments as one callable, both kept by value.
template <class F, class... Args>
auto BindCall(F&& f, Args&&... args) {
  using Kept = std::conditional_t<TakesCopies<F, Args...>, std::tuple<std::decay_t<Args>...>,
                                  std::tuple<std::unwrap_ref_decay_t<Args>...>>;
  return
      [f = std::decay_t<F>(std::forward<F>(f)), args = Kept(std::forward<Args>(args)...)]() mutable -> decltype(auto) {
        return std::apply(std::move(f), std::move(args));
      };
}

template <class F>
concept StartProcedure = std::invocable < std::decay_t<F>
& > &&std::constructible_from<std::decay_t<F>, F>;

template <class F>
[[nodiscard]] StartRefusal Start(const char* caller, StartPlan&& plan, F&& f) {
  CheckNotEmpty(caller, f);
  if (WEFT_UNLIKELY(plan.refusal != StartRefusal::kNone)) return plan.refusal;
  return Submit(plan, scheduling_group::NewFiber(plan.group, plan.options, std::forward<F>(f)));
}

// The shortest way for the most frequent starts: without attributes. `made(fiber)`: as StartPlan::made.
template <class F, class Made>
[[nodiscard]] StartRefusal StartPlain(const char* caller, const scheduling_group::StartOptions& options, F&& f,
                                      Made made) {
  const scheduling_group::WorkerBase* const worker = scheduling_group::CurrentWorker();
  const scheduling_group::ReadSection section(worker);  // ST3
  scheduling_group::SchedulingGroup* const group = GroupFor(caller, worker);
  CheckNotEmpty(caller, f);
  if (WEFT_UNLIKELY(group == nullptr)) return StartRefusal::kNoRuntime;
  scheduling_group::FiberEntity* const fiber = scheduling_group::NewFiber(group, options, std::forward<F>(f));
  if (WEFT_LIKELY(fiber != nullptr)) made(fiber);
  return SubmitPlain(group, fiber);
}
template <class F>
[[nodiscard]] StartRefusal StartPlain(const char* caller, F&& f) {
  static constexpr scheduling_group::StartOptions kPlain;
  return StartPlain(caller, kPlain, std::forward<F>(f), [](scheduling_group::FiberEntity*) {});
}

// For fibers that Weft starts: as StartFiberDetached(), with this name unless the attributes have one. It is not
// copied: a string that is never destroyed.
template <class F>
[[nodiscard]] bool StartNamed(const char* name, const FiberAttributes& attributes, F&& f) {
  constexpr const char* kCaller = "StartFiberDetached";
  StartPlan plan = PlanStart(kCaller, attributes);
  if (plan.options.name == nullptr) {
    plan.options.name = name;
    plan.options.name_is_static = true;
  }
  return Start(kCaller, std::move(plan), std::forward<F>(f)) == StartRefusal::kNone;
}
template <class F>
[[nodiscard]] bool StartNamed(const char* name, F&& f) {
  return StartPlain("StartFiberDetached", {.name_is_static = true, .name = name}, std::forward<F>(f),
                    [](scheduling_group::FiberEntity*) {}) == StartRefusal::kNone;
}

// `attributes`: nullptr: none. False: refused.
template <class F>
[[nodiscard]] bool StartBatch(const char* caller, const FiberAttributes* attributes, std::vector<F>&& procedures) {
  if (procedures.empty()) return true;
  const StartPlan plan = attributes == nullptr ? PlanStart(caller) : PlanStart(caller, *attributes);
  if (WEFT_UNLIKELY(plan.refusal != StartRefusal::kNone)) return false;
  // Submit() gives each fiber a reference to the context; the plan has only one (ST2).
  scheduling_group::StartOptions options = plan.options;
  options.execution_context = nullptr;
  NewFibers fibers;
  if (WEFT_UNLIKELY(!fibers.Reserve(procedures.size()))) return false;
  for (F& procedure : procedures) {
    CheckNotEmpty(caller, procedure);
    scheduling_group::FiberEntity* const fiber = scheduling_group::NewFiber(plan.group, options, std::move(procedure));
    if (WEFT_UNLIKELY(fiber == nullptr)) return false;
    fibers.Add(fiber);
  }
  return fibers.Submit(plan);
}

}  // namespace weft::fiber::detail

#endif  // WEFT_FIBER_START_START_FIBER_H_
