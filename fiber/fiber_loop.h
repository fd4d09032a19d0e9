// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// FiberLoop: fibers that one thread runs, the one that made the loop, when it says so. For a thread that has an event
// loop of its own (epoll, libuv, Asio's io_context) or wants its fibers to itself; with a runtime beside it or without.
// Sample:
//   FiberLoop loop;
//   loop.AddTask([] { FiberSleepFor(std::chrono::milliseconds(10)); });
//   loop.Run();                                   // until no task is left
//
// In a foreign loop: it watches NotifyFd(), and calls RunReady() when that is readable (examples/fiber_loop).
//
// A loop is a scheduling group of one worker, and its thread is that worker while it is in RunReady(), Run() and the
// like. So all that fibers use works here, and fibers of the loop, of other loops and of the runtime may wait for each
// other. What a fiber of the loop starts runs in the loop. No fiber leaves it or comes from elsewhere.
//
//   any thread, any fiber                      the loop                                foreign loop
//   ---------------------                      --------                                ------------
//   AddTaskRemote(), or ends a wait:           RunReady(): timers that are due, then   epoll_wait(..., NotifyFd())
//   the fiber enters the loop's queue           what is ready, first in, first out
//   the first one while the loop is out:       nothing is ready: out
//   one write to the descriptor                                             ------->   is woken, calls RunReady()
//
// Invariants
//   LUP1  Fibers run in the order in which they became ready, from wherever. (But AddTaskEager() and launch policy
//         Dispatch run theirs at once, and a fiber goes on directly after its RunInMainContext().)
//   LUP2  The descriptor is readable while the loop is out and a fiber is ready, a timer is due, or a descriptor that
//        a fiber waits for has an event. While the loop is out one write is made, however many fibers become ready.
//   LUP3  Tasks end before their loop. The destructor of a loop that has tasks ends the process and names them.
//   LUP4  A fiber that is always ready keeps neither timers nor the foreign loop waiting: the loop looks after timers
//         and descriptors each 20 us; RunReady() returns after Options::longest_run and leaves the descriptor readable.
//
// The main context is the loop's own stack, below RunReady(). There run the functions given to RunInMainContext(),
// what AddTaskFinally() calls at the end, RunUntil()'s predicates and callbacks of timers that ask for the timer
// thread (which may not wait: timer/fiber_timer.h). They are in no fiber.
//
// A wait in the main context runs the loop, below it, until what it waits for has come or its deadline has passed: for
// a mutex that a fiber of the loop holds, an event, a join, a future, a sleep. So fibers go on during a call that
// waits, and timers' callbacks begin; but no other function of the main context does, and RunReady() and the like
// return after it, however late. All primitives of sync/, timers and fibers wait like this. Input and output block the
// thread there, and with it the loop, as system calls do. Outside of the loop a wait blocks the thread, and no fiber
// runs, since nobody has said so. In a foreign loop's callback, RunUntil(event), or a wait in RunInMainContext(), runs
// the loop, and the foreign one stands still meanwhile, as in each callback.
//
// So a fiber calls RunInMainContext(), and ends by AddTaskFinally(), without locks: where another function waits in the
// main context for what the fiber holds, the fiber's begins after that one, and neither goes on. The main context is
// the loop's, also where RunInMainContext() is called outside of the loop: TerminateRuntime() there ends the process,
// and a thread that calls it must not be joined there (std::thread::join()), since it waits for the function's end.
//
// A thread may have several loops, and runs each outside of them or in the main context of another one, which stands
// still until that call returns: its fibers, timers and descriptors wait. Current(), the calling fiber and what it
// starts are those of the innermost loop. A wait in its main context runs that one alone, so it must not wait for a
// fiber of the outer one. RunReady() and the like end the process in a fiber, whose stack is no place for other fibers
// (RunInMainContext() is), and while the loop runs already, by a caller of the caller.
//
// Who may call: see each function. The owner is the thread that made the loop, outside of it and in its main context,
// and in the loop's fibers; also in fibers and main contexts of the thread's other loops.
// Memory ordering: a task sees what came before the call that added it. The owner sees what all tasks did after
// HasTasks() has said false.
// Lifetime: the owner makes and destroys it; nobody may add a task meanwhile. A forked process may not use the loop,
// nor return there from a function of the main context that has forked: its waits block, and run no fibers.
// Rejected: a destructor that runs what is left (a task that waits for what its owner's locals do next never ends); a
// descriptor that is a timerfd set to the past by whoever wakes (the loop may set it to a timer's time just then).
#ifndef WEFT_FIBER_FIBER_LOOP_H_
#define WEFT_FIBER_FIBER_LOOP_H_

