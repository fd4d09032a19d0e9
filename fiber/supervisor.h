// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Supervisor: runs fibers, and starts those that fail again, as Erlang's supervisors do.
// Sample:
//   Supervisor supervisor({.max_restarts = 5, .period = 1min});
//   supervisor.Add("acceptor", RestartKind::kPermanent, [&] { AcceptLoop(); });
//   supervisor.Add("warm up", RestartKind::kTransient, [&] { FillCaches(); });
//   supervisor.Run();      // until all have ended; throws SupervisionFailed if they fail too often
//
// A child is a function with a name. It runs in a fiber of a FiberScope that Run() makes, so it is cancelled with the
// caller of Run(), inherits its deadline, and never outlives Run(). A supervisor may be the child of another one: its
// SupervisionFailed is that child's failure.
//
//   how a child ended            permanent     transient     temporary
//   ------------------------------------------------------------------
//   its function returned        again         done          done
//   an exception left it         again         again         done (the exception is logged)
//   it was cancelled             done          done          done
//
// A child that is cancelled, by Stop() or by its id (FindFiber()), has not failed: somebody stopped it on purpose.
// Again: after a wait that doubles with each failure in a row (Options::backoff). By the strategy the others are
// cancelled and started again, too (kOneForAll), or those that were added after it (kRestForOne): all of them have
// ended before the first is started, in the order of their addition; temporary ones are not started again, nor are
// transient ones whose function had returned before.
//
// More than `max_restarts` within `period` end it: all children are cancelled, and when they have ended Run() throws
// SupervisionFailed, which names the child and has its last exception. Only the restarts of children that failed count.
//
// Who may call: Run(): a fiber or a plain thread, once; switches (a thread: blocks); a cancellation point. All else:
// any fiber and any thread, also children, before and during Run(), while the supervisor exists.
// Memory ordering: what came before Add() is visible to the child; what a run did, to the next one and after Run().
// Lifetime: functions are destroyed when their child is done, or at the end of Run().
//
// How it works. Only the caller of Run() changes the list of children. A child's fiber notes in the child how it ended
// and sets an event; Run() waits for that event, until the next child is due.
//
// Invariants
//   SV1  A child has at most one run: the next is started after the last has noted its end, its last touch of the child
//        and of the exception.
//   SV2  Nothing noted is lost: Run() resets the event before it looks at the children and flags (EV3).
//   SV3  Nothing outlives Run(): the scope is left before children, functions and event go.
//   SV4  A child whose function has returned before another one's failure asked it to stop has not been stopped: a
//        transient one is done. When its function returns, its fiber looks whether it has been asked.
#ifndef WEFT_FIBER_SUPERVISOR_H_
#define WEFT_FIBER_SUPERVISOR_H_

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "weft/base/deadline.h"
#include "weft/base/thread/atomic.h"
#include "weft/base/time/clock.h"
#include "weft/base/unique_function.h"
#include "weft/fiber/fiber_attributes.h"
#include "weft/fiber/fiber_scope.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_mutex.h"

namespace weft {

// Whose end means that it is started again: see the table above.
enum class RestartKind : std::uint8_t { kPermanent, kTransient, kTemporary };

// Which other children a failed child's restart starts again, too.
enum class RestartStrategy : std::uint8_t { kOneForOne, kOneForAll, kRestForOne };

// How long a failed child waits: `first`, then twice as long each time, up to `longest`; `first` again once it has run
// for `longest`. A random part of each wait, up to `jitter` (0 to 1), is left out, so that children come apart.
struct RestartBackoff {
  // The first wait.
  std::chrono::nanoseconds first = std::chrono::milliseconds(10);
  // The longest wait.
  std::chrono::nanoseconds longest = std::chrono::seconds(10);
  // The random part, from 0 to 1.
  double jitter = 0.2;
};

// Run(): children have failed too often.
class SupervisionFailed : public std::runtime_error {
 public:
  // `child`: its name; `cause`: the exception that left it.
  SupervisionFailed(const std::string& text, std::string child, std::exception_ptr cause);
  ~SupervisionFailed() override;

  // The name of the child that failed once too often.
  const std::string& Child() const noexcept { return child_; }
  // The exception that left it; nullptr: its function returned.
  const std::exception_ptr& Cause() const noexcept { return cause_; }

