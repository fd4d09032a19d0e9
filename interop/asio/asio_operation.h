// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// AsioOperationBase: a fiber or thread waits for one operation of Boost.Asio, and may give it up (use_fiber.h).
//
// AsioOperation adds the operation's results, and AsioHandler is its completion handler. It is called once, with the
// results, or destroyed without a call; either ends the wait, and may come before the initiating function returns.
//
//     waiter       initiate ---- Await() parks ............................................ Take()
//                     |            |  (gives up)                                              ^
//                     v            +--> Cancel(): posts an emission                           |
//     io_context   operation ... [step] ... [emission: signal_.emit(terminal)] ... handler ---+
//
// A cancellation signal is not thread-safe: the emission has to come from where the operation's handlers run, one at a
// time. So an operation that can be cancelled (a deadline, a cancellable caller) makes a strand over the executor of
// its I/O object: its handlers run in the strand, and the emission is posted to it. Other operations have neither
// strand nor signal, and their handler runs in the I/O object's executor.
//
// A composed operation between two of its steps may have nothing that an emission could end. So
// AsioCancellationSlot tells when a further step installs its handler, and the emission is then repeated.
//
//      word of AsioCancellation      0 ----Emit----> kEmitting ----> 0
//                                    |                   |           |
//                                    +--- Completed -----+-----------+--> | kCompleted
//
// Invariants
//   AO1  Of handler and emission, the last one ends the wait: the handler, or an emission that is under way then.
//        FiberEvent::Set() is its last touch of the operation, whose stack may be gone once Await() has returned.
//   AO2  Nothing is emitted to an operation whose handler has been called. An emission that begins after kCompleted
//        touches nothing but the word, which it owns in part: the strand may run it long after the operation is gone.
//   AO3  An operation that has been given up is emitted to after its last installed cancellation handler: the waiter
//        sets `cancelled_`, then posts; a later step in the strand sees `cancelled_` and posts again.
//   AO4  The strand is used under `strand_lock_` only, and given up before the wait ends. So an io_context whose
//        destruction destroys the handler is whole as long as the strand is used.
//
// Memory ordering: what the waiter did before the initiation is visible to the handler by Asio's own order; what came
// before the handler's call is visible after Await().
#ifndef WEFT_INTEROP_ASIO_ASIO_OPERATION_H_
#define WEFT_INTEROP_ASIO_ASIO_OPERATION_H_

#include <atomic>
#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/strand.hpp>
#include <boost/asio/system_executor.hpp>
#include <boost/system/error_code.hpp>
#include <boost/system/system_error.hpp>
#include <exception>
#include <memory>
#include <mutex>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "weft/base/thread/atomic.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/wait/wait_queue.h"

namespace weft::interop::detail {

// Whether a wait of the caller can be ended by somebody who cancels it: it is in a CancelScope.
inline bool CallerMayBeCancelled() noexcept {
  return synchronization::MayBeCancelled(scheduling_group::CurrentFiber(), synchronization::Interruptible::kResult);
}

class AsioOperationBase;

// What an emission and its operation share; the emission may outlive the operation (AO2).
struct AsioCancellation {
  static constexpr unsigned kCompleted = 1;
  static constexpr unsigned kEmitting = 2;

  explicit AsioCancellation(AsioOperationBase* of) : operation(of) {}

  base::Atomic<unsigned> word{0};
  AsioOperationBase* const operation;
};

// The handler's: says when a cancellation handler is installed (AO3).
class AsioCancellationSlot : public boost::asio::cancellation_slot {
 public:
  AsioCancellationSlot() noexcept = default;
  AsioCancellationSlot(boost::asio::cancellation_slot slot, AsioOperationBase* operation) noexcept
      : cancellation_slot(slot), operation_(operation) {}

  template <class CancellationHandler, class... Args>
  CancellationHandler& emplace(Args&&... args) {
    CancellationHandler& installed = cancellation_slot::emplace<CancellationHandler>(std::forward<Args>(args)...);
    Installed();
    return installed;
  }
  template <class CancellationHandler>
  std::decay_t<CancellationHandler>& assign(CancellationHandler&& handler) {
    return emplace<std::decay_t<CancellationHandler>>(std::forward<CancellationHandler>(handler));
  }

 private:
  inline void Installed();

  AsioOperationBase* operation_ = nullptr;
};

class AsioOperationBase {
 public:
  explicit AsioOperationBase(bool cancellable) {
    if (cancellable) cancellation_ = std::make_shared<AsioCancellation>(this);
  }
  AsioOperationBase(const AsioOperationBase&) = delete;
  AsioOperationBase& operator=(const AsioOperationBase&) = delete;

  // --- The waiter ---

