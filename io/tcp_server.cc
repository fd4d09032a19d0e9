// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/tcp_server.h"

#include <linux/tcp.h>

#include <algorithm>
#include <chrono>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <utility>

#include "weft/base/report/log.h"
#include "weft/base/report/str_cat.h"
#include "weft/fiber/execution_context.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/start/start_fiber.h"
#include "weft/fiber/this_fiber.h"
#include "weft/scheduling_group/group/group_registry.h"
#include "weft/scheduling_group/group/runtime_end.h"
#include "weft/scheduling_group/group/scheduling_group.h"

namespace weft::io {
namespace {

constexpr std::chrono::seconds kNoWait{0};
constexpr std::chrono::milliseconds kNoTimeout{0};

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

FiberAttributes AttributesOfLaterRequests(FiberAttributes attributes) {
  if (attributes.scheduling_group == kUnspecifiedSchedulingGroup) attributes.scheduling_group = kNearestSchedulingGroup;
  attributes.launch_policy = Launch::Post;  // Who starts it must not switch.
  return attributes;
}

}  // namespace

TcpServer::TcpServer(TcpListener listener, Served served, RequestHandler handler, Options options)
    : served_(served),
      handler_(std::move(handler.function_)),
      goodbye_(std::move(handler.goodbye_)),
      greeting_(std::move(handler.greeting_)),
      fiber_name_(handler.fiber_name_),
      options_(std::move(options)),
      resume_fiber_(AttributesOfLaterRequests(options_.connection_fiber)),
      listener_(std::move(listener)),
      local_address_(listener_.local_address()),
      timeouts_{.read = std::max(options_.read_timeout, kNoTimeout),
                .write = std::max(options_.write_timeout, kNoTimeout)},
      hosts_(options_.max_connections_per_host) {
  const auto or_read_timeout = [&](std::chrono::milliseconds timeout) {
    return timeout.count() > 0 ? timeout : options_.read_timeout;
  };
  shared_.first_request_timeout =
      detail::ShorterLimit(or_read_timeout(options_.first_request_timeout), handler.longest_first_wait_);
  shared_.idle_timeout = detail::ShorterLimit(or_read_timeout(options_.idle_timeout), handler.longest_wait_);
}

TcpServer::TcpServer(TcpListener listener, RequestHandler handler, Options options)
    : TcpServer(std::move(listener), Served::kRequests, std::move(handler), std::move(options)) {}

TcpServer::TcpServer(TcpListener listener, RequestHandler handler)
    : TcpServer(std::move(listener), std::move(handler), Options()) {}

TcpServer::TcpServer(TcpListener listener, ConnectionHandler handler, Options options)
    : TcpServer(std::move(listener), Served::kConnection,
                RequestHandler([handler = std::move(handler)](auto& connection) {
                  handler(connection);
                  return AfterRequest::kClose;
                }),
                std::move(options)) {}

TcpServer::TcpServer(TcpListener listener, ConnectionHandler handler)
    : TcpServer(std::move(listener), std::move(handler), Options()) {}

TcpServer::TcpServer(TcpListener listener, Handler handler, Options options)
    : TcpServer(std::move(listener), Served::kStream, RequestHandler([handler = std::move(handler)](auto& connection) {
                  handler(connection.stream());
                  return AfterRequest::kClose;
                }),
                std::move(options)) {}

TcpServer::TcpServer(TcpListener listener, Handler handler)
    : TcpServer(std::move(listener), std::move(handler), Options()) {}

TcpServer::~TcpServer() {
  Shielded([this] { Stop(kNoWait); });
  // In exit(). Their fibers never run again, and end none of them.
  if (HasLostItsRuntime()) static_cast<void>(new (std::nothrow) Connections(std::move(connections_)));
}

bool TcpServer::Start() {
  if (const std::error_code error = SetLiveness(&listener_, options_.keep_alive, options_.user_timeout)) {
    WEFT_LOG(ERROR, "TcpServer: ", local_address_.ToString(),
             " cannot have the options keep_alive and user_timeout: ", error.message());
    return false;
  }
  {
    std::lock_guard guard(mutex_);
    if (stopping_) return false;
    accepting_ = true;
    const scheduling_group::SchedulingGroup* const group = scheduling_group::CurrentGroup();
    if (group == nullptr || !group->of_loop()) runtimes_ended_ = scheduling_group::LostFibers::runtimes();
    context_ = FiberExecutionContext::Capture();
  }
  if (fiber::detail::StartNamed("tcp accept", [this] { AcceptAll(); })) return true;
  std::lock_guard guard(mutex_);
  accepting_ = false;
  return false;
}

void TcpServer::AcceptAll() {
  // In turn, not all in the group that accepts.
  std::size_t& group = options_.connection_fiber.scheduling_group;
  if (scheduling_group::IsCallersName(group)) group = kUnspecifiedSchedulingGroup;
  while (!accept_scope_.IsCancelled() && AcceptOne(/*in_scope=*/true, Deadline::None())) {
  }
  // First what waits now, for `admit` may take its time. Not more: clients that come in a row would hold the drain up.
  for (int left = TcpListener::Options().backlog; left != 0 && AcceptOne(/*in_scope=*/false, kNoWait); --left) {
  }
  const bool stopped = !listener_.StopHandshakes();
  const Deadline until = stopped ? Deadline(options_.handshakes_at_stop) : kNoWait;
  while (AcceptOne(/*in_scope=*/false, until)) {  // TV1
  }
  listener_.Close();
  std::lock_guard guard(mutex_);
  accepting_ = false;
  NoteProgress();
  changed_.notify_all();  // Under the lock, since the server may be destroyed once it is free.
}

std::unique_ptr<TcpServer::Connection> TcpServer::NewConnection(bool in_scope) {
  do {
    try {
      return std::make_unique<Connection>(this);
    } catch (const std::bad_alloc&) {
      WEFT_LOG_EVERY_SECOND(ERROR,
                            "TcpServer: no memory for a connection; it waits, and those that come in the kernel");
    }
  } while (in_scope && accept_scope_.Run([] { FiberSleepFor(kPauseAfterError); }));
  return nullptr;
}

bool TcpServer::AcceptOne(bool in_scope, Deadline until) {
  TcpStream stream;
  bool accepted = false;
  // The scope ends with Accept(): a later cancel drops the connection only if there is no memory for it.
  static_cast<void>(
      (in_scope ? accept_scope_ : admit_scope_).Run([&] { accepted = WaitForCapacity() && Accept(&stream, until); }));
  if (!accepted) return false;
  // Not before the wait: in the heap it would lie behind all others, and keep their memory from the system.
  std::unique_ptr<Connection> connection = NewConnection(in_scope);
  if (connection == nullptr) {
    not_started_.fetch_add(1, std::memory_order_relaxed);
    accepted_.fetch_add(1, std::memory_order_relaxed);
    refused_.fetch_add(1, std::memory_order_relaxed);
    stream.Reset();
    return false;
  }
  connection->connection.does_not_wait_ = served_ == Served::kRequests;
  connection->connection.stream() = std::move(stream);
  connection->accepted_at = std::chrono::steady_clock::now();
  if (!EnterHost(connection.get()) || !Admits()) {
    accepted_.fetch_add(1, std::memory_order_relaxed);
    refused_.fetch_add(1, std::memory_order_relaxed);
    connection->connection.stream().Reset();
    return true;
  }
  if (timeouts_.read != kNoTimeout || timeouts_.write != kNoTimeout) {
    static_cast<void>(connection->connection.stream().SetTimeouts(timeouts_));  // It is open, and none is below 0.
  }
  Connection* const raw = connection.get();
  if (!Add(raw)) {
    refused_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  static_cast<void>(connection.release());
  if ((served_ == Served::kRequests && !StartSweep()) ||
      !fiber::detail::StartNamed(fiber_name_, options_.connection_fiber, [this, raw] { Serve(raw); })) {
    refused_.fetch_add(1, std::memory_order_relaxed);
    not_started_.fetch_add(1, std::memory_order_relaxed);
    End(raw);
  }
  return true;
}

bool TcpServer::EnterHost(Connection* connection) {
  if (options_.max_connections_per_host == 0) return true;
  const auto host = PeerLimit::HostOf(connection->connection.stream().peer_address());
  if (!host.has_value()) return true;
  if (hosts_.Enter(*host)) {
    connection->host = host;
    return true;
  }
  over_host_limit_.fetch_add(1, std::memory_order_relaxed);
  return false;
}

bool TcpServer::Admits() {
  if (!options_.admit) return true;
  bool admitted = false;
  LogWhatItThrows("Options::admit", local_address_,
                  [&] { static_cast<void>(admit_scope_.Run([&] { admitted = options_.admit(); })); });
  if (!admitted) not_admitted_.fetch_add(1, std::memory_order_relaxed);
  return admitted;
}

bool TcpServer::Add(Connection* connection) {
  std::lock_guard guard(mutex_);
  accepted_.fetch_add(1, std::memory_order_relaxed);  // With `open`, for counts().
  if (cut_) return false;                             // TV2
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
  if (served_ != Served::kRequests) {
    static_cast<void>(Run(handler_, "the handler", connection));
    return End(connection);
  }
  if (greeting_) {
    const std::optional<AfterRequest> after = Run(greeting_, "the greeting", connection);
    if (after != AfterRequest::kWaitForNext || connection->scope.IsCancelled()) return End(connection);
  }
  ServeRequests(connection, /*readable=*/false);
}

std::optional<AfterRequest> TcpServer::Run(const RequestHandler::Function& function, const char* name,
                                           Connection* connection) {
  std::optional<AfterRequest> after;
  connection->scope.SetDeadline({});  // CancelAfter() in a request is of that request.
  LogWhatItThrows(name, local_address_,
                  [&] { static_cast<void>(connection->scope.Run([&] { after = function(connection->connection); })); });
  return after;
}

void TcpServer::SayGoodbyeAndEnd(Connection* connection) {
  if (goodbye_ && !connection->scope.IsCancelled()) {
    connection->scope.SetDeadline({});  // As above.
    LogWhatItThrows("the good-bye", local_address_,
                    [&] { static_cast<void>(connection->scope.Run([&] { goodbye_(connection->connection); })); });
  }
  End(connection);
}

void TcpServer::End(Connection* connection) {
  std::unique_ptr<Connection> owned(connection);
  std::unique_lock lock(mutex_);
  connections_.erase(connection);
  lock.unlock();
  owned->connection.stream().Close();
  owned.reset();  // Before it is not counted any more: its state may use what ends after Stop().
  lock.lock();
  --open_;
  NoteProgress();
  if (options_.max_connections != 0) changed_.notify_all();
}

void TcpServer::NoteProgress() {
  if (!stopping_ || accepting_ || open_ != 0) return;
  if (sweeping_) {
    sweep_now_.Set();  // It ends, and notes that.
  } else {
    changed_.notify_all();
  }
}

// --- The drain ---

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

TcpServer::Counts TcpServer::counts() const {
  std::lock_guard guard(mutex_);
  return {.accepted = accepted_.load(std::memory_order_relaxed),
          .refused = refused_.load(std::memory_order_relaxed),
          .over_host_limit = over_host_limit_.load(std::memory_order_relaxed),
          .not_admitted = not_admitted_.load(std::memory_order_relaxed),
          .not_started = not_started_.load(std::memory_order_relaxed),
          .timed_out = shared_.timed_out.load(std::memory_order_relaxed),
          .open = open_};
}

}  // namespace weft::io
