// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/interop/http2/http2_server_connection.h"

#include <algorithm>
#include <any>
#include <charconv>
#include <chrono>
#include <exception>
#include <memory>
#include <utility>

#include "weft/base/fiber_clock.h"
#include "weft/base/report/check.h"
#include "weft/base/report/log.h"
#include "weft/fiber/fiber_scope.h"
#include "weft/interop/http2/http2_fields.h"
#include "weft/interop/http2_error.h"
#include "weft/interop/http2_server.h"
#include "weft/sync/fiber_cancelled.h"

namespace weft::interop {
namespace {

// The answer to it says that the client has seen our first GOAWAY.
constexpr std::uint64_t kDrainPing = 0x7765'6674'6472'6169;
// For a client that does not answer: as long as a request may be under way.
constexpr std::chrono::seconds kDrainPingFor{1};

void CountUp(std::atomic<std::uint64_t>* count) { count->fetch_add(1, std::memory_order_relaxed); }  // Statistics.

}  // namespace

Http2ServerConnection::Http2ServerConnection(Http2Server* server, const Http2Transport& transport,
                                             const Http2Options& options)
    : Http2Session(Side::kServer, transport, options),
      server_(server),
      max_handlers_(options.max_handlers != 0 ? options.max_handlers : 2 * options.max_concurrent_streams) {
  BecomeIdle();
}

std::error_code Http2ServerConnection::Serve(Stay stay) {
  FiberScope handlers({.policy = ScopePolicy::kCollect});  // H2V1
  scope_ = &handlers;
  const std::error_code why = Run(stay);
  CountEnd(why);  // Of none that has left: it has no reason.
  handlers.Wait();
  return why;
}

void Http2ServerConnection::CountEnd(std::error_code why) {
  Http2Server::Tally& tally = server_->tally_;
  if (why == Http2Errc::kProtocolError) CountUp(&tally.protocol_errors);
  if (why == Http2Errc::kFlooded) CountUp(&tally.flooded);
  if (time_up() == TimeUp::kIdle) CountUp(&tally.idle_timeouts);
  if (time_up() == TimeUp::kWrite) CountUp(&tally.write_timeouts);
  if (time_up() == TimeUp::kSettings) CountUp(&tally.settings_timeouts);
  if (time_up() == TimeUp::kPing) CountUp(&tally.ping_timeouts);
}

Http2ServerConnection::StreamPtr Http2ServerConnection::OnBegin() {
  if (drain_ == DrainStep::kLast) return {};  // H2V4
  if (handlers_ >= max_handlers_) {           // H2V2
    CountUp(&server_->tally_.refused);
    return {};
  }
  StreamPtr stream = base::MakeRefCounted<Http2Stream>();
  stream->bodies = &server_->bodies_;
  stream->begun_at = ReadAt();
  return stream;
}

void Http2ServerConnection::OnRefused() { CountUp(&server_->tally_.refused); }

void Http2ServerConnection::OnFields(Http2Stream& stream) {
  if (stream.too_large) {
    stream.drops_body = true;
    CountUp(&server_->tally_.too_large);
    CountInVain();
    return RefuseFields(stream);
  }
  if (stream.fields.Has(":authority") &&
      !HostFits(stream.fields.Find(":scheme"), stream.fields.Find(":authority"), stream.fields)) {
    OnReset(stream);
    return SubmitReset(stream, NGHTTP2_PROTOCOL_ERROR, Http2Errc::kProtocolError);
  }
  if (!EnterHandler()) {
    OnRefused();
    return SubmitReset(stream, NGHTTP2_REFUSED_STREAM, Http2Errc::kNotBegun);
  }
  to_start_.emplace_back(&stream);
}

// gRPC's clients take any status but 200 for an unknown error.
void Http2ServerConnection::RefuseFields(Http2Stream& stream) {
  const bool is_grpc = stream.is_grpc || IsGrpc(stream.fields.Find("content-type"));
  const Http2Headers resource_exhausted{{"content-type", "application/grpc"},
                                        {"grpc-status", "8"},
                                        {"grpc-message", "the metadata is larger than the server takes"}};
  static_cast<void>(is_grpc ? SubmitStatus(stream, 200, resource_exhausted, /*body=*/false)
                            : SubmitStatus(stream, 431, {}, /*body=*/false));
}

// relaxed, both: a count that publishes nothing.
bool Http2ServerConnection::EnterHandler() {
  const std::uint32_t others = server_->handlers_.fetch_add(1, std::memory_order_relaxed);
  if (options_.max_server_handlers != 0 && others >= options_.max_server_handlers) {
    server_->handlers_.fetch_sub(1, std::memory_order_relaxed);
    return false;
  }
  ++handlers_;
  return true;
}

void Http2ServerConnection::LeaveHandlers(std::uint32_t count) {
  if (count == 0) return;  // After most reads: no write to a line that all connections share.
  handlers_ -= count;
  server_->handlers_.fetch_sub(count, std::memory_order_relaxed);
}

void Http2ServerConnection::AfterReceive(Lock& lock) {
  // A request that was reset at once costs no fiber.
  const auto drop_closed = [this](const StreamPtr& stream) {
    if (stream->closed) DropUnread(*stream);
    return stream->closed;
  };
  LeaveHandlers(static_cast<std::uint32_t>(std::erase_if(to_start_, drop_closed)));
  if (to_start_.empty()) return;
  lock.unlock();  // A start may switch.
  std::uint32_t unstarted = 0;
  for (StreamPtr& stream : to_start_) {
    if (fiber::detail::ScopeAccess::SpawnNamed(*scope_, "http2 request", [this, stream] { RunHandler(stream); })) {
      stream = nullptr;
    } else {
      ++unstarted;
    }
  }
  lock.lock();
  if (unstarted != 0) {
    for (const StreamPtr& stream : to_start_) {
      if (stream.Get() == nullptr) continue;
      CountUp(&server_->tally_.refused);
      if (!stream->closed) SubmitReset(*stream, NGHTTP2_REFUSED_STREAM, Http2Errc::kNotBegun);
      DropUnread(*stream);
    }
    LeaveHandlers(unstarted);
    if (handlers_ == 0) BecomeIdle();
  }
  to_start_.clear();
}

void Http2ServerConnection::RunHandler(const StreamPtr& stream) {
  CountUp(&server_->tally_.requests);
  Http2Request request(this, stream.Get());
  Http2Response response(this, stream.Get());
  EndHandler(*stream, CallHandler(*stream, request, response));
}

Http2ServerConnection::Handled Http2ServerConnection::CallHandler(Http2Stream& stream, Http2Request& request,
                                                                  Http2Response& response) {
  try {
    const bool returned = stream.scope.Run([&] { server_->handler_(request, response); });
    return returned ? Handled::kReturned : Handled::kCancelled;
  } catch (const FiberCancelled&) {  // The server's: the fiber ends here.
    return Handled::kCancelled;
  } catch (const std::exception& error) {
    WEFT_LOG_EVERY_SECOND(ERROR, "Http2Server: a handler has thrown: ", error.what());
  } catch (...) {
    WEFT_LOG_EVERY_SECOND(ERROR, "Http2Server: a handler has thrown something that is no std::exception");
  }
  return Handled::kThrew;
}

void Http2ServerConnection::EndHandler(Http2Stream& stream, Handled how) {
  Lock lock(mutex_);
  stream.drops_body = true;
  if (!stream.closed) EndAnswer(stream, how);
  DropUnread(stream);  // H2S4
  StopUpload(stream);
  LeaveHandlers(1);
  if (handlers_ == 0) BecomeIdle();
  Flush(lock);
}

void Http2ServerConnection::EndAnswer(Http2Stream& stream, Handled how) {
  if (how == Handled::kCancelled) return SubmitReset(stream, NGHTTP2_CANCEL, Http2Errc::kStreamReset);
  if (!stream.has_sent_fields) {
    static_cast<void>(SubmitStatus(stream, 500, {}, /*body=*/false));
  } else if (!stream.end_wanted) {
    if (how == Handled::kThrew || stream.io_failed) {
      return SubmitReset(stream, NGHTTP2_INTERNAL_ERROR, Http2Errc::kStreamReset);
    }
    static_cast<void>(PutEnd(stream, {}));
  }
}

// RFC 9113, 8.1. A reset that goes out before the answer's end would take the answer with it.
void Http2ServerConnection::StopUpload(Http2Stream& stream) {
  if (!stream.drops_body || !stream.end_sent || stream.end_received || stream.gone || ended_) return;
  static_cast<void>(nghttp2_submit_rst_stream(session_, NGHTTP2_FLAG_NONE, stream.id, NGHTTP2_NO_ERROR));
}

void Http2ServerConnection::OnReset(Http2Stream& stream) {
  if (stream.end_sent) return;
  CountUp(&server_->tally_.reset);
  if (FiberClock::now() - stream.begun_at < kShortLife) CountInVain();
}

void Http2ServerConnection::OnEndSent(Http2Stream& stream) {
  if (!stream.too_large) CountAnswered();
  StopUpload(stream);
}

void Http2ServerConnection::OnClosed(Http2Stream& stream) {
  if (stream.error) stream.scope.Cancel();  // H2V3
  if (stream.error == Http2Errc::kHeadersTooLarge) CountUp(&server_->tally_.too_large);
}

void Http2ServerConnection::BecomeIdle() {
  if (options_.idle_timeout.count() > 0) idle_until_ = options_.idle_timeout;
}

void Http2ServerConnection::OnProgress() {
  if (handlers_ == 0) BecomeIdle();  // H2V5
}

Deadline Http2ServerConnection::NextTick() const {
  const bool may_become_idle = handlers_ != 0 && options_.idle_timeout.count() > 0;
  const Deadline look = may_become_idle ? Deadline(options_.idle_timeout) : idle_until_;
  return drain_ == DrainStep::kNoticed ? std::min(look, drain_until_) : look;
}

void Http2ServerConnection::OnTick() {
  if (drain_ == DrainStep::kNoticed && drain_until_.expired()) SayLastGoAway();
  if (handlers_ == 0 && idle_until_.expired()) Terminate(NGHTTP2_NO_ERROR, {}, TimeUp::kIdle);
}

void Http2ServerConnection::OnDrain() {
  drain_ = DrainStep::kNoticed;
  drain_until_ = kDrainPingFor;
  static_cast<void>(nghttp2_submit_shutdown_notice(session_));
}

// Not before the GOAWAY has been sent: nghttp2 would send the PING first, and its answer would say nothing.
void Http2ServerConnection::OnGoAwaySent() {
  if (drain_ == DrainStep::kNoticed) SubmitPing(kDrainPing);
}

void Http2ServerConnection::OnPingAnswer(std::uint64_t number) {
  if (number == kDrainPing && drain_ == DrainStep::kNoticed) SayLastGoAway();
}

void Http2ServerConnection::SayLastGoAway() {
  drain_ = DrainStep::kLast;  // H2V4
  LeaveStreamsOut();
  static_cast<void>(nghttp2_submit_goaway(
      session_, NGHTTP2_FLAG_NONE, nghttp2_session_get_last_proc_stream_id(session_), NGHTTP2_NO_ERROR, nullptr, 0));
}

std::error_code Http2ServerConnection::SubmitStatus(Http2Stream& stream, int status, const Http2Headers& headers,
                                                    bool body) {
  WEFT_CHECK(status >= 200 && status <= 599, "Http2Response: the status ", status, " is no final one");
  char digits[3];
  std::to_chars(digits, digits + sizeof(digits), status);
  const Http2Field first{":status", {digits, sizeof(digits)}};
  return SubmitFields(stream, {&first, 1}, headers,
                      body && status != 204 && status != 304 && stream.fields.Find(":method") != "HEAD");
}

std::error_code Http2ServerConnection::Start(Http2Stream& stream, int status, const Http2Headers& headers) {
  Lock lock(mutex_);
  if (stream.closed) return stream.error ? stream.error : make_error_code(Http2Errc::kWrongOrder);
  if (stream.has_sent_fields) return Http2Errc::kWrongOrder;
  if (std::error_code error = SubmitStatus(stream, status, headers, /*body=*/true)) return error;
  Flush(lock);
  return {};
}

void Http2ServerConnection::GiveUp(Http2Stream& stream) {
  Lock lock(mutex_);
  if (stream.closed) return;
  SubmitReset(stream, NGHTTP2_CANCEL, std::make_error_code(std::errc::operation_canceled));
  Flush(lock);
}

std::error_code Http2ServerConnection::Send(Http2Stream& stream, int status, const Http2Headers& headers,
                                            std::string_view body, const Http2Headers& trailers, Deadline deadline) {
  if (!MayBeSent(trailers)) return Http2Errc::kBadField;  // Before anything is sent.
  {
    Lock lock(mutex_);
    if (stream.closed) return stream.error ? stream.error : make_error_code(Http2Errc::kWrongOrder);
    if (stream.has_sent_fields) return Http2Errc::kWrongOrder;
    if (std::error_code error = SubmitStatus(stream, status, headers, !body.empty() || !trailers.empty())) {
      return error;
    }
    if (body.size() <= options_.send_buffer) {
      if (!stream.has_no_body) PutOut(stream, body);
      const std::error_code error = PutEnd(stream, trailers);
      Flush(lock);
      return error;
    }
  }
  if (const io::IoResult put = Write(stream, body.data(), body.size(), deadline); !put.ok()) return put.error;
  return End(stream, trailers);
}

// --- Http2Request, Http2Response, Http2Server: what users call ---

const Http2Headers& Http2Request::headers() const { return stream_->fields; }
const Http2Headers& Http2Request::trailers() const { return stream_->trailers; }
std::int32_t Http2Request::stream_id() const { return stream_->id; }
bool Http2Request::draining() const noexcept { return connection_->draining(); }

io::IoResult Http2Request::Read(void* data, std::size_t size, Deadline deadline) {
  return connection_->Read(*stream_, data, size, deadline);
}

std::error_code Http2Request::ReadAll(std::string* body, std::size_t max, Deadline deadline) {
  char piece[4096];
  for (;;) {
    const io::IoResult got = Read(piece, sizeof(piece), deadline);
    if (!got.ok() || got.bytes == 0) return got.error;
    if (got.bytes > max - std::min(max, body->size())) return std::make_error_code(std::errc::message_size);
    body->append(piece, got.bytes);
  }
}

std::error_code Http2Response::Start(int status, const Http2Headers& headers) {
  const std::error_code error = connection_->Start(*stream_, status, headers);
  started_ = started_ || !error;
  return error;
}

io::IoResult Http2Response::Write(const void* data, std::size_t size, Deadline deadline) {
  return connection_->Write(*stream_, data, size, deadline);
}

io::IoResult Http2Response::Write(const NoncontiguousBuffer& body, Deadline deadline) {
  return connection_->Write(*stream_, body, deadline);
}

std::error_code Http2Response::Finish(const Http2Headers& trailers) { return connection_->End(*stream_, trailers); }

std::error_code Http2Response::Send(int status, const Http2Headers& headers, std::string_view body, Deadline deadline) {
  return Send(status, headers, body, Http2Headers(), deadline);
}

std::error_code Http2Response::Send(int status, const Http2Headers& headers, std::string_view body,
                                    const Http2Headers& trailers, Deadline deadline) {
  const std::error_code error = connection_->Send(*stream_, status, headers, body, trailers, deadline);
  started_ = started_ || error != Http2Errc::kBadField;
  return error;
}

void Http2Response::Reset() { connection_->GiveUp(*stream_); }

Http2Server::Http2Server(Handler handler, const Http2Options& options)
    : handler_(std::move(handler)), options_(options), bodies_({.bytes = options.max_server_bodies}) {}

std::error_code Http2Server::Serve(const Http2Transport& transport) {
  tally_.connections.fetch_add(1, std::memory_order_relaxed);
  Http2ServerConnection connection(this, transport, options_);
  return connection.Serve(Http2ServerConnection::Stay::kUntilOver);
}

Http2Connection::Http2Connection(Http2Server* server, const Http2Transport& transport) : transport_(transport) {
  WEFT_CHECK(transport.CanWaitWithoutFiber(), "Http2Connection: the transport has no io::TcpConnection");
  server->tally_.connections.fetch_add(1, std::memory_order_relaxed);
  connection_ = std::make_unique<Http2ServerConnection>(server, transport, server->options_);
}

Http2Connection::~Http2Connection() = default;

io::AfterRequest Http2Connection::Serve() {
  transport_.KeepFiber();
  static_cast<void>(connection_->Serve(Http2ServerConnection::Stay::kMayLeave));
  return connection_->has_left() ? io::AfterRequest::kWaitForNext : io::AfterRequest::kClose;
}

void Http2Connection::SayGoodbye() {
  transport_.KeepFiber();
  connection_->EndWait();
  static_cast<void>(connection_->Serve(Http2ServerConnection::Stay::kUntilOver));
}

io::RequestHandler Http2Server::ForTcpServer() {
  using Kept = std::shared_ptr<Http2Connection>;
  const auto connection_of = [this](io::TcpConnection& connection) -> Http2Connection& {
    std::any& state = connection.state();
    if (!state.has_value()) state = std::make_shared<Http2Connection>(this, Http2Transport(connection));
    return *std::any_cast<Kept&>(state);
  };
  io::RequestHandler handler([=](io::TcpConnection& connection) { return connection_of(connection).Serve(); },
                             [=](io::TcpConnection& connection) { connection_of(connection).SayGoodbye(); });
  handler.SetFiberName("http2 connection");
  handler.SetLongestWaits(io::detail::ShorterLimit(options_.settings_timeout, options_.idle_timeout),
                          options_.idle_timeout);
  return handler;
}

Http2Server::Counts Http2Server::counts() const {
  const auto read = [](const std::atomic<std::uint64_t>& count) { return count.load(std::memory_order_relaxed); };
  const io::RequestBudget::Counts bodies = bodies_.counts();
  return {.connections = read(tally_.connections),
          .requests = read(tally_.requests),
          .handlers = handlers_.load(std::memory_order_relaxed),
          .refused = read(tally_.refused),
          .over_bodies = bodies.over_bytes,
          .body_bytes = bodies.bytes,
          .too_large = read(tally_.too_large),
          .reset = read(tally_.reset),
          .protocol_errors = read(tally_.protocol_errors),
          .flooded = read(tally_.flooded),
          .idle_timeouts = read(tally_.idle_timeouts),
          .write_timeouts = read(tally_.write_timeouts),
          .settings_timeouts = read(tally_.settings_timeouts),
          .ping_timeouts = read(tally_.ping_timeouts)};
}

}  // namespace weft::interop
