// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// AsioOperation, AsioHandler: the results of an operation of Boost.Asio, and the completion handler that brings them to
// the waiter.  asio_operation.h has the wait, and the invariants.
#ifndef WEFT_INTEROP_ASIO_ASIO_HANDLER_H_
#define WEFT_INTEROP_ASIO_ASIO_HANDLER_H_

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/associated_executor.hpp>
#include <boost/asio/error.hpp>
#include <boost/asio/system_executor.hpp>
#include <boost/system/error_code.hpp>
#include <boost/system/system_error.hpp>
#include <exception>
#include <optional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "weft/interop/asio/asio_operation.h"

namespace weft::interop::detail {

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

#endif  // WEFT_INTEROP_ASIO_ASIO_HANDLER_H_
