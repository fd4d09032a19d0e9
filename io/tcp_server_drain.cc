// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// TcpServer: the drain.

#include <linux/tcp.h>

#include <algorithm>
#include <chrono>
#include <mutex>

#include "weft/base/report/str_cat.h"
#include "weft/io/tcp_server.h"
#include "weft/scheduling_group/group/group_registry.h"
#include "weft/scheduling_group/group/runtime_end.h"

namespace weft::io {
namespace {

// A drain looks at its connections no more often, since it looks at all of them.
constexpr std::chrono::milliseconds kLeastBetweenLooks{5};

}  // namespace

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
  if (!CheckCanStop("TcpServer::StopAccepting")) return false;
  std::unique_lock lock(mutex_);
  StopAcceptingLocked();
  return changed_.wait(
      lock, [this] { return !accepting_; }, deadline);
}

// Without the lock, which a fiber that never runs again may hold.
bool TcpServer::HasLostItsRuntime() const noexcept {
  return runtimes_ended_.has_value() && *runtimes_ended_ != scheduling_group::LostFibers::runtimes() && !AllEnded();
}

bool TcpServer::CheckCanStop(const char* caller) const {
  // A forked child has no workers to end the handlers, and shutting a socket down would hit the parent's too. Without
  // the lock, which one of the threads that the child does not have may hold.
  if (scheduling_group::IsForkedChild() && !AllEnded()) scheduling_group::CheckNotForkedChild(caller);
  if (!HasLostItsRuntime()) return true;
  scheduling_group::LostFibers::Fail(caller, base::StrCat("the server at ", local_address_.ToString()));
  return false;
}

void TcpServer::Stop(Deadline drain_until) {
  if (!CheckCanStop("TcpServer::Stop")) return;
  std::unique_lock lock(mutex_);
  if (!shared_.draining.load(std::memory_order_relaxed)) {
    drain_began_ = std::chrono::steady_clock::now();
    look_at_ = Deadline::After(options_.idle_at_stop, drain_began_);
    shared_.draining.store(true, std::memory_order_relaxed);
  }
  StopAcceptingLocked();
  while (!AllEnded()) {
    const TimePoint now = std::chrono::steady_clock::now();
    Connections waiting;
    if (drain_until.expired(now)) {
      if (!cut_) Cut(&waiting);
      Finish(&waiting, Fate::kEnds, &lock);
      changed_.wait(lock, [this] { return AllEnded(); });
      return;
    }
    if (look_at_.expired(now)) look_at_ = EndIdle(now, &waiting);
    if (!waiting.empty()) {
      Finish(&waiting, Fate::kEndsIfSilent, &lock);
      continue;
    }
    const Deadline seen = look_at_;
    static_cast<void>(changed_.wait(
        lock, [&] { return AllEnded() || look_at_ < seen; }, std::min(seen, drain_until)));
  }
}

// TV6
void TcpServer::LookSoon() {
  const Deadline soon(std::chrono::steady_clock::now() + kLeastBetweenLooks);
  if (look_at_ <= soon) return;
  look_at_ = soon;
  changed_.notify_all();
}

Deadline TcpServer::EndIdle(TimePoint now, Connections* waiting) {
  Deadline next;
  for (auto i = connections_.begin(); i != connections_.end();) {
    Connection& connection = *i++;  // It may leave the list.
    if (connection.told) continue;
    const TimePoint when = WhenToEnd(connection, now);
    if (when > now) {
      next = std::min(next, Deadline(when));
      continue;
    }
    connection.told = true;
    if (served_ == Served::kStream) {
      connection.connection.stream().ShutdownRead();
    } else {
      connection.connection.EndIfIdle();
      static_cast<void>(TakeIfWaiting(&connection, waiting));
    }
  }
  return std::max(next, Deadline(now + kLeastBetweenLooks));
}

// After `now`: when to look again.
TcpServer::TimePoint TcpServer::WhenToEnd(const Connection& connection, TimePoint now) const {
  if (served_ == Served::kStream) return WhenToEndStream(connection, now);
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

// The peer seems to be sending a request if it has sent nothing yet, or something since we have sent last. The kernel's
// clock is coarse (some ms): of two equal times either may be the later. On Unix sockets there is no such clock.
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

// From now on the connection's watch is not armed again. True: it was waiting, and is the caller's now.
bool TcpServer::TakeIfWaiting(Connection* connection, Connections* waiting) {
  connection->Forbid();
  if (!connection->Disarm()) return false;
  connections_.erase(connection);
  waiting->push_back(connection);
  return true;
}

void TcpServer::Cut(Connections* waiting) {
  cut_ = true;
  admit_scope_.Cancel();
  changed_.notify_all();
  if (sweeping_) sweep_now_.Set();  // TV4
  for (auto i = connections_.begin(); i != connections_.end();) {
    Connection& connection = *i++;  // It may leave the list.
    connection.scope.Cancel();
    connection.connection.EndIfIdle();
    if (!TakeIfWaiting(&connection, waiting)) connection.connection.stream().Shutdown();
  }
}

}  // namespace weft::io
