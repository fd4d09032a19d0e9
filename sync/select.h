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
// More are in fiber/select.h (the end of a task or a fiber, a Future) and io/select.h (sockets and descriptors).
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
#ifndef WEFT_SYNC_SELECT_H_
#define WEFT_SYNC_SELECT_H_

#include <array>
#include <cstddef>
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
#include "weft/sync/select/selection.h"

namespace weft {

namespace synchronization {

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

template <class T, class F = synchronization::DoNothing>
auto OnGet(FiberChannel<T>& channel, F then = {}) {
  return synchronization::OnGetSpec<T, F>{&channel, std::move(then)};
}
template <class T, class U, class F = synchronization::DoNothing>
auto OnPut(FiberChannel<T>& channel, U&& item, F then = {}) {
  if constexpr (std::is_same_v<U&&, T&&>) {
    return synchronization::OnPutReferenceSpec<T, F>{&channel, &item, std::move(then)};
  } else {
    return synchronization::OnPutSpec<T, F>{&channel, T(std::forward<U>(item)), std::move(then)};
  }
}
template <class F = synchronization::DoNothing>
auto OnSet(FiberEvent& event, F then = {}) {
  return synchronization::OnQueueSpec<FiberEvent, F>{&event, std::move(then)};
}
template <class F = synchronization::DoNothing>
auto OnOpen(FiberLatch& latch, F then = {}) {
  return synchronization::OnQueueSpec<FiberLatch, F>{&latch, std::move(then)};
}
template <class F = synchronization::DoNothing>
auto OnAcquire(FiberSemaphore& semaphore, F then = {}) {
  return synchronization::OnQueueSpec<FiberSemaphore, F>{&semaphore, std::move(then)};
}
template <class F = synchronization::DoNothing>
auto OnDeadline(Deadline deadline, F then = {}) {
  return synchronization::OnDeadlineSpec<F>{deadline, std::move(then)};
}
template <class F = synchronization::DoNothing>
auto Otherwise(F then = {}) {
  return synchronization::OtherwiseSpec<F>{std::move(then)};
}

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
