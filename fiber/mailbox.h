// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Mailbox<T>: the messages for one fiber, as in Erlang. Anybody sends; the owner receives, in order or by selection.
// Sample:
//   Mailbox<std::string> mailbox;
//   const Mailbox<std::string>::Sender sender = mailbox.MakeSender();
//   Fiber echo([mailbox = std::move(mailbox)]() mutable {                       // owns it; it is closed when this ends
//     while (auto message = mailbox.Receive()) {
//       if (*message == "stop") break;
//     }
//   });
//   if (sender.Send("hello") != ChannelResult::kOk) return;                     // kClosed: its fiber has ended
//
// The owner holds the Mailbox, and so closes it at its end, however it ends. A Sender is a handle that anybody copies
// and keeps; it may outlive the Mailbox. With a capacity, Send() waits while the mailbox holds so many messages, those
// that a selection has passed over included.
//
// Who may call: a Sender's functions: any fiber and any thread; several at a time use copies of it, as of a shared_ptr.
// The Mailbox's: its owner, one fiber or thread at a time; it may be moved to another one in between. Send() and the
// Receive forms may switch (a thread: block) and are cancellation points; all others do not wait for messages or room.
// A selection is the owner's code: it may send, but not receive.
// Results: of a Send(): kOk, kClosed, with a deadline also kTimedOut; of a TrySend(): kOk, kClosed, kWouldBlock. Unless
// it is kOk, the message is still the caller's, unchanged. Receiving: the message; none if there was none before the
// deadline, or the owner has closed the mailbox and nothing (that is wanted) is left in it. While the stack unwinds,
// the limit of a ShieldedFor() is a deadline of both (cancel_scope.h).
// Memory ordering: what X did before it sent a message is visible to the owner after it has received that message.
// Lifetime: Mailbox and Senders are independent of each other. Messages left in a mailbox are destroyed with it, in the
// owner. A wait that ends by an exception loses no message.
//
// How it works. Senders put messages into the inbox, under a mutex. The owner moves the whole inbox into a list of its
// own, and looks there without the mutex for what it wants; what it passes over stays, in front of later messages.
//
// Invariants
//   MB1  Messages are in `kept_`, then in the inbox, in the order in which their sends took the mutex. Receive() takes
//        the first, ReceiveIf() the first that is wanted.
//   MB2  A selection sees each message once in a call, while other fibers send.
//   MB3  `count` is the messages in both. A sender adds one only while it is below the capacity and the mailbox open.
//   MB4  No code of T runs under a spin lock, and of its code only the move constructor under the mutex.
// Rejected: the mailbox as a part of each fiber (its messages would have one type, or none); a FiberChannel (bounded by
// its memory, and no selection); closing by senders (then no message would have two meanings: send one that says so).
#ifndef WEFT_FIBER_MAILBOX_H_
#define WEFT_FIBER_MAILBOX_H_

#include <concepts>
#include <cstddef>
#include <limits>
#include <list>
#include <mutex>
#include <optional>
#include <type_traits>
#include <utility>
#include <vector>

#include "weft/base/deadline.h"
#include "weft/base/ref_ptr.h"
#include "weft/base/report/check.h"
#include "weft/sync/channel_result.h"
#include "weft/sync/fiber_condition_variable.h"
#include "weft/sync/fiber_mutex.h"

namespace weft {

namespace mailbox_internal {

// What a Mailbox and its Senders share.
template <class T>
class State : public base::RefCounted<State<T>> {
 public:
  explicit State(std::size_t capacity) noexcept : capacity_(capacity) {}

  // Sends `*message`. `may_wait`: with the deadline; else kWouldBlock stands for it.
  ChannelResult Put(T* message, bool may_wait, Deadline deadline) {
    std::unique_lock lock(mutex_);
    const auto may_go_on = [this] { return closed_ || count_ < capacity_; };
    if (!may_go_on()) {
      if (!may_wait) return ChannelResult::kWouldBlock;
      if (!room_.wait(lock, may_go_on, deadline)) return ChannelResult::kTimedOut;
    }
    if (closed_) return ChannelResult::kClosed;
    try {
      inbox_.push_back(std::move(*message));
    } catch (...) {  // No memory. Another one that waits for room may have what it needs.
      room_.notify_one();
      throw;
    }
    ++count_;
    lock.unlock();
    arrived_.notify_one();
    return ChannelResult::kOk;
  }

