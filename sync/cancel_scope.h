// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// CancelScope: a piece of a fiber's work that can be given up: by a call, at a deadline, or with what surrounds it.
//
// Sample:
//   CancelScope scope(2s);                              // a deadline; or none
//   const bool done = scope.Run([&] { Serve(); });      // false: cancelled, by then or by scope.Cancel()
//   auto reply = MoveOnAfter(50ms, [&] { return Ask(); });       // std::optional: none if it took longer
//   Reply sure = MoveOnAfter(50ms, [&] { return Ask(); }, Reply());   // or a value of yours
//   Reply must = FailAfter(50ms, [&] { return Ask(); });         // throws DeadlineExceeded
//   Shielded([&] { SayGoodbye(); });                             // not cancelled from outside
//
// A cancellation ends the waits of the fiber that runs in the scope, and of all fibers that belong to a FiberScope in
// it (fiber/fiber_scope.h); fibers started detached belong to nobody. A wait that is a cancellation point throws
// FiberCancelled, which the cancelled scope catches. Calls of io/ return std::errc::operation_canceled instead.
//
// Cancellation points: all waits of sync/, timer/, fiber/, io/ and interop/, sleeps, FiberYield() and TestCancel().
// Not: taking a mutex; FiberBlocking(f) and AwaitInFiber(awaitable) without a deadline, since what they wait for may
// use the caller's locals (with a deadline, also Deadline::None(), they are), and the calls of io/file.h, which are
// made of the former; the part of FiberScope::Wait() in which fibers still run. A call that need not wait succeeds,
// unless the time slice is over. A cancelled wait leaves no trace: no item, permit or notification is lost, or taken.
//
// Level-triggered: as long as the fiber is in a cancelled scope, each wait that would have to wait throws, again and
// again. Work that must be done nevertheless is done under Shielded() or ShieldedFor().
//
// Deadlines: a scope whose deadline has passed when it is entered begins cancelled. One whose deadline passes later is
// cancelled by then, and at the latest at the next cancellation point in it.
//
// No wait throws outside of scopes, in plain threads, under a shield, while the stack is unwound, or in destructors of
// fiber locals. A destructor that waits on the usual way out of a block needs a shield: a throw there ends the process.
//
// While an exception unwinds the stack, the limit of a ShieldedFor() that a destructor calls (or the end of another
// scope that it enters) ends the waits in it that return a result: a bool, an enum or an error code says that the time
// is over. Waits that return nothing, or what they have waited for, joins without a deadline and FiberScopes go on: the
// code after them believes what they promise. There use the form with a deadline. Debug builds log a wait that outlasts
// such a limit.
//
// Who may call: Run() and the functions below it: any fiber; in a plain thread they just call f, which nothing ends.
// One Run() at a time. Cancel(), IsCancelled(): any fiber and any thread, while the scope exists; a CancelHandle also
// after that. Cancel() does not switch; it takes 50 to 200 ns for each fiber in the scope, and once, if there is a
// FiberScope in it, a microsecond or more.
// Memory ordering: what X did before Cancel() is visible to Y when its wait has thrown, or IsCancelled() has said true.
// How it works: cancel_node.h.
#ifndef WEFT_SYNC_CANCEL_SCOPE_H_
#define WEFT_SYNC_CANCEL_SCOPE_H_

#include <memory>
#include <optional>
#include <stdexcept>
#include <type_traits>
#include <utility>

#include "weft/base/deadline.h"
#include "weft/sync/cancel/cancel_node.h"
#include "weft/sync/cancel/scope_timer.h"
#include "weft/sync/fiber_cancelled.h"

namespace weft {

// FailAfter(): the time was over before f had come to its end.
class DeadlineExceeded : public std::runtime_error {
 public:
  // With a fixed text.
  DeadlineExceeded();
  ~DeadlineExceeded() override;
};

// Cancels a scope that may have gone: then nothing happens. Copies cancel the same one. Any thread.
class CancelHandle {
 public:
  CancelHandle() noexcept = default;  // of no scope
  // True: it was there, and not cancelled before.
  bool Cancel() const noexcept;

 private:
  friend class CancelScope;
  struct State;
  std::shared_ptr<State> state_;
};

class CancelScope {
 public:
  // The deadline counts while Run() runs. No deadline: until Cancel().
  explicit CancelScope(Deadline deadline = {}) noexcept;
  ~CancelScope();
  CancelScope(const CancelScope&) = delete;
  CancelScope& operator=(const CancelScope&) = delete;

  // Calls f in the scope. True: f has returned, cancelled or not. False: it was cancelled, and has ended because of
  // that. Throws what else f throws; FiberCancelled, too, if a scope around this one was cancelled when it was thrown.
  template <class F>
  bool Run(F&& f) {
    auto call = [&f] { f(); };  // Also of a const object, and of a function.
    return RunBody([](void* body) { (*static_cast<decltype(call)*>(body))(); }, &call);
  }

