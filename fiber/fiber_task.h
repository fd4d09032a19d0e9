// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// FiberTask<T>: a fiber with a result, which its handle owns.
// Sample:
//   FiberTask<int> task([] { return Compute(); });
//   int result = task.Get();           // its result; or its exception is thrown here
//
// The destructor cancels the task and waits for its end. (A task of a FiberScope belongs to the scope: fiber_scope.h.)
//
// Who may call: any fiber and any thread; nobody else during Get(), which ends the handle. Get() and Wait() may switch
// (a thread: block) and are cancellation points: the task goes on then, and can be waited for again.
// Misuse: tasks and fibers that wait for each other's end in a cycle, without a deadline, end the process; the message
// names all of them. (Not found: a cycle through the end of a FiberScope, or through a future.)
// Memory ordering: what the task did is visible after Get() or Wait().
#ifndef WEFT_FIBER_FIBER_TASK_H_
#define WEFT_FIBER_FIBER_TASK_H_

#include <concepts>
#include <cstdint>
#include <exception>
#include <optional>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>

#include "weft/base/deadline.h"
#include "weft/base/ref_ptr.h"
#include "weft/fiber/fiber_attributes.h"
#include "weft/fiber/start/join_state.h"
#include "weft/fiber/start/start_fiber.h"

namespace weft {

// Get(): the task was cancelled, so that it has no result.
class TaskCancelled : public std::runtime_error {
 public:
  // Names the task.
  explicit TaskCancelled(const std::string& task);
  ~TaskCancelled() override;
};

// The last version's name.
using TaskRefused = FiberNotStarted;

template <class T>
class FiberTask;
class FiberScope;

namespace fiber::detail {

struct EndAccess;  // select_tasks.h

// For the layers above: the result of a task that has ended, without a cancellation point.
struct TaskAccess {
  template <class T>
  static T Take(FiberTask<T>& task) {
    return task.Take();
  }
};

template <class T>
class TaskState final : public JoinState {
 public:
  using JoinState::JoinState;
  // JS2: the task at its end, and the handle when it has taken the result or goes.
  void LetGo() noexcept {
    // acq_rel: the result. Pairs with itself.
    if (!let_go.exchange(true, std::memory_order_acq_rel)) return;
    value.reset();
    exception = nullptr;
  }
  std::optional<T> value;
};
template <>
class TaskState<void> final : public JoinState {
 public:
  using JoinState::JoinState;
  void LetGo() noexcept {  // As above.
    if (let_go.exchange(true, std::memory_order_acq_rel)) exception = nullptr;
  }
};

template <class T, class F>
void SetResult(TaskState<T>* state, F& f) {
  if constexpr (std::is_void_v<T>) {
    static_cast<void>(state);
    f();
  } else {
    state->value.emplace(f());
  }
}

// In the task's fiber: calls it, and notes how it ended.
void RunTask(JoinState* state, void (*procedure)(void*), void* argument);
// Waits until the task has ended. False: the deadline has passed. `function`: the caller.
bool AwaitTask(JoinState* state, Deadline deadline, const char* function);
void AwaitTaskUncancelled(JoinState* state) noexcept;
// Throws if the task ended by an exception, or was cancelled.
void CheckTaskResult(const JoinState& state);
[[noreturn]] void FailEmptyTask(const char* function);

// What the fiber of a task runs.
template <class T, class F>
struct TaskProcedure {
  void operator()() {
    RunTask(
        state,
        [](void* self) { SetResult(static_cast<TaskProcedure*>(self)->state, static_cast<TaskProcedure*>(self)->f); },
        this);
    state->LetGo();
  }
  TaskState<T>* state;  // The fiber has a reference.
  F f;
};

}  // namespace fiber::detail

template <class T>
class [[nodiscard]] FiberTask {
 public:
  using value_type = T;

  // Of no task.
  FiberTask() noexcept = default;

  // Runs f() in a new fiber. Throws FiberNotStarted if it is refused (and bad_alloc, and what copying f throws).
  template <class F>
  requires(!std::same_as<std::remove_cvref_t<F>, FiberTask> &&
           fiber::detail::StartProcedure<F>) explicit FiberTask(F&& f)  // NOLINT: the constraint leaves moves alone.
      : FiberTask(FiberAttributes(), std::forward<F>(f)) {}
  template <class F>
  requires fiber::detail::StartProcedure<F> FiberTask(const FiberAttributes& attributes, F&& f)
      : state_(base::MakeRefCounted<State>(attributes.name)) {
    fiber::detail::StartPlan plan = fiber::detail::PlanStart("FiberTask", attributes);
    const StartRefusal refusal = Start(&plan, std::forward<F>(f));
    if (refusal != StartRefusal::kNone) fiber::detail::ThrowNotStarted(attributes.name, refusal);
  }

