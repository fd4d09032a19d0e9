// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/http/connection/http1_connection.h"

#include <sys/ioctl.h>

#include <algorithm>
#include <boost/beast/core/flat_buffer.hpp>
#include <exception>
#include <memory>
#include <optional>
#include <system_error>

#include "weft/base/report/log.h"
#include "weft/http/connection/http1_output.h"
#include "weft/http/connection/http1_parser.h"
#include "weft/interop/http2_error.h"
#include "weft/io/cancel_on_hangup.h"
#include "weft/sync/cancel_scope.h"

namespace weft::http {
namespace {

using interop::Http2Errc;
using io::IoResult;
using Step = Http1Parser::Step;

// The least size of a read: about two of a browser's requests.
constexpr std::size_t kLeastRead = 1024;
// So much is read of a body, or of a pipeline.
constexpr std::size_t kLargeRead = 64 * 1024;
// How much of a client that is to read our last answer is read and thrown away, and for how long.
constexpr std::size_t kDiscardedBytes = 4 * 1024 * 1024;
constexpr std::chrono::seconds kDiscardFor{2};
constexpr std::string_view kPreface = "PRI * HTTP/2.0\r\n";

void CountOne(std::atomic<std::uint64_t>& count) { count.fetch_add(1, std::memory_order_relaxed); }

}  // namespace

// The buffers of a connection that is served.
struct Http1Server::Workspace {
  void Clear() {
    input.clear();
    writer.Clear();
  }
  std::size_t LargestBuffer() const { return std::max(input.capacity(), writer.capacity()); }

  boost::beast::flat_buffer input;
  Http1Request request;
  Http1Writer writer;
};

class Http1Server::Connection final : private Exchange {
 public:
  Connection(Http1Server* server, const Stream& stream, Workspace* workspace)
      : server_(server),
        limits_(server->limits_),
        stream_(stream),
        input_(workspace->input),
        writer_(workspace->writer),
        output_(stream.transport, stream.reads_ahead ? nullptr : &stream.connection->stream(), &writer_),
        request_(workspace->request) {}

  Served Run(std::string* preface) {
    for (;;) {
      switch (NextRequest(preface)) {
        case Next::kRequest:
          preface = nullptr;  // Only a connection's first bytes may be one.
          if (!Answer()) return Served::kOver;
          break;
        case Next::kNothing:
          return Served::kWaits;
        case Next::kOver:
          return Served::kOver;
        case Next::kHttp2:
          return Served::kHttp2;
      }
    }
  }

 private:
  enum class Next : std::uint8_t { kRequest, kNothing, kOver, kHttp2 };
  enum class Handled : std::uint8_t { kReturned, kThrew, kGone };

  // --- Exchange: the handler's calls ---
  const Line& line() const override { return line_; }
  const Fields& headers() const override { return request_.fields; }
  const Fields& trailers() const override { return request_.trailers; }
  bool draining() const noexcept override { return stream_.connection->draining(); }
  bool started() const noexcept override { return writer_.started(); }
  IoResult Read(void* data, std::size_t size, Deadline deadline) override;
  std::error_code Start(int status, const Fields& headers) override;
  IoResult Write(std::string_view bytes, Deadline deadline) override;
  IoResult Write(const NoncontiguousBuffer& body, Deadline deadline) override;
  std::error_code Flush(Deadline deadline) override;
  std::error_code Finish(const Fields& trailers) override;
  std::error_code Send(int status, const Fields& headers, std::string_view body, Deadline deadline) override;
  void Reset() override { writer_.Break(); }

  // --- The connection's own ---
  Next NextRequest(std::string* preface);
  Next ReadFirst();
  Next RestOfHeader();
  bool MoreOfHeader();
  void BeginRequest();
  bool IsPreface(bool* may_be) const;

