// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "http_server/response_writer.h"

#include <charconv>
#include <string_view>

#include "weft/examples/serving/http_date.h"

namespace examples {
namespace {

// With the constant part of the header; the date is next.
std::string_view HeadOf(int status) {
#define WEFT_EXAMPLES_HEAD(line) "HTTP/1.1 " line "\r\nServer: weft\r\nDate: "
  switch (status) {
    case 200:
      return WEFT_EXAMPLES_HEAD("200 OK");
    case 400:
      return WEFT_EXAMPLES_HEAD("400 Bad Request");
    case 404:
      return WEFT_EXAMPLES_HEAD("404 Not Found");
    case 405:
      return WEFT_EXAMPLES_HEAD("405 Method Not Allowed");
    case 408:
      return WEFT_EXAMPLES_HEAD("408 Request Timeout");
    case 413:
      return WEFT_EXAMPLES_HEAD("413 Content Too Large");
    case 414:
      return WEFT_EXAMPLES_HEAD("414 URI Too Long");
    case 417:
      return WEFT_EXAMPLES_HEAD("417 Expectation Failed");
    case 431:
      return WEFT_EXAMPLES_HEAD("431 Request Header Fields Too Large");
    case 501:
      return WEFT_EXAMPLES_HEAD("501 Not Implemented");
    case 503:
      return WEFT_EXAMPLES_HEAD("503 Service Unavailable");
    case 504:
      return WEFT_EXAMPLES_HEAD("504 Gateway Timeout");
    case 505:
      return WEFT_EXAMPLES_HEAD("505 HTTP Version Not Supported");
    default:
      return WEFT_EXAMPLES_HEAD("500 Internal Server Error");
  }
#undef WEFT_EXAMPLES_HEAD
}

}  // namespace

void ResponseWriter::Append(const Response& response, bool head_only, ConnectionHeader connection) {
  text_.append(HeadOf(response.status)).append(HttpDate::Now().text()).append("\r\n");
  if (!response.allow.empty()) text_.append("Allow: ").append(response.allow).append("\r\n");
  if (connection == ConnectionHeader::kClose) text_.append("Connection: close\r\n");
  if (connection == ConnectionHeader::kKeepAlive) text_.append("Connection: keep-alive\r\n");
  text_.append("Content-Type: ").append(response.content_type).append("\r\nContent-Length: ");
  char digits[20];  // Of 2^64.
  const std::to_chars_result end = std::to_chars(digits, digits + sizeof(digits), response.body.ByteSize());
  text_.append(digits, static_cast<std::size_t>(end.ptr - digits)).append("\r\n\r\n");
  if (head_only) return;
  if (response.body.ByteSize() < weft::NoncontiguousBuffer::kCopyBelow) {
    for (const std::string_view block : response.body) text_.append(block);
    return;
  }
  PutTextIntoBlocks();
  blocks_.Append(response.body);
}

void ResponseWriter::AppendContinue() { text_.append("HTTP/1.1 100 Continue\r\n\r\n"); }

void ResponseWriter::PutTextIntoBlocks() {
  blocks_.AppendCopy(text_);
  text_.clear();
}

weft::io::IoResult ResponseWriter::WriteTo(weft::io::TcpStream* stream, weft::Deadline deadline) {
  weft::io::IoResult written;
  if (blocks_.Empty()) {
    written = stream->WriteAll(text_, deadline);
  } else {
    PutTextIntoBlocks();
    written = stream->WriteAll(blocks_, deadline);
  }
  Clear();
  return written;
}

void ResponseWriter::Clear() {
  blocks_.Clear();
  text_.clear();
}

}  // namespace examples
