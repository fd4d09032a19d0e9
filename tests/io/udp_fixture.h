// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// For tests of io::UdpSocket: clients of a server that sends back what it gets.
#ifndef WEFT_TESTS_IO_UDP_FIXTURE_H_
#define WEFT_TESTS_IO_UDP_FIXTURE_H_

#include <string>
#include <string_view>
#include <vector>

#include "weft/fiber/fiber.h"
#include "weft/io/socket_address.h"
#include "weft/io/udp_socket.h"
#include "weft/tests/io/io_fixture.h"

namespace weft::io {

// Ten clients, each a fiber, which asks again when it has been answered. Returns when all have ended.
inline void AskFromManyFibers(const SocketAddress& server) {
  std::vector<Fiber> clients;
  for (int c = 0; c < 10; ++c) {
    clients.emplace_back([&server, c] {
      UdpSocket client;
      EXPECT_FALSE(client.Connect(server));
      for (int i = 0; i < Scaled(200); ++i) {
        const std::string asked = std::to_string(c) + '/' + std::to_string(i);
        EXPECT_TRUE(client.Send(asked.data(), asked.size(), Soon()).ok());
        char buffer[64];
        const IoResult got = client.Receive(buffer, sizeof(buffer), Soon());
        EXPECT_EQ(std::string_view(buffer, got.bytes), asked) << got.error.message();
        if (!got.ok()) return;
      }
    });
  }
  for (Fiber& client : clients) client.Join();
}

}  // namespace weft::io

#endif  // WEFT_TESTS_IO_UDP_FIXTURE_H_
