// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/tcp_server.h"

#include <linux/tcp.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <utility>

#include "weft/base/log.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/this_fiber.h"
#include "weft/scheduling_group/forked_child.h"

namespace weft::io {
namespace {

constexpr std::chrono::seconds kNoWait{0};

// After an error of accept(2) that nobody expects. It may be for good, and must not fill the log.
constexpr std::chrono::milliseconds kPauseAfterError{100};

// A drain looks at its connections no more often, since it looks at all of them.
constexpr std::chrono::milliseconds kLeastBetweenLooks{5};

// Runs a user's code. An exception that leaves it is logged.
template <class F>
void LogWhatItThrows(const char* what, const SocketAddress& address, F&& f) {
  try {
    f();
  } catch (const std::exception& error) {
    WEFT_LOG_EVERY_SECOND(ERROR, "TcpServer: ", what, " of ", address.ToString(), " threw: ", error.what());
  } catch (...) {
    WEFT_LOG_EVERY_SECOND(ERROR, "TcpServer: ", what, " of ", address.ToString(), " threw");
  }
}

}  // namespace

TcpServer::TcpServer(TcpListener listener, ConnectionHandler handler, Options options)
    : handler_(std::move(handler)),
      knows_idle_(true),
      options_(std::move(options)),
      listener_(std::move(listener)),
      local_address_(listener_.local_address()) {}

TcpServer::TcpServer(TcpListener listener, ConnectionHandler handler)
    : TcpServer(std::move(listener), std::move(handler), Options()) {}

TcpServer::TcpServer(TcpListener listener, Handler handler, Options options)
    : handler_([handler = std::move(handler)](TcpConnection& connection) { handler(connection.stream()); }),
      knows_idle_(false),
      options_(std::move(options)),
      listener_(std::move(listener)),
      local_address_(listener_.local_address()) {}

TcpServer::TcpServer(TcpListener listener, Handler handler)
    : TcpServer(std::move(listener), std::move(handler), Options()) {}

TcpServer::~TcpServer() {
  Shielded([this] { Stop(kNoWait); });
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
  while (AcceptOne(/*in_scope=*/true)) {
  }
  while (AcceptOne(/*in_scope=*/false)) {  // TV1
  }
  listener_.Close();  // At once: what comes between the two is reset.
  std::lock_guard guard(mutex_);
  accepting_ = false;
  changed_.notify_all();  // Under the lock, since the server may be destroyed once it is free.
}

bool TcpServer::AcceptOne(bool in_scope) {
  auto connection = std::make_unique<Connection>(&draining_);
  TcpStream* const stream = &connection->connection.stream();
  bool accepted = false;
  if (in_scope) {
    // No more than this is in the scope: what has been accepted is not given up with it.
    static_cast<void>(accept_scope_.Run([&] { accepted = WaitForCapacity() && Accept(stream, Deadline::None()); }));
  } else {
    accepted = WaitForCapacity() && Accept(stream, kNoWait);
  }
  if (!accepted) return false;
  accepted_.fetch_add(1, std::memory_order_relaxed);
  connection->accepted_at = std::chrono::steady_clock::now();
  if (!Admits()) {
    refused_.fetch_add(1, std::memory_order_relaxed);
    stream->Reset();
    return true;
  }
  Connection* const raw = connection.get();
  if (!Add(raw)) {
    refused_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  static_cast<void>(connection.release());
  if (!StartFiberDetached(options_.connection_fiber, [this, raw] { Serve(raw); })) {
    refused_.fetch_add(1, std::memory_order_relaxed);
    End(raw);
  }
  return true;
}

bool TcpServer::Admits() {
  if (!options_.admit) return true;
  bool admitted = false;
  LogWhatItThrows("Options::admit", local_address_,
                  [&] { static_cast<void>(admit_scope_.Run([&] { admitted = options_.admit(); })); });
  return admitted;
}

bool TcpServer::Add(Connection* connection) {
  std::lock_guard guard(mutex_);
  if (cut_) return false;  // TV2
  connections_.push_back(connection);
  ++open_;
  if (!stopping_) return true;
  const Deadline due = Deadline::After(options_.first_request_at_stop, connection->accepted_at);
  if (due < look_at_) {
    look_at_ = due;
    changed_.notify_all();
  }
  return true;
}

bool TcpServer::Accept(TcpStream* stream, Deadline deadline) {
  for (;;) {
    const std::error_code error = listener_.Accept(stream, deadline);
    if (!error) return true;
    if (error == std::errc::operation_canceled || error == std::errc::timed_out) return false;
    WEFT_LOG_EVERY_SECOND(ERROR, "TcpServer: ", local_address_.ToString(), " cannot accept: ", error.message());
    if (deadline.expired()) return false;
    FiberSleepFor(kPauseAfterError);
  }
}

bool TcpServer::WaitForCapacity() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock,
                [this] { return stopping_ || options_.max_connections == 0 || open_ < options_.max_connections; });
  return !cut_;
}

void TcpServer::Serve(Connection* connection) {
  LogWhatItThrows("the handler", local_address_,
                  [&] { static_cast<void>(connection->scope.Run([&] { handler_(connection->connection); })); });
  End(connection);
}

