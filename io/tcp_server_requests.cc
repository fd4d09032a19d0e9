// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// TcpServer: connections that have a fiber only while they are served.

#include <algorithm>
#include <chrono>
#include <mutex>
#include <optional>

#include "weft/fiber/fiber.h"
#include "weft/fiber/start/start_fiber.h"
#include "weft/fiber/this_fiber.h"
#include "weft/io/reactor/poll_until.h"
#include "weft/io/tcp_server.h"
#include "weft/scheduling_group/group/group_registry.h"
#include "weft/scheduling_group/group/scheduling_group.h"
#include "weft/scheduling_group/worker/current_worker.h"

namespace weft::io {
namespace {

// Connections whose time is over are found by sweeps: so many in a time-out.
constexpr int kSweepsPerTimeout = 8;
constexpr std::chrono::milliseconds kLeastBetweenSweeps{5};  // also before a refused start is tried again
// A sweep gives the lock free after so many connections.
constexpr std::size_t kSweepBatch = 256;

}  // namespace

void TcpServer::ServeRequests(Connection* connection, bool readable) {
  if (connection->ends) {
    // A request that came before the fiber ran is answered.
    if (!IsReadableNow(connection->connection.stream().fd())) return SayGoodbyeAndEnd(connection);
    connection->ends = false;
    readable = true;
  }
  connection->connection.BeginTurn();
  for (;; readable = false) {
    if (!readable) {
      connection->connection.BecomeIdle();
      scheduling_group::SchedulingGroup* const group = scheduling_group::CurrentGroup();
      connection->loop = group->of_loop() ? group : nullptr;
      switch (connection->connection.stream().descriptor_.Arm(connection)) {
        case ReadableWatch::Armed::kArmed:
          return;  // It is no longer ours (RDW1).
        case ReadableWatch::Armed::kForbidden:
          return SayGoodbyeAndEnd(connection);
        case ReadableWatch::Armed::kReadable:
          break;
      }
    }
    connection->connection.found_nothing_ = false;
    const std::optional<AfterRequest> after = Run(handler_, "the handler", connection);
    if (!after.has_value() || connection->scope.IsCancelled()) return End(connection);
    if (connection->connection.found_nothing_) continue;
    if (*after == AfterRequest::kClose || connection->connection.has_ended_) return End(connection);
    connection->connection.BecomeBusy();
  }
}

void TcpServer::OnReadable(ReadableWatch* watch) noexcept {
  auto* const connection = static_cast<Connection*>(watch);
  connection->server->Resume(connection, /*readable=*/true);
}

bool TcpServer::StartServing(Connection* connection, bool readable) noexcept {
  // TV5: the sweep runs in the loop, too.
  if (connection->loop != nullptr && connection->loop != scheduling_group::CurrentGroup()) return false;
  const scheduling_group::NoWaitSection no_wait;
  // Whoever polls, or closes the stream, may be a fiber of another request.
  const FiberExecutionContext::Scope scope(context_.Get());
  return fiber::detail::StartNamed(fiber_name_, resume_fiber_,
                                   [this, connection, readable] { ServeRequests(connection, readable); });
}

void TcpServer::Resume(Connection* connection, bool readable) noexcept {
  if (StartServing(connection, readable)) return;
  // Until the lock is free nobody ends the connection, and the server is there.
  base::SpinLockGuard guard(retry_lock_);
  connection->unstarted.store(true, std::memory_order_relaxed);
  sweep_now_.Set();
}

bool TcpServer::IsUnstarted(Connection* connection) noexcept {
  if (!connection->unstarted.load(std::memory_order_relaxed)) return false;  // If it becomes so, the sweep is told.
  base::SpinLockGuard guard(retry_lock_);
  return connection->unstarted.exchange(false, std::memory_order_relaxed);
}

bool TcpServer::StartSweep() {
  {
    std::lock_guard guard(mutex_);
    if (sweeping_) return true;
    sweeping_ = true;
  }
  if (fiber::detail::StartNamed("tcp sweep", [this] { Sweep(); })) return true;
  std::lock_guard guard(mutex_);
  sweeping_ = false;
  return false;
}

Deadline TcpServer::NextSweep() const {
  std::chrono::nanoseconds interval = std::chrono::nanoseconds::max();
  for (const std::chrono::nanoseconds timeout : {shared_.first_request_timeout, shared_.idle_timeout}) {
    if (timeout.count() <= 0) continue;
    interval = std::min(interval, std::max<std::chrono::nanoseconds>(timeout / kSweepsPerTimeout, kLeastBetweenSweeps));
  }
  return interval == std::chrono::nanoseconds::max() ? Deadline::None() : Deadline(interval);
}

void TcpServer::Sweep() {
  for (;;) {
    const bool told = sweep_now_.Wait(NextSweep());
    if (told) sweep_now_.Reset();
    {
      std::lock_guard guard(mutex_);
      if (stopping_ && !accepting_ && open_ == 0) {
        sweeping_ = false;
        changed_.notify_all();  // Under the lock: see AcceptAll().
        return;
      }
    }
    if (told) FiberSleepFor(kLeastBetweenSweeps);
    SweepAll();
  }
}

void TcpServer::SweepAll() {
  std::unique_lock lock(mutex_);
  // Each comes to the back of the list, so that a batch may begin where the last one ended.
  for (std::size_t left = open_; left != 0 && !connections_.empty();) {
    const TimePoint now = std::chrono::steady_clock::now();
    Connections timed_out;
    Connections go_on;
    for (std::size_t batch = std::min(left, kSweepBatch); batch != 0 && !connections_.empty(); --batch, --left) {
      Connection* const connection = connections_.pop_front();
      const auto is_late = [&] { return connection->connection.waits_until() <= now; };
      if (IsUnstarted(connection)) {
        go_on.push_back(connection);
      } else if (is_late() && connection->Disarm()) {
        // Once more: between the two it may have been served, and have begun to wait anew.
        (is_late() ? timed_out : go_on).push_back(connection);
      } else {
        connections_.push_back(connection);
      }
    }
    Finish(&timed_out, Fate::kTimedOut, &lock);
    Finish(&go_on, Fate::kGoesOn, &lock);
    lock.unlock();  // Finish() does so only if there is something to finish.
    FiberYield();
    lock.lock();
  }
}

void TcpServer::Finish(Connections* connections, Fate fate, std::unique_lock<FiberMutex>* lock) {
  while (!connections->empty()) {
    Connection* const connection = connections->pop_front();
    connections_.push_back(connection);
    if (shared_.draining.load(std::memory_order_relaxed) && !connection->told) LookSoon();
    const bool cut = cut_;
    lock->unlock();
    // Its bytes may have come while its watch was ended.
    const bool ends =
        cut || fate == Fate::kEnds || (fate != Fate::kGoesOn && !IsReadableNow(connection->connection.stream().fd()));
    if (ends && fate == Fate::kTimedOut) connection->connection.CountOnce();  // Before `open` says so.
    if (ends) connection->ends = true;
    if (ends && (cut || fate == Fate::kEnds || !goodbye_)) {
      End(connection);
    } else {
      Resume(connection, /*readable=*/false);
    }
    lock->lock();
  }
}

}  // namespace weft::io