  bool Answer();
  Handled CallHandler();
  void EndAnswer(Handled how);
  int StatusOfNoAnswer() const;
  bool DropRestOfBody();
  bool EndTurn();
  void Refuse(int status, std::string_view why);
  void Leave(bool unread = false);
  bool HasUnread() const;

  bool SaysLast() const;
  std::error_code FlushUnlessBatched(Deadline deadline);
  bool FlushNow() { return writer_.pending().empty() || !output_.Flush(Limit({})); }
  std::error_code ReadMore(Deadline deadline);
  void PutContinueIfAwaited();
  std::size_t ReadSize() const;
  Deadline Limit(Deadline deadline) const {
    if (!deadline.is_none() || limits_.stream_timeout.count() == 0) return deadline;
    return Deadline(limits_.stream_timeout);
  }

  Deadline HeaderLimit() const {
    return limits_.header_timeout.count() == 0 ? Deadline() : Deadline(limits_.header_timeout);
  }

  Http1Server* const server_;
  const Http1Limits& limits_;
  const Stream& stream_;

  boost::beast::flat_buffer& input_;
  bool last_was_full_ = false;  // so that there may be more
  Http1Writer& writer_;
  Http1Output output_;

  // Of the request that is read or answered.
  Http1Request& request_;
  std::optional<Http1Parser> parser_;
  Deadline header_until_;
  Line line_;
  // Of its answer.
  bool continued_ = false;
  bool read_failed_ = false;
  bool read_timed_out_ = false;
};

// --- Reading ---

std::size_t Http1Server::Connection::ReadSize() const {
  std::size_t wanted = kLeastRead;
  if (last_was_full_) wanted = std::clamp(2 * input_.capacity(), kLeastRead, kLargeRead);
  if (parser_ && parser_->has_begun() && parser_->has_header()) {
    wanted = static_cast<std::size_t>(std::clamp<std::uint64_t>(parser_->body_left(), kLeastRead, kLargeRead));
  }
  return std::max(wanted, input_.capacity() - input_.size());  // All available room.
}

// connection_lost: the client has finished.
std::error_code Http1Server::Connection::ReadMore(Deadline deadline) {
  const auto space = input_.prepare(ReadSize());
  const IoResult got = stream_.transport.Read(space.data(), space.size(), deadline, /*request=*/false);
  input_.commit(got.bytes);
  last_was_full_ = got.bytes == space.size();
  if (got.bytes != 0) return {};
  return got.error ? got.error : make_error_code(Http2Errc::kConnectionLost);
}

// kRequest: some bytes have come.
Http1Server::Connection::Next Http1Server::Connection::ReadFirst() {
  const auto space = input_.prepare(ReadSize());
  // In plain text it does not wait.
  const Deadline until = stream_.reads_ahead ? HeaderLimit() : Deadline();
  const IoResult got = stream_.transport.Read(space.data(), space.size(), until, /*request=*/true);
  input_.commit(got.bytes);
  last_was_full_ = got.bytes == space.size();
  if (got.bytes != 0) return Next::kRequest;
  // TLS: its own end answers the client's.
  if (!got.error && stream_.reads_ahead) stream_.transport.ShutdownWrite(kDiscardFor);
  return got.error == std::errc::resource_unavailable_try_again ? Next::kNothing : Next::kOver;
}

void Http1Server::Connection::BeginRequest() {
  request_.version = 11;
  request_.method.clear();
  request_.target.clear();
  request_.authority.clear();
  request_.fields.clear();
  request_.trailers.clear();
  parser_.emplace(limits_.max_header, &request_);
  header_until_ = Deadline();  // Of one that is there as a whole nobody needs it.
}

// *may_be: it may become one.
bool Http1Server::Connection::IsPreface(bool* may_be) const {
  const std::string_view text(static_cast<const char*>(input_.data().data()), input_.size());
  *may_be = kPreface.starts_with(text);
  return text.starts_with(kPreface);
}

// Reads a header to its end.
Http1Server::Connection::Next Http1Server::Connection::NextRequest(std::string* preface) {
  if (input_.size() == 0) {
    if (!FlushNow()) return Next::kOver;
    // The first call reads; later ones find that nothing has come when they are called again.
    if (parser_.has_value() && !stream_.reads_ahead) return Next::kNothing;
    if (const Next next = ReadFirst(); next != Next::kRequest) return next;
  }
  BeginRequest();
  for (bool may_be = preface != nullptr; may_be;) {
    if (IsPreface(&may_be)) {  // Nothing is pending: no request came before it.
      preface->assign(static_cast<const char*>(input_.data().data()), input_.size());
      return Next::kHttp2;
    }
    if (may_be && !MoreOfHeader()) return Next::kOver;
  }
  return RestOfHeader();
}

Http1Server::Connection::Next Http1Server::Connection::RestOfHeader() {
  for (;;) {
    switch (parser_->ParseHeader(&input_)) {
      case Step::kDone:
        return Next::kRequest;
      case Step::kRefused:
        Refuse(parser_->status(), parser_->why());
        return Next::kOver;
      case Step::kNeedsMore:
        if (!parser_->has_begun() && input_.size() == 0) {  // An empty line was all.
          if (!FlushNow()) return Next::kOver;
          const Next next = stream_.reads_ahead ? ReadFirst() : Next::kNothing;
          if (next != Next::kRequest) return next;
        } else if (!MoreOfHeader()) {
          return Next::kOver;
        }
        break;
    }
  }
}

// False: the connection ends.
bool Http1Server::Connection::MoreOfHeader() {
  if (!FlushNow()) return false;
  if (header_until_.is_none()) header_until_ = HeaderLimit();
  const std::error_code error = ReadMore(header_until_);
  if (error == std::errc::timed_out) {
    CountOne(server_->tally_.header_timeouts);
    Refuse(408, "the request took too long");
  } else if (error == Http2Errc::kConnectionLost) {
    Refuse(400, "the request ends before its end");
  }
  return !error;
}

void Http1Server::Connection::PutContinueIfAwaited() {
  if (!parser_->expects_continue() || continued_) return;
  continued_ = true;
  writer_.PutContinue();
}

IoResult Http1Server::Connection::Read(void* data, std::size_t size, Deadline deadline) {
  if (size == 0 || parser_->has_ended()) return {};
  if (!writer_.started()) PutContinueIfAwaited();
  if (parser_->expects_continue() && !continued_) return {0, Http2Errc::kWrongOrder};
  const Deadline until = Limit(deadline);
  for (;;) {
    std::size_t bytes = 0;
    switch (parser_->ParseBody(&input_, {static_cast<char*>(data), size}, &bytes)) {
      case Step::kDone:
        return {bytes, {}};
      case Step::kRefused:
        read_failed_ = true;
        return {0, Http2Errc::kProtocolError};
      case Step::kNeedsMore:
        std::error_code error;
        if (!writer_.broken()) error = Flush(until);  // The client may wait for it.
        if (!error) error = ReadMore(until);
        if (error) {
          read_failed_ = true;
          read_timed_out_ = error == std::errc::timed_out;
          return {0, error};
        }
        break;
    }
  }
}

// --- Writing ---

// The answer that begins is the connection's last.
bool Http1Server::Connection::SaysLast() const {
  // A client that was not asked for its body may send it or not.
  const bool not_asked = parser_->expects_continue() && !continued_;
  return !parser_->keep_alive() || draining() || read_failed_ || not_asked;
}

std::error_code Http1Server::Connection::Start(int status, const Fields& headers) {
  if (status < 300 && !writer_.started()) PutContinueIfAwaited();  // It goes on to read, or would send all at once.
  return writer_.Start(status, headers, std::nullopt, SaysLast());
}

IoResult Http1Server::Connection::Write(std::string_view bytes, Deadline deadline) {
  const Deadline until = Limit(deadline);
  IoResult result = output_.PutPiece(bytes, until);
  if (result.ok()) result.error = Flush(until);
  return result;
}

IoResult Http1Server::Connection::Write(const NoncontiguousBuffer& body, Deadline deadline) {
  const Deadline until = Limit(deadline);
  if (body.Empty()) return Write(std::string_view(), until);
  IoResult result;
  for (const std::string_view block : body) {
    const IoResult put = output_.PutPiece(block, until);
    result.bytes += put.bytes;
    result.error = put.error;
    if (!put.ok()) return result;
  }
  result.error = Flush(until);
  return result;
}

std::error_code Http1Server::Connection::Flush(Deadline deadline) {
  if (writer_.broken()) return std::make_error_code(std::errc::broken_pipe);  // HC1
  return output_.Flush(Limit(deadline));
}

std::error_code Http1Server::Connection::Finish(const Fields& trailers) {
  if (output_.failed()) return std::make_error_code(std::errc::broken_pipe);
  if (const std::error_code error = writer_.End(trailers)) return error;
  return FlushUnlessBatched(Limit({}));
}

std::error_code Http1Server::Connection::Send(int status, const Fields& headers, std::string_view body,
                                              Deadline deadline) {
  if (const std::error_code error = writer_.Start(status, headers, body.size(), SaysLast())) return error;
  const Deadline until = Limit(deadline);
  std::error_code error = output_.PutPiece(body, until).error;
  if (!error) error = writer_.End({});
  return error ? error : FlushUnlessBatched(until);
}

std::error_code Http1Server::Connection::FlushUnlessBatched(Deadline deadline) {
  const bool waits =
      limits_.batches_answers && input_.size() != 0 && writer_.pending().size() < Http1Output::kLargeWrite;
  return waits ? std::error_code() : Flush(deadline);
}

// --- A request's answer ---

// False: the connection ends.
bool Http1Server::Connection::Answer() {
  line_ = {.method = request_.method,
           .target = request_.target,
           .authority = request_.authority,
           .scheme = stream_.scheme,
           .version = request_.version};
  writer_.Begin(request_.method == "HEAD", request_.version);
  continued_ = read_failed_ = read_timed_out_ = false;
  output_.BeginAnswer();
  CountOne(server_->tally_.requests);
  const Handled how = CallHandler();
  EndAnswer(how);
  if (writer_.broken()) {
    CountOne(server_->tally_.broken_off);
    writer_.Drop();
    static_cast<void>(FlushNow());  // The answers before it.
    // Its regular end would say that the body is the whole.
    if (writer_.ends_with_connection()) stream_.connection->stream().Reset();
    return false;
  }
  if (how == Handled::kGone) {
    static_cast<void>(FlushNow());
    return false;
  }
  if (writer_.is_last() || read_failed_ || !DropRestOfBody()) {  // HC2
    if (FlushNow()) Leave();
    return false;
  }
  return stream_.connection->CountRequest() ? EndTurn() : true;
}

Http1Server::Connection::Handled Http1Server::Connection::CallHandler() {
  Request request(this);
  Response response(this);
  CancelScope scope;
  const auto hangup = parser_->keep_alive() ? io::Hangup::kEnd : io::Hangup::kReset;
  const io::CancelOnHangup watch(stream_.connection->stream(), &scope, hangup);
  try {
    return scope.Run([&] { (*server_->handler_)(request, response); }) ? Handled::kReturned : Handled::kGone;
  } catch (const FiberCancelled&) {  // The TcpServer's: the connection ends.
    return Handled::kGone;
  } catch (const std::exception& failure) {
    WEFT_LOG_EVERY_SECOND(ERROR, "http::Server: a handler has thrown: ", failure.what());
  } catch (...) {
    WEFT_LOG_EVERY_SECOND(ERROR, "http::Server: a handler has thrown something that is no std::exception");
  }
  return Handled::kThrew;
}

// What is wrong with a body that the handler has tried to read, or with the handler.
int Http1Server::Connection::StatusOfNoAnswer() const {
  if (parser_->status() != 0) return parser_->status();
  if (read_timed_out_) return 408;
  return read_failed_ ? 400 : 500;
}

// Afterwards it has ended, or is broken.
void Http1Server::Connection::EndAnswer(Handled how) {
  if (how == Handled::kReturned && !writer_.started()) {
    if (Send(StatusOfNoAnswer(), {}, {}, {})) writer_.Break();
  } else if (how == Handled::kThrew && !writer_.started()) {
    if (Send(500, {}, {}, {})) writer_.Break();
  } else if (how == Handled::kReturned && !writer_.ended() && !read_failed_ && !output_.failed()) {
    if (Finish({})) writer_.Break();
  }
  if (output_.failed() || !writer_.ended()) writer_.Break();
}

// False: it does not end soon.
bool Http1Server::Connection::DropRestOfBody() {
  const Deadline until = kDiscardFor;
  char dropped[4096];
  for (std::size_t all = 0; !parser_->has_ended();) {
    std::size_t bytes = 0;
    const std::size_t had = input_.size();
    const Step step = parser_->ParseBody(&input_, dropped, &bytes);
    all += had - input_.size();  // With the headers of chunks.
    if (step == Step::kRefused || all > kMostDropped) return false;
    // Reads that find bytes do not end at the deadline.
    if (step == Step::kNeedsMore && (Flush(until) || ReadMore(until) || until.expired())) return false;
  }
  return true;
}

// Lets others run. False: the connection ends.
bool Http1Server::Connection::EndTurn() {
  if (!FlushNow()) return false;
  stream_.connection->GiveWay();
  return true;
}

void Http1Server::Connection::Refuse(int status, std::string_view why) {
  CountOne(server_->tally_.refused);
  if (status == 414 || status == 431) CountOne(server_->tally_.too_large);
  std::string body(why);
  body += '\n';
  writer_.Begin(request_.method == "HEAD", request_.version);
  const bool put = !writer_.Start(status, {{"content-type", "text/plain"}}, body.size(), /*is_last=*/true) &&
                   !writer_.Put(body) && !writer_.End({});
  if (put && FlushNow()) Leave(/*unread=*/true);
}

// Requests that have come after the last one that is answered: closing would reset the connection.
bool Http1Server::Connection::HasUnread() const {
  int unread = 0;
  return input_.size() != 0 || !parser_->has_ended() ||
         (::ioctl(stream_.connection->stream().fd(), FIONREAD, &unread) == 0 && unread != 0);
}

// After the last answer: reads until the client has finished, so that it reads that.
void Http1Server::Connection::Leave(bool unread) {
  const Deadline until = kDiscardFor;
  if (!unread && !HasUnread()) {
    if (stream_.reads_ahead) stream_.transport.ShutdownWrite(until);
    return;
  }
  stream_.transport.ShutdownWrite(until);
  input_.clear();
  const auto space = input_.prepare(kLeastRead);
  for (std::size_t discarded = 0; discarded < kDiscardedBytes;) {
    const IoResult got = stream_.transport.Read(space.data(), space.size(), until, /*request=*/false);
    if (got.bytes == 0) return;
    discarded += got.bytes;
  }
}

Http1Server::Http1Server(const Handler* handler, const Http1Limits& limits) : handler_(handler), limits_(limits) {}

Http1Server::~Http1Server() = default;

Http1Server::Served Http1Server::Serve(const Stream& stream, std::string* preface) {
  std::unique_ptr<Workspace> workspace = workspaces_.Take();
  if (workspace == nullptr) workspace = std::make_unique<Workspace>();
  const Served served = Connection(this, stream, workspace.get()).Run(preface);
  workspace->Clear();
  // Memory that a large message has taken is not kept.
  if (workspace->LargestBuffer() <= kLargeRead) workspaces_.Put(std::move(workspace));
  return served;
}

}  // namespace weft::http
