// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "http_server/http_connection.h"

#include <string.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <boost/asio/buffer.hpp>
#include <boost/asio/error.hpp>
#include <boost/beast/core/flat_buffer.hpp>
#include <boost/beast/core/string.hpp>
#include <boost/beast/http/basic_parser.hpp>
#include <boost/beast/http/error.hpp>
#include <boost/optional/optional.hpp>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "weft/base/deadline.h"
#include "weft/io/asio_stream.h"
#include "weft/io/cancel_on_hangup.h"
#include "weft/net/budgets.h"
#include "weft/sync/cancel_scope.h"

#include "http_server/message.h"
#include "http_server/request_target.h"
#include "http_server/response_writer.h"

namespace examples {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;

using boost::system::error_code;
using weft::Deadline;
using weft::io::AfterRequest;
using weft::io::RequestBudget;

// The least size of a read: about two of a browser's requests.
constexpr std::size_t kLeastRead = 1024;
// So much is read of a pipeline, or more, if the buffer has room for it. What a turn leaves of it may be answered by
// another CPU, with cold caches.
constexpr std::size_t kPipelineRead = 16 * 1024;
// The size of a read for a body; also the answers after which a write is due anyway.
constexpr std::size_t kLargeRead = 64 * 1024;
// How much of a refused request is read and thrown away, and for how long.
constexpr std::size_t kDiscardedBytes = 4 * 1024 * 1024;
constexpr std::chrono::seconds kDiscardFor{2};

// One request. Keeps what Request has; string_views of the parser are gone when put() returns.
class RequestParser final : public http::basic_parser<true> {
 public:
  // `share` has nothing yet.
  RequestParser(const HttpLimits& limits, RequestBudget::Share* share, Request* request)
      : request_(request), share_(share) {
    eager(true);
    header_limit(limits.header_bytes);
    body_limit(limits.body_bytes);
    request_->target.clear();
    request_->time_left.reset();
  }

  // The status that answers a failed put(). `has_line`: of what has come a whole line is left.
  int StatusOf(const error_code& error, bool has_line) const {
    if (refusal_ != 0) return refusal_;
    if (error == http::error::header_limit) return has_target_ || has_line ? 431 : 414;
    if (error == http::error::body_limit) return 413;
    return 400;
  }
  bool is_http10() const { return version_ == 10; }
  // The peer waits for our "100 Continue" before it sends the body.
  bool ExpectsContinue() const { return expects_continue_ && !is_done() && !has_body_; }
  void ContinueWasSent() { expects_continue_ = false; }

 private:
  void Refuse(int status, http::error why, error_code& error) {
    refusal_ = status;
    error = why;
  }

  void on_request_impl(http::verb method, beast::string_view, beast::string_view target, int version,
                       error_code& error) override {
    version_ = version;
    has_target_ = true;
    request_->method = MethodOf(method);
    if (!SetTarget({target.data(), target.size()}, &request_->target)) Refuse(400, http::error::bad_target, error);
  }

  static Request::Method MethodOf(http::verb method) {
    switch (method) {
      case http::verb::get:
        return Request::Method::kGet;
      case http::verb::head:
        return Request::Method::kHead;
      case http::verb::post:
        return Request::Method::kPost;
      case http::verb::unknown:
        return Request::Method::kUnknown;
      default:
        return Request::Method::kOther;
    }
  }

  // Whether a field goes on in a second line. Its name, `spelt`, lies in the buffer, and the parser has looked at the
  // byte behind the line's end.
  static bool IsFolded(beast::string_view spelt) {
    const auto* const end = static_cast<const char*>(::rawmemchr(spelt.data() + spelt.size(), '\n'));
    return end[1] == ' ' || end[1] == '\t';
  }

  void on_field_impl(http::field name, beast::string_view spelt, beast::string_view value, error_code& error) override {
    if (is_header_done()) return;  // A trailer.
    switch (name) {
      case http::field::host:
        ++hosts_;
        if (IsFolded(spelt) || !IsHost({value.data(), value.size()})) Refuse(400, http::error::bad_value, error);
        break;
      case http::field::transfer_encoding:
        // HTTP/1.0 has none; a coding that we do not know has no end that we know.
        if (is_http10()) return Refuse(400, http::error::bad_transfer_encoding, error);
        if (!beast::iequals(value, "chunked")) return Refuse(501, http::error::bad_transfer_encoding, error);
        break;
      case http::field::expect:
        if (is_http10()) break;
        if (!beast::iequals(value, "100-continue")) return Refuse(417, http::error::bad_value, error);
        expects_continue_ = true;
        break;
      case http::field::unknown:
        if (beast::iequals(spelt, "Request-Timeout-Ms") && !SetTimeLeft(value)) {
          return Refuse(400, http::error::bad_value, error);
        }
        break;
      default:
        break;
    }
  }

