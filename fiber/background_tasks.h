// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// BackgroundTasks: fibers that nobody joins one by one, and that do not outlive this object: its destructor waits.
// Sample:
//   class Cache {
//     void Refresh() {
//       if (!tasks_.Start([this] { rows_ = 1; })) Refuse();
//     }
//     void Refuse();
//     int rows_ = 0;
//     BackgroundTasks tasks_;  // the last member: destroyed first, and so waits while rows_ is there
//   };
//
// Who may call: any fiber and any thread. Wait() and the destructor switch (a thread: block), and are not for the
// tasks, which would wait for their own end. Start() may switch as StartFiberDetached() does; tasks may call it.
// Memory ordering: what a caller did before Start() is visible to the task; what a task did, and the destruction of its
// callable, to whoever has seen by Wait() that none is left.
// Lifetime: may be destroyed by anyone who knows that nobody will call it any more, in the middle of tasks that run.
// Errors: an exception of a task is logged and ends that task. Start() throws what copying or moving the callable
// throws, and has done nothing then.
// TerminateRuntime() waits for tasks as for other fibers, and names those that do not end. Wait() and the destructor
// then end the process, with a line that names a task; in the destructors of static objects they only write it.
//
// Invariants
//   BT1  A task, even a refused one, is counted from before it may run until its callable has been destroyed.
//   BT2  The last touch by a task's callable is the unlock of the mutex under which it has counted itself out; its
//        fiber then leaves `scope_`, whose destructor waits for that.
//   BT3  After Close() no task begins that had not been started before.
#ifndef WEFT_FIBER_BACKGROUND_TASKS_H_
#define WEFT_FIBER_BACKGROUND_TASKS_H_

#include <concepts>
#include <cstddef>
#include <exception>
#include <type_traits>
#include <utility>

#include "weft/base/deadline.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/fiber_attributes.h"
#include "weft/fiber/fiber_scope.h"
#include "weft/sync/fiber_cancelled.h"
#include "weft/sync/fiber_condition_variable.h"
#include "weft/sync/fiber_mutex.h"

namespace weft {

class BackgroundTasks {
 public:
  // No tasks; Start() begins some.
  BackgroundTasks() = default;
  // Closes, and waits for the tasks.
  ~BackgroundTasks();
  BackgroundTasks(const BackgroundTasks&) = delete;
  BackgroundTasks& operator=(const BackgroundTasks&) = delete;

  // Runs f() in a new fiber. False: refused, as StartFiberDetached() may be, or closed; f has not run.
  template <class F>
  requires(std::invocable<std::decay_t<F>&>) [[nodiscard]] bool Start(F&& f) {
    return Start(FiberAttributes(), std::forward<F>(f));
  }
  template <class F>
  requires(std::invocable<std::decay_t<F>&>) [[nodiscard]] bool Start(const FiberAttributes& attributes, F&& f) {
    fiber::detail::CheckNotEmpty("BackgroundTasks::Start", f);
    Place place(Enter() ? this : nullptr);
    if (!place) return false;
    return scope_.Spawn(attributes, Task<std::decay_t<F>>{std::move(place), std::forward<F>(f)});
  }

  // Until no task is left: at that moment, unless it is closed.
  void Wait();
  // False: some were left at the deadline.
  [[nodiscard]] bool Wait(Deadline deadline);

  // Start() says false from now on. Does not wait.
  void Close();

  // Cancels the tasks that run (sync/cancel_scope.h), and those that are started later. Does not wait.
  void Cancel() noexcept { static_cast<void>(scope_.Cancel()); }

  // Tasks that have not ended; a snapshot.
  std::size_t Count() const;

 private:
  // Of a task that is counted; counts it out at its end.
  class Place {
   public:
    explicit Place(BackgroundTasks* owner) noexcept : owner_(owner) {}
    Place(Place&& other) noexcept : owner_(std::exchange(other.owner_, nullptr)) {}
    Place& operator=(Place&&) = delete;
    ~Place() {
      if (owner_ != nullptr) owner_->Leave();
    }
    explicit operator bool() const noexcept { return owner_ != nullptr; }

   private:
    BackgroundTasks* owner_;
  };

  template <class F>
  struct Task {
    void operator()() {
      try {
        f();
      } catch (const FiberCancelled&) {
        throw;
      } catch (const std::exception& error) {
        LogException(error.what());
      } catch (...) {
        LogException("an exception that is no std::exception");
      }
    }

    Place place;
    F f;  // Destroyed before `place`: BT1.
  };

  static void LogException(const char* text);

  bool Enter();
  void Leave() noexcept;

  mutable FiberMutex mutex_;  // guards the numbers below
  FiberConditionVariable none_left_;
  std::size_t count_ = 0;
  bool closed_ = false;
  FiberScope scope_{{.policy = ScopePolicy::kCollect, .nested = false}};
};

}  // namespace weft

#endif  // WEFT_FIBER_BACKGROUND_TASKS_H_
