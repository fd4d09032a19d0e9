// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>

#include <string>
#include <string_view>

#include "weft/fiber/fiber_scope.h"
#include "weft/io/tcp_stream.h"
#include "weft/io/wait_fd.h"
#include "weft/sync/cancel_scope.h"

#include "stress/storm.h"

namespace weft::fiber {
namespace {

std::string Pattern(std::size_t size) {
  std::string text(size, '\0');
  for (std::size_t i = 0; i < size; ++i) text[i] = static_cast<char>('a' + i % 26);
  return text;
}

}  // namespace

void Storm::UseSockets(Place place) {
  switch (place) {
    case Place::kWaitFd:
      return AwaitDescriptor();
    case Place::kAccept:
      return AcceptOne();
    case Place::kConnect:
      return ConnectOnce();
    default:
      return ReadHalfAndHalf();
  }
}

// Nothing comes: until the deadline, a cancellation or the close.
void Storm::AwaitDescriptor() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
  static_cast<void>(io::WaitFd(ends[0], POLLIN, Soon(3000)));
  static_cast<void>(io::CloseFd(ends[0]));
  static_cast<void>(io::CloseFd(ends[1]));
}

// Accepts a connection, and echoes for a while.
void Storm::AcceptOne() {
  io::TcpListener& listener = Below(2) == 0 ? sky_->tcp : sky_->local;
  io::TcpStream stream;
  if (listener.Accept(&stream, SoonOrNever())) return;
  ++sky_->accepted;
  char buffer[256];
  for (int i = Below(4); i >= 0; --i) {
    const io::IoResult got = stream.ReadSome(buffer, SoonOrNever());
    if (!got.ok() || got.bytes == 0) return;
    if (!stream.WriteAll(buffer, got.bytes, SoonOrNever()).ok()) return;
  }
  if (Below(2) == 0) stream.Reset();
}

// A client of that. It checks that the echo, if one comes, equals what it sent.
void Storm::ConnectOnce() {
  io::TcpStream stream;
  if (stream.Connect(Below(2) == 0 ? sky_->tcp_address : sky_->local_address, SoonOrNever())) return;
  const std::string sent = Pattern(1 + static_cast<std::size_t>(Below(600)));
  const io::IoResult written = stream.WriteAll(sent, SoonOrNever());
  std::size_t read = 0;
  char buffer[256];
  while (read < written.bytes) {
    const io::IoResult got = stream.ReadSome(buffer, Soon(2000));
    if (!got.ok() || got.bytes == 0) break;
    EXPECT_EQ(std::string_view(buffer, got.bytes), std::string_view(sent).substr(read, got.bytes));
    read += got.bytes;
    sky_->echoed += got.bytes;
  }
  EXPECT_LE(read, sent.size());
  stream.Reset();  // No port is kept in TIME_WAIT.
}

// One writes more than the socket takes at once; the caller reads some of it, gives up perhaps, and then reads the rest
// for sure: no byte is lost or doubled.
void Storm::ReadHalfAndHalf() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends) != 0) return;
  io::TcpStream reader{io::Descriptor(ends[0])};
  io::TcpStream writer{io::Descriptor(ends[1])};
  const int room = 4096;
  static_cast<void>(::setsockopt(writer.fd(), SOL_SOCKET, SO_SNDBUF, &room, sizeof(room)));
  const std::string sent = Pattern(1 + static_cast<std::size_t>(Below(30'000)));
  FiberScope others({.policy = ScopePolicy::kCollect});
  const bool started = others.Spawn({.scheduling_group = kUnspecifiedSchedulingGroup},
                                    [&] { Shielded([&] { EXPECT_EQ(writer.WriteAll(sent).bytes, sent.size()); }); });
  if (!started) return;
  std::string got(sent.size(), '\0');
  std::size_t read = 0;
  CancelScope hurried(SoonOrNever());
  static_cast<void>(hurried.Run([&] { read = reader.ReadAll(got.data(), got.size()).bytes; }));
  Shielded([&] {
    read += reader.ReadAll(got.data() + read, got.size() - read).bytes;
    others.Wait();
  });
  EXPECT_EQ(read, sent.size());
  EXPECT_TRUE(got == sent) << "other bytes than those that were sent";
}

}  // namespace weft::fiber
