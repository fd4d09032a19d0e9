// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/examples/rpc/rpc_channel.h"

#include <algorithm>
#include <mutex>
#include <random>
#include <utility>

#include "weft/base/report/check.h"
#include "weft/base/report/log.h"
#include "weft/fiber/fiber.h"
#include "weft/sync/cancel_scope.h"

namespace weft::rpc {

using google::protobuf::Closure;
using google::protobuf::Message;
using google::protobuf::MethodDescriptor;

Channel::Channel(const io::SocketAddress& server, const Options& options)
    : server_(server), options_(options), budget_({.share = options.retry.share, .reserve = options.retry.reserve}) {
  WEFT_CHECK(options.connections > 0, "rpc::Channel: options.connections is 0, expected at least 1");
  slots_.resize(options.connections);
}

Channel::~Channel() {
  Stop();
  Shielded([this] {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return users_ == 0; });
  });
}

bool Channel::Start() {
  std::random_device random;  // Not earlier: processes that were forked from one must not reconnect in step.
  seed_ = std::uint64_t{random()} << 32 | random();
  for (Slot& slot : slots_) {
    {
      const std::scoped_lock lock(mutex_);
      ++users_;
    }
    if (StartFiberDetached([this, &slot] { Keep(&slot); })) continue;
    const std::scoped_lock lock(mutex_);
    --users_;
    return false;
  }
  return true;
}

void Channel::Stop() {
  std::vector<RefPtr<ClientConnection>> connections;
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
    connections = leaving_;
    for (Slot& slot : slots_) connections.push_back(slot.connection);
    changed_.notify_all();
  }
  stop_.Set();
  for (const auto& connection : connections) {
    if (connection) connection->Shutdown();
  }
}

void Channel::Keep(Slot* slot) {
  const RetryOptions backoff{.pause_least = options_.backoff_least, .pause_most = options_.backoff_most};
  std::uint64_t seed = seed_ + reinterpret_cast<std::uintptr_t>(slot);
  RetryPauses pauses(backoff, seed);
  while (!stop_.IsSet()) {
    io::TcpStream stream;
    std::error_code error = stream.Connect(server_, options_.connect_timeout);
    if (!error) error = io::SetLiveness(&stream, options_.keep_alive, options_.user_timeout);
    if (error) {
      SetState(slot, State::kBroken, error.message());
      static_cast<void>(stop_.Wait(pauses.Next()));
      continue;
    }
    const auto connection =
        MakeRefCounted<ClientConnection>(std::move(stream), options_.limits, options_.writing, options_.heartbeat);
    Enter(slot, connection);
    const bool farewell = connection->ReadUntilFarewell();
    // A connection that has worked is made again at once; a server that accepts and closes is left alone for a while.
    const bool worked = connection->answers() != 0;
    const bool rests = farewell && connection->was_idle();
    const State otherwise = worked ? State::kConnecting : State::kBroken;
    Leave(slot, rests ? State::kResting : otherwise, farewell);
    if (farewell) Finish(connection);
    if (rests) {
      Rest(slot);
    } else if (worked) {
      pauses = RetryPauses(backoff, ++seed);
    } else {
      static_cast<void>(stop_.Wait(pauses.Next()));
    }
  }
  const std::scoped_lock lock(mutex_);
  slot->state = State::kBroken;
  --users_;
  changed_.notify_all();  // Under the lock: then the destructor may go on.
}

void Channel::Rest(Slot* slot) {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [&] { return slot->state != State::kResting || stopping_; });
}

void Channel::WakeRestingLocked() {
  if (resting_ == 0) return;
  for (Slot& slot : slots_) {
    if (slot.state == State::kResting) slot.state = State::kConnecting;
  }
  resting_ = 0;
  changed_.notify_all();
}

void Channel::Enter(Slot* slot, RefPtr<ClientConnection> connection) {
  const std::scoped_lock lock(mutex_);
  ++past_.connects;
  if (stopping_) connection->Shutdown();  // Stop() has not seen it.
  slot->state = State::kConnected;
  slot->connection = std::move(connection);
  changed_.notify_all();
}

void Channel::SetState(Slot* slot, State state, const std::string& error) {
  const std::scoped_lock lock(mutex_);
  if (!slot->connection) ++past_.failures;
  last_error_ = error;
  slot->state = state;
  changed_.notify_all();
}

void Channel::Leave(Slot* slot, State state, bool farewell) {
  RefPtr<ClientConnection> dropped;
  const std::scoped_lock lock(mutex_);
  last_error_ = farewell ? "the server is stopping" : "the server has closed the connection";
  slot->state = state;
  if (state == State::kResting) ++resting_;
  dropped = std::move(slot->connection);
  if (farewell) {
    leaving_.push_back(dropped);
  } else {
    Add(*dropped, &past_);
  }
  changed_.notify_all();
}

void Channel::Finish(RefPtr<ClientConnection> connection) {
  {
    const std::scoped_lock lock(mutex_);
    ++users_;
  }
  if (StartFiberDetached([this, connection] { FinishHere(connection.Get()); })) return;
  FinishHere(connection.Get());
}

