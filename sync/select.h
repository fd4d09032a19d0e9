// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Select(): waits for the first of several things, and does what belongs to it.
// Sample:
//   Select(OnGet(requests, [&](ChannelItem<Request> request) { if (request) Serve(*std::move(request)); }),
//          OnPut(replies, reply, [&](ChannelResult result) { sent = result == ChannelResult::kOk; }),
//          OnSet(stop, [&] { running = false; }),
//          OnDeadline(2s, [&] { Complain(); }));
//
//   OnGet(channel, f)        an item, or the end of the channel: f(ChannelItem<T>)
//   OnPut(channel, x, f)     x was put, or the channel is closed: f(ChannelResult). x is moved from only if it was put
//   OnSet(event, f)          a FiberEvent is set
//   OnOpen(latch, f)         a FiberLatch is open
//   OnAcquire(semaphore, f)  a unit was taken from a FiberSemaphore
//   OnDeadline(deadline, f)  the time is over; of several the first
//   Otherwise(f)             nothing else is ready: Select() does not wait then
// More are in fiber/select_tasks.h (the end of a task or a fiber, a Future) and io/select_sockets.h (sockets and
// descriptors).
//
// f may be left out. Exactly one case is taken, and its f called, without a lock; where several are ready each has its
// turn. Without a deadline it waits as long as it takes. Select() returns the number of the case, from 0.
//
// Who may call: any fiber and any thread. May switch (a thread: block), and is a cancellation point: if it throws, no
// case was taken. Throws what f throws.
// Memory ordering: as that of the operation taken.
// Lifetime: what the cases name stays until it returns.
// Two cases may name the same thing. A Select() that puts into and gets from the same channel does not serve itself.
// Cost: a locked list for each case (bench/fiber/scope_benchmark.cc).
//
// How it works (Selection):
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
#ifndef WEFT_SYNC_SELECT_H_
#define WEFT_SYNC_SELECT_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <type_traits>
#include <utility>

#include "weft/base/deadline.h"
#include "weft/sync/channel_result.h"
#include "weft/sync/fiber_channel.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_latch.h"
#include "weft/sync/fiber_semaphore.h"
#include "weft/sync/wait/wait_queue.h"

namespace weft {

namespace synchronization {

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

// A wait for the first of several things.
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

// Of a primitive whose waiters are in a WaitQueue: FiberEvent, FiberLatch, FiberSemaphore.
template <class Primitive>
class QueueCase : public SelectCase {
 public:
  QueueCase(Selection* selection, Primitive* primitive) noexcept : SelectCase(selection), primitive_(primitive) {}

  bool TryTake() noexcept override { return primitive_->TryShared(); }
  Entered Enter() noexcept override {
    if (primitive_->EnterShared(Waiting())) return Entered::kWaits;
    // Ready: a semaphore's unit is not taken yet.
    if (!ClaimSelf()) return Entered::kDecided;
    return primitive_->TryShared() ? Entered::kTaken : Entered::kAnew;
  }
  void Leave() noexcept override { primitive_->LeaveShared(&waiter()); }
  bool Notified() noexcept override { return true; }

 private:
  Primitive* const primitive_;
};

template <class T>
class GetCase : public SelectCase {
 public:
  GetCase(Selection* selection, FiberChannel<T>* channel) noexcept : SelectCase(selection), channel_(channel) {}

  bool TryTake() noexcept override WEFT_NO_THREAD_SAFETY_ANALYSIS {
    result_ = channel_->TryGetLocked(&item_);
    if (result_ != ChannelResult::kWouldBlock) return true;
    channel_->lock_.unlock();
    return false;
  }
  Entered Enter() noexcept override WEFT_NO_THREAD_SAFETY_ANALYSIS {
    channel_->lock_.lock();
    if (channel_->count_ == 0 && !channel_->closed_ && !channel_->putters_.HasOtherThan(waiter().word())) {
      waiter().argument = &item_;
      channel_->getters_.PushBack(Waiting());
      channel_->lock_.unlock();
      return Entered::kWaits;
    }
    if (!ClaimSelf()) {
      channel_->lock_.unlock();
      return Entered::kDecided;
    }
    result_ = channel_->GetHere(&item_);
    if (result_ != ChannelResult::kWouldBlock) return Entered::kTaken;
    channel_->lock_.unlock();
    return Entered::kAnew;
  }
  void Leave() noexcept override WEFT_NO_THREAD_SAFETY_ANALYSIS {
    channel_->lock_.lock();
    if (waiter().linked()) channel_->getters_.Remove(&waiter());
    channel_->lock_.unlock();
  }
  bool Notified() noexcept override {
    result_ = waiter().granted ? ChannelResult::kOk : ChannelResult::kClosed;
    return true;
  }

  ChannelItem<T> Take() { return ChannelItem<T>(std::move(item_), result_); }

 private:
  FiberChannel<T>* const channel_;
  std::optional<T> item_;
  ChannelResult result_ = ChannelResult::kWouldBlock;
};

template <class T>
class PutCase : public SelectCase {
 public:
  PutCase(Selection* selection, FiberChannel<T>* channel, T* item) noexcept
      : SelectCase(selection), channel_(channel), item_(item) {}

