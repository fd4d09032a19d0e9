// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// A TCP listener whose queue is full: a connect() to it stays in progress.
#ifndef WEFT_TESTS_IO_DROPPING_LISTENER_H_
#define WEFT_TESTS_IO_DROPPING_LISTENER_H_

#include <gtest/gtest.h>

#include <chrono>
#include <system_error>
#include <utility>
#include <vector>

#include "weft/io/socket_address.h"
#include "weft/io/tcp_listener.h"
#include "weft/io/tcp_stream.h"
#include "weft/tests/io/io_fixture.h"

namespace weft::io {

// A listener whose queue is full, so that the kernel drops who comes.
class DroppingListener {
 public:
  DroppingListener() {
    EXPECT_FALSE(listener_.Listen(OwnLoopback(), {.backlog = 0}));
    for (int i = 0; i < 8; ++i) {
      TcpStream stream;
      if (stream.Connect(listener_.local_address(), std::chrono::milliseconds(20)) == std::errc::timed_out) return;
      queued_.push_back(std::move(stream));
    }
    ADD_FAILURE() << "the kernel's queue of a listener with backlog 0 takes 8 connections";
  }
  SocketAddress address() const { return listener_.local_address(); }
  void Close() { listener_.Close(); }
  void Accept() {
    TcpStream stream;
    EXPECT_FALSE(listener_.Accept(&stream, Soon()));
  }

 private:
  TcpListener listener_;
  std::vector<TcpStream> queued_;
};

}  // namespace weft::io

#endif  // WEFT_TESTS_IO_DROPPING_LISTENER_H_
