// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/send_file.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <string>
#include <string_view>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "weft/base/noncontiguous_buffer.h"
#include "weft/io/tcp_stream.h"
#include "weft/tests/io/io_fixture.h"

#include "testing/test_bytes.h"

namespace weft::io {
namespace {

using namespace std::chrono_literals;

class SendFileTest : public IoTest {};
WEFT_INSTANTIATE_IO_SHAPES(SendFileTest);

// A file without a name.
class TestFile {
 public:
  explicit TestFile(std::string_view bytes) {
    char name[] = "/tmp/weft_send_file_XXXXXX";
    fd_ = ::mkstemp(name);
    EXPECT_GE(fd_, 0);
    EXPECT_EQ(::unlink(name), 0);
    EXPECT_EQ(::write(fd_, bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
  }
  ~TestFile() { ::close(fd_); }
  TestFile(const TestFile&) = delete;
  TestFile& operator=(const TestFile&) = delete;

  int fd() const { return fd_; }
  // As far as the file system lets go of it.
  void DropFromCache() const {
    EXPECT_EQ(::fsync(fd_), 0);
    EXPECT_EQ(::posix_fadvise(fd_, 0, 0, POSIX_FADV_DONTNEED), 0);
  }

 private:
  int fd_;
};

void SetSendBuffer(TcpStream& stream, int bytes) {
  EXPECT_EQ(::setsockopt(stream.fd(), SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)), 0);
}

std::string ReadToTheEnd(TcpStream& stream) {
  NoncontiguousBuffer all;
  for (;;) {
    const IoResult got = stream.ReadInto(&all, 64 << 10, Soon());
    EXPECT_TRUE(got.ok()) << got.error.message();
    if (!got.ok() || got.bytes == 0) return all.ToString();
  }
}

TEST_P(SendFileTest, SendsThePartThatIsAskedFor) {
  InFiberAndInThread([] {
    const std::string bytes = testing::TestBytes(1'300'000, 1);
    const TestFile file(bytes);
    ASSERT_EQ(::lseek(file.fd(), 7, SEEK_SET), 7);
    const std::pair<std::size_t, std::size_t> parts[] = {
        {0, bytes.size()}, {0, 1}, {1, 0}, {4095, 600'001}, {bytes.size() - 1, 1}};
    for (const auto& [offset, size] : parts) {
      file.DropFromCache();
      Pair pair = ConnectedPair();
      std::string got;
      Fiber reader([&, &server = pair.server] { got = ReadToTheEnd(server); });
      const IoResult put = SendFile(&pair.client, file.fd(), static_cast<off_t>(offset), size, Soon());
      EXPECT_TRUE(put.ok()) << put.error.message();
      EXPECT_EQ(put.bytes, size);
      EXPECT_FALSE(pair.client.ShutdownWrite());
      reader.Join();
      EXPECT_TRUE(got == bytes.substr(offset, size)) << size << " bytes from " << offset << " on, got " << got.size();
    }
    EXPECT_EQ(::lseek(file.fd(), 0, SEEK_CUR), 7);
  });
}

TEST_P(SendFileTest, AFileThatIsShorterEndsEarly) {
  InFiberAndInThread([] {
    const TestFile file("0123456789");
    Pair pair = ConnectedPair();
    const IoResult put = SendFile(&pair.client, file.fd(), 6, 100, Soon());
    EXPECT_TRUE(put.ok());
    EXPECT_EQ(put.bytes, 4u);
    const IoResult nothing = SendFile(&pair.client, file.fd(), 10, 100, Soon());
    EXPECT_TRUE(nothing.ok());
    EXPECT_EQ(nothing.bytes, 0u);
    EXPECT_FALSE(pair.client.ShutdownWrite());
    EXPECT_EQ(ReadToTheEnd(pair.server), "6789");
  });
}

TEST_P(SendFileTest, PartialWritesGoOnWhereTheyEnded) {
  InFiberAndInThread([] {
    const std::string bytes = testing::TestBytes(1'500'000, 2);
    const TestFile file(bytes);
    Pair pair = ConnectedPair();
    SetSendBuffer(pair.client, 16'384);
    const IoResult late = SendFile(&pair.client, file.fd(), 0, bytes.size(), 20ms);
    EXPECT_EQ(late.error, std::errc::timed_out);
    EXPECT_GT(late.bytes, 0u);
    EXPECT_LT(late.bytes, bytes.size());
    SetSendBuffer(pair.client, 1 << 20);
    std::string got;
    Fiber reader([&] { got = ReadToTheEnd(pair.server); });
    const IoResult rest =
        SendFile(&pair.client, file.fd(), static_cast<off_t>(late.bytes), bytes.size() - late.bytes, Soon());
    EXPECT_TRUE(rest.ok());
    EXPECT_EQ(late.bytes + rest.bytes, bytes.size());
    EXPECT_FALSE(pair.client.ShutdownWrite());
    reader.Join();
    EXPECT_TRUE(got == bytes);
  });
}

TEST_P(SendFileTest, ACancellationEndsTheWaitForRoom) {
  const TestFile file(testing::TestBytes(4'000'000, 3));
  Pair pair = ConnectedPair();
  SetSendBuffer(pair.client, 16'384);
  std::atomic<bool> sends{false};
  Fiber sender([&] {
    sends = true;
    const IoResult put = SendFile(&pair.client, file.fd(), 0, 4'000'000, Soon());
    EXPECT_EQ(put.error, std::errc::operation_canceled);
    EXPECT_LT(put.bytes, 4'000'000u);
    EXPECT_TRUE(pair.client.IsOpen());
  });
  ASSERT_TRUE(Reaches([&] { return sends.load(); }));
  EXPECT_TRUE(sender.Cancel());
  sender.Join();
}

// SIGPIPE would end the program.
TEST_P(SendFileTest, APeerThatHasGoneIsAnErrorAndNoSignal) {
  InFiberAndInThread([] {
    const TestFile file(testing::TestBytes(100'000, 4));
    Pair pair = ConnectedPair();
    EXPECT_FALSE(pair.client.ShutdownWrite());
    const IoResult put = SendFile(&pair.client, file.fd(), 0, 100'000, Soon());
    EXPECT_EQ(put.error, std::errc::broken_pipe);
    EXPECT_EQ(put.bytes, 0u);
  });
}

// What the caller has blocked and is pending stays so.
TEST_P(SendFileTest, ASignalThatWasPendingIsLeft) {
  std::thread([] {
    const TestFile file("abc");
    Pair pair = ConnectedPair();
    EXPECT_FALSE(pair.client.ShutdownWrite());
    sigset_t pipe;
    ::sigemptyset(&pipe);
    ::sigaddset(&pipe, SIGPIPE);
    EXPECT_EQ(::pthread_sigmask(SIG_BLOCK, &pipe, nullptr), 0);
    EXPECT_EQ(::pthread_kill(::pthread_self(), SIGPIPE), 0);
    EXPECT_EQ(SendFile(&pair.client, file.fd(), 0, 3, Soon()).error, std::errc::broken_pipe);
    const timespec at_once{};
    EXPECT_EQ(::sigtimedwait(&pipe, nullptr, &at_once), SIGPIPE);
  }).join();
}

TEST_P(SendFileTest, WhatIsNoFileIsRefused) {
  InFiberAndInThread([] {
    Pair pair = ConnectedPair();
    const TestFile file("abc");
    int pipe[2];
    ASSERT_EQ(::pipe(pipe), 0);
    ::close(pipe[1]);
    EXPECT_EQ(SendFile(&pair.client, -1, 0, 10, Soon()).error, std::errc::bad_file_descriptor);
    EXPECT_FALSE(SendFile(&pair.client, pipe[0], 0, 10, Soon()).ok());
    EXPECT_EQ(SendFile(&pair.client, file.fd(), -1, 10, Soon()).error, std::errc::invalid_argument);
    ::close(pipe[0]);
    TcpStream closed;
    EXPECT_EQ(SendFile(&closed, file.fd(), 0, 3, Soon()).error, std::errc::operation_canceled);
  });
}

TEST_P(SendFileTest, ManyConnectionsSendOneFile) {
  const std::string bytes = testing::TestBytes(900'000, 5);
  const TestFile file(bytes);
  std::vector<Fiber> fibers;
  for (int i = 0; i < Scaled(24); ++i) {
    fibers.emplace_back([&] {
      Pair pair = ConnectedPair();
      Fiber sender([&] {
        EXPECT_EQ(SendFile(&pair.client, file.fd(), 0, bytes.size(), Soon()).bytes, bytes.size());
        EXPECT_FALSE(pair.client.ShutdownWrite());
      });
      EXPECT_TRUE(ReadToTheEnd(pair.server) == bytes);
      sender.Join();
    });
  }
  for (Fiber& fiber : fibers) fiber.Join();
}

}  // namespace
}  // namespace weft::io