  // Parks until the handler has been called or destroyed. `wait` waits for the event that it is given. If it returns
  // false or throws, the operation is cancelled, and the handler is waited for all the same. Returns what `wait` did.
  template <class Wait>
  bool Await(Wait&& wait) {
    try {
      if (wait(ended_)) return true;
    } catch (...) {  // Cancellation: what a wait of a cancelled fiber throws comes here.
      CancelAndWait();
      throw;
    }
    CancelAndWait();
    return false;
  }

  // After an initiation that has thrown: what has become of the handler by then is unknown.
  void AwaitHandler() noexcept { synchronization::WaitAccess::WaitUncancelled(ended_); }

  // --- The handler, wherever Asio has it ---

  // Where handlers run whose I/O object has the executor `candidate`.
  template <class Executor>
  boost::asio::any_io_executor ExecutorFor(const Executor& candidate) noexcept {
    if (cancellation_ == nullptr) return candidate;
    const std::lock_guard lock(strand_lock_);
    // Asked for without an I/O object: that is no executor to keep.
    if constexpr (!std::is_same_v<Executor, boost::asio::system_executor>) {
      if (!strand_) strand_.emplace(boost::asio::make_strand(boost::asio::any_io_executor(candidate)));
    }
    if (strand_) return *strand_;
    return candidate;
  }

  AsioCancellationSlot slot() noexcept {
    return cancellation_ != nullptr ? AsioCancellationSlot(signal_.slot(), this) : AsioCancellationSlot();
  }

  void Abandoned() noexcept {
    abandoned_ = true;
    Completed();
  }

 protected:
  ~AsioOperationBase() = default;

  // The handler's last touch (AO1).
  void Completed() noexcept {
    if (cancellation_ != nullptr) {
      // release: the results, for an emission that ends the wait. acquire: what an emission that is over did to the
      // operation. Both pair with Emit().
      const unsigned found = cancellation_->word.fetch_or(AsioCancellation::kCompleted, std::memory_order_acq_rel);
      if ((found & AsioCancellation::kEmitting) != 0) return;
    }
    EndWait();
  }

  bool abandoned() const noexcept { return abandoned_; }

 private:
  friend class AsioCancellationSlot;

  void CancelAndWait() noexcept {
    if (cancellation_ != nullptr) {
      // relaxed: AO3 is ordered by the strand.
      cancelled_.store(true, std::memory_order_relaxed);
      // Without a strand it is over, or no one has asked where the handler belongs: then no step runs there.
      if (!PostEmission()) Emit(*cancellation_);
    }
    synchronization::WaitAccess::WaitUncancelled(ended_);
  }

  void EndWait() noexcept {
    if (cancellation_ != nullptr) {
      const std::lock_guard lock(strand_lock_);
      strand_.reset();  // AO4
    }
    ended_.Set();  // AO1
  }

  bool PostEmission() noexcept {
    const std::lock_guard lock(strand_lock_);
    if (!strand_) return false;
    boost::asio::post(*strand_, [cancellation = cancellation_] { Emit(*cancellation); });
    return true;
  }

  static void Emit(AsioCancellation& cancellation) noexcept {
    unsigned idle = 0;
    // relaxed: the strand orders what the steps wrote; on failure, AO2.
    if (!cancellation.word.compare_exchange_strong(idle, AsioCancellation::kEmitting, std::memory_order_relaxed,
                                                   std::memory_order_relaxed)) {
      return;
    }
    AsioOperationBase* const operation = cancellation.operation;
    operation->signal_.emit(boost::asio::cancellation_type::terminal);  // May call the handler.
    // acquire: the results. release: the emission. Both pair with Completed().
    const unsigned found = cancellation.word.fetch_and(~AsioCancellation::kEmitting, std::memory_order_acq_rel);
    if ((found & AsioCancellation::kCompleted) != 0) operation->EndWait();
  }

  std::shared_ptr<AsioCancellation> cancellation_;  // null: it cannot be cancelled.
  std::mutex strand_lock_;
  std::optional<boost::asio::strand<boost::asio::any_io_executor>> strand_;
  base::Atomic<bool> cancelled_{false};
  bool abandoned_ = false;
  boost::asio::cancellation_signal signal_;
  FiberEvent ended_;
};

inline void AsioCancellationSlot::Installed() {
  // Posted, not emitted: the step has not begun. relaxed: AO3.
  if (operation_ != nullptr && operation_->cancelled_.load(std::memory_order_relaxed)) {
    static_cast<void>(operation_->PostEmission());
  }
}

// What a signature's first argument says of failure, and what is left of it for the caller.
struct AsioNoFailure {};

template <class... Values>
struct AsioResults {
  using Return = std::tuple<Values...>;
};
template <>
struct AsioResults<> {
  using Return = void;
};
template <class Value>
struct AsioResults<Value> {
  using Return = Value;
};

// Failure: error_code, std::exception_ptr or AsioNoFailure.
template <class Failure, class... Values>
class AsioOperation final : public AsioOperationBase {
 public:
  using Return = typename AsioResults<Values...>::Return;
  using AsioOperationBase::AsioOperationBase;

