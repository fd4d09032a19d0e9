// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// FutureCore: the word by which a Promise and its Future meet; FutureCallback: what the Future's side leaves there; and
// FutureCase: a Future as a case of a Select() (sync/select.h).
//
// The result itself lies in the class derived from it (future_state.h), which only its resolver writes, between Claim()
// and Publish(). One word says how far that is and who wants to know:
//
//        0 ------Claim------> kClaimed ------Publish-----> kResolved       the Future's owner looks, or comes later
//      |   ^                   |    ^
//   Attach Detach           Attach Detach
//      v   |                   v    |
//   callback --Claim--> callback|kClaimed --Publish------> kResolved       the publisher runs the callback
//
// A callback is a continuation of Then(), a future that WhenAll() awaits, a waiter in Wait(), on its stack, or the case
// of a Select(), on its caller's. That one is a notifier: it claims the selection as others do, but there is no list
// and no lock:
//
//   selection                                  resolver
//   ---------                                  --------
//   Attach(this)                               Publish() takes the callback
//   ... decides, for whatever case             Run(): claims the selection.  Won:  wakes it
//   not notified: Leave(): Detach()                                          Lost: sets over_
//                 too late: waits for over_
//
// Invariants
//   FU1  Claim() says true once: of several resolvers one writes the result, and the others learn that they came late.
//   FU2  An attached callback is run once, by Publish()'s caller, unless Detach() said true. If Attach() said false it
//        is its owner's to run; if Detach() did, another one runs it. So a waiter leaves its stack when nobody has it.
//   FU3  What the resolver did before Publish() is visible to the callback's Run(), after IsResolved() has said true,
//        after Attach() or Detach() has said false, and after Wait() has said true.
//   FU4  Run() runs nothing but its own function: a callback that becomes due by it is returned to the loop that called
//        it (RunCallbacks). So a chain of continuations of any length needs the stack of one.
//   FU5  Callers hold references of their own: once the core is resolved, the other side and callbacks may drop theirs.
//   FC1  Run() of a case is over, or never comes, before the selection returns: it has won, and the selection waits for
//        its wake (SL5); or Detach() has taken the callback back; or Leave() has seen over_, Run()'s last touch.
//
// Claim(), Publish(): the Promise's side. Attach(), Detach(), Wait(): the Future's side, one caller at a time.
// IsResolved(): both. Only Wait() switches. A Future that is selected is named by one case at a time, and has no
// continuation.
//
// Proven in tests/model/future_model.cc.
// Rejected: the result's writer claims by its own flag beside the word (a continuation that WhenAny() attaches would
// look at two words); a spin lock (the resolver may be preempted in it, and a continuation may not run under it).
#ifndef WEFT_FIBER_FUTURE_FUTURE_CORE_H_
#define WEFT_FIBER_FUTURE_FUTURE_CORE_H_

#include <cstdint>

#include "weft/base/deadline.h"
#include "weft/base/report/check.h"
#include "weft/base/thread/atomic.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/select.h"

namespace weft::fiber::detail {

class FutureCallback {
 public:
  // The result is there. Returns a callback that is due now, or nullptr. May destroy itself.
  [[nodiscard]] virtual FutureCallback* Run() noexcept = 0;

 protected:
  ~FutureCallback() = default;
};

// FU4
inline void RunCallbacks(FutureCallback* callback) noexcept {
  while (callback != nullptr) callback = callback->Run();
}

class FutureCore {
 public:
  FutureCore() = default;
  FutureCore(const FutureCore&) = delete;
  FutureCore& operator=(const FutureCore&) = delete;

  // True: the caller writes the result and then calls Publish(). False: somebody else does, or has.
  [[nodiscard]] bool Claim() noexcept {
    // relaxed: the winner reads nothing that another resolver wrote, and Publish() releases what it writes.
    return (word_.fetch_or(kClaimed, std::memory_order_relaxed) & kClaimed) == 0;
  }

  // Returns the callback that is due now, or nullptr.
  [[nodiscard]] FutureCallback* Publish() noexcept {
    // release: the result. Pairs with the acquires in IsResolved(), Attach() and Detach().
    // acquire: the callback. Pairs with the release in Attach().
    const std::uintptr_t found = word_.exchange(kResolved, std::memory_order_acq_rel);
    WEFT_DCHECK((found & kResolved) == kClaimed, "FutureCore::Publish: not claimed, or published before");
    return CallbackOf(found);
  }

  [[nodiscard]] bool IsResolved() const noexcept {
    // acquire: the result. Pairs with the release in Publish().
    return word_.load(std::memory_order_acquire) == kResolved;
  }

  // False: it is resolved, and the callback is still the caller's.
  [[nodiscard]] bool Attach(FutureCallback* callback) noexcept {
    std::uintptr_t found = word_.load(std::memory_order_acquire);
    do {
      if (found == kResolved) return false;
      WEFT_CHECK(CallbackOf(found) == nullptr, "Future: it has a continuation or is waited for already");
      // release: the callback. Pairs with the acquire in Publish(). acquire, if it fails: as in IsResolved().
    } while (!word_.compare_exchange_weak(found, found | reinterpret_cast<std::uintptr_t>(callback),
                                          std::memory_order_release, std::memory_order_acquire));
    return true;
  }

  // Takes back what Attach() has left. False: it has been run, is run, or will be at once (FU2).
  [[nodiscard]] bool Detach() noexcept {
    std::uintptr_t found = word_.load(std::memory_order_acquire);
    do {
      if (found == kResolved) return false;
      // relaxed: nothing is handed over; nobody else has seen the callback. acquire, if it fails: as in IsResolved().
    } while (
        !word_.compare_exchange_weak(found, found & kClaimed, std::memory_order_relaxed, std::memory_order_acquire));
    return true;
  }

  // Parks the fiber, or blocks the thread, until it is resolved. False: not in time. No callback may be attached.
  [[nodiscard]] bool Wait(Deadline deadline);

 private:
  static constexpr std::uintptr_t kClaimed = 1;
  static constexpr std::uintptr_t kResolved = 3;
  static_assert(alignof(FutureCallback) > kResolved);

  static FutureCallback* CallbackOf(std::uintptr_t word) noexcept {
    return reinterpret_cast<FutureCallback*>(word & ~kResolved);
  }

  base::Atomic<std::uintptr_t> word_{0};
};

class FutureCase final : public synchronization::SelectCase, private FutureCallback {
 public:
  FutureCase(synchronization::Selection* selection, FutureCore* core) noexcept : SelectCase(selection), core_(core) {}

  bool TryTake() noexcept override { return core_->IsResolved(); }
  Entered Enter() noexcept override;
  void Leave() noexcept override;
  bool Notified() noexcept override { return true; }

 private:
  FutureCallback* Run() noexcept override;

  FutureCore* const core_;
  FiberEvent over_;
};

}  // namespace weft::fiber::detail

#endif  // WEFT_FIBER_FUTURE_FUTURE_CORE_H_
