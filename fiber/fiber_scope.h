// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// FiberScope: owns fibers. None of them outlives it, however it is left: by Wait(), by an exception, by a cancellation.
// Sample:
//   FiberScope scope;
//   for (const Shard& shard : shards) {
//     if (!scope.Spawn([&] { Ask(shard); })) break;    // refused: too many fibers are queued
//   }
//   scope.Wait();         // until all have ended; throws the first exception, which has cancelled the others
//   FiberScope hedge({.policy = ScopePolicy::kFirstSuccess});       // the first answer counts
//   FiberScope polite({.limit = 8});                                // eight at a time
//
// A FiberScope is a CancelScope for its fibers (sync/cancel_scope.h), inside the scopes of the fiber that made it: what
// cancels those cancels its fibers, too, and their deadlines are its fibers'. Its fibers may spawn siblings, and run in
// any group. Wait() is not cut short: it throws FiberCancelled when all have ended. A child's failure cancels the fiber
// that made the scope only while that is in Run().
//
// Who may call: Spawn() and SpawnTask(): the fiber or thread that made the scope, and its children; with a limit they
// may wait, and are cancellation points then. A child that waits there keeps its own unit, so the limit must be larger
// than the number of children that spawn. The process ends when all units belong to children that wait there, or a hook
// of the owner's (OnFiberYield) spawns while the owner waits. Wait(), Run(), the destructor: the fiber or thread that
// made it. Cancel() and the counts: anybody, while it exists. Scopes are local variables, left in the reverse order of
// their making. One that lives elsewhere (in an object, say) is made with `nested = false`: it is in no other scope,
// and any thread may destroy it.
// Memory ordering: what a child did is visible after Wait().
// A child that is unfinished when the runtime ends never runs again: Wait() and the destructor then end the process,
// with a line that names it; the destructor of a static scope only writes it.
#ifndef WEFT_FIBER_FIBER_SCOPE_H_
#define WEFT_FIBER_FIBER_SCOPE_H_

#include <cstddef>
#include <exception>
#include <memory>
#include <type_traits>
#include <utility>
#include <vector>

#include "weft/base/deadline.h"
#include "weft/fiber/fiber_attributes.h"
#include "weft/fiber/fiber_task.h"
#include "weft/fiber/start/scope_core.h"
#include "weft/fiber/start/start_fiber.h"

namespace weft {

namespace fiber::detail {
struct ScopeAccess;
}

class FiberScope {
 public:
  // What a scope is made from.
  struct Options {
    // What a child's end does to the others.
    ScopePolicy policy = ScopePolicy::kAllMustSucceed;
    // How many run at a time; Spawn() waits for one to end. 0: no limit.
    std::size_t limit = 0;
    // Its fibers are cancelled then. Only for scopes that a fiber makes.
    Deadline deadline = {};
    // In the scopes of the fiber that makes it.
    bool nested = true;
  };

  // With all Options as they are by default; kAllMustSucceed.
  FiberScope() : FiberScope(Options()) {}
  // Inside the scopes of the calling fiber, unless Options say otherwise.
  explicit FiberScope(const Options& options);
  // Cancels what has not ended, and waits for it. Logs an exception that nobody has asked for (kAllMustSucceed).
  ~FiberScope();
  FiberScope(const FiberScope&) = delete;
  FiberScope& operator=(const FiberScope&) = delete;

  // Runs f() in a new fiber of the scope. False: refused, and f has not run.
  template <class F>
  requires fiber::detail::StartProcedure<F>
  [[nodiscard]] bool Spawn(F&& f) { return TrySpawn(std::forward<F>(f)) == StartRefusal::kNone; }
  template <class F>
  requires fiber::detail::StartProcedure<F>
  [[nodiscard]] bool Spawn(const FiberAttributes& attributes, F&& f) {
    fiber::detail::CheckNotEmpty(kSpawn, f);
    SpawnGuard guard(&core_);
    if (guard.slot == nullptr) return false;
    fiber::detail::StartPlan plan = fiber::detail::PlanStart(kSpawn, attributes);
    core_.Adopt(&guard.slot, &plan);
    return guard.Done(fiber::detail::Start(kSpawn, std::move(plan),
                                           Child<std::decay_t<F>>{&core_, std::forward<F>(f)})) == StartRefusal::kNone;
  }

  // The same with a result. A refusal is thrown: FiberNotStarted. The task's exception comes out of Get(), and does to
  // the scope what the policy says. The task belongs to the scope: its handle may go, and shall not outlive the scope.
  template <class F>
  requires fiber::detail::StartProcedure<F>
  auto SpawnTask(F&& f) { return SpawnTask(FiberAttributes(), std::forward<F>(f)); }
  template <class F>
  requires fiber::detail::StartProcedure<F>
  auto SpawnTask(const FiberAttributes& attributes, F&& f) {
    using Task = FiberTask<std::invoke_result_t<std::decay_t<F>&>>;
    SpawnGuard guard(&core_);
    if (guard.slot == nullptr) fiber::detail::ThrowNotStarted(attributes.name, StartRefusal::kNoMemory);
    Task task;  // Not before it is the scope's: its destructor would wait for it.
    task.state_ = base::MakeRefCounted<typename Task::State>(attributes.name);
    task.state_->slot = &guard.slot;
    task.state_->owning_scope = &core_;
    task.state_->scope.parent = core_.node();
    fiber::detail::StartPlan plan = fiber::detail::PlanStart("FiberScope::SpawnTask", attributes);
    const StartRefusal refusal = guard.Done(task.Start(&plan, std::forward<F>(f)));
    if (refusal != StartRefusal::kNone) fiber::detail::ThrowNotStarted(attributes.name, refusal);
    return task;
  }

