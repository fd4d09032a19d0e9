// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/interop/http2_grpc.h"

#include <zlib.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <string>
#include <string_view>
#include <utility>

#include "weft/base/report/log.h"
#include "weft/fiber/this_fiber.h"
#include "weft/interop/http2/http2_fields.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_cancelled.h"

namespace weft::interop {
namespace {

constexpr std::size_t kHead = 5;  // of a message: whether it is compressed, and its size
constexpr std::size_t kLeastRead = 512;
constexpr std::size_t kLargeRead = 64 * 1024;
// Of a status. Clients refuse header fields that are much longer.
constexpr std::size_t kMostText = 2048;

// A point in time that no call sees: a wait without a deadline would end after the server's stream_timeout.
Deadline WithTheCall() { return Deadline::TimePoint(std::chrono::nanoseconds::max() / 2); }

bool IsReserved(std::string_view name) {
  return (name.starts_with("grpc-") && name != "grpc-accept-encoding") || name == "content-type";
}
bool HasReserved(const Http2Headers& fields) {
  for (const Http2Field field : fields) {
    if (IsReserved(field.name)) return true;
  }
  return false;
}

// Writes each byte that is not printable ASCII, and the percent sign, as %XX: gRPC's encoding of grpc-message.
std::string Encoded(std::string_view text) {
  constexpr char kDigits[] = "0123456789ABCDEF";
  if (text.size() > kMostText) {
    std::size_t size = kMostText;
    while (size != 0 && (static_cast<unsigned char>(text[size]) & 0xc0) == 0x80) --size;  // Between two characters.
    text = text.substr(0, size);
  }
  std::string encoded;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte < 0x20 || byte > 0x7e || c == '%') {
      encoded.append({'%', kDigits[byte >> 4], kDigits[byte & 0xf]});
    } else {
      encoded += c;
    }
  }
  // A field does not begin or end with a blank.
  if (encoded.ends_with(' ')) encoded.replace(encoded.size() - 1, 1, "%20");
  if (encoded.starts_with(' ')) encoded.replace(0, 1, "%20");
  return encoded;
}

std::chrono::nanoseconds UnitOf(char unit) {
  switch (unit) {
    case 'H':
      return std::chrono::hours(1);
    case 'M':
      return std::chrono::minutes(1);
    case 'S':
      return std::chrono::seconds(1);
    case 'm':
      return std::chrono::milliseconds(1);
    case 'u':
      return std::chrono::microseconds(1);
    case 'n':
      return std::chrono::nanoseconds(1);
    default:
      return {};
  }
}

// --- Unpacking a message, by zlib ---

enum class GunzipResult : std::uint8_t {
  kDone,
  kBad,       // no gzip, or not just one
  kTooLarge,  // more than `most` bytes: it has stopped there
  kNoMemory,
};

constexpr int kGzip = 15 + 16;  // zlib: the largest window, and gzip's head and sum
constexpr std::size_t kFirstRoom = 4096;

class Inflater {
 public:
  explicit Inflater(std::string_view packed) {
    stream_.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));  // zlib does not write to it.
    stream_.avail_in = static_cast<uInt>(packed.size());
    begun_ = inflateInit2(&stream_, kGzip) == Z_OK;
  }
  ~Inflater() {
    if (begun_) inflateEnd(&stream_);
  }
  Inflater(const Inflater&) = delete;
  Inflater& operator=(const Inflater&) = delete;

  bool begun() const { return begun_; }
  bool has_input() const { return stream_.avail_in != 0; }
  // Fills *to from `begin`. Returns zlib's result; *end: how far it has come.
  int Fill(std::string* to, std::size_t begin, std::size_t* end) {
    stream_.next_out = reinterpret_cast<Bytef*>(to->data() + begin);
    stream_.avail_out = static_cast<uInt>(to->size() - begin);
    const int result = inflate(&stream_, Z_NO_FLUSH);
    *end = to->size() - stream_.avail_out;
    return result;
  }

 private:
  z_stream stream_ = {};
  bool begun_ = false;
};

// Into *to, which grows with what has been unpacked. `packed` and `most`: less than 2^31. Never waits; some 40 KiB of
// memory while it works.
GunzipResult Gunzip(std::string_view packed, std::size_t most, std::string* to) {
  Inflater inflater(packed);
  if (!inflater.begun()) return GunzipResult::kNoMemory;
  to->clear();
  for (std::size_t size = 0;;) {
    // One byte more than may be, to see that there are more.
    to->resize(std::min(std::max(2 * size, kFirstRoom), most + 1));
    const int result = inflater.Fill(to, size, &size);
    if (result == Z_MEM_ERROR) return GunzipResult::kNoMemory;
    if (size > most) return GunzipResult::kTooLarge;
    if (result == Z_STREAM_END) {
      to->resize(size);
      return inflater.has_input() ? GunzipResult::kBad : GunzipResult::kDone;
    }
    if (result != Z_OK || size < to->size()) return GunzipResult::kBad;
  }
}

