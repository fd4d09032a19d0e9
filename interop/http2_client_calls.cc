// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Http2Client, Http2Call: what users call; the work is Http2ClientConnection's.

#include <algorithm>
#include <charconv>
#include <utility>

#include "weft/base/report/check.h"
#include "weft/interop/http2/http2_client_connection.h"
#include "weft/interop/http2/http2_stream.h"
#include "weft/interop/http2_client.h"

namespace weft::interop {

Http2Call::Http2Call(Http2Call&& other) noexcept
    : connection_(std::exchange(other.connection_, nullptr)),
      stream_(std::exchange(other.stream_, nullptr)),
      deadline_(other.deadline_) {}

Http2Call& Http2Call::operator=(Http2Call&& other) noexcept {
  if (this == &other) return *this;
  Abandon();
  connection_ = std::exchange(other.connection_, nullptr);
  stream_ = std::exchange(other.stream_, nullptr);
  deadline_ = other.deadline_;
  return *this;
}

Http2Call::~Http2Call() { Abandon(); }

void Http2Call::Abandon() noexcept {
  if (stream_ != nullptr) connection_->Abandon(std::exchange(stream_, nullptr));
}

Http2Stream& Http2Call::Checked(const char* caller) const {
  WEFT_CHECK(stream_ != nullptr, caller, ": the call was not opened");
  return *stream_;
}

// The call as a whole is given up: by its deadline, or with its fiber.
std::error_code Http2Call::After(std::error_code error) {
  if (error == std::errc::operation_canceled || (error == std::errc::timed_out && deadline_.expired())) Cancel();
  return error;
}

io::IoResult Http2Call::Write(const void* data, std::size_t size, Deadline deadline) {
  io::IoResult put = connection_->Write(Checked("Http2Call::Write"), data, size, std::min(deadline, deadline_));
  put.error = After(put.error);
  return put;
}

std::error_code Http2Call::Finish(const Http2Headers& trailers) {
  return connection_->End(Checked("Http2Call::Finish"), trailers);
}

std::error_code Http2Call::AwaitAnswer(Deadline deadline) {
  return After(connection_->AwaitAnswer(Checked("Http2Call::AwaitAnswer"), std::min(deadline, deadline_)));
}

int Http2Call::status() const {
  const std::string_view text = headers().Find(":status");
  int status = 0;
  std::from_chars(text.data(), text.data() + text.size(), status);
  return status;
}

const Http2Headers& Http2Call::headers() const { return Checked("Http2Call::headers").fields; }

io::IoResult Http2Call::Read(void* data, std::size_t size, Deadline deadline) {
  io::IoResult got = connection_->Read(Checked("Http2Call::Read"), data, size, std::min(deadline, deadline_));
  got.error = After(got.error);
  return got;
}

const Http2Headers& Http2Call::trailers() const { return Checked("Http2Call::trailers").trailers; }

void Http2Call::Cancel() { connection_->Cancel(Checked("Http2Call::Cancel")); }

Http2Client::Http2Client(const Http2Transport& transport, const Http2Options& options)
    : options_(options), connection_(std::make_unique<Http2ClientConnection>(transport, options_)) {}

Http2Client::~Http2Client() = default;

bool Http2Client::Start() { return connection_->Start(); }
bool Http2Client::is_open() const { return connection_->is_open(); }
void Http2Client::Close() { connection_->Close(); }
std::error_code Http2Client::Ping(Deadline deadline) { return connection_->Ping(deadline); }

std::error_code Http2Client::OpenAs(const Http2RequestHead& head, bool body, Http2Call* call, Deadline deadline) {
  Http2Call opened;
  opened.connection_ = connection_.get();
  opened.deadline_ = deadline;
  if (std::error_code error = connection_->Open(head, body, deadline, &opened.stream_)) return error;
  *call = std::move(opened);
  return {};
}

std::error_code Http2Client::Open(const Http2RequestHead& head, Http2Call* call, Deadline deadline) {
  return OpenAs(head, /*body=*/true, call, deadline);
}

std::error_code Http2Client::OpenWithoutBody(const Http2RequestHead& head, Http2Call* call, Deadline deadline) {
  return OpenAs(head, /*body=*/false, call, deadline);
}

Http2Answer Http2Client::Ask(const Http2RequestHead& head, std::string_view body, Deadline deadline,
                             std::size_t max_body) {
  Http2Answer answer;
  Http2Call call;
  answer.error = OpenAs(head, !body.empty(), &call, deadline);
  if (!answer.error) answer.error = connection_->Exchange(*call.stream_, body, deadline, max_body, &answer);
  return answer;
}

}  // namespace weft::interop
