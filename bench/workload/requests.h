// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// requests: 16 clients ask 16 servers, all fibers, 200,000 times in all: 64 bytes there and back over a pair of sockets
// (ns_per_request). One fiber starts them all, so with several groups all begin in one. Four system calls a request,
// and two fibers that wait for a socket.
#ifndef WEFT_BENCH_WORKLOAD_REQUESTS_H_
#define WEFT_BENCH_WORKLOAD_REQUESTS_H_

#include <cstdint>
#include <cstring>
#include <utility>

#include "weft/bench/workload/harness.h"

namespace weft::bench {

template <class Runtime>
void RunRequests(Round& round) {
  constexpr std::int64_t kClients = 16;
  const std::int64_t each = round.Scaled(200'000, 1, Runtime::kBlockDivisor) / kClients + 1;
  Runtime::RunInside([&] {
    typename Runtime::Latch done(2 * kClients);
    Stopwatch watch;
    for (std::int64_t i = 0; i < kClients; ++i) {
      auto [client, server] = Runtime::ConnectedSockets();
      Require(Runtime::Spawn([&done, server = std::move(server)]() mutable {
                char request[64];
                while (server.Receive(request, sizeof request)) server.Send(request, sizeof request);
                done.CountDown();
              }),
              "a server can be started");
      Require(Runtime::Spawn([&done, each, i, client = std::move(client)]() mutable {
                char answer[64];
                for (std::int64_t asked = 0; asked < each; ++asked) {
                  const std::int64_t number = i * each + asked;
                  char request[64] = {};
                  std::memcpy(request, &number, sizeof number);
                  client.Send(request, sizeof request);
                  Require(client.Receive(answer, sizeof answer), "each request is answered");
                  Require(std::memcmp(request, answer, sizeof answer) == 0, "with its own bytes");
                }
                client.Finish();
                done.CountDown();
              }),
              "a client can be started");
    }
    done.Wait();
    round.Report("ns_per_request", watch.NanosecondsPer(kClients * each), "ns");
  });
}

}  // namespace weft::bench

#endif  // WEFT_BENCH_WORKLOAD_REQUESTS_H_
