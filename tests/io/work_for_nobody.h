// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// How much a server does for clients that have gone: a server whose requests fan out, and clients of which every other
// one hangs up. For cancel_on_hangup_test.cc and bench/io/hangup_benchmark.cc.
#ifndef WEFT_TESTS_IO_WORK_FOR_NOBODY_H_
#define WEFT_TESTS_IO_WORK_FOR_NOBODY_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "weft/base/report/check.h"
#include "weft/fiber/fiber_scope.h"
#include "weft/io/cancel_on_hangup.h"
#include "weft/io/socket_address.h"
#include "weft/io/tcp_listener.h"
#include "weft/io/tcp_server.h"
#include "weft/io/tcp_stream.h"
#include "weft/sync/cancel_scope.h"

namespace weft::io {

struct ClientRequest {
  std::atomic<int> slices{0};
  std::atomic<bool> has_gone{false};
};

struct HangupLoad {
  bool cancels = true;  // whether a hang-up cancels the request
  int clients = 20;     // at the same time
  int parts = 4;        // fibers of each request
  int slices = 50;      // of work of each part, with a cancellation point after each
  std::function<void()> slice;
  std::function<void(const ClientRequest&)> patience;  // returns when the client is to hang up
};

struct HangupWork {
  std::uint64_t slices = 0;
  std::uint64_t for_nobody = 0;  // after the client had gone
};

// A fiber.
inline HangupWork ServeClientsThatHangUp(const HangupLoad& load) {
  std::vector<ClientRequest> requests(static_cast<std::size_t>(load.clients));
  std::atomic<std::uint64_t> slices{0};
  std::atomic<std::uint64_t> for_nobody{0};
  const auto work = [&](ClientRequest* request) {
    FiberScope parts;
    for (int p = 0; p < load.parts; ++p) {
      const bool started = parts.Spawn([&, request] {
        for (int s = 0; s < load.slices; ++s) {
          TestCancel();
          load.slice();
          ++request->slices;
          ++slices;
          if (request->has_gone) ++for_nobody;
        }
      });
      WEFT_CHECK(started, "no fiber could be started");
    }
    parts.Wait();
  };
  TcpListener listener;
  WEFT_CHECK(!listener.Listen(SocketAddress::LoopbackIpv4(0)), "no address to listen on");
  TcpServer server(std::move(listener), [&](TcpStream& stream) {
    std::uint32_t number = 0;
    if (stream.ReadAll(&number, sizeof(number)).bytes != sizeof(number)) return;
    ClientRequest* const request = &requests[number];
    CancelScope scope;
    std::optional<CancelOnHangup> watch;
    if (load.cancels) watch.emplace(stream, &scope);
    if (scope.Run([&] { work(request); })) static_cast<void>(stream.WriteAll("."));
  });
  WEFT_CHECK(server.Start(), "no fiber could be started");
  FiberScope clients;
  for (std::uint32_t number = 0; number < requests.size(); ++number) {
    const bool started = clients.Spawn([&, number] {
      TcpStream stream;
      WEFT_CHECK(!stream.Connect(server.local_address()), "no connection");
      WEFT_CHECK(stream.WriteAll(&number, sizeof(number)).ok(), "the request cannot be sent");
      if (number % 2 == 0) {
        load.patience(requests[number]);
        requests[number].has_gone = true;
        return;
      }
      char answer = 0;
      WEFT_CHECK(stream.ReadAll(&answer, 1).bytes == 1, "who waits for an answer gets one");
    });
    WEFT_CHECK(started, "no fiber could be started");
  }
  clients.Wait();
  server.Stop();
  return {.slices = slices, .for_nobody = for_nobody};
}

}  // namespace weft::io

#endif  // WEFT_TESTS_IO_WORK_FOR_NOBODY_H_