  // The handler has been called.
  template <class... Given>
  void Completed(Given&&... given) noexcept {
    try {
      Store(std::forward<Given>(given)...);
    } catch (...) {
      thrown_ = std::current_exception();
    }
    AsioOperationBase::Completed();
  }

  // The waiter, after Await(). `gave_up`: "aborted" means that the deadline has passed. `error` null: it is thrown.
  Return Take(bool gave_up, boost::system::error_code* error) {
    if (thrown_ != nullptr) RethrowTimedOut(gave_up);
    boost::system::error_code failed;
    if (abandoned()) {
      failed = boost::asio::error::operation_aborted;
    } else if constexpr (std::is_same_v<Failure, boost::system::error_code>) {
      failed = failure_;
    }
    if (gave_up && failed == boost::asio::error::operation_aborted) failed = boost::asio::error::timed_out;
    if (failed && error == nullptr) throw boost::system::system_error(failed);
    if (error != nullptr) *error = failed;
    return TakeValues(failed);
  }

 private:
  template <class... Given>
  void Store(Given&&... given) {
    if constexpr (std::is_same_v<Failure, AsioNoFailure>) {
      values_.emplace(std::forward<Given>(given)...);
    } else {
      StoreFailure(std::forward<Given>(given)...);
    }
  }
  template <class... Given>
  void StoreFailure(Failure failure, Given&&... given) {
    if constexpr (std::is_same_v<Failure, std::exception_ptr>) {
      thrown_ = std::move(failure);
    } else {
      failure_ = failure;
    }
    values_.emplace(std::forward<Given>(given)...);
  }

  [[noreturn]] void RethrowTimedOut(bool gave_up) {
    try {
      std::rethrow_exception(std::move(thrown_));
    } catch (const boost::system::system_error& thrown) {
      if (gave_up && thrown.code() == boost::asio::error::operation_aborted) {
        throw boost::system::system_error(boost::asio::error::timed_out);
      }
      throw;
    }
  }

  Return TakeValues(const boost::system::error_code& failed) {
    if (!values_.has_value()) {
      // Abandoned, and the caller wants no exception.
      if constexpr ((std::is_default_constructible_v<Values> && ...)) {
        values_.emplace();
      } else {
        throw boost::system::system_error(failed);
      }
    }
    if constexpr (sizeof...(Values) == 1) {
      return std::get<0>(*std::move(values_));
    } else if constexpr (sizeof...(Values) > 1) {
      return *std::move(values_);
    }
  }

  std::exception_ptr thrown_;
  boost::system::error_code failure_;
  std::optional<std::tuple<Values...>> values_;
};

template <class... Args>
struct AsioOperationOf {
  using Type = AsioOperation<AsioNoFailure, Args...>;
};
template <class... Args>
struct AsioOperationOf<boost::system::error_code, Args...> {
  using Type = AsioOperation<boost::system::error_code, Args...>;
};
template <class... Args>
struct AsioOperationOf<std::exception_ptr, Args...> {
  using Type = AsioOperation<std::exception_ptr, Args...>;
};

template <class... Args>
class AsioHandler {
 public:
  using Operation = typename AsioOperationOf<std::decay_t<Args>...>::Type;
  using cancellation_slot_type = AsioCancellationSlot;

  explicit AsioHandler(Operation* operation) noexcept : operation_(operation) {}
  AsioHandler(AsioHandler&& other) noexcept : operation_(std::exchange(other.operation_, nullptr)) {}
  AsioHandler& operator=(AsioHandler&&) = delete;
  ~AsioHandler() {
    if (operation_ != nullptr) operation_->Abandoned();
  }

  void operator()(Args... args) { std::exchange(operation_, nullptr)->Completed(std::forward<Args>(args)...); }

  cancellation_slot_type get_cancellation_slot() const noexcept {
    return operation_ != nullptr ? operation_->slot() : cancellation_slot_type();
  }

  // For associated_executor.
  template <class Executor>
  boost::asio::any_io_executor ExecutorFor(const Executor& candidate) const noexcept {
    if (operation_ == nullptr) return candidate;
    return operation_->ExecutorFor(candidate);
  }

 private:
  Operation* operation_;
};

}  // namespace weft::interop::detail

template <class... Args, class Executor>
struct boost::asio::associated_executor<weft::interop::detail::AsioHandler<Args...>, Executor> {
  using type = boost::asio::any_io_executor;
  static type get(const weft::interop::detail::AsioHandler<Args...>& handler) noexcept {
    return handler.ExecutorFor(boost::asio::system_executor());
  }
  static type get(const weft::interop::detail::AsioHandler<Args...>& handler, const Executor& candidate) noexcept {
    return handler.ExecutorFor(candidate);
  }
};

#endif  // WEFT_INTEROP_ASIO_ASIO_OPERATION_H_
