// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Http2Options: the limits of an HTTP/2 connection (interop/http2_server.h, http2_client.h).
//
// Limits of nghttp2 itself, which hold beside these: 8 CONTINUATION frames after a HEADERS frame, 64 KiB of a field, 32
// entries in a SETTINGS frame, 1,000 unsent answers to PING and SETTINGS.
#ifndef WEFT_INTEROP_HTTP2_OPTIONS_H_
#define WEFT_INTEROP_HTTP2_OPTIONS_H_

#include <chrono>
#include <cstddef>
#include <cstdint>

namespace weft::interop {

struct Http2Options {
  // --- Memory ---
  // A server's: streams that a client may have at once. More are refused (REFUSED_STREAM) as long as the client has not
  // acknowledged our SETTINGS; from then on they break the protocol, and end the connection.
  std::uint32_t max_concurrent_streams = 100;
  // A server's: handlers that run at once, also those whose stream has been reset and which have not returned yet. 0:
  // twice max_concurrent_streams. More streams are refused.
  std::uint32_t max_handlers = 0;
  // The same for all connections of a server together. 0: no limit. More streams are refused, of all clients alike;
  // TcpServer::Options::max_connections_per_host keeps one of them from taking all.
  std::uint32_t max_server_handlers = 0;
  // A server's: bytes of bodies that have come and were not read, of all its connections together. 0: no limit. Choose
  // many times 16 KiB, the size of a frame. The buffer of a stream may take four times as much memory. A stream whose
  // bytes would be too many is reset (ENHANCE_YOUR_CALM: RESOURCE_EXHAUSTED in gRPC's clients), and its handler
  // cancelled.
  std::size_t max_server_bodies = 0;
  // Of the header fields of a request or an answer, its trailers included: names, values and 32 bytes a field (RFC
  // 9113, 6.5.2). A larger request gets the status 431, a call of gRPC RESOURCE_EXHAUSTED. A larger answer ends its
  // call, and larger trailers their stream, with kHeadersTooLarge. A section of more than eight times as much ends the
  // connection with ENHANCE_YOUR_CALM: HPACK lets few bytes stand for many.
  std::uint32_t max_header_list = 16 * 1024;
  // Bytes of a body that have come and were not read: for each stream, and for all (65,535 or more). At most 2^31 - 1.
  std::uint32_t stream_window = 65'535;
  std::uint32_t connection_window = 1024 * 1024;
  // Bytes of a body that were written and not sent, for each stream. At least 1.
  std::size_t send_buffer = 16 * 1024;
  // A server's: frames without a body that are made and not sent (header fields, resets, window updates), beside three
  // for each of max_concurrent_streams. Beyond it the client has flooded us.
  std::size_t max_queued_frames = 2'000;

  // --- Time. 0: no limit ---
  // A server's connection without a handler: from the end of its last handler, or the last byte of an answer that went
  // out. Frames that begin no request (PING) do not count.
  std::chrono::milliseconds idle_timeout{60'000};
  // The kernel takes nothing of what we send: the connection ends. From the beginning of each write of up to 80 KiB.
  std::chrono::milliseconds write_timeout{30'000};
  // The peer does not acknowledge our SETTINGS: from when they have been written. With ForTcpServer() also how long a
  // client may send nothing.
  std::chrono::milliseconds settings_timeout{10'000};
  // A call that waits for the peer without a deadline: a read, a write, Open(), AwaitAnswer(), Ping(), all of Ask().
  std::chrono::milliseconds stream_timeout{60'000};
  // For peers that have vanished, or stand still, which TCP's keep-alive does not find: the connection pings after so
  // long a silence, and ends with timed_out when nothing has come for as long again. 0: never.
  // A server pings while the client has a stream or a handler runs (a health Watch(), say), and always if its
  // idle_timeout is 0; the answers then restart the idle_timeout of a TcpServer. Without pings a handler that waits for
  // something else than the client runs on after the client has vanished.
  // Off by default, as in Go's servers: a PING waits behind what the kernel holds of an answer, and a client that takes
  // longer than this to receive that, and sends nothing meanwhile, is lost. 30 s suits most servers. A client of gRPC's
  // servers needs 5 minutes or more: they end connections that ping more often.
  std::chrono::milliseconds ping_after{0};
  // A client's: it pings also while it has no call. gRPC's servers end connections that do so.
  bool ping_without_calls = true;

  // --- Floods: so many at once, and so many more each second. Beyond it the connection ends: ENHANCE_YOUR_CALM ---
  // Work for nobody. A server's: requests that a client resets less than 10 ms after their beginning and before their
  // answer (CVE-2023-44487), or makes us reset by an error of its own (CVE-2025-8671), and those above max_header_list.
  // Each answered request makes room for one more. Calls that a client gives up later, at their deadlines say, do not
  // count: there are no more of them at a time than of others. A client's: interim answers (103), and pushes;
  // each answer makes room for two.
  std::uint32_t max_resets = 1'000;
  std::uint32_t resets_per_second = 200;
  // Frames without content: PING, SETTINGS, PRIORITY, WINDOW_UPDATE, RST_STREAM, DATA without bytes, unknown ones. What
  // belongs to requests and bodies makes room: four for each header section, one for DATA that come, three for DATA
  // that are sent. Window updates of 1 KiB or more do not count while they give back what was sent, for the stream and
  // for the connection.
  std::uint32_t max_empty_frames = 10'000;
  std::uint32_t empty_frames_per_second = 1'000;
};

}  // namespace weft::interop

#endif  // WEFT_INTEROP_HTTP2_OPTIONS_H_
