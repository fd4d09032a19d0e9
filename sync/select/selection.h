// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Selection: a wait for the first of several things. What users call is in select.h.
//
//   1. Each case is tried, beginning with another one each time: the first that need not wait is taken.
//   2. Each case is entered into its primitive's list, by a waiter of its own. All share one decision word. A case that
//      need not wait any more is taken now, if the selection can decide so for itself.
//   3. The selection waits for an event; a notifier that has claimed one of the waiters sets it.
//   4. All that were entered and not notified leave.
//   5. The one that was notified says whether there is something to take.
//
// A notifier claims a waiter as any other (wait_state.h): the first claim decides, and later notifiers pass the
// selection over. The selection itself claims, too: in step 2, when its deadline passes, and when it is cancelled.
//
// All is done anew from step 1 if the case that the selection has decided for in step 2 turns out not to be ready (its
// partner is another selection, which has just decided otherwise), or if a notification was only a hint (the event of a
// descriptor). Notifiers that passed the selection over left what they had where step 1 finds it. When the deadline has
// passed, each case is tried once more: a descriptor may be ready, and its event on the way.
//
// Invariants
//   SL4  Of all cases exactly one is taken, or none (deadline, cancellation, anew), by one compare-exchange on `word_`.
//   SL5  A selection returns when no list has its waiters, and the winning notifier has set the event, its last touch.
//   SL6  What a case has seen, what it uses and the event are of one round, from step 2 to step 5. A case whose Enter()
//        said kWaits gets one Leave() or one Notified() in that round, whatever ends it; a case that was not entered
//        gets neither, and is not looked at: it may have been notified in an earlier round, by a hint.
//
// Checked in tests/model/cancel_model.cc and selection_model.cc.
#ifndef WEFT_SYNC_SELECT_SELECTION_H_
#define WEFT_SYNC_SELECT_SELECTION_H_

#include <cstddef>
#include <cstdint>
#include <span>

#include "weft/base/deadline.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/wait/wait_queue.h"

namespace weft::synchronization {

class Selection;

// One case, on the stack of the caller.
class SelectCase {
 public:
  enum class Entered : std::uint8_t {
    kWaits,    // its waiter is in the list
    kTaken,    // by the selection itself; nothing is in the list
    kDecided,  // another case was notified; nothing is in the list
    kAnew,     // see above; nothing is in the list
  };

  explicit SelectCase(Selection* selection) noexcept;
  SelectCase(const SelectCase&) = delete;
  SelectCase& operator=(const SelectCase&) = delete;

  // Takes it, if that needs no waiting.
  virtual bool TryTake() noexcept = 0;
  virtual Entered Enter() noexcept = 0;
  // Entered, not notified.
  virtual void Leave() noexcept = 0;
  // Entered, and notified: instead of Leave(). False: there is nothing to take after all, and all is done anew.
  [[nodiscard]] virtual bool Notified() noexcept = 0;

  // Entered in this round (SL6), which is decided.
  bool was_notified() const noexcept { return waiter_.result() == WaitResult::kNotified; }

 protected:
  ~SelectCase() = default;

  // In Enter(), under the lock of the primitive: it waits, or is taken by itself.
  Waiter* Waiting() noexcept {
    Begin();
    return &waiter_;
  }
  bool ClaimSelf() noexcept;
  Waiter& waiter() noexcept { return waiter_; }

 private:
  void Begin() noexcept;

  Selection* const selection_;
  Waiter waiter_;
};

class Selection : private WakeTarget {
 public:
  static constexpr std::size_t kNone = static_cast<std::size_t>(-1);

  Selection() noexcept
      : WakeTarget{[](WakeTarget* self) noexcept { static_cast<Selection*>(self)->signalled_.Set(); }} {}
  Selection(const Selection&) = delete;
  Selection& operator=(const Selection&) = delete;

  // The case that was taken; kNone: the deadline has passed. A cancellation point: if it throws none was taken.
  [[nodiscard]] std::size_t Wait(std::span<SelectCase* const> cases, Deadline deadline);
  // Does not wait. kNone: none is ready.
  [[nodiscard]] std::size_t Try(std::span<SelectCase* const> cases) noexcept;

  // A case, in Enter(): decides for itself. False: another one was notified.
  [[nodiscard]] bool ClaimSelf() noexcept;

 private:
  friend class SelectCase;

  // kNone: to be done anew.
  std::size_t WaitOnce(std::span<SelectCase* const> cases, Deadline deadline, WaitResult* result) noexcept;

  WaitNode::DecisionWord word_{nullptr};
  FiberEvent signalled_;
};

inline SelectCase::SelectCase(Selection* selection) noexcept : selection_(selection), waiter_(selection) { Begin(); }

inline bool SelectCase::ClaimSelf() noexcept { return selection_->ClaimSelf(); }

}  // namespace weft::synchronization

#endif  // WEFT_SYNC_SELECT_SELECTION_H_
