// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/net/connection_pool.h"

#include <poll.h>

#include <cerrno>
#include <chrono>
#include <deque>
#include <mutex>

#include "weft/base/report/check.h"
#include "weft/io/io_result.h"
#include "weft/io/reactor/poll_until.h"
#include "weft/sync/fiber_mutex.h"
#include "weft/sync/fiber_semaphore.h"
#include "weft/sync/wait/wait_queue.h"

namespace weft::io {
namespace {

using synchronization::WaitResult;

// Open, without an error, and nothing to read.
bool IsQuiet(const TcpStream& stream) {
  if (!stream.IsOpen()) return false;
  pollfd polled{.fd = stream.fd(), .events = POLLIN | POLLRDHUP, .revents = 0};
  return PollUntil(&polled, 1, std::chrono::seconds(0)) == 0;
}

}  // namespace

struct ConnectionPool::Core {
  struct Idle {
    TcpStream stream;
    Deadline good_until;
  };

  Core(Connect the_connect, const Options& the_options)
      : connect(std::move(the_connect)),
        options(the_options),
        may_lend(static_cast<std::ptrdiff_t>(the_options.max_connections)) {}

  const Connect connect;
  const Options options;
  FiberSemaphore may_lend;
  mutable FiberMutex mutex;  // guards what follows
  std::deque<Idle> idle;     // the one given back last at the end
  Counts counts;
};

ConnectionPool::ConnectionPool(Connect connect, const Options& options)
    : core_(std::make_unique<Core>(std::move(connect), options)) {
  WEFT_CHECK(options.max_connections >= 1, "ConnectionPool: max_connections is 0");
}

ConnectionPool::~ConnectionPool() {
  const std::size_t lent = counts().lent;
  WEFT_CHECK(lent == 0, "ConnectionPool::~ConnectionPool: ", lent, " connections are lent");
}

std::error_code ConnectionPool::Acquire(Lease* lease, Deadline deadline) {
  lease->Close();
  Core& core = *core_;
  if (!core.may_lend.TryAcquire()) {
    const WaitResult waited =
        synchronization::WaitAccess::Wait(core.may_lend, deadline, synchronization::Interruptible::kResult);
    if (waited != WaitResult::kNotified) return ErrnoCode(waited == WaitResult::kTimedOut ? ETIMEDOUT : ECANCELED);
  }
  {
    const std::scoped_lock lock(core.mutex);
    ++core.counts.lent;
  }
  TcpStream stream;
  const bool is_reused = TakeIdle(&stream);
  if (!is_reused) {
    std::error_code error;
    try {
      error = core.connect(&stream, deadline);
      if (!error) error = SetLiveness(&stream, core.options.keep_alive, core.options.user_timeout);
    } catch (...) {  // FiberCancelled, or what else `connect` throws.
      End(&stream, /*keep=*/false);
      throw;
    }
    if (error) {
      End(&stream, /*keep=*/false);
      return error;
    }
    const std::scoped_lock lock(core.mutex);
    ++core.counts.connected;
  }
  lease->pool_ = this;
  lease->stream_ = std::move(stream);
  lease->is_reused_ = is_reused;
  return {};
}

// False: there is no healthy one.
bool ConnectionPool::TakeIdle(TcpStream* stream) {
  Core& core = *core_;
  for (;;) {
    Core::Idle candidate;
    {
      const std::scoped_lock lock(core.mutex);
      if (core.idle.empty()) return false;
      candidate = std::move(core.idle.back());
      core.idle.pop_back();
    }
    const bool healthy = !candidate.good_until.expired() && IsQuiet(candidate.stream);
    const std::scoped_lock lock(core.mutex);
    ++(healthy ? core.counts.reused : core.counts.unhealthy);
    if (!healthy) continue;
    *stream = std::move(candidate.stream);
    return true;
  }
}

void ConnectionPool::End(TcpStream* stream, bool keep) {
  Core& core = *core_;
  TcpStream closed = std::move(*stream);
  {
    const std::scoped_lock lock(core.mutex);
    --core.counts.lent;
    if (keep && core.options.max_idle != 0) {
      core.idle.push_back({std::move(closed), core.options.idle_timeout});
      if (core.idle.size() > core.options.max_idle || core.idle.front().good_until.expired()) {
        closed = std::move(core.idle.front().stream);
        core.idle.pop_front();
      }
    }
  }
  closed = TcpStream();  // Without the mutex, and before another one may be made in its place.
  core.may_lend.Release();
}

void ConnectionPool::CloseIdle() {
  std::deque<Core::Idle> closed;
  const std::scoped_lock lock(core_->mutex);
  closed.swap(core_->idle);
}

ConnectionPool::Counts ConnectionPool::counts() const {
  const std::scoped_lock lock(core_->mutex);
  Counts counts = core_->counts;
  counts.idle = core_->idle.size();
  return counts;
}

void ConnectionPool::Lease::GiveBack() {
  if (pool_ != nullptr) std::exchange(pool_, nullptr)->End(&stream_, stream_.IsOpen());
}

void ConnectionPool::Lease::Close() {
  if (pool_ != nullptr) std::exchange(pool_, nullptr)->End(&stream_, /*keep=*/false);
}

}  // namespace weft::io