  // Waits until all have ended, also those that were spawned meanwhile. Then throws the first exception, as the policy
  // says, or FiberCancelled if the caller itself is cancelled. The scope's own deadline and Cancel() throw nothing, and
  // results may be missing then: DeadlineHasPassed(), IsCancelled(). May be called again, after further Spawn()s.
  void Wait();

  // Calls body() in the scope, which then covers its waits, too: the first failure of a child cancels it. Then as
  // Wait(). An exception of body() cancels the children, and is thrown after their end. False: body() has ended
  // because this scope was cancelled.
  template <class F>
  bool Run(F&& body) {
    return RunBody([](void* f) { static_cast<void>((*static_cast<std::remove_reference_t<F>*>(f))()); },
                   std::addressof(body));
  }

  // All its fibers, and those that are spawned later. False: it was cancelled already.
  bool Cancel() noexcept { return core_.Cancel(); }
  // By Cancel(), its deadline, or the policy.
  [[nodiscard]] bool IsCancelled() const noexcept { return core_.reason() != synchronization::CancelReason::kNone; }
  // Because its deadline has passed.
  [[nodiscard]] bool DeadlineHasPassed() const noexcept {
    return core_.reason() == synchronization::CancelReason::kDeadline;
  }

  // Fibers that have not ended; how many have, how. Exact after Wait().
  std::size_t Live() const noexcept { return core_.live(); }
  std::size_t Succeeded() const noexcept { return core_.succeeded(); }
  std::size_t Failed() const noexcept { return core_.failed(); }
  std::size_t Cancelled() const noexcept { return core_.cancelled(); }
  // The exceptions, in the order in which they came; for ScopePolicy::kCollect. They are not kept.
  std::vector<std::exception_ptr> TakeExceptions() { return core_.TakeExceptions(); }

 private:
  friend class BackgroundTasks;
  friend struct fiber::detail::ScopeAccess;
  static constexpr const char* kSpawn = "FiberScope::Spawn";

  // A child that is being made.
  struct SpawnGuard {
    explicit SpawnGuard(fiber::detail::ScopeCore* the_core)
        : core(the_core), slot(the_core->BeginSpawn()), is_ours(slot != nullptr) {}
    ~SpawnGuard() {
      if (is_ours) core->NotStarted(slot);
    }
    StartRefusal Done(StartRefusal refusal) noexcept {
      is_ours = refusal != StartRefusal::kNone;
      return refusal;
    }
    fiber::detail::ScopeCore* const core;
    fiber::detail::ScopeCore::Slot* slot;  // nullptr: there is no memory; later: it was filled
    bool is_ours;
  };

  template <class F>
  struct Child {
    void operator()() {
      core->RunChild([](void* argument) { static_cast<void>((*static_cast<F*>(argument))()); }, &f);
    }
    fiber::detail::ScopeCore* core;
    F f;
  };

  template <class F>
  StartRefusal TrySpawn(F&& f) {
    return TrySpawn(core_.start_options(), std::forward<F>(f));
  }
  template <class F>
  StartRefusal TrySpawn(const scheduling_group::StartOptions& options, F&& f) {
    fiber::detail::CheckNotEmpty(kSpawn, f);
    SpawnGuard guard(&core_);
    if (guard.slot == nullptr) return StartRefusal::kNoMemory;
    const auto made = [&guard](scheduling_group::FiberEntity* fiber) { guard.core->OnMade(&guard.slot, fiber); };
    return guard.Done(
        fiber::detail::StartPlain(kSpawn, options, Child<std::decay_t<F>>{&core_, std::forward<F>(f)}, made));
  }
  bool RunBody(void (*body)(void*), void* argument);

  fiber::detail::ScopeCore core_;
};

namespace fiber::detail {

struct ScopeAccess {
  // As Spawn(), but throws FiberNotStarted, in the name of `caller`.
  template <class F>
  static void Spawn(FiberScope& scope, const char* caller, F&& f) {
    const StartRefusal refusal = scope.TrySpawn(std::forward<F>(f));
    if (refusal != StartRefusal::kNone) ThrowNotStarted(caller, refusal);
  }
  // As Spawn(). The name is not copied: a string that is never destroyed.
  template <class F>
  [[nodiscard]] static bool SpawnNamed(FiberScope& scope, const char* name, F&& f) {
    scheduling_group::StartOptions options = scope.core_.start_options();
    options.name = name;
    options.name_is_static = true;
    return scope.TrySpawn(options, std::forward<F>(f)) == StartRefusal::kNone;
  }
};

}  // namespace fiber::detail

}  // namespace weft

#endif  // WEFT_FIBER_FIBER_SCOPE_H_
