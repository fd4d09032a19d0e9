// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Http2Errc: what only HTTP/2 can refuse (interop/http2_server.h, http2_client.h). As std::error_code of the category
// "weft.http2"; all other errors are those of io/io_result.h.
// Sample:
//     if (answer.error == interop::Http2Errc::kNotBegun) AskAgainElsewhere();
#ifndef WEFT_INTEROP_HTTP2_ERROR_H_
#define WEFT_INTEROP_HTTP2_ERROR_H_

#include <system_error>
#include <type_traits>

namespace weft::interop {

enum class Http2Errc {
  // The peer has reset the stream: RST_STREAM.
  kStreamReset = 1,
  // The server has not begun the request, and never will: GOAWAY, REFUSED_STREAM, or the connection ended before
  // anything of it was sent. It may be made again, whatever its method, on another connection.
  kNotBegun,
  // The connection has ended under the stream. Nobody knows how far the peer has come with it.
  kConnectionLost,
  // The peer breaks HTTP/2; the connection ends.
  kProtocolError,
  // The peer makes too much work: resets, answers that it does not fetch, header fields. The connection ends.
  kFlooded,
  // The header fields that came for this stream are larger than Http2Options::max_header_list.
  kHeadersTooLarge,
  // A field has a name or a value that cannot be sent, or one that HTTP/2 forbids (http2_headers.h).
  kBadField,
  // Calls in an order that cannot be: a body before its header fields, two answers, anything after the end.
  kWrongOrder,
};

// Any thread.
const std::error_category& Http2Category() noexcept;
inline std::error_code make_error_code(Http2Errc code) noexcept { return {static_cast<int>(code), Http2Category()}; }

}  // namespace weft::interop

template <>
struct std::is_error_code_enum<weft::interop::Http2Errc> : std::true_type {};

#endif  // WEFT_INTEROP_HTTP2_ERROR_H_
