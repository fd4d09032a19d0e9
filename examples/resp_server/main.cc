// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// An in-memory store that redis-cli, redis-benchmark and the client libraries of Redis talk to.
//
//   resp_server --listen=127.0.0.1:6380 &
//   redis-cli -p 6380 set greeting hello
//
// To start a server of your own from: resp_server.cc has the life of a connection, commands.cc the answers, store.h the
// data; flags of all servers: serving/serving.h.
//
// A client that has vanished is ended by what it does not do: acknowledge (--tcp_keepalive), finish its request
// (--request_timeout_ms), read its answers (--write_timeout_ms). One that is merely silent stays, as in Redis, unless
// --idle_timeout_ms is given. INFO counts the ends by each of the three time-outs.
//
// Many clients that send half requests take no more memory than --max_unfinished_mb. A request that does not come with
// one read counts, with its buffer; where it would be too much its client is told so, and the connection ends.

#include <gflags/gflags.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <iostream>

#include "weft/io/tcp_connection.h"
#include "weft/io/tcp_liveness.h"

#include "resp_server/resp_server.h"
#include "serving/serving.h"

DEFINE_int64(bulk_limit, std::int64_t{512} << 20, "Bytes of a request's argument.");
DEFINE_uint64(request_limit, std::uint64_t{1} << 30, "Bytes of a request.");
DEFINE_uint64(max_unfinished_mb, 0,
              "Memory of all requests at once whose rest has not come, in MiB; more are refused. 0: no limit.");
DEFINE_uint32(idle_timeout_ms, 0,
              "How long a connection may wait for its next request, as Redis's timeout. 0: no limit.");
DEFINE_uint32(request_timeout_ms, 60'000,
              "How long a request may take to arrive, from its first bytes to its last. 0: no limit.");
DEFINE_uint32(write_timeout_ms, 30'000,
              "How long a client may read nothing of the answers that wait for it. 0: no limit.");
DEFINE_uint32(tcp_keepalive, 300,
              "Seconds of silence after which TCP asks whether the client is still there, as in Redis; at most 32767. "
              "0: never.");

namespace {

using std::chrono::milliseconds;

int Refuse(const char* why) {
  std::cerr << "resp_server: " << why << '\n';
  return 2;
}

// A third of the silence between two questions, as in Redis.
weft::io::TcpKeepAlive KeepAlive(std::uint32_t seconds) {
  if (seconds == 0) return {.enabled = false};
  return {.idle = std::chrono::seconds(seconds),
          .interval = std::chrono::seconds(std::max(seconds / 3, std::uint32_t{1})),
          .probes = 3};
}

}  // namespace

int main(int argc, char** argv) {
  gflags::SetUsageMessage("an in-memory store on fibers that speaks the Redis protocol");
  gflags::SetCommandLineOptionWithMode("listen", "127.0.0.1:6380", gflags::SET_FLAGS_DEFAULT);
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  if (FLAGS_bulk_limit < 1 || FLAGS_request_limit < 1) {
    return Refuse("--bulk_limit and --request_limit: expected 1 or more");
  }
  constexpr std::uint64_t kMiB = 1 << 20;
  if (FLAGS_max_unfinished_mb > UINT64_MAX / kMiB) {
    return Refuse("--max_unfinished_mb: expected at most 17592186044415");
  }
  if (FLAGS_tcp_keepalive > 32767) return Refuse("--tcp_keepalive: expected at most 32767");
  examples::Serving serving("resp_server");
  serving.SetKeepAlive(KeepAlive(FLAGS_tcp_keepalive));
  examples::resp::RespServer server({.parser = {.bulk_bytes = FLAGS_bulk_limit},
                                     .request_bytes = FLAGS_request_limit,
                                     .unfinished_bytes = FLAGS_max_unfinished_mb * kMiB,
                                     .request_timeout = milliseconds(FLAGS_request_timeout_ms)},
                                    &serving);
  const milliseconds idle_timeout(FLAGS_idle_timeout_ms);
  return serving.Run(
      weft::io::RequestHandler([&server](weft::io::TcpConnection& connection) { return server.Serve(&connection); }),
      {.first_request_timeout = idle_timeout,
       .idle_timeout = idle_timeout,
       .write_timeout = milliseconds(FLAGS_write_timeout_ms)});
}
