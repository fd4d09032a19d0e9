// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/examples/rpc/rpc_server.h"

#include <google/protobuf/descriptor.h>

#include <algorithm>
#include <any>
#include <chrono>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

#include "weft/base/report/check.h"
#include "weft/examples/rpc/server_connection.h"
#include "weft/fiber/this_fiber.h"
#include "weft/io/tcp_listener.h"
#include "weft/io/tcp_stream.h"
#include "weft/sync/cancel_scope.h"

namespace weft::rpc {
namespace {

// As TcpServer's sweeps for time-outs.
constexpr int kSweepsPerLimit = 8;
constexpr std::chrono::milliseconds kLeastBetweenSweeps{5};
// A sweep gives the lock free after so many connections: some 30 us where they lie in no cache.
constexpr std::size_t kSweepBatch = 256;

}  // namespace

Server::Server() : Server(Options()) {}

Server::Server(Options options) : options_(std::move(options)), memory_({.bytes = options_.max_request_memory}) {}

Server::~Server() {
  Shielded([this] { Stop(std::chrono::seconds(0)); });
}

void Server::AddService(google::protobuf::Service* service) {
  WEFT_CHECK(listening_ == nullptr, "rpc::Server::AddService: the server has been started");
  const bool added = services_.emplace(service->GetDescriptor()->full_name(), service).second;
  WEFT_CHECK(added, "rpc::Server::AddService: ", service->GetDescriptor()->full_name(), " is there already");
}

std::error_code Server::Start(const io::SocketAddress& address) {
  WEFT_CHECK(listening_ == nullptr, "rpc::Server::Start: the server has been started");
  io::TcpListener listener;
  if (const std::error_code error = listener.Listen(address)) return error;
  return Start(std::move(listener)) ? std::error_code()
                                    : std::make_error_code(std::errc::resource_unavailable_try_again);
}

io::RequestHandler Server::Handler() {
  using Connection = std::shared_ptr<ServerConnection>;  // std::any copies.
  const auto of = [](io::TcpConnection& connection) -> ServerConnection& {
    return **std::any_cast<Connection>(&connection.state());
  };
  // None of the three is cancelled: Stop() cancels the calls, and ends the reader by its socket.
  const auto greet = [this](io::TcpConnection& connection) {
    io::AfterRequest after{};
    Shielded([&] {
      after = connection.state()
                  .emplace<Connection>(std::make_shared<ServerConnection>(this, &connection.stream()))
                  ->Greet();
    });
    return after;
  };
  const auto serve = [of](io::TcpConnection& connection) {
    io::AfterRequest after{};
    Shielded([&] { after = of(connection).Serve(); });
    return after;
  };
  const auto say_goodbye = [of](io::TcpConnection& connection) { Shielded([&] { of(connection).SayGoodbye(); }); };
  return io::RequestHandler(serve, say_goodbye, greet);
}

bool Server::Start(io::TcpListener listener) {
  WEFT_CHECK(listening_ == nullptr, "rpc::Server::Start: the server has been started");
  io::TcpServer::Options options = options_.connections;
  options.idle_timeout = options.read_timeout = {};  // Ours.
  auto listening = std::make_unique<io::TcpServer>(std::move(listener), Handler(), std::move(options));
  {
    const std::scoped_lock lock(mutex_);
    listening_ = std::move(listening);
  }
  if (StartSweep() && listening_->Start()) return true;
  Shielded([this] { sweep_.Stop(); });
  const std::scoped_lock lock(mutex_);
  listening_.reset();
  return false;
}

bool Server::StartSweep() {
  std::chrono::milliseconds least = std::chrono::milliseconds::max();
  const auto consider = [&least](std::chrono::milliseconds limit) {
    if (limit.count() > 0) least = std::min(least, limit);
  };
  if (options_.heartbeat.ping_after.count() > 0) {
    consider(options_.heartbeat.ping_after);
    consider(options_.heartbeat.timeout);
  }
  consider(options_.connections.idle_timeout);
  if (least == std::chrono::milliseconds::max()) return true;
  const auto period = std::max(least / kSweepsPerLimit, kLeastBetweenSweeps);
  return sweep_.Start("rpc_sweep", {.period = period, .pace = PeriodicTask::Pace::kFixedDelay}, [this] { Sweep(); });
}

void Server::Sweep() {
  std::vector<std::pair<Use, ServerConnection::Due>> due;
  due.reserve(kSweepBatch);
  std::unique_lock lock(mutex_);
  // Each comes to the back of the list, so that a batch begins where the last one ended.
  for (std::size_t left = connections_; left != 0 && !listed_.empty();) {
    const auto now = std::chrono::steady_clock::now();
    for (std::size_t batch = std::min(left, kSweepBatch); batch != 0 && !listed_.empty(); --batch, --left) {
      Listed* const listed = listed_.pop_front();
      listed_.push_back(listed);
      auto* const connection = static_cast<ServerConnection*>(listed);
      const ServerConnection::Due what = connection->WhatIsDue(now);
      if (what != ServerConnection::Due::kNothing) due.emplace_back(BeginUse(connection), what);
    }
    lock.unlock();
    for (const auto& [connection, what] : due) connection->Do(what);
    due.clear();
    FiberYield();
    lock.lock();
  }
}

void Server::UseEnder::operator()(ServerConnection* connection) const noexcept { connection->EndUse(); }

Server::Use Server::BeginUse(ServerConnection* connection) {
  connection->BeginUse();  // It is in the list, so it has its own use.
  return Use(connection);
}

std::vector<Server::Use> Server::UseAllConnections() {
  std::vector<Use> uses;
  uses.reserve(connections_);
  for (Listed& listed : listed_) uses.push_back(BeginUse(static_cast<ServerConnection*>(&listed)));
  return uses;
}

void Server::Stop(Deadline drain_until) {
  if (listening_ == nullptr) return;
  // seq_cst: pairs with BeginFrame(), BeginCall() and LeaveOne().
  draining_.store(true, std::memory_order_seq_cst);
  // First, so that clients do not come back to us; and it ends a forked child before we take a lock or tell a client.
  const bool all_accepted = listening_->StopAccepting(drain_until);
  if (listening_->HasLostItsRuntime()) return;  // Inside exit().
  const io::TcpServer::Counts accepted = listening_->counts();
  std::unique_lock lock(mutex_);
  const auto all_greeted = [&] { return greeted_ >= accepted.accepted - accepted.refused; };
  // The clients of those that have just been accepted are told, too. (One whose greeting fails is not waited for.)
  if (all_accepted) changed_.wait(lock, all_greeted, std::min(drain_until, Deadline(kFarewellTime)));
  all_told_ = true;
  std::vector<Use> uses = UseAllConnections();
  lock.unlock();
  for (const Use& connection : uses) connection->SayFarewell(FarewellReason::kStopping);
  uses.clear();
  lock.lock();
  // seq_cst: either we see a call, or BeginCall() sees that we drain; either we see that the last call has ended, or
  // LeaveOne() sees that we drain. So it is with frames. These come first: a frame's call begins before the frame ends.
  const auto all_answered = [this] {
    return half_frames_.load(std::memory_order_seq_cst) == 0 && in_flight_.load(std::memory_order_seq_cst) == 0;
  };
  changed_.wait(lock, all_answered, drain_until);
  const auto all_gone = [this] { return connections_ == 0; };
  changed_.wait(lock, all_gone, std::min(drain_until, Deadline(kFarewellTime)));
  // In one hold: whoever is not in the list sees it in Enter(). The shutdown of its socket comes after it, for each
  // reader.
  cut_.store(true, std::memory_order_relaxed);
  uses = UseAllConnections();
  lock.unlock();
  for (const Use& connection : uses) {
    connection->CancelAll();  // Without a deadline that has passed there is no call.
    connection->EndReading();
  }
  uses.clear();
  lock.lock();
  // The end of its stream starts a fiber for each connection that rests; the fiber takes it out of the list (SC7). The
  // writers have until the deadline.
  changed_.wait(lock, all_gone, drain_until);
  uses = UseAllConnections();
  lock.unlock();
  for (const Use& connection : uses) static_cast<void>(connection->stream_->Shutdown());
  uses.clear();
  lock.lock();
  changed_.wait(lock, all_gone);
  lock.unlock();
  listening_->Stop(drain_until);
  sweep_.Stop();
}

bool Server::BeginFrame() {
  if (draining()) return false;
  // seq_cst, both: as in Stop().
  half_frames_.fetch_add(1, std::memory_order_seq_cst);
  if (!draining_.load(std::memory_order_seq_cst)) return true;
  EndFrame();
  return false;
}

void Server::EndFrame() { LeaveOne(&half_frames_); }

ErrorCode Server::BeginCall(std::size_t memory, bool awaited) {
  // seq_cst, both: as in Stop().
  const std::size_t before = in_flight_.fetch_add(1, std::memory_order_seq_cst);
  if (!awaited && draining_.load(std::memory_order_seq_cst)) {
    unavailable_.fetch_add(1, std::memory_order_relaxed);
    LeaveCall();
    return UNAVAILABLE;
  }
  requests_.fetch_add(1, std::memory_order_relaxed);
  const bool room = options_.max_in_flight == 0 || before < options_.max_in_flight;
  if (room && (!options_.admit || options_.admit()) && memory_.TakeBytes(memory)) return OK;
  overloaded_.fetch_add(1, std::memory_order_relaxed);
  LeaveCall();
  return OVERLOADED;
}

void Server::RefuseCall(std::size_t memory) {
  overloaded_.fetch_add(1, std::memory_order_relaxed);
  over_connection_limit_.fetch_add(1, std::memory_order_relaxed);
  EndCall(memory);
}

void Server::EndCall(std::size_t memory) {
  memory_.GiveBackBytes(memory);
  LeaveCall();
}

void Server::LeaveCall() { LeaveOne(&in_flight_); }

void Server::LeaveOne(std::atomic<std::size_t>* count) {
  // seq_cst, both: as in Stop().
  if (count->fetch_sub(1, std::memory_order_seq_cst) != 1) return;
  if (!draining_.load(std::memory_order_seq_cst)) return;
  const std::scoped_lock lock(mutex_);
  changed_.notify_all();
}

void Server::AddToPast(const BatchWriter::Counts& written, std::uint64_t reads) {
  const std::scoped_lock lock(mutex_);
  past_.answers += written.frames;
  past_.writes += written.writes;
  past_.reads += reads;
}

bool Server::Enter(ServerConnection* connection) {
  bool is_cut = false;
  bool is_late = false;
  {
    const std::scoped_lock lock(mutex_);
    is_cut = cut();
    is_late = all_told_;
    listed_.push_back(connection);
    ++connections_;
    ++greeted_;
    if (draining()) changed_.notify_all();
  }
  if (is_late) connection->SayFarewell(FarewellReason::kStopping);
  return !is_cut;
}

std::unique_ptr<FrameReader> Server::TakeReader() {
  std::unique_ptr<FrameReader> reader = readers_.Take();
  return reader != nullptr ? std::move(reader) : std::make_unique<FrameReader>(options_.limits);
}

void Server::GiveBack(std::unique_ptr<FrameReader> reader) {
  if (reader->capacity() <= FrameReader::kBlockSize) readers_.Put(std::move(reader));  // Else it held a large frame.
}

void Server::Leave(ServerConnection* connection) {
  const std::scoped_lock lock(mutex_);
  listed_.erase(connection);
  if (--connections_ == 0) changed_.notify_all();
}

google::protobuf::Service* Server::FindService(const std::string& name) const {
  const auto found = services_.find(name);
  return found == services_.end() ? nullptr : found->second;
}

Server::Counts Server::counts() const {
  const std::scoped_lock lock(mutex_);
  Counts counts = past_;
  counts.connections = connections_;
  counts.in_flight = in_flight_.load(std::memory_order_relaxed);
  counts.requests = requests_.load(std::memory_order_relaxed);
  counts.overloaded = overloaded_.load(std::memory_order_relaxed);
  counts.over_connection_limit = over_connection_limit_.load(std::memory_order_relaxed);
  counts.over_memory = memory_.counts().over_bytes;
  counts.unavailable = unavailable_.load(std::memory_order_relaxed);
  counts.vanished = vanished_.load(std::memory_order_relaxed);
  counts.idle = idle_.load(std::memory_order_relaxed);
  counts.late = late_.load(std::memory_order_relaxed);
  counts.bad = bad_.load(std::memory_order_relaxed);
  if (listening_ == nullptr) return counts;
  const io::TcpServer::Counts listening = listening_->counts();
  counts.accepted_connections = listening.accepted;
  counts.refused_connections = listening.refused;
  counts.over_host_limit = listening.over_host_limit;
  return counts;
}

}  // namespace weft::rpc