  bool SetTimeLeft(beast::string_view value) {
    std::uint32_t ms = 0;
    const char* const end = value.data() + value.size();
    const std::from_chars_result parsed = std::from_chars(value.data(), end, ms);
    if (parsed.ec != std::errc() || parsed.ptr != end) return false;
    request_->time_left = std::chrono::milliseconds(ms);
    return true;
  }

  void on_header_impl(error_code& error) override {
    if (hosts_ > 1 || (hosts_ == 0 && !is_http10())) Refuse(400, http::error::bad_field, error);
  }

  void on_body_init_impl(const boost::optional<std::uint64_t>&, error_code&) override {}
  std::size_t on_body_impl(beast::string_view part, error_code& error) override {
    has_body_ = true;
    if (!share_->Take(part.size())) {
      Refuse(503, http::error::buffer_overflow, error);
      return 0;
    }
    request_->body.AppendCopy(part.data(), part.size());
    return part.size();
  }
  void on_chunk_header_impl(std::uint64_t, beast::string_view, error_code&) override { has_body_ = true; }
  std::size_t on_chunk_body_impl(std::uint64_t, beast::string_view part, error_code& error) override {
    return on_body_impl(part, error);
  }
  void on_finish_impl(error_code&) override {}
  void on_response_impl(int, beast::string_view, int, error_code&) override {}

  Request* const request_;
  RequestBudget::Share* const share_;
  int version_ = 11;
  int refusal_ = 0;
  std::uint32_t hosts_ = 0;
  bool has_target_ = false;
  bool has_body_ = false;
  bool expects_continue_ = false;
};

}  // namespace

// The buffers of a connection that is served.
struct HttpService::Workspace {
  // Of the bodies only a block each is kept.
  void Clear() {
    input.clear();
    output.Clear();
    request.body.Skip(request.body.ByteSize());
    response.body.Skip(response.body.ByteSize());
  }
  std::size_t LargestBuffer() const {
    return std::max({input.capacity(), output.capacity(), request.target.capacity()});
  }

  beast::flat_buffer input;
  Request request;
  Response response;
  ResponseWriter output;
};

// From the first bytes of a request until all is answered that has come.
class HttpService::Conversation {
 public:
  Conversation(weft::io::TcpConnection* connection, Site* site, const HttpLimits& limits, RequestBudget* budget,
               Workspace* workspace)
      : connection_(connection),
        tcp_(&connection->stream()),
        stream_(tcp_),
        site_(site),
        limits_(limits),
        share_(budget),
        input_(workspace->input),
        request_(workspace->request),
        response_(workspace->response),
        output_(workspace->output) {}
  ~Conversation() { site_->CountRequests(answered_); }

  AfterRequest Run() {
    if (!ReadRequest()) return AfterRequest::kClose;
    for (;;) {
      switch (Parse()) {
        case Parsed::kRequest:
          if (!Answer()) return AfterRequest::kClose;
          break;
        case Parsed::kNeedsMore:
          if (!Flush()) return AfterRequest::kClose;
          if (!parser_->got_some() && input_.size() == 0) return AfterRequest::kWaitForNext;
          if (!Fill()) return AfterRequest::kClose;
          break;
        case Parsed::kRefused:
          return AfterRequest::kClose;
      }
    }
  }

 private:
  enum class Parsed { kRequest, kNeedsMore, kRefused };

  Parsed Parse() {
    if (!parser_) BeginRequest();
    while (!parser_->is_done()) {
      if (!parser_->got_some()) SkipEmptyLine();
      if (input_.size() == 0) return Parsed::kNeedsMore;
      error_code error;
      const std::size_t taken = parser_->put(input_.data(), error);
      input_.consume(taken);
      if (error == http::error::bad_version && TakeForHttp11()) {
        parser_.emplace(limits_, &share_, &request_);
        continue;
      }
      if (error == http::error::need_more) {
        if (!IsOverLimit(taken)) return Parsed::kNeedsMore;
        error = http::error::header_limit;
      }
      if (error == http::error::bad_version && IsForeign(Version())) return Refuse(505, "this is HTTP/1.1");
      if (error == http::error::buffer_overflow) return Refuse(503, "the memory for bodies is in use");
      if (error) return Refuse(parser_->StatusOf(error, HasLine()), error.message());
    }
    return Parsed::kRequest;
  }

  // The parser wants more, and has taken `taken` bytes. Its own limit of headers is for what it gets at once.
  bool IsOverLimit(std::size_t taken) {
    if (parser_->is_header_done()) return input_.size() >= kMostBuffered;  // A chunk's header or trailer.
    header_taken_ += taken;
    return header_taken_ + input_.size() >= limits_.header_bytes;
  }

