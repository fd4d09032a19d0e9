// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/examples/rpc/rpc_controller.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "weft/examples/rpc/client_connection.h"
#include "weft/fiber/this_fiber.h"

namespace weft::rpc {

Controller::Controller() = default;
Controller::~Controller() = default;

void Controller::Reset() {
  timeout_ = std::chrono::nanoseconds::max();
  latest_ = deadline_ = Deadline();
  SetFailed(OK, "");
  request_attachment_.Clear();
  answer_attachment_.Clear();
  canceled_.store(false, std::memory_order_relaxed);
}

void Controller::SetFailed(ErrorCode code, std::string reason) {
  code_ = code;
  text_ = std::move(reason);
  not_begun_ = false;
}

void Controller::SetNotBegun(ErrorCode code, std::string reason) {
  SetFailed(code, std::move(reason));
  not_begun_ = true;
}

void Controller::ResolveDeadline(std::chrono::nanoseconds default_timeout) {
  const auto timeout = timeout_ != std::chrono::nanoseconds::max() ? timeout_ : default_timeout;
  deadline_ = std::min({latest_, Deadline(timeout), CurrentDeadline()});
}

bool Controller::BeginCall(ClientConnection* connection, std::uint64_t id) {
  const std::scoped_lock lock(mutex_);
  if (IsCanceled()) return false;
  connection_ = RefPtr<ClientConnection>(connection);
  id_ = id;
  return true;
}

void Controller::EndCall() {
  RefPtr<ClientConnection> dropped;
  const std::scoped_lock lock(mutex_);
  dropped = std::move(connection_);
}

void Controller::StartCancel() {
  RefPtr<ClientConnection> connection;
  std::uint64_t id = 0;
  {
    const std::scoped_lock lock(mutex_);
    canceled_.store(true, std::memory_order_relaxed);  // The lock orders it.
    connection = connection_;
    id = id_;
  }
  if (connection) connection->CancelCall(id);  // Nothing, if the call has ended meanwhile.
}

void Controller::NotifyOnCancel(google::protobuf::Closure* callback) {
  {
    const std::scoped_lock lock(mutex_);
    looks_after_itself_ = true;
    if (!IsCanceled()) {
      on_cancel_ = callback;
      callback = nullptr;
    }
  }
  if (scope_ != nullptr && handler_ == GetFiberId()) scope_->SetDeadline(Deadline::None());
  if (callback != nullptr) callback->Run();
}

google::protobuf::Closure* Controller::MarkCanceled() {
  const std::scoped_lock lock(mutex_);
  canceled_.store(true, std::memory_order_relaxed);  // The lock orders it.
  if (scope_ != nullptr && !looks_after_itself_) scope_->Cancel();
  return std::exchange(on_cancel_, nullptr);
}

google::protobuf::Closure* Controller::MarkEnded() {
  const std::scoped_lock lock(mutex_);
  return std::exchange(on_cancel_, nullptr);
}

}  // namespace weft::rpc
