// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/examples/rpc/rpc_channel.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "weft/base/check.h"
#include "weft/base/log.h"
#include "weft/fiber/fiber.h"
#include "weft/sync/cancel_scope.h"

namespace weft::rpc {

using google::protobuf::Closure;
using google::protobuf::Message;
using google::protobuf::MethodDescriptor;

Channel::Channel(const io::SocketAddress& server, const Options& options) : server_(server), options_(options) {
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
  std::vector<base::RefPtr<ClientConnection>> connections;
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
    for (Slot& slot : slots_) connections.push_back(slot.connection);
    changed_.notify_all();
  }
  stop_.Set();
  for (const auto& connection : connections) {
    if (connection) connection->Shutdown();
  }
}

void Channel::Keep(Slot* slot) {
  auto pause = options_.backoff_least;
  while (!stop_.IsSet()) {
    io::TcpStream stream;
    if (const std::error_code error = stream.Connect(server_, options_.connect_timeout)) {
      SetState(slot, State::kBroken, error.message());
      static_cast<void>(stop_.Wait(pause));
      pause = std::min(pause * 2, options_.backoff_most);
      continue;
    }
    const auto connection =
        base::MakeRefCounted<ClientConnection>(std::move(stream), options_.limits, options_.writing);
    Enter(slot, connection);
    connection->ReadAll([&] { SetState(slot, State::kBroken, "the server is stopping"); });
    // A connection that has worked is made again at once; a server that accepts and closes is left alone for a while.
    const bool worked = connection->answers() != 0;
    Leave(slot, worked ? State::kConnecting : State::kBroken);
    if (worked) {
      pause = options_.backoff_least;
    } else {
      static_cast<void>(stop_.Wait(pause));
      pause = std::min(pause * 2, options_.backoff_most);
    }
  }
  const std::scoped_lock lock(mutex_);
  slot->state = State::kBroken;
  --users_;
  changed_.notify_all();  // Under the lock: then the destructor may go on.
}

void Channel::Enter(Slot* slot, base::RefPtr<ClientConnection> connection) {
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

void Channel::Leave(Slot* slot, State state) {
  base::RefPtr<ClientConnection> dropped;
  const std::scoped_lock lock(mutex_);
  last_error_ = "the server has closed the connection";
  slot->state = state;
  Add(*slot->connection, &past_);
  dropped = std::move(slot->connection);
  changed_.notify_all();
}

ClientConnection* Channel::ChooseLocked() {
  for (std::size_t tried = 0; tried < slots_.size(); ++tried) {
    if (next_ >= slots_.size()) next_ = 0;
    const Slot& slot = slots_[next_++];
    if (slot.state == State::kConnected) return slot.connection.get();
  }
  return nullptr;
}

base::RefPtr<ClientConnection> Channel::Choose(Controller* controller) {
  const auto may_come = [this] {
    return std::any_of(slots_.begin(), slots_.end(), [](const Slot& slot) { return slot.state == State::kConnecting; });
  };
  std::unique_lock lock(mutex_);
  for (;;) {
    if (stopping_) {
      controller->SetFailed(UNAVAILABLE, "the channel has been stopped");
      return nullptr;
    }
    if (ClientConnection* connection = ChooseLocked()) return base::RefPtr<ClientConnection>(connection);
    if (!may_come()) {
      controller->SetFailed(UNAVAILABLE, base::StrCat("no connection to ", server_.ToString(), ": ", last_error_));
      return nullptr;
    }
    if (changed_.wait(lock, controller->deadline()) == std::cv_status::timeout) {
      controller->SetFailed(DEADLINE_EXCEEDED,
                            base::StrCat("no connection to ", server_.ToString(), " within the time"));
      return nullptr;
    }
  }
}

void Channel::Call(const MethodDescriptor* method, Controller* controller, const Message* request, Message* answer) {
  if (const auto connection = Choose(controller)) connection->Call(method, controller, *request, answer);
}

void Channel::CallMethod(const MethodDescriptor* method, google::protobuf::RpcController* controller,
                         const Message* request, Message* answer, Closure* done) {
  WEFT_CHECK(controller != nullptr, "rpc::Channel: a call of ", method->full_name(), " without a controller");
  auto* const own = static_cast<Controller*>(controller);
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
  own->SetFailed(OVERLOADED, "no fiber can be started for the call");
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
  for (const Slot& slot : slots_) {
    if (!slot.connection) continue;
    if (slot.state == State::kConnected) ++counts.connected;
    Add(*slot.connection, &counts);
  }
  return counts;
}

}  // namespace weft::rpc