  // The first line of what is in the buffer, with its end, within the limit. Empty: it is not whole.
  std::string_view Line() const {
    const std::string_view left(static_cast<const char*>(input_.data().data()), input_.size());
    return left.substr(0, left.substr(0, limits_.header_bytes).find('\n') + 1);
  }
  bool HasLine() const { return !Line().empty(); }

  // The digits "1.1" of the request line, which is in the buffer. nullptr: it does not end with a version.
  char* Version() {
    constexpr std::string_view kName = " HTTP/";
    constexpr std::size_t kSize = kName.size() + 3 + 2;  // with the end of the line
    const std::string_view line = Line();
    if (line.size() < kSize) return nullptr;
    const std::string_view end = line.substr(line.size() - kSize);
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    const std::string_view version = end.substr(kName.size());
    if (!end.starts_with(kName) || !is_digit(version[0]) || version[1] != '.' || !is_digit(version[2])) return nullptr;
    return static_cast<char*>(input_.data().data()) + (line.size() - kSize + kName.size());
  }

  static bool IsForeign(const char* version) { return version != nullptr && version[0] != '1'; }

  // A later minor version is answered as the latest that we know (RFC 9110, 2.5), which the parser does not do.
  bool TakeForHttp11() {
    char* const version = Version();
    if (version == nullptr || IsForeign(version) || version[2] <= '1') return false;
    version[2] = '1';
    return true;
  }

  void BeginRequest() {
    LeaveBudget();
    parser_.emplace(limits_, &share_, &request_);
    header_taken_ = 0;
    may_skip_line_ = true;
    request_until_ = Deadline::After(limits_.request_timeout, now_);
  }

  // The body goes, which the answer may have shared.
  void LeaveBudget() {
    request_.body.Skip(request_.body.ByteSize());
    response_.body.Skip(response_.body.ByteSize());
    share_.Clear();
  }

  // Skips one before a request, as RFC 9112, 2.2 asks.
  void SkipEmptyLine() {
    if (!may_skip_line_ || input_.size() < 2) return;
    may_skip_line_ = false;
    if (std::string_view(static_cast<const char*>(input_.data().data()), 2) == "\r\n") input_.consume(2);
  }

  // False: the connection ends.
  bool Answer() {
    ++answered_;
    if (Site::MayWait(request_)) {
      if (!Flush()) return false;
      if (Site::IsInBudget(request_) && !share_.Begin()) {
        response_.allow = {};
        Site::Refuse(503, "as many requests as there may be are in work", &response_);
      } else if (!AnswerInScope()) {
        return false;
      }
      now_ = std::chrono::steady_clock::now();
    } else {
      site_->Answer(request_, &response_);
    }
    const bool ends = !parser_->keep_alive() || connection_->draining();
    const ConnectionHeader header = ends                   ? ConnectionHeader::kClose
                                    : parser_->is_http10() ? ConnectionHeader::kKeepAlive
                                                           : ConnectionHeader::kNone;
    output_.Append(response_, request_.method == Request::Method::kHead, header);
    parser_.reset();
    if (ends) LeaveBudget();
    if (!ends) return connection_->CountRequest() ? EndTurn() : output_.pending() < kLargeRead || Flush();
    if (Flush() && (input_.size() != 0 || HasUnread())) Discard();
    return false;
  }

  // Lets others run. False: the connection ends.
  bool EndTurn() {
    if (!Flush()) return false;
    site_->CountRequests(std::exchange(answered_, 0));
    connection_->GiveWay();
    now_ = std::chrono::steady_clock::now();
    return true;
  }

  // False: the client has gone.
  bool AnswerInScope() {
    weft::CancelScope scope(request_.time_left ? Deadline::After(*request_.time_left, now_) : Deadline());
    const auto hangup = parser_->keep_alive() ? weft::io::Hangup::kEnd : weft::io::Hangup::kReset;
    const weft::io::CancelOnHangup watch(*tcp_, &scope, hangup);
    if (scope.Run([this] { site_->Answer(request_, &response_); })) return true;
    site_->CountGivenUp();
    if (watch.hung_up()) return false;
    Site::Refuse(504, "the time for this request is over", &response_);
    return true;
  }

  Parsed Refuse(int status, std::string_view why) {
    site_->CountRefused(status);
    Site::Refuse(status, why, &response_);
    response_.allow = {};
    output_.Append(response_, parser_->got_some() && request_.method == Request::Method::kHead,
                   ConnectionHeader::kClose);
    LeaveBudget();
    if (Flush()) Discard();
    return Parsed::kRefused;
  }