  bool TryTake() noexcept override WEFT_NO_THREAD_SAFETY_ANALYSIS {
    result_ = channel_->TryPutLocked(item_);
    if (result_ != ChannelResult::kWouldBlock) return true;
    channel_->lock_.unlock();
    return false;
  }
  Entered Enter() noexcept override WEFT_NO_THREAD_SAFETY_ANALYSIS {
    channel_->lock_.lock();
    if (channel_->count_ == channel_->capacity_ && !channel_->closed_ &&
        !channel_->getters_.HasOtherThan(waiter().word())) {
      waiter().argument = item_;
      channel_->putters_.PushBack(Waiting());
      channel_->lock_.unlock();
      return Entered::kWaits;
    }
    if (!ClaimSelf()) {
      channel_->lock_.unlock();
      return Entered::kDecided;
    }
    result_ = channel_->PutHere(item_);
    if (result_ != ChannelResult::kWouldBlock) return Entered::kTaken;
    channel_->lock_.unlock();
    return Entered::kAnew;
  }
  void Leave() noexcept override WEFT_NO_THREAD_SAFETY_ANALYSIS {
    channel_->lock_.lock();
    if (waiter().linked()) channel_->putters_.Remove(&waiter());
    channel_->lock_.unlock();
  }
  bool Notified() noexcept override {
    result_ = waiter().granted ? ChannelResult::kOk : ChannelResult::kClosed;
    return true;
  }

  ChannelResult result() const noexcept { return result_; }

