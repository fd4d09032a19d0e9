// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Fiber, StartFiberDetached, BatchStartFiberDetached: how fibers come to be. FindFiber: finds one by its id, so that
// code without its handle can join, cancel or interrupt it.
// Sample:
//   Fiber worker([&] { ... });              // like std::thread: must be joined or detached
//   worker.Join();
//   if (!StartFiberDetached([] { ... })) { ... }   // refused: too many are queued, or the runtime is going down
//   if (auto fiber = FindFiber(id)) {              // nothing: it has ended
//     fiber->Cancel();
//     if (!fiber->Join(5s)) Complain(fiber->Name());
//   }
//
// A Fiber holds a JoinState (join_state.h, FB2), which it and the running fiber own. The fiber's end (after its stack
// has been given back) sets the event in it, for which Join() waits. A detached fiber needs none: its callable, up to
// 64 bytes of it, lies in the control block, and nothing is allocated.
//
// Invariants
//   FB1  a joinable Fiber has exactly one JoinState, and no other Fiber has it.
//   FB3  refused means not run: the callable is destroyed in the caller.
//
// A fiber inherits its spawner's FiberExecutionContext, however it is started, unless its attributes give it another.
//
// Start functions: any thread and any fiber, while the runtime runs. A fiber that starts too many is made to yield; a
// plain thread waits (--fiber_start_timeout_ms) and is then refused. A start procedure that throws ends the process.
//
// A start is refused where too many fibers are queued, memory is exhausted, the runtime has ended or is going down, or
// is overloaded and the attributes ask for that (StartRefusal in fiber_attributes.h). The function has not run then.
//
//   what returns a bool or an optional   says so: StartFiberDetached, BatchStartFiberDetached, Fiber::TryStart,
//                                        FiberScope::Spawn, BackgroundTasks::Start, PeriodicTask::Start,
//                                        FiberLoop::AddTask, Executor::SubmitTask
//   all else                             throws FiberNotStarted, with the name and the reason: Fiber, FiberTask,
//                                        FiberScope::SpawnTask, CollectAll ... ForEach, StopOnCancel, RunAsFiber,
//                                        Hedge, co_await; the Future of Async fails with it
//
// Misuse is no refusal: a start before the first runtime, in a forked child, or with attributes that cannot be ends the
// process. So does FiberNotStarted where nobody catches it.
// Memory ordering: what the caller did before the start is visible to the fiber; what the fiber did, after Join().
//
// Ids (Fiber::Id(), FiberTask::Id(), GetFiberId()) are never used twice, so FindFiber() finds the fiber that was
// meant. It may end at any moment: then a FoundFiber is joined at once, and to cancel it does nothing. Found are
// fibers started through a Fiber (also detached since), a FiberTask or FiberScope::SpawnTask(). Plain fibers
// (StartFiberDetached, FiberScope::Spawn, Async) have no join state, and are not found: start a Fiber and detach it. A
// search that finds nothing orders nothing.
// It looks through all fibers' entities (entity_pool.h), and checks the one with the id under the lock of its cancel
// word (JS4). That costs fibers nothing. It takes 4 us with 10,000 fibers, 70 us with 100,000 (BM_FindFiber).
//
// Rejected: destroying a joinable Fiber as a silent detach (what the fiber refers to would be gone); a table of all ids
// (an insertion and a removal for each fiber); ids that say where the entity is (27 bits for 89 million entities leave
// 37 for its uses: one each 100 ns would repeat an id after four hours); an abort where Fiber's constructor is refused
// (all other constructors of tasks throw, and the caller may have an answer for it).
#ifndef WEFT_FIBER_FIBER_H_
#define WEFT_FIBER_FIBER_H_

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "weft/base/deadline.h"
#include "weft/base/unique_function.h"
#include "weft/fiber/fiber_attributes.h"
#include "weft/fiber/start/start_fiber.h"
#include "weft/fiber/this_fiber.h"

namespace weft {

namespace fiber::detail {

class JoinState;
struct EndAccess;  // select_tasks.h

// Makes `plan` one of a joinable fiber.  The JoinState has two owners at first; DropJoinState is for a refused start.
JoinState* MakeJoinable(StartPlan* plan, const FiberAttributes& attributes);
void DropJoinState(JoinState* state);
// In the fiber: calls it, and swallows FiberCancelled.
void RunCancellable(void (*procedure)(void*), void* argument);

// What a joinable fiber runs.
template <class F>
struct CancellableProcedure {
  void operator()() {
    RunCancellable([](void* argument) { static_cast<void>((*static_cast<F*>(argument))()); }, &procedure);
  }
  F procedure;
};

template <class F, class... Args>
concept FiberProcedure =
    !std::same_as<std::remove_cvref_t<F>, FiberAttributes> && !std::same_as<std::remove_cvref_t<F>, Launch> &&
    (TakesCopies<F, Args...> || TakesReferred<F, Args...>);

}  // namespace fiber::detail

class Fiber {
 public:
  // What may be asked of a new fiber.
  using Attributes = FiberAttributes;

