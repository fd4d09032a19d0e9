// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/tcp_server.h"

#include <exception>
#include <memory>
#include <utility>

#include "weft/base/log.h"
#include "weft/fiber/fiber.h"
#include "weft/scheduling_group/forked_child.h"

namespace weft::io {

TcpServer::TcpServer(TcpListener listener, Handler handler, Options options)
    : handler_(std::move(handler)),
      options_(std::move(options)),
      listener_(std::move(listener)),
      local_address_(listener_.local_address()) {}

TcpServer::TcpServer(TcpListener listener, Handler handler)
    : TcpServer(std::move(listener), std::move(handler), Options()) {}

TcpServer::~TcpServer() {
  Shielded([this] { Stop(std::chrono::seconds(0)); });
}

bool TcpServer::Start() {
  {
    std::lock_guard guard(mutex_);
    if (stopping_) return false;
    accepting_ = true;
  }
  if (StartFiberDetached([this] { AcceptAll(); })) return true;
  std::lock_guard guard(mutex_);
  accepting_ = false;
  return false;
}

void TcpServer::AcceptAll() {
  while (WaitForCapacity()) {
    auto connection = std::make_unique<Connection>();
    if (const std::error_code error = listener_.Accept(&connection->stream)) {
      if (listener_.IsOpen()) {
        WEFT_LOG(ERROR, "TcpServer: ", local_address_.ToString(), " accepts no more: ", error.message());
      }
      break;
    }
    accepted_.fetch_add(1, std::memory_order_relaxed);
    if (options_.admit && !options_.admit()) {
      refused_.fetch_add(1, std::memory_order_relaxed);
      connection->stream.Reset();
      continue;
    }
    Connection* const raw = connection.get();
    {
      std::lock_guard guard(mutex_);
      if (stopping_) break;
      connections_.push_back(connection.release());
      ++open_;
    }
    if (!StartFiberDetached([this, raw] { Serve(raw); })) {
      refused_.fetch_add(1, std::memory_order_relaxed);
      End(raw);
    }
  }
  std::lock_guard guard(mutex_);
  accepting_ = false;
  changed_.notify_all();  // Under the lock, since the server may be destroyed once it is free.
}

bool TcpServer::WaitForCapacity() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock,
                [this] { return stopping_ || options_.max_connections == 0 || open_ < options_.max_connections; });
  return !stopping_;
}

void TcpServer::Serve(Connection* connection) {
  try {
    static_cast<void>(connection->scope.Run([&] { handler_(connection->stream); }));
  } catch (const std::exception& error) {
    WEFT_LOG_EVERY_SECOND(ERROR, "TcpServer: the handler of ", local_address_.ToString(), " threw: ", error.what());
  } catch (...) {
    WEFT_LOG_EVERY_SECOND(ERROR, "TcpServer: the handler of ", local_address_.ToString(), " threw");
  }
  End(connection);
}

void TcpServer::End(Connection* connection) {
  const std::unique_ptr<Connection> owned(connection);
  std::unique_lock lock(mutex_);
  connections_.erase(connection);
  lock.unlock();
  owned->stream.Close();
  lock.lock();
  --open_;
  if (stopping_ || options_.max_connections != 0) changed_.notify_all();
}

void TcpServer::Stop(Deadline drain_until) {
  // A forked child has no workers to end the handlers, and shutting a socket down would hit the parent's too.
  if (scheduling_group::IsForkedChild() && !AllEnded()) scheduling_group::CheckNotForkedChild("TcpServer::Stop");
  std::unique_lock lock(mutex_);
  if (!stopping_) {
    stopping_ = true;
    listener_.Close();
    changed_.notify_all();
  }
  // No more are added: AcceptAll() checks stopping_ under the lock.
  for (Connection& connection : connections_) connection.stream.ShutdownRead();
  const auto all_ended = [this] { return AllEnded(); };
  if (!changed_.wait(lock, all_ended, drain_until)) {
    for (Connection& connection : connections_) {
      connection.scope.Cancel();
      connection.stream.Shutdown();
    }
    changed_.wait(lock, all_ended);
  }
}

TcpServer::Counts TcpServer::counts() const {
  std::lock_guard guard(mutex_);
  return {.accepted = accepted_.load(std::memory_order_relaxed),
          .refused = refused_.load(std::memory_order_relaxed),
          .open = open_};
}

}  // namespace weft::io
