// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// GrpcCompletion: a fiber or thread waits for one operation of gRPC after the other; gRPC carries them out in its own
// threads.  The adapter's reactors are made of it (grpc_server.h, grpc_client.h).
//
//     Begin()           the waiter, before it asks gRPC for the operation
//     End(ok)           gRPC's callback
//     Await()           the waiter: parks until End(), returns its `ok`
//     AwaitOr(cancel)   the same; if the fiber is cancelled it calls cancel(), which hastens the end, and waits on
//     AwaitOrLeave()    the same; if the fiber is cancelled it returns, and the operation stays under way
//     BeginOrResume()   Begin(), unless an operation was left: then there is nothing to ask for, only to await
//
//                Begin                Await, AwaitOr, AwaitOrLeave
//       kFree ------------> kAwaited -----------------------------> kFree
//                            ^    |
//             BeginOrResume  |    |  AwaitOrLeave, cancelled
//                            |    v
//                            kLeft
//
// Invariants
//   GC1  Begin, End, and the return of an await follow each other in this order; the next Begin comes after that.
//   GC2  End() is the callback's last touch of what the waiter owns: the completion, and the stack that it may lie on,
//        may be gone as soon as the operation's last await has returned (FiberEvent's rule on its lifetime).
//   GC3  An operation that was left uses the completion until End() has returned: its owner outlives that.
//
// Memory ordering: the thread that calls End() sees all that came before Begin(); the waiter sees after Await() all
// that came before End(). gRPC orders the first pair, too, but ThreadSanitizer does not see that.
//
// PutReadMark, TakeReadMark: whether a read of gRPC that has ended without a message has ended the stream, or has come
// to a message that it cannot parse. gRPC says neither.
//
// Parsing clears a message first, also if it fails. So before the read a mark is put into the message: an unknown
// field, of a number that no field has. If the mark is there afterwards, no message has come. Messages without unknown
// fields (of protobuf's lite runtime, or not protobuf's) are not marked: one that cannot be parsed looks like the end.
//
// Rejected: a mark that is an ordinary field (the message that cannot be parsed may have left just that there).
#ifndef WEFT_INTEROP_GRPC_GRPC_COMPLETION_H_
#define WEFT_INTEROP_GRPC_GRPC_COMPLETION_H_

#include <atomic>
#include <cstdint>
#include <optional>

#include "weft/base/deadline.h"
#include "weft/base/report/check.h"
#include "weft/base/thread/atomic.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/wait/wait_queue.h"

namespace weft::interop::detail {

class GrpcCompletion {
 public:
  GrpcCompletion() = default;
  GrpcCompletion(const GrpcCompletion&) = delete;
  GrpcCompletion& operator=(const GrpcCompletion&) = delete;

  // `caller` names itself in the message if two fibers use one call at a time.
  void Begin(const char* caller) {
    const bool was_left = !BeginOrResume(caller);
    WEFT_CHECK(!was_left, caller, ": the operation before was left under way");
  }

  // True: it has begun, and gRPC is to be asked. False: the operation that was left is awaited again.
  [[nodiscard]] bool BeginOrResume(const char* caller) {
    // acq_rel: release hands what the waiter did to End(); acquire pairs with the last await, perhaps in another
    // fiber.
    const Use was = use_.exchange(Use::kAwaited, std::memory_order_acq_rel);
    WEFT_CHECK(was != Use::kAwaited, caller, ": another fiber is in it already; only one fiber at a time may be");
    if (was == Use::kLeft) return false;
    ended_.Reset();
    return true;
  }

  void End(bool ok) noexcept {
    static_cast<void>(use_.load(std::memory_order_acquire));  // Pairs with BeginOrResume().
    ok_ = ok;
    ended_.Set();
  }

  // A write to a frozen peer ends only when its connection drains or is given up: set GRPC_ARG_KEEPALIVE_TIME_MS.
  bool Await() noexcept {
    synchronization::WaitAccess::WaitUncancelled(ended_);
    return TakeResult();
  }

  template <class Cancel>
  bool AwaitOr(Cancel&& cancel) noexcept {
    using synchronization::Interruptible;
    using synchronization::WaitResult;
    if (synchronization::WaitAccess::Wait(ended_, Deadline::None(), Interruptible::kResult) ==
        WaitResult::kInterrupted) {
      cancel();
      synchronization::WaitAccess::WaitUncancelled(ended_);  // GC2: it refers to what the caller owns.
    }
    return TakeResult();
  }

  // None: the fiber is cancelled; synchronization::ThrowInterrupted() says so.
  std::optional<bool> AwaitOrLeave() noexcept {
    using synchronization::Interruptible;
    using synchronization::WaitResult;
    if (synchronization::WaitAccess::Wait(ended_, Deadline::None(), Interruptible::kYes) == WaitResult::kInterrupted) {
      use_.store(Use::kLeft, std::memory_order_release);  // Pairs with the next BeginOrResume().
      return std::nullopt;
    }
    return TakeResult();
  }

  // A fiber that is about to end the call: nobody may be in the operation. Best effort: it sees who is in it now.
  void CheckNobodyAwaits(const char* caller) const {
    // acquire: pairs with TakeResult() and AwaitOrLeave() in another fiber.
    WEFT_CHECK(use_.load(std::memory_order_acquire) != Use::kAwaited, caller,
               ": another fiber still reads or writes; join it first, by a FiberScope for example");
  }

 private:
  enum class Use : std::uint8_t { kFree, kAwaited, kLeft };

  bool TakeResult() noexcept {
    const bool ok = ok_;
    use_.store(Use::kFree, std::memory_order_release);  // Pairs with the next BeginOrResume().
    return ok;
  }

  base::Atomic<Use> use_{Use::kFree};
  bool ok_ = false;
  FiberEvent ended_;
};

template <class Message>
concept CanBeMarked = requires(Message& message) {
  message.GetReflection()->MutableUnknownFields(&message);
};

// On the wire a field's number has 29 bits: no message can bring this one along.
inline constexpr int kReadMark = 1 << 29;

// The read's caller, before it asks for it.
template <class Message>
void PutReadMark(Message* message) {
  if constexpr (CanBeMarked<Message>) {
    message->GetReflection()->MutableUnknownFields(message)->AddVarint(kReadMark, 0);
  }
}

// The read's caller, when it has ended, however: nobody else sees the mark.  True: it was there, or could not be put.
template <class Message>
bool TakeReadMark(Message* message) {
  if constexpr (CanBeMarked<Message>) {
    auto* const fields = message->GetReflection()->MutableUnknownFields(message);
    const int last = fields->field_count() - 1;
    if (last < 0 || fields->field(last).number() != kReadMark) return false;
    fields->DeleteSubrange(last, 1);
  }
  return true;
}

}  // namespace weft::interop::detail

#endif  // WEFT_INTEROP_GRPC_GRPC_COMPLETION_H_
