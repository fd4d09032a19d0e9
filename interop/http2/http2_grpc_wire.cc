// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/interop/http2/http2_grpc_wire.h"

#include <nghttp2/nghttp2.h>

#include <charconv>
#include <cstddef>
#include <utility>

#include "weft/interop/http2_error.h"

namespace weft::interop {
namespace {

// Of a status. Clients refuse header fields that are much longer.
constexpr std::size_t kMostText = 2048;
constexpr std::uint32_t kMostOfUnit = 99'999'999;

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

// All of it. None: it is no number, or too large a one.
std::optional<std::uint32_t> ParseNumber(std::string_view text) {
  std::uint32_t number = 0;
  const char* const end = text.data() + text.size();
  const std::from_chars_result parsed = std::from_chars(text.data(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end) return {};
  return number;
}

int HexDigit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

GrpcCode CodeOfReset(std::uint32_t reset_code) {
  switch (reset_code) {
    case NGHTTP2_REFUSED_STREAM:
      return GrpcCode::kUnavailable;
    case NGHTTP2_CANCEL:
      return GrpcCode::kCancelled;
    case NGHTTP2_ENHANCE_YOUR_CALM:
      return GrpcCode::kResourceExhausted;
    case NGHTTP2_INADEQUATE_SECURITY:
      return GrpcCode::kPermissionDenied;
    default:
      return GrpcCode::kInternal;
  }
}

}  // namespace

bool HasReservedField(const Http2Headers& fields) {
  for (const Http2Field field : fields) {
    if (field.name.starts_with("grpc-") && field.name != "grpc-accept-encoding") return true;
    if (field.name == "content-type") return true;
  }
  return false;
}

std::string EncodeGrpcText(std::string_view text) {
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

std::string DecodeGrpcText(std::string_view text) {
  std::string decoded;
  decoded.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i) {
    const int high = i + 2 < text.size() ? HexDigit(text[i + 1]) : -1;
    const int low = high >= 0 ? HexDigit(text[i + 2]) : -1;
    if (text[i] != '%' || low < 0) {
      decoded += text[i];
      continue;
    }
    decoded += static_cast<char>(high << 4 | low);
    i += 2;
  }
  return decoded;
}

std::optional<std::chrono::nanoseconds> ParseGrpcTimeout(std::string_view text) {
  if (text.size() < 2 || text.size() > 9) return {};
  const std::chrono::nanoseconds unit = UnitOf(text.back());
  const std::optional<std::uint32_t> number = ParseNumber(text.substr(0, text.size() - 1));
  if (!number.has_value() || unit.count() == 0) return {};
  // 99,999,999 hours are more nanoseconds than there are.
  const std::chrono::nanoseconds most = std::chrono::nanoseconds::max() / 2;
  return *number > most / unit ? most : unit * *number;
}

std::string FormatGrpcTimeout(std::chrono::nanoseconds timeout) {
  for (const char name : {'n', 'u', 'm', 'S', 'M'}) {
    const std::chrono::nanoseconds unit = UnitOf(name);
    const std::int64_t number = timeout / unit + (timeout % unit != std::chrono::nanoseconds(0) ? 1 : 0);
    if (number <= kMostOfUnit) return std::to_string(number) + name;
  }
  return std::to_string(timeout / UnitOf('H') + 1) + 'H';
}

std::optional<GrpcStatus> GrpcStatusIn(const Http2Headers& fields) {
  if (!fields.Has("grpc-status")) return {};
  const std::string_view text = fields.Find("grpc-status");
  const std::optional<std::uint32_t> number = ParseNumber(text);
  if (!number.has_value() || *number > static_cast<std::uint32_t>(GrpcCode::kUnauthenticated)) {
    return GrpcStatus{GrpcCode::kUnknown, std::string("a grpc-status that is none: ").append(text)};
  }
  return GrpcStatus{static_cast<GrpcCode>(*number), DecodeGrpcText(fields.Find("grpc-message"))};
}

GrpcStatus GrpcStatusOfHttp(int status) {
  GrpcStatus mapped{GrpcCode::kUnknown, std::string("an answer of HTTP, not of gRPC: ").append(std::to_string(status))};
  switch (status) {
    case 400:
      mapped.code = GrpcCode::kInternal;
      break;
    case 401:
      mapped.code = GrpcCode::kUnauthenticated;
      break;
    case 403:
      mapped.code = GrpcCode::kPermissionDenied;
      break;
    case 404:
      mapped.code = GrpcCode::kUnimplemented;
      break;
    case 429:
    case 502:
    case 503:
    case 504:
      mapped.code = GrpcCode::kUnavailable;
      break;
    default:
      break;
  }
  return mapped;
}

GrpcStatus GrpcStatusOf(std::error_code error, std::uint32_t reset_code) {
  GrpcStatus status{GrpcCode::kUnavailable, error.message()};
  if (error == Http2Errc::kStreamReset) {
    status.code = CodeOfReset(reset_code);
    status.message.append(": ").append(nghttp2_http2_strerror(reset_code));
  } else if (error == Http2Errc::kHeadersTooLarge || error == std::errc::message_size ||
             error == std::errc::not_enough_memory) {
    status.code = GrpcCode::kResourceExhausted;
  } else if (error == Http2Errc::kBadField || error == Http2Errc::kWrongOrder) {
    status.code = GrpcCode::kInternal;
  } else if (error == std::errc::operation_canceled) {
    status.code = GrpcCode::kCancelled;
  }
  return status;
}

}  // namespace weft::interop