 private:
  std::string child_;
  std::exception_ptr cause_;
};

class Supervisor {
 public:
  // What a supervisor is made from.
  struct Options {
    // Which children are started again with one that failed.
    RestartStrategy strategy = RestartStrategy::kOneForOne;
    // Of all children together, as in Erlang: so many restarts within `period`; one more ends it.
    std::size_t max_restarts = 3;
    std::chrono::nanoseconds period = std::chrono::seconds(5);
    // How long a child waits before it is started again.
    RestartBackoff backoff = {};
    // Run() goes on without children, for those that are added later, until Stop().
    bool stays = false;
  };

  // A child that is not done.
  struct ChildInfo {
    // As it was added; need not be unique.
    std::string name;
    std::uint64_t fiber_id = 0;  // of its present run; 0: it waits for the next
    // How often it was started again.
    std::size_t restarts = 0;
  };

  // With all Options as they are by default.
  Supervisor() : Supervisor(Options()) {}
  // Children are added and Run() is called afterwards.
  explicit Supervisor(const Options& options);
  ~Supervisor();  // Run() is not running.
  Supervisor(const Supervisor&) = delete;
  Supervisor& operator=(const Supervisor&) = delete;

  // Adds a child, which Run() starts, also while it runs. False: Run() has ended. The name, in `attributes`, is for
  // messages; it need not be unique. f is called again and again, by one fiber at a time.
  template <class F>
  requires(std::invocable<std::decay_t<F>&>) bool Add(const FiberAttributes& attributes, RestartKind kind, F&& f) {
    fiber::detail::CheckNotEmpty("Supervisor::Add", f);
    return AddChild(attributes, kind, std::forward<F>(f));
  }
  template <class F>
  requires(std::invocable<std::decay_t<F>&>) bool Add(std::string name, RestartKind kind, F&& f) {
    return Add(FiberAttributes{.name = std::move(name)}, kind, std::forward<F>(f));
  }

  // Returns when no child is left (`stays`: not before Stop()), or when Stop() was called and all have ended. Throws
  // SupervisionFailed, and FiberCancelled if the caller is cancelled.
  void Run();

  // All children are cancelled, and Run() returns when they have ended. Does not wait for that.
  void Stop() noexcept;

  // How often children were started again because one of them had failed: the failures, not the children.
  std::size_t Restarts() const noexcept { return restarts_.load(std::memory_order_relaxed); }
  // Those that are not done. A snapshot.
  std::vector<ChildInfo> Children() const;

 private:
  using TimePoint = std::chrono::steady_clock::time_point;
  struct Child;
  class Ending;

  bool AddChild(const FiberAttributes& attributes, RestartKind kind, base::UniqueFunction<void()> f);
  static void RunChild(Supervisor* self, Child* child);
  void NoteEnd(Child* child, std::exception_ptr exception, bool cancelled) noexcept;

  // The fiber or thread in Run().
  void RunChildren(FiberScope& scope);
  void TakeAdded();
  void HandleEnds();
  void RemoveDone();
  static bool IsToRestart(const Child& child);
  static bool IsToRestartWithOthers(const Child& child);
  static void LogException(const Child& child);
  void Restart(std::size_t index);
  void CountRestart(const Child& child, TimePoint now);
  Deadline StartDue(FiberScope& scope);
  void Start(FiberScope& scope, Child* child);
  bool IsOver();
  std::chrono::nanoseconds BackoffOf(const Child& child);

  const Options options_;
  FiberEvent wake_;  // a child has ended, another was added, or Stop() was called
  base::Atomic<bool> stop_{false};
  base::Atomic<bool> ran_{false};
  base::Atomic<std::size_t> restarts_{0};

  mutable FiberMutex mutex_;
  std::vector<std::unique_ptr<Child>> added_;  // guarded by mutex_
  bool over_ = false;                          // guarded by mutex_
  // Changed by Run(), under mutex_; read by it without.
  std::vector<std::unique_ptr<Child>> children_;

  std::deque<TimePoint> restarted_at_;  // within the last period
  std::uint64_t random_ = 0;
};

}  // namespace weft

#endif  // WEFT_FIBER_SUPERVISOR_H_
