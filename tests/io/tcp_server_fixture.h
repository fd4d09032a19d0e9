// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// For tests of io::TcpServer: clients that ask, and read the end.
#ifndef WEFT_TESTS_IO_TCP_SERVER_FIXTURE_H_
#define WEFT_TESTS_IO_TCP_SERVER_FIXTURE_H_

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <string>
#include <string_view>
#include <system_error>

#include "weft/io/reactor/descriptor.h"
#include "weft/io/tcp_server.h"
#include "weft/tests/io/io_fixture.h"

namespace weft::io {

class TcpServerTest : public IoTest {
 protected:
  static TcpListener Listening() {
    TcpListener listener;
    EXPECT_FALSE(listener.Listen(OwnLoopback()));
    return listener;
  }
  static TcpStream Client(const TcpServer& server) {
    TcpStream stream;
    const std::error_code error = stream.Connect(server.local_address(), Soon());
    EXPECT_FALSE(error) << error.message();
    return stream;
  }
  // Sends a line and reads the answer.
  static std::string Ask(TcpStream& stream, std::string_view line) {
    if (!stream.WriteAll(line, Soon()).ok()) return "(no write)";
    std::string answer(line.size(), '\0');
    const IoResult got = stream.ReadAll(answer.data(), answer.size(), Soon());
    return got.ok() ? answer.substr(0, got.bytes) : "(no answer: " + got.error.message() + ')';
  }
};

// Soon: `client` reads the end.
inline void ExpectEnd(TcpStream& client) {
  char byte = 0;
  const IoResult end = client.ReadSome(&byte, 1, Soon());
  EXPECT_TRUE(end.ok()) << end.error.message();
  EXPECT_EQ(end.bytes, 0u);
}

// The listener is closed: others may have its address. (A connect might find that the drain lets no handshake begin,
// and come back after a second.)
inline bool IsRefused(const TcpServer& server) {
  const SocketAddress address = server.local_address();
  const Descriptor socket(::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0));
  const int yes = 1;
  EXPECT_EQ(::setsockopt(socket.fd(), SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes)), 0);
  return ::bind(socket.fd(), address.data(), address.size()) == 0;
}

}  // namespace weft::io

#endif  // WEFT_TESTS_IO_TCP_SERVER_FIXTURE_H_