  // The group of the calling fiber; for a plain thread one group of its NUMA node after the other.
  static constexpr std::size_t kNearestSchedulingGroup = weft::kNearestSchedulingGroup;
  // Any group: one after the other, whoever calls.
  static constexpr std::size_t kUnspecifiedSchedulingGroup = weft::kUnspecifiedSchedulingGroup;

  // Not joinable.
  Fiber() noexcept = default;

  // Each runs f(args...) in a new fiber; function and arguments are kept by value, as std::thread keeps them. A
  // std::ref(x) that f does not take as such is passed as x. Throws FiberNotStarted.
  template <class F, class... Args>
  requires(!std::same_as<std::remove_cvref_t<F>, Fiber> &&
           fiber::detail::FiberProcedure<F, Args...>) explicit Fiber(F&& f, Args&&... args)
      : Fiber(Attributes(), std::forward<F>(f), std::forward<Args>(args)...) {}

  // The same, with Launch::Dispatch at once, on the caller's worker: the caller is queued.
  template <class F, class... Args>
  requires fiber::detail::FiberProcedure<F, Args...> Fiber(Launch policy, F&& f, Args&&... args)
      : Fiber(Attributes{.launch_policy = policy}, std::forward<F>(f), std::forward<Args>(args)...) {}

  // The same with all that can be asked of a fiber.
  template <class F, class... Args>
  requires fiber::detail::FiberProcedure<F, Args...> Fiber(const Attributes& attributes, F&& f, Args&&... args) {
    const StartRefusal refusal = Start(attributes, std::forward<F>(f), std::forward<Args>(args)...);
    if (refusal != StartRefusal::kNone) fiber::detail::ThrowNotStarted(attributes.name, refusal);
  }

  // Aborts if it is joinable, as does the assignment to one that is.
  ~Fiber();
  Fiber(Fiber&& other) noexcept;
  Fiber& operator=(Fiber&& other) noexcept;

  // As the constructor, but a refusal is nothing.
  template <class F, class... Args>
  requires fiber::detail::FiberProcedure<F, Args...>
  [[nodiscard]] static std::optional<Fiber> TryStart(const Attributes& attributes, F&& f, Args&&... args) {
    Fiber made;
    if (made.Start(attributes, std::forward<F>(f), std::forward<Args>(args)...) != StartRefusal::kNone) {
      return std::nullopt;
    }
    return made;
  }

  // Lets the fiber run on its own.
  void Detach();

  // Waits until the fiber has ended and left its stack. Any fiber and any thread; switches (a thread: blocks). A
  // cancellation point; the fiber can then be joined again. The process ends if two join a Fiber at a time, if a fiber
  // joins itself, or if a join closes a cycle of joins without deadlines (the message names all of its fibers).
  void Join();

  // False: the deadline has passed, and the Fiber is still joinable.
  [[nodiscard]] bool Join(Deadline deadline);

  // Whether it has a fiber that is neither joined nor detached. The fiber may have ended.
  bool Joinable() const noexcept { return state_ != nullptr; }

  // Cancels all that the fiber does (sync/cancel_scope.h), even before it has begun: its waits throw FiberCancelled,
  // which ends it unless it catches that. Any fiber and any thread; does not wait for its end. Not while somebody joins
  // this Fiber, which ends the process: use FindFiber(id), whose handle stays. False: it was cancelled before.
  bool Cancel() noexcept;

  // Raises `exception` in the fiber: the wait that it is in, or its next cancellation point, throws it, once. One that
  // has not been thrown yet is replaced. Nothing happens if the fiber has ended. Callers: as Cancel().
  void Interrupt(std::exception_ptr exception) noexcept;
  template <class E>
  requires(!std::same_as<std::remove_cvref_t<E>, std::exception_ptr>) void Interrupt(E&& exception) {
    Interrupt(std::make_exception_ptr(std::forward<E>(exception)));
  }

  // Of the fiber started, which may have ended; 0 and "" if not joinable.
  std::uint64_t Id() const noexcept;
  std::string Name() const;

 private:
  friend struct fiber::detail::EndAccess;

  // Why a Fiber is not joinable, for the message that says so.
  enum class Past : std::uint8_t { kNeverStarted, kJoined, kDetached, kMovedFrom };

