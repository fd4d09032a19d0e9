// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// TcpStream's reads and writes of a NoncontiguousBuffer.

#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <random>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "weft/base/noncontiguous_buffer.h"
#include "weft/io/tcp_stream.h"
#include "weft/tests/io/io_fixture.h"

#include "testing/test_bytes.h"

namespace weft::io {
namespace {

using namespace std::chrono_literals;

class TcpStreamBufferTest : public IoTest {};
WEFT_INSTANTIATE_IO_SHAPES(TcpStreamBufferTest);

// In many blocks of unequal size.
NoncontiguousBuffer InBlocks(std::string_view bytes, std::size_t most, unsigned seed) {
  std::mt19937 random(seed);
  NoncontiguousBuffer buffer;
  while (!bytes.empty()) {
    const std::size_t size = std::min(bytes.size(), 1 + random() % most);
    buffer.Append(NoncontiguousBuffer(bytes.substr(0, size)));
    bytes.remove_prefix(size);
  }
  return buffer;
}

void SetSendBuffer(TcpStream& stream, int bytes) {
  EXPECT_EQ(::setsockopt(stream.fd(), SOL_SOCKET, SO_SNDBUF, &bytes, sizeof(bytes)), 0);
}

NoncontiguousBuffer ReadToTheEnd(TcpStream& stream, std::size_t max) {
  NoncontiguousBuffer all;
  for (;;) {
    const std::size_t before = all.ByteSize();
    const IoResult got = stream.ReadInto(&all, max, Soon());
    EXPECT_TRUE(got.ok()) << got.error.message();
    EXPECT_LE(got.bytes, max);
    EXPECT_EQ(all.ByteSize(), before + got.bytes);
    if (!got.ok() || got.bytes == 0) return all;
  }
}

TEST_P(TcpStreamBufferTest, AllBlocksArriveInOrderThroughPartialWrites) {
  InFiberAndInThread([] {
    for (const std::size_t most : {100, 5'000}) {
      Pair pair = ConnectedPair();
      SetSendBuffer(pair.client, 4096);
      const std::string bytes = testing::TestBytes(200'000, 1);
      const NoncontiguousBuffer sent = InBlocks(bytes, most, 2);
      NoncontiguousBuffer got;
      Fiber reader([&] { got = ReadToTheEnd(pair.server, 16 << 10); });
      const IoResult put = pair.client.WriteAll(sent, Soon());
      EXPECT_TRUE(put.ok());
      EXPECT_EQ(put.bytes, bytes.size());
      EXPECT_FALSE(pair.client.ShutdownWrite());
      reader.Join();
      EXPECT_TRUE(got == bytes);
      EXPECT_TRUE(sent == bytes);
    }
  });
}

TEST_P(TcpStreamBufferTest, AWriterThatIsLateSaysHowFarItCame) {
  InFiberAndInThread([] {
    Pair pair = ConnectedPair();
    SetSendBuffer(pair.client, 8192);
    const std::string bytes = testing::TestBytes(1'500'000, 3);
    NoncontiguousBuffer rest = InBlocks(bytes, 30'000, 4);
    const IoResult put = pair.client.WriteAll(rest, 20ms);
    EXPECT_EQ(put.error, std::errc::timed_out);
    ASSERT_LT(put.bytes, bytes.size());
    EXPECT_GT(put.bytes, 0u);
    rest.Skip(put.bytes);
    SetSendBuffer(pair.client, 1 << 20);
    NoncontiguousBuffer got;
    Fiber reader([&] { got = ReadToTheEnd(pair.server, 64 << 10); });
    while (!rest.Empty()) {
      const IoResult some = pair.client.WriteSome(rest, Soon());
      ASSERT_TRUE(some.ok());
      ASSERT_GT(some.bytes, 0u);
      rest.Skip(some.bytes);
    }
    EXPECT_FALSE(pair.client.ShutdownWrite());
    reader.Join();
    EXPECT_TRUE(got == bytes);
  });
}

TEST_P(TcpStreamBufferTest, AWriterLearnsThatItsPeerHasGone) {
  InFiber([] {
    Pair pair = ConnectedPair();
    pair.server.Reset();
    const NoncontiguousBuffer much = InBlocks(testing::TestBytes(3'000'000, 5), 30'000, 6);
    const IoResult put = pair.client.WriteAll(much, Soon());
    EXPECT_FALSE(put.ok());
    EXPECT_LT(put.bytes, much.ByteSize());
    EXPECT_EQ(pair.client.WriteAll(NoncontiguousBuffer(), Soon()).error, std::error_code());
  });
}

TEST_P(TcpStreamBufferTest, ReadsGoBehindEachOtherInOneBlock) {
  InFiberAndInThread([] {
    Pair pair = ConnectedPair();
    NoncontiguousBuffer buffer;
    EXPECT_EQ(pair.server.ReadInto(&buffer, 1000, 1ms).error, std::errc::timed_out);
    EXPECT_EQ(pair.server.ReadInto(&buffer, 0, 1ms).error, std::error_code());
    EXPECT_TRUE(buffer.Empty());
    EXPECT_TRUE(pair.client.WriteAll("first").ok());
    EXPECT_EQ(pair.server.ReadInto(&buffer, 1000, Soon()).bytes, 5u);
    const char* const at = buffer.FirstContiguous().data();
    const NoncontiguousBuffer held = buffer.Cut(5);
    EXPECT_TRUE(pair.client.WriteAll("second").ok());
    EXPECT_EQ(pair.server.ReadInto(&buffer, 4, Soon()).bytes, 4u);  // At most.
    EXPECT_EQ(pair.server.ReadInto(&buffer, 1000, Soon()).bytes, 2u);
    EXPECT_EQ(buffer.FirstContiguous().data(), at + 5);
    EXPECT_TRUE(buffer == "second");
    EXPECT_TRUE(held == "first");
    EXPECT_EQ(buffer.Blocks().size(), 1u);
    // Less than an eighth of what is wanted is not worth a read.
    EXPECT_TRUE(pair.client.WriteAll("third").ok());
    EXPECT_EQ(pair.server.ReadInto(&buffer, 20'000, Soon()).bytes, 5u);
    EXPECT_EQ(buffer.Blocks().size(), 2u);
    EXPECT_FALSE(pair.client.ShutdownWrite());
    const IoResult end = pair.server.ReadInto(&buffer, 1000, Soon());
    EXPECT_TRUE(end.ok());
    EXPECT_EQ(end.bytes, 0u);
    EXPECT_TRUE(buffer == "secondthird");
  });
}

TEST_P(TcpStreamBufferTest, ACancellationEndsTheRead) {
  Pair pair = ConnectedPair();
  std::atomic<bool> reads{false};
  NoncontiguousBuffer buffer;
  Fiber reader([&] {
    reads = true;
    EXPECT_EQ(pair.server.ReadInto(&buffer, 1000, Soon()).error, std::errc::operation_canceled);
  });
  ASSERT_TRUE(Reaches([&] { return reads.load(); }));
  EXPECT_TRUE(reader.Cancel());
  reader.Join();
  EXPECT_TRUE(buffer.Empty());
}

// The same blocks go out over many connections, and come back in blocks that are passed on as they are.
TEST_P(TcpStreamBufferTest, ManyConnectionsShareBlocks) {
  const std::string bytes = testing::TestBytes(100'000, 7);
  NoncontiguousBuffer shared = InBlocks(bytes, 3'000, 8);
  std::vector<Fiber> fibers;
  for (int i = 0; i < Scaled(32); ++i) {
    fibers.emplace_back([&bytes, mine = shared] {
      Pair pair = ConnectedPair();
      Fiber echo([&] {
        NoncontiguousBuffer some;
        for (;;) {
          const IoResult got = pair.server.ReadInto(&some, 8'000, Soon());
          EXPECT_TRUE(got.ok());
          if (!got.ok() || got.bytes == 0) break;
          EXPECT_EQ(pair.server.WriteAll(some.Cut(got.bytes), Soon()).bytes, got.bytes);
        }
        EXPECT_FALSE(pair.server.ShutdownWrite());
      });
      Fiber writer([&] {
        EXPECT_TRUE(pair.client.WriteAll(mine, Soon()).ok());
        EXPECT_FALSE(pair.client.ShutdownWrite());
      });
      EXPECT_TRUE(ReadToTheEnd(pair.client, 10'000) == bytes);
      writer.Join();
      echo.Join();
    });
  }
  shared.Clear();
  for (Fiber& fiber : fibers) fiber.Join();
}

}  // namespace
}  // namespace weft::io
