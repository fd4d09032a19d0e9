// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// What a cancellation ends of a TcpStream's calls that need more than one system call, and what the stream is good for
// afterwards. Reading: tcp_stream_test.cc.

#include <poll.h>
#include <sys/uio.h>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <string>
#include <system_error>
#include <utility>

#include "weft/base/noncontiguous_buffer.h"
#include "weft/fiber/fiber.h"
#include "weft/io/tcp_listener.h"
#include "weft/io/tcp_stream.h"
#include "weft/sync/cancel_scope.h"
#include "weft/tests/io/dropping_listener.h"
#include "weft/tests/io/io_fixture.h"

#include "testing/test_bytes.h"

namespace weft::io {
namespace {

using namespace std::chrono_literals;

class TcpCancelTest : public IoTest {
 protected:
  // Connects to the one and says something to it.
  static void ExpectGoodForAnotherConnection(TcpStream& stream) {
    TcpListener listener;
    ASSERT_FALSE(listener.Listen(OwnLoopback()));
    ASSERT_FALSE(stream.Connect(listener.local_address(), Soon()));
    TcpStream accepted;
    ASSERT_FALSE(listener.Accept(&accepted, Soon()));
    EXPECT_TRUE(stream.WriteAll("x", Soon()).ok());
    char got = '\0';
    EXPECT_EQ(accepted.ReadAll(&got, 1, Soon()).bytes, 1u);
    EXPECT_EQ(got, 'x');
  }
};
WEFT_INSTANTIATE_IO_SHAPES(TcpCancelTest);

TEST_P(TcpCancelTest, ACancellationEndsAConnectInProgress) {
  const DroppingListener dropping;
  TcpStream stream;
  const std::size_t before = runtime_.counts().descriptors;
  Fiber connecting([&] {
    EXPECT_EQ(stream.Connect(dropping.address()), std::errc::operation_canceled);
    EXPECT_EQ(stream.Connect(dropping.address(), Soon()), std::errc::operation_canceled) << "and the next one";
  });
  ASSERT_TRUE(
      Reaches([&] { return runtime_.counts().descriptors == before + 1; }));  // The kernel has said EINPROGRESS.
  EXPECT_TRUE(connecting.Cancel());
  connecting.Join();
  EXPECT_FALSE(stream.IsOpen());
  EXPECT_EQ(runtime_.counts().descriptors, before);
  ExpectGoodForAnotherConnection(stream);
}

TEST_P(TcpCancelTest, TheDeadlineOfAScopeEndsAConnectInProgress) {
  const DroppingListener dropping;
  InFiber([&] {
    TcpStream stream;
    CancelScope scope(5ms);
    static_cast<void>(scope.Run([&] {  //
      EXPECT_EQ(stream.Connect(dropping.address(), Soon()), std::errc::operation_canceled);
    }));
    EXPECT_TRUE(scope.DeadlineHasPassed());
    EXPECT_FALSE(stream.IsOpen());
    ExpectGoodForAnotherConnection(stream);
  });
}

// A connection that is there is replaced when the new one is.
TEST_P(TcpCancelTest, ACancelledConnectLeavesTheFormerConnection) {
  const DroppingListener dropping;
  Pair pair = ConnectedPair();
  const std::size_t before = runtime_.counts().descriptors;
  Fiber connecting([&] {  //
    EXPECT_EQ(pair.client.Connect(dropping.address()), std::errc::operation_canceled);
  });
  ASSERT_TRUE(Reaches([&] { return runtime_.counts().descriptors == before + 1; }));
  EXPECT_TRUE(connecting.Cancel());
  connecting.Join();
  EXPECT_TRUE(pair.client.WriteAll("x", Soon()).ok());
  char got = '\0';
  EXPECT_EQ(pair.server.ReadAll(&got, 1, Soon()).bytes, 1u);
}

// A text that the kernel has no room for, in the forms that WriteAll() takes.
struct Text {
  explicit Text(std::size_t size) : text(testing::TestBytes(size, 1)) {
    const std::size_t third = size / 3;
    parts[0] = {text.data(), third};
    parts[1] = {text.data() + third, third};
    parts[2] = {text.data() + 2 * third, size - 2 * third};
    buffer.Append(text);
  }
  // The rest, after `written` bytes in all and `latest` of the last call.
  IoResult WriteRest(TcpStream& stream, int form, std::size_t written, std::size_t latest) {
    if (form == 0) return stream.WriteAll(text.data() + written, text.size() - written);
    if (form == 1) return stream.WriteAll(parts, 3);
    buffer.Skip(latest);
    return stream.WriteAll(buffer);
  }

  std::string text;
  iovec parts[3];
  NoncontiguousBuffer buffer;
};

TEST_P(TcpCancelTest, ACancelledWriteAllHasWrittenWhatItSays) {
  for (const int form : {0, 1, 2}) {
    Pair pair = ConnectedPair();
    Text text(16 << 20);
    std::size_t written = 0;
    std::size_t latest = 0;
    Fiber writer([&] {
      for (int call = 0; call < 2; ++call) {  // The second has to wait, too: nobody has read.
        const IoResult put = text.WriteRest(pair.client, form, written, latest);
        EXPECT_EQ(put.error, std::errc::operation_canceled);
        written += latest = put.bytes;
      }
    });
    const auto has_no_room = [&] {
      pollfd polled{.fd = pair.client.fd(), .events = POLLOUT, .revents = 0};
      return ::poll(&polled, 1, 0) == 0;
    };
    ASSERT_TRUE(Reaches(has_no_room));
    EXPECT_TRUE(writer.Cancel());
    writer.Join();
    EXPECT_GT(written, 0u);
    EXPECT_LT(written, text.text.size());
    EXPECT_TRUE(pair.client.IsOpen());

    // The stream is as good as before, in both directions.
    EXPECT_TRUE(pair.server.WriteAll("x", Soon()).ok());
    char answer = '\0';
    EXPECT_EQ(pair.client.ReadAll(&answer, 1, Soon()).bytes, 1u);
    Fiber rest([&] {
      const IoResult put = text.WriteRest(pair.client, form, written, latest);
      EXPECT_TRUE(put.ok());
      EXPECT_EQ(written + put.bytes, text.text.size());
      EXPECT_FALSE(pair.client.ShutdownWrite());
    });
    std::string got(text.text.size() + 1, '\0');
    const IoResult all = pair.server.ReadAll(got.data(), got.size(), Soon());
    rest.Join();
    got.resize(all.bytes);
    EXPECT_TRUE(got == text.text) << all.bytes << " bytes, form " << form;
  }
}

}  // namespace
}  // namespace weft::io