  // Also before Run(), which then begins cancelled. For good. False: it was cancelled already.
  bool Cancel() noexcept;
  // By Cancel(), or because its deadline has passed. (Not: because a scope around it is cancelled.)
  [[nodiscard]] bool IsCancelled() const noexcept;
  // Because its deadline has passed.
  [[nodiscard]] bool DeadlineHasPassed() const noexcept;
  // For code that catches a FiberCancelled: whether this scope is the one that ends it.
  [[nodiscard]] bool IsCauseOf(const FiberCancelled& cancelled) const noexcept;

  // The fiber that calls Run(), before or in it. One that has passed cancels it.
  void SetDeadline(Deadline deadline) noexcept;
  // What counts now: that of the constructor, or of the last SetDeadline().
  Deadline deadline() const noexcept;

  // The first call allocates; throws std::bad_alloc. Any fiber or thread, but one at a time.
  CancelHandle Handle();

 private:
  template <class F>
  friend bool ShieldedFor(Deadline limit, F&& f);

  CancelScope(Deadline deadline, bool shielded) noexcept;

  class Inside;

  bool RunBody(void (*body)(void*), void* argument);
  bool EndsHere(const synchronization::FiberEntity* self, const FiberCancelled& cancelled) const noexcept;

  synchronization::CancelNode node_;
  synchronization::ScopeTimer timer_{&node_};
  synchronization::FiberEntity* runs_in_ = nullptr;
  std::shared_ptr<CancelHandle::State> handle_;
};

// The calling fiber. Throws FiberCancelled if it is in a cancelled scope: a cancellation point that does not wait.
void TestCancel();
// Whether TestCancel() would throw; while the stack is unwound, whether waits that return a result end.
[[nodiscard]] bool IsCancelRequested() noexcept;

// The earliest deadline of the calling fiber's scopes, up to the first shield; none if they have none, and in threads.
[[nodiscard]] Deadline CurrentDeadline() noexcept;
// How long until then; nanoseconds::max() without a deadline.
[[nodiscard]] std::chrono::nanoseconds TimeLeft() noexcept;

// As SetDeadline() of the innermost scope, which must be a CancelScope or a FiberScope that the calling fiber has
// entered itself. Otherwise it ends the process.
void CancelAfter(Deadline deadline) noexcept;

namespace synchronization {
// The result of f; a copy, if f returns a reference.
template <class F>
using ResultOf = std::decay_t<std::invoke_result_t<F&>>;
// The same where it may be missing. void: bool.
template <class F>
using OptionalResult = std::conditional_t<std::is_void_v<ResultOf<F>>, bool, std::optional<ResultOf<F>>>;
[[noreturn]] void ThrowDeadlineExceeded();
template <class F>
void CallInto(OptionalResult<F>* result, F& f) {
  if constexpr (std::is_void_v<ResultOf<F>>) {
    f();
    *result = true;
  } else {
    result->emplace(f());
  }
}
}  // namespace synchronization

// Calls f, and gives it up at the deadline. Its result, in a std::optional; of void: true. None (false): given up.
template <class F>
[[nodiscard]] synchronization::OptionalResult<F> MoveOnAfter(Deadline deadline, F&& f) {
  synchronization::OptionalResult<F> result{};
  CancelScope scope(deadline);
  static_cast<void>(scope.Run([&] { synchronization::CallInto(&result, f); }));
  return result;
}

// The same; `otherwise` if it was given up.
template <class F, class T>
[[nodiscard]] synchronization::ResultOf<F> MoveOnAfter(Deadline deadline, F&& f, T&& otherwise) {
  auto result = MoveOnAfter(deadline, f);
  if (!result) return std::forward<T>(otherwise);
  return *std::move(result);
}

// Calls f, and gives it up at the deadline: throws DeadlineExceeded.
template <class F>
synchronization::ResultOf<F> FailAfter(Deadline deadline, F&& f) {
  auto result = MoveOnAfter(deadline, f);
  if (!result) synchronization::ThrowDeadlineExceeded();
  if constexpr (!std::is_void_v<synchronization::ResultOf<F>>) return *std::move(result);
}

// Calls f, which no scope around it cancels; itself it may end by the limit. False: it was. (Not while the stack is
// unwound: then its waits say so.)
template <class F>
bool ShieldedFor(Deadline limit, F&& f) {
  CancelScope scope(limit, /*shielded=*/true);
  return scope.Run(f);
}

// The same without a limit. Returns what f returns.
template <class F>
synchronization::ResultOf<F> Shielded(F&& f) {
  if constexpr (std::is_void_v<synchronization::ResultOf<F>>) {
    static_cast<void>(ShieldedFor(Deadline::None(), f));
  } else {
    std::optional<synchronization::ResultOf<F>> result;
    static_cast<void>(ShieldedFor(Deadline::None(), [&] { result.emplace(f()); }));
    return *std::move(result);
  }
}

}  // namespace weft

#endif  // WEFT_SYNC_CANCEL_SCOPE_H_