#include <cstddef>
#include <exception>
#include <memory>
#include <optional>
#include <system_error>
#include <type_traits>
#include <utility>
#include <variant>

#include "weft/base/deadline.h"
#include "weft/base/report/check.h"
#include "weft/base/unique_function.h"
#include "weft/fiber/fiber_attributes.h"
#include "weft/fiber/fiber_loop_options.h"

namespace weft {

class FiberEvent;

// What a function of a FiberLoop has returned, or thrown: FiberLoop::Result is its name for users. T may be void, or a
// reference. Not thread-safe.
// Sample:
//   void OnEnd(FiberLoop::Result<int> result) {
//     if (result.has_value()) { return; } else { std::rethrow_exception(result.exception()); }
//   }
template <class T>
class LoopResult {
 public:
  // f(), and what came of it.
  template <class F>
  static LoopResult Of(F&& f) {
    LoopResult result;
    try {
      if constexpr (std::is_void_v<T>) {
        f();
        result.kept_.template emplace<1>();
      } else if constexpr (std::is_reference_v<T>) {
        result.kept_.template emplace<1>(&f());
      } else {
        result.kept_.template emplace<1>(f());
      }
    } catch (...) {
      result.kept_.template emplace<2>(std::current_exception());
    }
    return result;
  }

  // Whether the function has returned; otherwise it has thrown.
  bool has_value() const noexcept { return kept_.index() == 1; }

  // Throws what the function has thrown.
  T value() && {
    if (kept_.index() == 2) std::rethrow_exception(std::get<2>(kept_));
    WEFT_CHECK(kept_.index() == 1, "LoopResult::value: there is none yet");
    if constexpr (std::is_reference_v<T>) {
      return static_cast<T>(*std::get<1>(kept_));
    } else if constexpr (!std::is_void_v<T>) {
      return std::move(std::get<1>(kept_));
    }
  }
  // A copy.
  T value() const& { return LoopResult(*this).value(); }

  // nullptr: it has a value.
  std::exception_ptr exception() const noexcept {
    return kept_.index() == 2 ? std::get<2>(kept_) : std::exception_ptr();
  }

 private:
  using Kept =
      std::conditional_t<std::is_void_v<T>, std::monostate,
                         std::conditional_t<std::is_reference_v<T>, std::remove_reference_t<T>*, std::remove_cv_t<T>>>;

  LoopResult() = default;

  std::variant<std::monostate, Kept, std::exception_ptr> kept_;
};

class FiberLoop {
 public:
  // A task: called once, in a fiber of its own.
  using Task = UniqueFunction<void()>;
  // What a function returned or threw: has_value(), value(), exception().
  template <class T>
  using Result = LoopResult<T>;

  // What a loop is made from.
  using Options = FiberLoopOptions;

  // A plain thread, or one of the runtime's that is no worker: its owner. Not in a fiber, but in the main context of
  // another loop.
  FiberLoop();
  explicit FiberLoop(Options options);
  FiberLoop(const FiberLoop&) = delete;
  FiberLoop& operator=(const FiberLoop&) = delete;
  // LUP3.
  ~FiberLoop();

  // --- Tasks: functions that run in fibers of the loop. They inherit the caller's FiberExecutionContext. False: there
  // is no memory, and f has not run. None of them waits. ---

  // The owner. f runs when its turn has come. Of the attributes count name, execution_context, and the stack's sizes.
  bool AddTask(Task f);
  bool AddTask(const FiberAttributes& attributes, Task f);

  // The owner, but no fiber of another loop. f runs at once, before the call returns, until it waits, yields or ends
  // for the first time.
  bool AddTaskEager(Task f);

  // Any thread, any fiber of any group. As AddTask(); wakes the loop.
  bool AddTaskRemote(Task f);