  // The owner: all that has been sent, in order; waits while it is nothing. Empty: the deadline has passed, or closed.
  std::list<T> Collect(Deadline deadline) {
    std::list<T> collected;
    std::unique_lock lock(mutex_);
    WEFT_CHECK(!collecting_, "Mailbox: two receive at once");
    collecting_ = true;
    const EndOfCollecting end(this);
    arrived_.wait(
        lock, [this] { return closed_ || !inbox_.empty(); }, deadline);
    collected.swap(inbox_);
    return collected;
  }
  std::list<T> CollectWithoutWaiting() {
    std::list<T> collected;
    std::scoped_lock lock(mutex_);
    collected.swap(inbox_);
    return collected;
  }

  // The owner has received so many.
  void OnReceived(std::size_t messages) {
    std::unique_lock lock(mutex_);
    count_ -= messages;
    lock.unlock();
    if (messages == 1) {
      room_.notify_one();
    } else {
      room_.notify_all();
    }
  }

  void Close() noexcept {
    std::unique_lock lock(mutex_);
    closed_ = true;
    lock.unlock();
    room_.notify_all();
    arrived_.notify_all();
  }

  bool IsClosed() const {
    std::scoped_lock lock(mutex_);
    return closed_;
  }
  std::size_t Count() const {
    std::scoped_lock lock(mutex_);
    return count_;
  }

 private:
  // With the mutex, also when the wait has thrown.
  struct EndOfCollecting {
    explicit EndOfCollecting(State* of) noexcept : state(of) {}
    EndOfCollecting(const EndOfCollecting&) = delete;
    EndOfCollecting& operator=(const EndOfCollecting&) = delete;
    ~EndOfCollecting() { state->collecting_ = false; }
    State* const state;
  };

  const std::size_t capacity_;
  mutable FiberMutex mutex_;  // guards all that follows, but for the condition variables
  FiberConditionVariable arrived_;
  FiberConditionVariable room_;
  std::list<T> inbox_;
  std::size_t count_ = 0;
  bool closed_ = false;
  bool collecting_ = false;
};

}  // namespace mailbox_internal

template <class T>
class Mailbox {
  static_assert(std::is_nothrow_move_constructible_v<T> && std::is_nothrow_destructible_v<T>,
                "a message that cannot be moved without an exception could be lost on the way");

 public:
  // As a capacity: any number of messages; Send() never waits for room.
  static constexpr std::size_t kUnbounded = std::numeric_limits<std::size_t>::max();

  // Sends to the mailbox that made it, which it may outlive. Copies send to the same one.
  class Sender {
   public:
    // To be assigned to; sends nothing.
    Sender() = default;

    // Waits for room, and puts the message behind all others. A cancellation point. kOk: the owner can receive it. Else
    // the message is unchanged.
    ChannelResult Send(T&& message, Deadline deadline = {}) const { return state().Put(&message, true, deadline); }
    ChannelResult Send(const T& message, Deadline deadline = {}) const { return Send(T(message), deadline); }
    // kWouldBlock: there is no room.
    ChannelResult TrySend(T&& message) const { return state().Put(&message, false, {}); }
    ChannelResult TrySend(const T& message) const { return TrySend(T(message)); }

    // True: every further Send() will say so. False: at that moment.
    bool IsClosed() const { return state().IsClosed(); }

    // Of the same mailbox.
    friend bool operator==(const Sender& a, const Sender& b) noexcept { return a.state_.Get() == b.state_.Get(); }

   private:
    friend class Mailbox;
    explicit Sender(base::RefPtr<mailbox_internal::State<T>> state) noexcept : state_(std::move(state)) {}

    mailbox_internal::State<T>& state() const {
      WEFT_CHECK(state_ != nullptr, "Mailbox: a Sender that belongs to no mailbox is used");
      return *state_;
    }

    base::RefPtr<mailbox_internal::State<T>> state_;
  };