  // Requests that have come after the last one that is answered: closing would reset the connection.
  bool HasUnread() const {
    int unread = 0;
    return ::ioctl(tcp_->fd(), FIONREAD, &unread) == 0 && unread != 0;
  }

  // Reads until the peer has finished, so that it reads our last answer.
  void Discard() {
    if (tcp_->ShutdownWrite()) return;
    const Deadline until = kDiscardFor;
    input_.clear();
    const asio::mutable_buffer space = input_.prepare(kLeastRead);
    for (std::size_t discarded = 0; discarded < kDiscardedBytes;) {
      const weft::io::IoResult read = tcp_->ReadSome(space.data(), space.size(), until);
      if (!read.ok() || read.bytes == 0) return;
      discarded += read.bytes;
    }
  }

  // Writes all ready answers. False: the connection ends.
  bool Flush() {
    if (output_.pending() == 0) return true;
    const weft::io::IoResult put = output_.WriteTo(tcp_, Deadline::After(limits_.request_timeout, now_));
    if (put.error == std::errc::timed_out) site_->CountTimedOutWrite();
    return put.ok();
  }

  // Reads the rest of a request, at least a byte. False: the connection ends.
  bool Fill() {
    if (parser_->got_some() && parser_->is_header_done() && parser_->ExpectsContinue()) {
      parser_->ContinueWasSent();
      output_.AppendContinue();
      if (!Flush()) return false;
    }
    const error_code error = ReadUntil(request_until_);
    if (error == asio::error::timed_out) Refuse(408, "the request took too long");
    if (error == asio::error::eof) Refuse(400, "the request ends before its end");
    return !error;
  }

  // False: the connection ends; in a drain, if no byte has come.
  bool ReadRequest() {
    const auto space = input_.prepare(ReadSize());
    const weft::io::IoResult got = connection_->ReadRequest(space.data(), space.size());
    NoteRead(got.bytes, space.size());
    return got.bytes != 0;
  }

  error_code ReadUntil(Deadline deadline) {
    stream_.expires_at(deadline);
    error_code error;
    const auto space = input_.prepare(ReadSize());
    NoteRead(stream_.read_some(space, error), space.size());
    return error;
  }

  void NoteRead(std::size_t bytes, std::size_t room) {
    input_.commit(bytes);
    last_was_full_ = bytes == room;
    now_ = std::chrono::steady_clock::now();
  }

  std::size_t ReadSize() const {
    std::size_t wanted = kLeastRead;
    if (last_was_full_) wanted = std::clamp(2 * input_.capacity(), kLeastRead, kPipelineRead);
    if (parser_ && parser_->got_some() && parser_->is_header_done()) {
      const std::uint64_t left = parser_->content_length_remaining().value_or(kLargeRead);
      wanted = static_cast<std::size_t>(std::clamp<std::uint64_t>(left, kLeastRead, kLargeRead));
    }
    // All available room; never zero (the buffer holds less than kMostBuffered).
    return std::max(wanted, input_.capacity() - input_.size());
  }

  // Larger than anything that must be in the buffer as a whole.
  static constexpr std::size_t kMostBuffered = kLargeRead;

  weft::io::TcpConnection* const connection_;
  weft::io::TcpStream* const tcp_;
  weft::io::AsioStream stream_;
  Site* const site_;
  const HttpLimits& limits_;
  RequestBudget::Share share_;  // of the request that is being read or answered, or was last
  beast::flat_buffer& input_;
  Request& request_;
  Response& response_;
  ResponseWriter& output_;

  std::chrono::steady_clock::time_point now_;  // after the last wait
  Deadline request_until_;
  std::optional<RequestParser> parser_;  // of the request that is being read or answered
  std::size_t header_taken_ = 0;         // of its header, by the parser
  bool may_skip_line_ = false;
  bool last_was_full_ = false;  // so that there may be more
  std::uint64_t answered_ = 0;  // and not counted
};

HttpService::HttpService(Site* site, const HttpLimits* limits, RequestBudget* budget)
    : site_(site), limits_(limits), budget_(budget) {}

HttpService::~HttpService() = default;

AfterRequest HttpService::Serve(weft::io::TcpConnection* connection) {
  std::unique_ptr<Workspace> workspace = workspaces_.Take();
  if (workspace == nullptr) workspace = std::make_unique<Workspace>();
  const AfterRequest after = Conversation(connection, site_, *limits_, budget_, workspace.get()).Run();
  workspace->Clear();
  // Memory that a large message has taken is not kept.
  if (workspace->LargestBuffer() <= kLargeRead) workspaces_.Put(std::move(workspace));
  return after;
}

}  // namespace examples