  FiberTask(FiberTask&&) noexcept = default;
  // Cancels the task that it has and waits for its end, as the destructor does; then takes over the other's.
  FiberTask& operator=(FiberTask&& other) noexcept {
    if (this == &other) return *this;
    Abandon();
    state_ = std::move(other.state_);
    return *this;
  }
  ~FiberTask() { Abandon(); }

  // Whether there is a task: false of a moved-from one, and after Get().
  bool Valid() const noexcept { return state_ != nullptr; }
  // Whether the task has ended: Get() does not wait then.
  bool IsReady() const noexcept { return Checked("IsReady")->ended.IsSet(); }

  // Waits until the task has ended. A cancellation point. Leaves the result where it is.
  void Wait() const { static_cast<void>(Wait(Deadline::None())); }
  // False: the deadline has passed.
  [[nodiscard]] bool Wait(Deadline deadline) const {
    return fiber::detail::AwaitTask(Checked("Wait"), deadline, "FiberTask::Wait");
  }

  // Waits, and takes the result: the task is Valid() no more. Throws the task's exception, or TaskCancelled.
  T Get() {
    static_cast<void>(fiber::detail::AwaitTask(Checked("Get"), Deadline::None(), "FiberTask::Get"));
    return Take();
  }
  // The same; nothing (false) if the deadline has passed: then the task is still Valid().
  [[nodiscard]] std::conditional_t<std::is_void_v<T>, bool, std::optional<T>> Get(Deadline deadline) requires(
      std::is_void_v<T> || std::is_move_constructible_v<T>) {
    if (!Wait(deadline)) return {};
    if constexpr (std::is_void_v<T>) {
      Get();
      return true;
    } else {
      return Get();
    }
  }

  // As Fiber::Cancel(). Get() then throws TaskCancelled, unless the task came to its end nevertheless.
  bool Cancel() noexcept { return synchronization::Cancel(&Checked("Cancel")->scope); }

  // Of the fiber, for FindFiber() and messages.
  std::uint64_t Id() const noexcept { return Checked("Id")->id; }
  // Of the fiber, as its attributes say; good until Get().
  const std::string& Name() const noexcept { return Checked("Name")->name; }

 private:
  friend class FiberScope;
  friend struct fiber::detail::EndAccess;
  friend struct fiber::detail::TaskAccess;
  using State = fiber::detail::TaskState<T>;

  State* Checked(const char* function) const {
    if (state_ == nullptr) [[unlikely]] {
      fiber::detail::FailEmptyTask(function);
    }
    return state_.Get();
  }

  template <class F>
  StartRefusal Start(fiber::detail::StartPlan* plan, F&& f) {
    fiber::detail::CheckNotEmpty("FiberTask", f);
    state_->Join(plan);
    struct Guard {
      ~Guard() {
        if (state != nullptr) state->NotStarted();
      }
      State* state;
    } guard{state_.Get()};
    const StartRefusal refusal =
        fiber::detail::Start("FiberTask", std::move(*plan),
                             fiber::detail::TaskProcedure<T, std::decay_t<F>>{guard.state, std::forward<F>(f)});
    if (refusal == StartRefusal::kNone) guard.state = nullptr;
    return refusal;
  }

  // After the task's end.
  T Take() {
    const base::RefPtr<State> state = std::move(state_);
    const struct Taken {
      ~Taken() { state->LetGo(); }
      State* state;
    } taken{state.Get()};
    fiber::detail::CheckTaskResult(*state);
    if constexpr (!std::is_void_v<T>) return *std::move(state->value);
  }

  void Abandon() noexcept {
    if (state_ == nullptr) return;
    if (state_->owning_scope == nullptr && !state_->ended.IsSet()) {
      Cancel();
      fiber::detail::AwaitTaskUncancelled(state_.Get());
    }
    state_->LetGo();
  }

  base::RefPtr<State> state_;
};

template <class F>
FiberTask(F) -> FiberTask<std::invoke_result_t<std::decay_t<F>&>>;
template <class F>
FiberTask(FiberAttributes, F) -> FiberTask<std::invoke_result_t<std::decay_t<F>&>>;

}  // namespace weft

#endif  // WEFT_FIBER_FIBER_TASK_H_
