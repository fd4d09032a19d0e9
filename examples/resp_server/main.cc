// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// An in-memory store that redis-cli, redis-benchmark and the client libraries of Redis talk to.
//
//   resp_server --listen=127.0.0.1:6380 &
//   redis-cli -p 6380 set greeting hello
//
// To start a server of your own from: resp_server.cc has the life of a connection, commands.cc the answers, store.h the
// data; flags of all servers: serving/serving.h.

#include <gflags/gflags.h>

#include <cstddef>
#include <cstdint>
#include <iostream>

#include "resp_server/resp_server.h"
#include "serving/serving.h"

DEFINE_int64(bulk_limit, std::int64_t{512} << 20, "Bytes of a request's argument.");
DEFINE_uint64(request_limit, std::uint64_t{1} << 30, "Bytes of a request.");

int main(int argc, char** argv) {
  gflags::SetUsageMessage("an in-memory store on fibers that speaks the Redis protocol");
  gflags::SetCommandLineOptionWithMode("listen", "127.0.0.1:6380", gflags::SET_FLAGS_DEFAULT);
  gflags::ParseCommandLineFlags(&argc, &argv, true);
  if (FLAGS_bulk_limit < 1 || FLAGS_request_limit < 1) {
    std::cerr << "resp_server: --bulk_limit and --request_limit: expected 1 or more\n";
    return 2;
  }
  examples::Serving serving("resp_server");
  examples::resp::RespServer server({.parser = {.bulk_bytes = FLAGS_bulk_limit}, .request_bytes = FLAGS_request_limit},
                                    &serving);
  return serving.Run(
      weft::io::RequestHandler([&server](weft::io::TcpConnection& connection) { return server.Serve(&connection); }));
}