void Channel::FinishHere(ClientConnection* connection) {
  connection->ReadAll();
  const std::scoped_lock lock(mutex_);
  Add(*connection, &past_);
  std::erase_if(leaving_, [&](const auto& leaving) { return leaving.Get() == connection; });
  --users_;
  changed_.notify_all();
}

ClientConnection* Channel::ChooseLocked() {
  for (std::size_t tried = 0; tried < slots_.size(); ++tried) {
    if (next_ >= slots_.size()) next_ = 0;
    const Slot& slot = slots_[next_++];
    if (slot.state == State::kConnected) return slot.connection.Get();
  }
  return nullptr;
}

RefPtr<ClientConnection> Channel::Choose(Controller* controller) {
  const auto may_come = [this] {
    return std::any_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.state == State::kConnecting; });
  };
  std::unique_lock lock(mutex_);
  for (;;) {
    if (stopping_) {
      controller->SetNotBegun(UNAVAILABLE, "the channel has been stopped");
      return nullptr;
    }
    WakeRestingLocked();
    if (ClientConnection* connection = ChooseLocked()) return RefPtr<ClientConnection>(connection);
    if (!may_come()) {
      controller->SetNotBegun(UNAVAILABLE, base::StrCat("no connection to ", server_.ToString(), ": ", last_error_));
      return nullptr;
    }
    if (changed_.wait(lock, controller->deadline()) == std::cv_status::timeout) {
      controller->SetNotBegun(DEADLINE_EXCEEDED,
                              base::StrCat("no connection to ", server_.ToString(), " within the time"));
      return nullptr;
    }
  }
}

void Channel::Call(const MethodDescriptor* method, Controller* controller, const Message* request, Message* answer) {
  budget_.Deposit();
  RetryPauses pauses(options_.retry,
                     seed_ + retries_.load(std::memory_order_relaxed) + reinterpret_cast<std::uintptr_t>(controller));
  for (unsigned attempt = 1;; ++attempt) {
    if (const auto connection = Choose(controller)) connection->Call(method, controller, *request, answer);
    if (controller->error_code() != UNAVAILABLE || !controller->not_begun()) return;
    if (attempt >= options_.retry.most_attempts) return;
    if (!PauseBeforeRetry(controller, pauses.Next())) return;
  }
}

bool Channel::PauseBeforeRetry(Controller* controller, std::chrono::nanoseconds pause) {
  if (stop_.IsSet() || controller->IsCanceled()) return false;
  // What is left is the failure that the caller sees.
  const auto now = std::chrono::steady_clock::now();
  if (Deadline::After(pause, now) >= controller->deadline() || !budget_.Withdraw()) return false;
  bool stopped = false;
  try {
    stopped = stop_.Wait(pause);
  } catch (...) {
    controller->SetFailed(CANCELED, "the caller was canceled");
    throw;
  }
  if (stopped) return false;
  retries_.fetch_add(1, std::memory_order_relaxed);
  controller->SetFailed(OK, "");
  return true;
}

void Channel::CallMethod(const MethodDescriptor* method, google::protobuf::RpcController* controller,
                         const Message* request, Message* answer, Closure* done) {
  WEFT_CHECK(controller != nullptr, "rpc::Channel: a call of ", method->full_name(), " without a controller");
  auto* const own = static_cast<Controller*>(controller);
  own->SetFailed(OK, "");
  own->answer_attachment_.Clear();
  own->ResolveDeadline(options_.timeout);
  if (done == nullptr) return Call(method, own, request, answer);
  {
    const std::scoped_lock lock(mutex_);
    ++users_;
  }
  const auto run = [this, method, own, request, answer, done] {
    Call(method, own, request, answer);
    {
      const std::scoped_lock lock(mutex_);
      --users_;
      changed_.notify_all();
    }
    done->Run();
  };
  if (StartFiberDetached(run)) return;
  own->SetNotBegun(OVERLOADED, "no fiber can be started for the call");
  {
    const std::scoped_lock lock(mutex_);
    --users_;
    changed_.notify_all();
  }
  done->Run();
}

bool Channel::Healthy() const {
  const std::scoped_lock lock(mutex_);
  return !stopping_ &&
         std::any_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.state != State::kBroken; });
}

void Channel::Add(const ClientConnection& connection, Counts* counts) {
  const BatchWriter::Counts written = connection.write_counts();
  counts->requests += written.frames;
  counts->writes += written.writes;
  counts->answers += connection.answers();
  counts->reads += connection.reads();
}

Channel::Counts Channel::counts() const {
  const std::scoped_lock lock(mutex_);
  Counts counts = past_;
  counts.retries = retries_.load(std::memory_order_relaxed);
  for (const auto& connection : leaving_) Add(*connection, &counts);
  for (const Slot& slot : slots_) {
    if (!slot.connection) continue;
    if (slot.state == State::kConnected) ++counts.connected;
    Add(*slot.connection, &counts);
  }
  return counts;
}

}  // namespace weft::rpc