  template <class F, class... Args>
  StartRefusal Start(const Attributes& attributes, F&& f, Args&&... args) {
    fiber::detail::StartPlan plan = fiber::detail::PlanStart("Fiber", attributes);
    // Drops the state unless the fiber has started.
    struct Guard {
      ~Guard() {
        if (state == nullptr) return;
        owner->state_ = nullptr;
        fiber::detail::DropJoinState(state);
      }
      Fiber* owner;
      fiber::detail::JoinState* state;
    };
    Guard guard{this, fiber::detail::MakeJoinable(&plan, attributes)};
    if (guard.state == nullptr) return StartRefusal::kNoMemory;
    state_ = guard.state;  // Before the start: Dispatch runs the fiber within it.
    fiber::detail::CheckNotEmpty("Fiber", f);
    StartRefusal refusal;
    if constexpr (sizeof...(Args) == 0 && fiber::detail::StartProcedure<F>) {
      refusal = fiber::detail::Start("Fiber", std::move(plan),
                                     fiber::detail::CancellableProcedure<std::decay_t<F>>{std::forward<F>(f)});
    } else {
      auto bound = fiber::detail::BindCall(std::forward<F>(f), std::forward<Args>(args)...);
      refusal = fiber::detail::Start("Fiber", std::move(plan),
                                     fiber::detail::CancellableProcedure<decltype(bound)>{std::move(bound)});
    }
    if (refusal == StartRefusal::kNone) guard.state = nullptr;
    return refusal;
  }

  void CheckJoinable(const char* function) const;

  fiber::detail::JoinState* state_ = nullptr;
  Past past_ = Past::kNeverStarted;
  std::atomic<bool> being_joined_{false};
};

// Runs f() in a new fiber that nobody waits for. False: refused, f has not run. Not [[nodiscard]], since tRPC-Cpp's
// guide drops the result; but a caller that waits for what f does (a FiberLatch, say) has to look at it.
template <class F>
requires fiber::detail::StartProcedure<F>
bool StartFiberDetached(F&& f) {
  return fiber::detail::StartPlain("StartFiberDetached", std::forward<F>(f)) == StartRefusal::kNone;
}

template <class F>
requires fiber::detail::StartProcedure<F>
bool StartFiberDetached(const Fiber::Attributes& attributes, F&& f) {
  constexpr const char* kName = "StartFiberDetached";
  return fiber::detail::Start(kName, fiber::detail::PlanStart(kName, attributes), std::forward<F>(f)) ==
         StartRefusal::kNone;
}

// Starts a fiber for each procedure, with one wake-up pass; or none: false. They may be more than the queue holds.
template <class F>
requires fiber::detail::StartProcedure<F>
bool BatchStartFiberDetached(std::vector<F>&& start_procedures) {
  return fiber::detail::StartBatch("BatchStartFiberDetached", nullptr, std::move(start_procedures));
}

// The attributes are those of each fiber. Dispatch is Post: the caller goes on.
template <class F>
requires fiber::detail::StartProcedure<F>
bool BatchStartFiberDetached(const Fiber::Attributes& attributes, std::vector<F>&& start_procedures) {
  return fiber::detail::StartBatch("BatchStartFiberDetached", &attributes, std::move(start_procedures));
}

// Refers to a fiber, which may have ended. Copies refer to the same one.
class FoundFiber {
 public:
  FoundFiber(const FoundFiber& other) noexcept;
  // From now on refers to the same fiber as the other one.
  FoundFiber& operator=(const FoundFiber& other) noexcept;
  ~FoundFiber();

  // Of the fiber, which never changes; it is not given to another one.
  std::uint64_t Id() const noexcept;
  // Of the fiber, copied when it was found; good while this FoundFiber is.
  const std::string& Name() const noexcept;
  // Whether its function has returned and its stack is given back: Join() would not wait. Never switches.
  bool HasEnded() const noexcept;

  // Waits until the fiber has ended, as Fiber::Join() does. Any number of callers, also beside a join of its Fiber.
  void Join() const;
  // False: the deadline has passed.
  [[nodiscard]] bool Join(Deadline deadline) const;

  // As Fiber::Cancel() and Fiber::Interrupt(); also while somebody joins the fiber.
  bool Cancel() const noexcept;
  void Interrupt(std::exception_ptr exception) const noexcept;
  template <class E>
  requires(!std::same_as<std::remove_cvref_t<E>, std::exception_ptr>) void Interrupt(E&& exception) const {
    Interrupt(std::make_exception_ptr(std::forward<E>(exception)));
  }

 private:
  friend std::optional<FoundFiber> FindFiber(std::uint64_t id) noexcept;

  explicit FoundFiber(fiber::detail::JoinState* state) noexcept : state_(state) {}  // Takes over a reference.

  fiber::detail::JoinState* state_;
};

// Finds a fiber from its start until its function has returned (its fiber locals may be destroyed after that). Nothing:
// there is no such fiber, or it cannot be found (above). Any fiber and any thread; does not switch.
[[nodiscard]] std::optional<FoundFiber> FindFiber(std::uint64_t id) noexcept;

}  // namespace weft

#endif  // WEFT_FIBER_FIBER_H_
