// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Connecting(), LateHandshake: TCP clients whose handshakes have begun.
#ifndef WEFT_TESTS_IO_LATE_HANDSHAKE_H_
#define WEFT_TESTS_IO_LATE_HANDSHAKE_H_

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <sys/socket.h>

#include <cerrno>

#include "weft/io/reactor/descriptor.h"
#include "weft/io/socket_address.h"

namespace weft::io {

// Begins a connection, without waiting for it.
inline Descriptor Connecting(const SocketAddress& address) {
  const int fd = ::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  EXPECT_TRUE(::connect(fd, address.data(), address.size()) == 0 || errno == EINPROGRESS);
  return Descriptor(fd);
}

// The first SYN-ACK that a client gets is lost: the kernel of its peer, which has half of a connection, sends it again
// after a second.
class LateHandshake {
 public:
  explicit LateHandshake(const SocketAddress& address)
      : client_(::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
    sock_filter nothing = BPF_STMT(BPF_RET | BPF_K, 0);
    const sock_fprog filter{.len = 1, .filter = &nothing};
    EXPECT_EQ(::setsockopt(client_.fd(), SOL_SOCKET, SO_ATTACH_FILTER, &filter, sizeof(filter)), 0);
    EXPECT_EQ(::connect(client_.fd(), address.data(), address.size()), -1);
    EXPECT_EQ(errno, EINPROGRESS);
  }
  // From now on it gets what comes.
  const Descriptor& GoOn() {
    const int unused = 0;
    EXPECT_EQ(::setsockopt(client_.fd(), SOL_SOCKET, SO_DETACH_FILTER, &unused, sizeof(unused)), 0);
    return client_;
  }

 private:
  Descriptor client_;
};

}  // namespace weft::io

#endif  // WEFT_TESTS_IO_LATE_HANDSHAKE_H_
