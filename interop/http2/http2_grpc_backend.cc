// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/interop/http2/http2_grpc_backend.h"

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <utility>

#include "weft/fiber/this_fiber.h"
#include "weft/interop/http2/http2_grpc_requests.h"
#include "weft/interop/http2_error.h"
#include "weft/io/tcp_stream.h"
#include "weft/net/connect_to_host.h"
#include "weft/sync/fiber_cancelled.h"

namespace weft::interop {
namespace {

using namespace std::chrono_literals;

// Between two watches of one server.
constexpr std::chrono::seconds kWatchPause{1};

class TcpLink final : public GrpcLink {
 public:
  Http2Transport transport() override { return Http2Transport(stream); }
  std::string_view scheme() const override { return "http"; }

  io::TcpStream stream;
};

std::error_code ConnectByTcp(const GrpcPeer& peer, Deadline deadline, std::unique_ptr<GrpcLink>* link) {
  auto made = std::make_unique<TcpLink>();
  const std::error_code error = peer.Connect(&made->stream, deadline);
  if (!error) *link = std::move(made);
  return error;
}

std::string AuthorityOf(const GrpcPeer& peer) {
  std::string text = peer.host.find(':') == std::string::npos ? peer.host : "[" + peer.host + "]";
  if (!peer.service.empty()) text.append(":").append(peer.service);
  return text;
}

}  // namespace

std::string GrpcPeer::ToString() const {
  std::string text = AuthorityOf(*this);
  if (address.has_value() && address->ToString() != text) text.append(" (").append(address->ToString()).append(")");
  return text;
}

std::error_code GrpcPeer::Connect(io::TcpStream* stream, Deadline deadline) const {
  if (address.has_value()) return stream->Connect(*address, deadline);
  return io::ConnectToHost(host, service, stream, io::ConnectOptions{.resolver = resolver}, deadline);
}

GrpcBackend::GrpcBackend(GrpcPeer peer, const Http2GrpcClientOptions& options, GrpcTally* tally)
    : peer_(std::move(peer)),
      name_(peer_.ToString()),
      authority_(options.authority.empty() ? AuthorityOf(peer_) : options.authority),
      options_(options),
      tally_(*tally),
      breaker_(options.breaker) {
  if (!options_.health_service.has_value()) return;
  static_cast<void>(tasks_.Start({.name = "grpc health"}, [this] { WatchHealth(); }));
}

GrpcBackend::~GrpcBackend() { tasks_.Cancel(); }

std::shared_ptr<GrpcConnection> GrpcBackend::LeastUsed() const {
  std::shared_ptr<GrpcConnection> best;
  std::size_t fewest = 0;
  for (const auto& connection : connections_) {
    const std::size_t calls = connection->calls.load(std::memory_order_relaxed);
    if (best != nullptr && calls >= fewest) continue;
    best = connection;
    fewest = calls;
  }
  return best;
}

GrpcBackend::Connections GrpcBackend::TakeClosed() {
  const auto closed =
      std::stable_partition(connections_.begin(), connections_.end(), [](const auto& c) { return c->http.IsOpen(); });
  Connections taken(std::make_move_iterator(closed), std::make_move_iterator(connections_.end()));
  connections_.erase(closed, connections_.end());
  return taken;
}

std::error_code GrpcBackend::AwaitConnection(Deadline deadline, std::shared_ptr<GrpcConnection>* to) {
  Connections closed;  // GB2: they go after the unlock.
  std::unique_lock lock(mutex_);
  const std::uint64_t ends_before = ends_;
  for (;;) {
    for (auto& connection : TakeClosed()) closed.push_back(std::move(connection));
    *to = LeastUsed();
    const bool has_room =
        *to != nullptr && (*to)->calls.load(std::memory_order_relaxed) < options_.calls_per_connection;
    const bool may_connect = !has_room && !is_connecting_ && ends_ == ends_before &&
                             connections_.size() < std::max<std::size_t>(options_.connections_per_server, 1);
    if (may_connect && !StartToConnect() && *to == nullptr) {
      return std::make_error_code(std::errc::resource_unavailable_try_again);
    }
    if (*to != nullptr) return {};
    if (ends_ != ends_before) return failure_;  // GB1
    try {
      if (changed_.wait(lock, deadline) == std::cv_status::timeout) return std::make_error_code(std::errc::timed_out);
    } catch (const FiberCancelled&) {
      return std::make_error_code(std::errc::operation_canceled);
    }
  }
}

bool GrpcBackend::StartToConnect() {
  is_connecting_ = tasks_.Start({.name = "grpc connect"}, [this] { Connect(); });
  return is_connecting_;
}

void GrpcBackend::Connect() {
  std::shared_ptr<GrpcConnection> made;
  std::error_code error;
  std::exception_ptr thrown;  // Its catch block is left before anything waits.
  try {
    error = MakeConnection(&made);
  } catch (...) {
    thrown = std::current_exception();
  }
  // A cancelled attempt is none of the call, which would take it for its own cancellation.
  if (thrown != nullptr || error == std::errc::operation_canceled) {
    error = std::make_error_code(std::errc::connection_aborted);
  }
  (error ? tally_.not_connected : tally_.connected).fetch_add(1, std::memory_order_relaxed);
  {
    const std::scoped_lock lock(mutex_);
    is_connecting_ = false;
    ++ends_;
    failure_ = error ? error : make_error_code(Http2Errc::kConnectionLost);
    if (!error) connections_.push_back(std::move(made));
    changed_.notify_all();  // GB1
  }
  if (thrown != nullptr) std::rethrow_exception(thrown);
}

std::error_code GrpcBackend::MakeConnection(std::shared_ptr<GrpcConnection>* made) {
  std::unique_ptr<GrpcLink> link;
  const Deadline deadline(options_.connect_timeout);
  const std::error_code error =
      options_.connect ? options_.connect(peer_, deadline, &link) : ConnectByTcp(peer_, deadline, &link);
  if (error) return error;
  if (link == nullptr) return std::make_error_code(std::errc::not_connected);
  *made = std::make_shared<GrpcConnection>(std::move(link), options_.http2);
  return (*made)->http.Start() ? std::error_code() : std::make_error_code(std::errc::resource_unavailable_try_again);
}

void GrpcBackend::WatchHealth() {
  for (;;) {
    std::shared_ptr<GrpcConnection> connection;
    if (!AwaitConnection(options_.connect_timeout, &connection)) {
      const GrpcWhere where{.scheme = connection->link->scheme(), .authority = authority_, .path = {}};
      const GrpcCode ended = WatchGrpcHealth(connection->http, where, *options_.health_service, &is_serving_);
      connection.reset();
      is_serving_.store(true, std::memory_order_relaxed);  // Until it is known: the breaker finds what has gone.
      if (ended == GrpcCode::kUnimplemented) return;
    }
    FiberSleepFor(kWatchPause);  // Throws when the backend goes.
  }
}

}  // namespace weft::interop