  // With room for so many messages, at least one.
  explicit Mailbox(std::size_t capacity = kUnbounded)
      : state_(base::MakeRefCounted<mailbox_internal::State<T>>(capacity)) {
    WEFT_CHECK(capacity != 0, "Mailbox: a capacity of 0 cannot be");
  }
  // The other one can only be destroyed or assigned to.
  Mailbox(Mailbox&& other) noexcept = default;
  Mailbox& operator=(Mailbox&& other) noexcept {
    if (this == &other) return *this;
    End();
    state_ = std::move(other.state_);
    kept_ = std::move(other.kept_);
    return *this;
  }
  // Closes it; what is in it is destroyed.
  ~Mailbox() { End(); }

  // A handle that sends to this mailbox. The owner makes the first one; others copy it.
  Sender MakeSender() const { return Sender(state_); }

  // The oldest message. Without a deadline there is one, unless the mailbox is closed: `while (auto m = Receive())`.
  // (Or a limit has passed while the stack unwinds.)
  [[nodiscard]] std::optional<T> Receive(Deadline deadline = {}) { return ReceiveIf(AnyMessage(), deadline); }
  [[nodiscard]] std::optional<T> TryReceive() { return TryReceiveIf(AnyMessage()); }

  // The oldest message of which wanted(message) is true; the others stay as they are. Where the mailbox has a capacity
  // and is full of others, no message can come: it waits for its deadline.
  template <std::predicate<const T&> Predicate>
  [[nodiscard]] std::optional<T> ReceiveIf(Predicate wanted, Deadline deadline = {}) {
    for (auto next = kept_.begin();;) {
      next = FindFrom(next, wanted);
      if (next != kept_.end()) return Take(next);
      std::list<T> arrived = state_->Collect(deadline);
      if (arrived.empty()) return std::nullopt;
      next = Keep(&arrived);
    }
  }
  template <std::predicate<const T&> Predicate>
  [[nodiscard]] std::optional<T> TryReceiveIf(Predicate wanted) {
    auto found = FindFrom(kept_.begin(), wanted);
    if (found == kept_.end()) {
      std::list<T> arrived = state_->CollectWithoutWaiting();
      if (!arrived.empty()) found = FindFrom(Keep(&arrived), wanted);
    }
    return found != kept_.end() ? Take(found) : std::nullopt;
  }

  // All messages that there are, in order. Does not wait.
  [[nodiscard]] std::vector<T> ReceiveAll() {
    std::list<T> arrived = state_->CollectWithoutWaiting();
    Keep(&arrived);
    std::vector<T> all;
    all.reserve(kept_.size());
    for (T& message : kept_) all.push_back(std::move(message));
    kept_.clear();
    if (!all.empty()) state_->OnReceived(all.size());
    return all;
  }

  // Messages in it; a snapshot.
  std::size_t Size() const { return state_->Count(); }

  // Further and waiting sends fail. What is in it can still be received.
  void Close() noexcept { state_->Close(); }

 private:
  using Iterator = typename std::list<T>::iterator;

  struct AnyMessage {
    bool operator()(const T&) const noexcept { return true; }
  };

  template <class Predicate>
  Iterator FindFrom(Iterator next, Predicate& wanted) {
    while (next != kept_.end() && !wanted(std::as_const(*next))) ++next;
    return next;
  }

  // Appends them to those that are kept. The first of them.
  Iterator Keep(std::list<T>* arrived) {
    const Iterator first = arrived->empty() ? kept_.end() : arrived->begin();
    kept_.splice(kept_.end(), *arrived);
    return first;
  }

  std::optional<T> Take(Iterator found) {
    std::optional<T> message(std::in_place, std::move(*found));
    kept_.erase(found);
    state_->OnReceived(1);
    return message;
  }

  void End() noexcept {
    if (state_ == nullptr) return;
    Close();
    state_->CollectWithoutWaiting();
  }

  base::RefPtr<mailbox_internal::State<T>> state_;
  std::list<T> kept_;  // the owner's own: MB1
};

}  // namespace weft

#endif  // WEFT_FIBER_MAILBOX_H_