void TcpServer::End(Connection* connection) {
  const std::unique_ptr<Connection> owned(connection);
  std::unique_lock lock(mutex_);
  connections_.erase(connection);
  lock.unlock();
  owned->connection.stream().Close();
  lock.lock();
  --open_;
  if ((stopping_ && AllEnded()) || options_.max_connections != 0) changed_.notify_all();
}

void TcpServer::StopAcceptingLocked() {
  if (stopping_) return;
  stopping_ = true;
  changed_.notify_all();  // The capacity does not count any more.
  if (accepting_) {
    accept_scope_.Cancel();
  } else {
    listener_.Close();
  }
}

bool TcpServer::StopAccepting(Deadline deadline) {
  CheckCanStop("TcpServer::StopAccepting");
  std::unique_lock lock(mutex_);
  StopAcceptingLocked();
  return changed_.wait(
      lock, [this] { return !accepting_; }, deadline);
}

void TcpServer::CheckCanStop(const char* caller) const {
  // A forked child has no workers to end the handlers, and shutting a socket down would hit the parent's too. Without
  // the lock, which one of the threads that the child does not have may hold.
  if (scheduling_group::IsForkedChild() && !AllEnded()) scheduling_group::CheckNotForkedChild(caller);
}

void TcpServer::Stop(Deadline drain_until) {
  CheckCanStop("TcpServer::Stop");
  std::unique_lock lock(mutex_);
  if (!draining_.load(std::memory_order_relaxed)) {
    drain_began_ = std::chrono::steady_clock::now();
    look_at_ = Deadline::After(options_.idle_at_stop, drain_began_);
    draining_.store(true, std::memory_order_relaxed);
  }
  StopAcceptingLocked();
  while (!AllEnded()) {
    const TimePoint now = std::chrono::steady_clock::now();
    if (drain_until.expired(now)) {
      if (!cut_) Cut();
      changed_.wait(lock, [this] { return AllEnded(); });
      return;
    }
    if (look_at_.expired(now)) look_at_ = EndIdle(now);
    const Deadline seen = look_at_;
    static_cast<void>(changed_.wait(
        lock, [&] { return AllEnded() || look_at_ < seen; }, std::min(seen, drain_until)));
  }
}

Deadline TcpServer::EndIdle(TimePoint now) {
  Deadline next;
  for (Connection& connection : connections_) {
    if (connection.told) continue;
    const TimePoint when = WhenToEnd(connection, now);
    if (when > now) {
      next = std::min(next, Deadline(when));
      continue;
    }
    connection.told = true;
    if (knows_idle_) {
      connection.connection.EndIfIdle();
    } else {
      connection.connection.stream().ShutdownRead();
    }
  }
  return std::max(next, Deadline(now + kLeastBetweenLooks));
}

// After `now`: when to look again.
TcpServer::TimePoint TcpServer::WhenToEnd(const Connection& connection, TimePoint now) const {
  if (!knows_idle_) return WhenToEndStream(connection, now);
  const TimePoint idle = drain_began_ + options_.idle_at_stop;
  const TimePoint last = drain_began_ + options_.first_request_at_stop;
  const TimePoint since = connection.connection.idle_since();
  TimePoint when = std::max(idle, last);
  if (!connection.connection.has_sent_request()) {
    when = std::max(idle, connection.accepted_at + options_.first_request_at_stop);
  } else if (since != TcpConnection::kBusy) {
    when = std::max(idle, std::min(std::max(since, drain_began_) + options_.idle_at_stop, last));
  }
  // A request that comes meanwhile brings the end nearer.
  return when <= now ? when : std::min(when, now + std::max(options_.idle_at_stop, kLeastBetweenLooks));
}

// By whether the peer seems to be sending a request: it has sent nothing yet, or something since we have sent last. The
// kernel's clock has a resolution of some milliseconds: what it says came at the same time may have come later.
// On Unix sockets there is none.
TcpServer::TimePoint TcpServer::WhenToEndStream(const Connection& connection, TimePoint now) const {
  const TimePoint idle = drain_began_ + options_.idle_at_stop;
  tcp_info info{};
  if (connection.connection.stream().GetTcpInfo(&info, sizeof(info))) return idle;
  const TimePoint first = std::max(drain_began_, connection.accepted_at) + options_.first_request_at_stop;
  if (info.tcpi_bytes_received == 0 || info.tcpi_last_data_recv < info.tcpi_last_data_sent) return first;
  if (info.tcpi_last_data_recv > info.tcpi_last_data_sent) return idle;
  const std::chrono::milliseconds ago(info.tcpi_last_data_recv);
  return std::max(idle, std::min(first, now - ago + options_.first_request_at_stop));
}

void TcpServer::Cut() {
  cut_ = true;
  admit_scope_.Cancel();
  changed_.notify_all();
  for (Connection& connection : connections_) {
    connection.scope.Cancel();
    connection.connection.stream().Shutdown();
  }
}

TcpServer::Counts TcpServer::counts() const {
  std::lock_guard guard(mutex_);
  return {.accepted = accepted_.load(std::memory_order_relaxed),
          .refused = refused_.load(std::memory_order_relaxed),
          .open = open_};
}

}  // namespace weft::io