  // The owner. finally(Result) runs in the main context when f has ended, with what it returned or threw. An exception
  // of finally's is handled as one of a task's.
  template <class F, class Finally>
  bool AddTaskFinally(F f, Finally finally) {
    return AddTask([this, f = std::move(f), finally = std::move(finally)]() mutable {
      auto result = LoopResult<std::invoke_result_t<F&>>::Of(f);
      RunInMainContext([&] { finally(std::move(result)); });
    });
  }

  // The owner, but no fiber of another loop. Calls f() in the main context, in the caller's FiberExecutionContext, and
  // returns or throws what f does. The calling fiber stops meanwhile, and goes on before others. These stop, too, while
  // f does not wait. If another function in the main context waits, f begins after its end; in a fiber that a timer's
  // callback runs by AddTaskEager(), after the callback's. In the main context it is a call; outside of the loop it
  // runs fibers while f waits, and only then.
  template <class F>
  std::invoke_result_t<F&> RunInMainContext(F&& f) {
    using Returned = LoopResult<std::invoke_result_t<F&>>;
    std::optional<Returned> returned;
    auto call = [&] { returned.emplace(Returned::Of(f)); };
    CallInMainContext([](void* argument) { (*static_cast<decltype(call)*>(argument))(); }, &call);
    return (*std::move(returned)).value();
  }

  // Of the calling fiber, or of the main context that the caller is in; nullptr: of neither.
  static FiberLoop* Current() noexcept;

  // --- Running: the owner's thread, outside of the loop, or in the main context of another one. What leaves a
  // predicate leaves the call. ---

  // Runs the timers that are due and all that is ready, also what becomes ready meanwhile, up to Options::longest_run.
  // Does not wait. True: tasks are left; see NotifyFd() and NextDeadline().
  bool RunReady();

  // The same without a limit.
  void LoopUntilNoReady();

  // Runs fibers, and waits while none is ready, until no task is left. False: the deadline came first.
  void Run() { static_cast<void>(Run(Deadline::None())); }
  [[nodiscard]] bool Run(Deadline deadline);

  // The same until predicate() holds, or the event is set. The predicate is called in the main context, when nothing is
  // ready and now and then before. Whoever changes what it looks at outside of the loop calls Wake() afterwards.
  template <class Predicate>
  requires std::is_invocable_r_v<bool, Predicate&>
  bool RunUntil(Predicate&& predicate, Deadline deadline = {}) {
    return RunUntilTrue(
        [](void* argument) -> bool { return (*static_cast<std::remove_reference_t<Predicate>*>(argument))(); },
        const_cast<void*>(static_cast<const void*>(std::addressof(predicate))), deadline);
  }
  bool RunUntil(FiberEvent& event, Deadline deadline = {});

  // Any thread. Makes the loop look at RunUntil()'s predicate; if the loop is out, it makes the descriptor readable.
  // Whoever set something for the loop calls it then; the loop's owner looks at that after RunReady().
  void Wake();

  // --- Any thread ---

  // Fibers that have not ended, also those that fibers of the loop have started.
  bool HasTasks() const noexcept { return TaskCount() != 0; }
  std::size_t TaskCount() const noexcept;

  // Bytes of stack that a task has used at most, of those recorded (FiberLoopOptions::record_stack_every) and ended.
  std::size_t StackHighWater() const noexcept;

  // --- The owner's thread ---

  // A descriptor that is readable when RunReady() has something to do, or soon has (LUP2): for poll() and epoll, level-
  // or edge-triggered. The loop's, to its end; made by the first call. -1: the system refuses it, and *error says why.
  int NotifyFd(std::error_code* error = nullptr);

  // When RunReady() has something to do if no fiber is woken before: expired: now; the time of the next timer; or none.
  // For a foreign loop without descriptors: it does not know of those that fibers wait for. By FiberClock.
  Deadline NextDeadline() const noexcept;

 private:
  class Impl;

  void CallInMainContext(void (*call)(void* argument), void* argument);
  bool RunUntilTrue(bool (*predicate)(void* argument), void* argument, Deadline deadline);

  std::unique_ptr<Impl> impl_;
};

}  // namespace weft

#endif  // WEFT_FIBER_FIBER_LOOP_H_