 private:
  FiberChannel<T>* const channel_;
  T* const item_;
  ChannelResult result_ = ChannelResult::kWouldBlock;
};

struct DoNothing {
  template <class... Args>
  void operator()(Args&&...) const noexcept {}
};

// What OnGet() and the like return: the arguments of a case and what follows it.
template <class T, class F>
struct OnGetSpec {
  FiberChannel<T>* channel;
  F then;
};
template <class T, class F>
struct OnPutSpec {
  FiberChannel<T>* channel;
  T item;
  F then;
};
template <class T, class F>
struct OnPutReferenceSpec {
  FiberChannel<T>* channel;
  T* item;
  F then;
};
template <class Primitive, class F>
struct OnQueueSpec {
  Primitive* primitive;
  F then;
};
template <class F>
struct OnDeadlineSpec {
  Deadline deadline;
  F then;
};
template <class F>
struct OtherwiseSpec {
  F then;
};

// A case in the frame of Select(): an object, and what calls `then`. Specs of the layers above make their own objects.
template <class Spec>
struct CaseOf {
  CaseOf(Selection* selection, Spec& spec) : object(spec.MakeCase(selection)) {}
  void Then(Spec& spec) { spec.Then(object); }
  typename Spec::Case object;
};
template <class T, class F>
struct CaseOf<OnGetSpec<T, F>> {
  CaseOf(Selection* selection, OnGetSpec<T, F>& spec) : object(selection, spec.channel) {}
  void Then(OnGetSpec<T, F>& spec) { std::invoke(spec.then, object.Take()); }
  GetCase<T> object;
};
template <class T, class F>
struct CaseOf<OnPutSpec<T, F>> {
  CaseOf(Selection* selection, OnPutSpec<T, F>& spec) : object(selection, spec.channel, &spec.item) {}
  void Then(OnPutSpec<T, F>& spec) { std::invoke(spec.then, object.result()); }
  PutCase<T> object;
};
template <class T, class F>
struct CaseOf<OnPutReferenceSpec<T, F>> {
  CaseOf(Selection* selection, OnPutReferenceSpec<T, F>& spec) : object(selection, spec.channel, spec.item) {}
  void Then(OnPutReferenceSpec<T, F>& spec) { std::invoke(spec.then, object.result()); }
  PutCase<T> object;
};
template <class Primitive, class F>
struct CaseOf<OnQueueSpec<Primitive, F>> {
  CaseOf(Selection* selection, OnQueueSpec<Primitive, F>& spec) : object(selection, spec.primitive) {}
  void Then(OnQueueSpec<Primitive, F>& spec) { std::invoke(spec.then); }
  QueueCase<Primitive> object;
};
template <class F>
struct CaseOf<OnDeadlineSpec<F>> {
  CaseOf(Selection*, OnDeadlineSpec<F>&) {}
  void Then(OnDeadlineSpec<F>& spec) { std::invoke(spec.then); }
};
template <class F>
struct CaseOf<OtherwiseSpec<F>> {
  CaseOf(Selection*, OtherwiseSpec<F>&) {}
  void Then(OtherwiseSpec<F>& spec) { std::invoke(spec.then); }
};

// The cases of a Select(), one inside of the other: they cannot be moved.
template <class... Specs>
struct CaseChain {
  explicit CaseChain(Selection*) {}
};
template <class First, class... Rest>
struct CaseChain<First, Rest...> {
  CaseChain(Selection* selection, First& spec, Rest&... rest) : mine(selection, spec), others(selection, rest...) {}
  CaseOf<First> mine;
  CaseChain<Rest...> others;
};

// What is known of the cases before it waits.
template <std::size_t kCount>
struct SelectTable {
  std::array<SelectCase*, kCount> cases;    // those that can be waited for
  std::array<std::size_t, kCount> numbers;  // of these
  std::size_t size = 0;
  Deadline deadline;
  std::size_t deadline_number = Selection::kNone;
  std::size_t otherwise_number = Selection::kNone;
};

template <class Table, class First, class... Rest>
void FillTable(Table* table, std::size_t number, CaseChain<First, Rest...>& chain, First& spec, Rest&... rest) {
  if constexpr (requires { chain.mine.object; }) {
    table->cases[table->size] = &chain.mine.object;
    table->numbers[table->size++] = number;
  } else if constexpr (requires { spec.deadline; }) {
    if (table->deadline_number == Selection::kNone || spec.deadline < table->deadline) {
      table->deadline = spec.deadline;
      table->deadline_number = number;
    }
  } else {
    table->otherwise_number = number;
  }
  if constexpr (sizeof...(Rest) != 0) FillTable(table, number + 1, chain.others, rest...);
}

template <class First, class... Rest>
void CallThen(std::size_t number, CaseChain<First, Rest...>& chain, First& spec, Rest&... rest) {
  if (number == 0) {
    chain.mine.Then(spec);
  } else if constexpr (sizeof...(Rest) != 0) {
    CallThen(number - 1, chain.others, rest...);
  }
}

}  // namespace synchronization

// A case for Select(): an item was got, or the channel is closed and empty; then(ChannelItem<T>).
template <class T, class F = synchronization::DoNothing>
auto OnGet(FiberChannel<T>& channel, F then = {}) {
  return synchronization::OnGetSpec<T, F>{&channel, std::move(then)};
}
// A case for Select(): the item was put, or the channel is closed; then(ChannelResult). An rvalue is moved from only if
// it was put, and must live until Select() returns.
template <class T, class U, class F = synchronization::DoNothing>
auto OnPut(FiberChannel<T>& channel, U&& item, F then = {}) {
  if constexpr (std::is_same_v<U&&, T&&>) {
    return synchronization::OnPutReferenceSpec<T, F>{&channel, &item, std::move(then)};
  } else {
    return synchronization::OnPutSpec<T, F>{&channel, T(std::forward<U>(item)), std::move(then)};
  }
}
// A case for Select(): the event is set; then().
template <class F = synchronization::DoNothing>
auto OnSet(FiberEvent& event, F then = {}) {
  return synchronization::OnQueueSpec<FiberEvent, F>{&event, std::move(then)};
}
// A case for Select(): the latch is open; then().
template <class F = synchronization::DoNothing>
auto OnOpen(FiberLatch& latch, F then = {}) {
  return synchronization::OnQueueSpec<FiberLatch, F>{&latch, std::move(then)};
}
// A case for Select(): a unit was taken from the semaphore; then().
template <class F = synchronization::DoNothing>
auto OnAcquire(FiberSemaphore& semaphore, F then = {}) {
  return synchronization::OnQueueSpec<FiberSemaphore, F>{&semaphore, std::move(then)};
}
// A case for Select(): the deadline has passed, and nothing else was ready; then(). Of several the earliest counts.
template <class F = synchronization::DoNothing>
auto OnDeadline(Deadline deadline, F then = {}) {
  return synchronization::OnDeadlineSpec<F>{deadline, std::move(then)};
}
// A case for Select(): nothing else is ready; then(). Select() does not wait.
template <class F = synchronization::DoNothing>
auto Otherwise(F then = {}) {
  return synchronization::OtherwiseSpec<F>{std::move(then)};
}

// Waits for the first of these cases, takes it, and calls its function without a lock. Returns its number, from 0. May
// switch (a thread: block); a cancellation point: when it throws FiberCancelled, no case was taken. Throws what the
// function throws.
template <class... Specs>
requires(sizeof...(Specs) > 0) std::size_t Select(Specs... specs) {
  synchronization::Selection selection;
  synchronization::CaseChain<Specs...> chain(&selection, specs...);
  synchronization::SelectTable<sizeof...(Specs)> table;
  synchronization::FillTable(&table, 0, chain, specs...);
  const std::span<synchronization::SelectCase* const> cases(table.cases.data(), table.size);
  const bool must_not_wait = table.otherwise_number != synchronization::Selection::kNone;
  const std::size_t taken = must_not_wait ? selection.Try(cases) : selection.Wait(cases, table.deadline);
  const std::size_t number = taken != synchronization::Selection::kNone ? table.numbers[taken]
                             : must_not_wait                            ? table.otherwise_number
                                                                        : table.deadline_number;
  synchronization::CallThen(number, chain, specs...);
  return number;
}

}  // namespace weft

#endif  // WEFT_SYNC_SELECT_H_