GrpcStatus Run(const Http2GrpcService::Method& method, GrpcCall& call) {
  try {
    return method(call);
  } catch (const FiberCancelled&) {
    throw;
  } catch (const std::exception& error) {
    WEFT_LOG_EVERY_SECOND(ERROR, "Http2GrpcService: the handler of ", call.method(), " has thrown: ", error.what());
  } catch (...) {
    WEFT_LOG_EVERY_SECOND(ERROR, "Http2GrpcService: the handler of ", call.method(),
                          " has thrown something that is no std::exception");
  }
  return {GrpcCode::kUnknown, "the handler has thrown an exception"};
}

}  // namespace

// At most eight digits and a unit.
bool GrpcCall::SetDeadline() {
  if (!metadata().Has("grpc-timeout")) return true;
  const std::string_view text = metadata().Find("grpc-timeout");
  if (text.size() < 2 || text.size() > 9) return false;
  const std::chrono::nanoseconds unit = UnitOf(text.back());
  std::uint32_t number = 0;
  const char* const end = text.data() + text.size() - 1;
  const std::from_chars_result parsed = std::from_chars(text.data(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end || unit.count() == 0) return false;
  // 99,999,999 hours are more nanoseconds than there are.
  const std::chrono::nanoseconds most = std::chrono::nanoseconds::max() / 2;
  deadline_ = Deadline(number > most / unit ? most : unit * number);
  return true;
}

bool GrpcCall::ReadBytes(std::string_view* message) {
  TestCancel();
  if (failed() || !AwaitBytes(kHead)) return false;
  const auto* const head = reinterpret_cast<const std::uint8_t*>(in_.data() + in_begin_);
  const bool is_packed = head[0] != 0;
  if (is_packed && (head[0] != 1 || !uses_gzip_)) {  // No encoding was agreed upon.
    Fail({GrpcCode::kInternal, "a message that is compressed"});
    return false;
  }
  const std::size_t size =
      std::size_t{head[1]} << 24 | std::size_t{head[2]} << 16 | std::size_t{head[3]} << 8 | head[4];
  if (size > max_message_) return FailTooLarge(std::to_string(size));
  if (!AwaitBytes(kHead + size)) return false;
  *message = std::string_view(in_).substr(in_begin_ + kHead, size);
  in_begin_ += kHead + size;
  return !is_packed || Unpack(message);
}

bool GrpcCall::FailTooLarge(const std::string& size) {
  Fail({GrpcCode::kResourceExhausted, std::string("a message of ")
                                          .append(size)
                                          .append(" bytes; at most ")
                                          .append(std::to_string(max_message_))
                                          .append(" are taken")});
  return false;
}

bool GrpcCall::Unpack(std::string_view* message) {
  switch (Gunzip(*message, max_message_, &unpacked_)) {
    case GunzipResult::kDone:
      *message = unpacked_;
      return true;
    case GunzipResult::kTooLarge:
      return FailTooLarge("more");
    case GunzipResult::kNoMemory:
      Fail({GrpcCode::kResourceExhausted, "no memory to unpack a message"});
      return false;
    case GunzipResult::kBad:
      break;
  }
  Fail({GrpcCode::kInternal, "a compressed message that is no gzip"});
  return false;
}

bool GrpcCall::AwaitEnd() {
  if (AwaitBytes(1)) Fail({GrpcCode::kUnimplemented, "more than one message in a unary call"});
  return !failed();
}

bool GrpcCall::AwaitBytes(std::size_t size) {
  while (in_end_ - in_begin_ < size) {
    MakeRoomToRead(size);
    const io::IoResult got = request_.Read(in_.data() + in_end_, in_.size() - in_end_, WithTheCall());
    in_end_ += got.bytes;
    if (got.bytes != 0) continue;
    if (!got.ok()) {
      TestCancel();  // The client has given the call up, or has gone: then the handler is cancelled.
      Fail({GrpcCode::kUnavailable, std::string("the client's messages do not come: ").append(got.error.message())});
    } else if (in_end_ != in_begin_) {
      Fail({GrpcCode::kInternal, "a message was cut short"});
    }
    return false;
  }
  return true;
}

// By what has come, not by what a message says of its size. Room that is there is not cleared again.
void GrpcCall::MakeRoomToRead(std::size_t size) {
  if (in_begin_ != 0) {
    std::memmove(in_.data(), in_.data() + in_begin_, in_end_ - in_begin_);
    in_end_ -= std::exchange(in_begin_, 0);
  }
  if (in_end_ == in_.size()) {
    in_.resize(std::min(std::max(size, in_end_ + kLeastRead), std::max(2 * in_.size(), kLargeRead)));
  }
}

char* GrpcCall::MakeRoom(std::size_t size) {
  if (failed()) return nullptr;
  if (size > kMostMessage) {
    Fail({GrpcCode::kInternal, std::string("an answer of ").append(std::to_string(size)).append(" bytes")});
    return nullptr;
  }
  const std::size_t begin = out_.size();
  out_.resize(begin + kHead + size);
  char* const to = out_.data() + begin;
  to[0] = 0;
  for (int i = 0; i < 4; ++i) to[1 + i] = static_cast<char>(size >> (24 - 8 * i));
  return to + kHead;
}

bool GrpcCall::WriteBytes(std::string_view message) {
  char* const to = MakeRoom(message.size());
  if (to == nullptr) return false;
  if (!message.empty()) std::memcpy(to, message.data(), message.size());
  return Flush();
}

Http2Headers GrpcCall::Head() const {
  Http2Headers head{{"content-type", "application/grpc"}};
  for (const Http2Field field : metadata_) head.Add(field.name, field.value);
  return head;
}

bool GrpcCall::SendMetadata() {
  TestCancel();
  if (failed() || cut_off_) return false;
  if (response_.started()) return true;
  const std::error_code error = HasReserved(metadata_) ? Http2Errc::kBadField : response_.Start(200, Head());
  if (!error) return true;
  if (error == Http2Errc::kBadField) {
    metadata_.clear();
    Fail({GrpcCode::kInternal, "metadata of the answer that may not be sent"});
    return false;
  }
  cut_off_ = true;
  TestCancel();
  return false;
}

bool GrpcCall::Flush() {
  if (!SendMetadata()) {
    out_.clear();
    return false;
  }
  cut_off_ = true;  // Unless it ends well, by an exception or otherwise.
  cut_off_ = !response_.Write(out_, WithTheCall()).ok();
  out_.clear();
  if (cut_off_) TestCancel();
  return !cut_off_;
}

void GrpcCall::Fail(GrpcStatus status) {
  const std::scoped_lock lock(mutex_);
  if (!failure_.has_value()) failure_ = std::move(status);
}

bool GrpcCall::failed() {
  const std::scoped_lock lock(mutex_);
  return failure_.has_value();
}

void GrpcCall::Finish(GrpcStatus status) {
  if (failure_.has_value()) status = *std::move(failure_);
  if (cut_off_) return response_.Reset();
  if (!status.ok()) out_.clear();
  std::error_code error = SendEnd(status);
  if (error == Http2Errc::kBadField) {
    metadata_.clear();
    trailers_.clear();
    out_.clear();
    error = SendEnd({GrpcCode::kInternal, "metadata or trailers of the answer that may not be sent"});
  }
  if (error == std::errc::timed_out) response_.Reset();  // The client has not taken the reply by its deadline.
}

std::error_code GrpcCall::SendEnd(const GrpcStatus& status) {
  if (HasReserved(metadata_) || HasReserved(trailers_)) return Http2Errc::kBadField;
  Http2Headers end;
  end.Add("grpc-status", std::to_string(static_cast<int>(status.code)));
  if (!status.message.empty()) end.Add("grpc-message", Encoded(status.message));
  for (const Http2Field field : trailers_) end.Add(field.name, field.value);
  if (response_.started()) return response_.Finish(end);
  Http2Headers head = Head();
  if (!out_.empty()) return response_.Send(200, head, out_, end, deadline_.is_none() ? WithTheCall() : deadline_);
  for (const Http2Field field : end) head.Add(field.name, field.value);  // Nothing but trailers.
  return response_.Send(200, head, {});
}

Http2GrpcService::Http2GrpcService(const Options& options)
    : options_{.max_message = std::min(options.max_message, GrpcCall::kMostMessage)} {}

std::set<std::string> Http2GrpcService::services() const {
  std::set<std::string> services;
  for (const auto& [path, method] : methods_) {
    const std::size_t end = path.rfind('/');
    if (end == std::string::npos || end == 0 || path.front() != '/') continue;  // No client can call it.
    services.insert(path.substr(1, end - 1));
  }
  return services;
}

void Http2GrpcService::Serve(Http2Request& request, Http2Response& response) {
  // Of an error nobody is left to be told.
  if (request.method() != "POST") return static_cast<void>(response.Send(405, {{"allow", "POST"}}, {}));
  if (!IsGrpc(request.headers().Find("content-type"))) return static_cast<void>(response.Send(415, {}, {}));
  GrpcCall call(request, response, options_.max_message);
  call.Finish(Call(call));
}

GrpcStatus Http2GrpcService::Call(GrpcCall& call) {
  const auto found = methods_.find(call.method());
  if (found == methods_.end()) return {GrpcCode::kUnimplemented, std::string("no method ").append(call.method())};
  const std::string_view encoding = call.metadata().Find("grpc-encoding");
  call.uses_gzip_ = encoding == "gzip";
  if (!encoding.empty() && encoding != "identity" && !call.uses_gzip_) {
    call.AddMetadata("grpc-accept-encoding", "identity,gzip");
    return {GrpcCode::kUnimplemented, std::string("messages compressed by ").append(encoding)};
  }
  if (!call.SetDeadline()) return {GrpcCode::kInternal, "a grpc-timeout that is none"};
  if (call.deadline().is_none()) return Run(found->second, call);
  GrpcStatus status;
  CancelScope scope(call.deadline());
  const bool in_time = !call.deadline().expired() && scope.Run([&] { status = Run(found->second, call); });
  // A handler may have caught what ended its wait.
  if (!in_time || (scope.DeadlineHasPassed() && !status.ok())) {
    return {GrpcCode::kDeadlineExceeded, "the handler was ended at the deadline"};
  }
  return status;
}

}  // namespace weft::interop
