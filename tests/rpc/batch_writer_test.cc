// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/examples/rpc/batch_writer.h"

#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "weft/examples/rpc/frame.h"
#include "weft/fiber/fiber.h"
#include "weft/io/reactor/descriptor.h"
#include "weft/io/tcp_stream.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_latch.h"
#include "weft/tests/fiber/runtime_fixture.h"

#include "examples/rpc/echo.pb.h"

namespace weft::rpc {
namespace {

// Two ends of a connection, and a writer for one of them.
class WriterAndPeer final : private BatchWriter::Owner {
 public:
  explicit WriterAndPeer(const BatchWriter::Options& options = {}) : writer_(this, &stream_, options) {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends), 0);
    const int small = 8192;  // So that the kernel often takes only a part.
    EXPECT_EQ(::setsockopt(ends[0], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small)), 0);
    stream_ = io::TcpStream(io::Descriptor(ends[0]));
    peer_ = io::TcpStream(io::Descriptor(ends[1]));
  }
  // The writer may end after the last fiber that writes has given up its use.
  ~WriterAndPeer() {
    EndUse();
    unused_.Wait();
  }

  BatchWriter& writer() { return writer_; }
  io::TcpStream& peer() { return peer_; }

 private:
  void BeginUse() noexcept override { uses_.fetch_add(1); }
  void EndUse() noexcept override {
    if (uses_.fetch_sub(1) == 1) unused_.Set();
  }

  io::TcpStream stream_;
  io::TcpStream peer_;
  std::atomic<int> uses_{1};
  FiberEvent unused_;
  BatchWriter writer_;
};

OutFramePtr FrameOf(std::uint64_t id, std::size_t size) {
  EchoAnswer body;
  body.set_payload(std::string(size, static_cast<char>('a' + id % 26)));
  return MakeFrame(FrameKind::kAnswer, id, nullptr, &body);
}

class BatchWriterTest : public fiber::InEachShape {};
INSTANTIATE_TEST_SUITE_P(Shapes, BatchWriterTest, ::testing::Values(fiber::Shape{1, 1}, fiber::Shape{2, 1}),
                         &fiber::NameOf);

TEST_P(BatchWriterTest, FramesOfManyFibersArriveWholeAndInEachFibersOrder) {
  constexpr std::uint64_t kFibers = 20;
  constexpr std::uint64_t kFrames = 300;
  InFiber([&] {
    WriterAndPeer pair;
    FiberLatch written(kFibers);
    for (std::uint64_t f = 0; f < kFibers; ++f) {
      ASSERT_TRUE(StartFiberDetached([&, f] {
        for (std::uint64_t i = 0; i < kFrames; ++i) {
          EXPECT_TRUE(pair.writer().Write(FrameOf(f << 32 | i, (f * 131 + i * 17) % (i % 50 == 0 ? 30'000 : 200))));
        }
        written.CountDown();
      }));
    }
    FrameReader reader({});
    std::vector<std::uint64_t> next(kFibers, 0);
    for (std::uint64_t count = 0; count < kFibers * kFrames;) {
      const std::span<char> room = reader.Room();
      const io::IoResult result = pair.peer().ReadSome(room.data(), room.size());
      ASSERT_TRUE(result.ok() && result.bytes != 0);
      reader.Filled(result.bytes);
      Frame frame;
      while (reader.Next(&frame) == FrameReader::Result::kFrame) {
        const std::uint64_t id = frame.header.correlation_id;
        const std::uint64_t f = id >> 32;
        ASSERT_LT(f, kFibers);
        ASSERT_EQ(static_cast<std::uint32_t>(id), next[f]++);
        EchoAnswer body;
        ASSERT_TRUE(body.ParseFromArray(frame.body.data(), static_cast<int>(frame.body.size())));
        ASSERT_EQ(body.payload().find_first_not_of(static_cast<char>('a' + id % 26)), std::string::npos);
        ++count;
      }
      ASSERT_EQ(reader.error(), "");
    }
    written.Wait();
    EXPECT_EQ(pair.writer().counts().frames, kFibers * kFrames);
  });
}

TEST_P(BatchWriterTest, FramesThatAreGivenTogetherShareAWrite) {
  InFiber([&] {
    WriterAndPeer pair;
    constexpr int kFibers = 50;
    FiberLatch written(kFibers);
    std::vector<std::function<void()>> starts;
    for (int i = 0; i < kFibers; ++i) {
      starts.emplace_back([&, i] {
        EXPECT_TRUE(pair.writer().Write(FrameOf(static_cast<std::uint64_t>(i), 10)));
        written.CountDown();
      });
    }
    ASSERT_TRUE(BatchStartFiberDetached(std::move(starts)));
    written.Wait();
    char bytes[kFibers * (FrameHeader::kSize + 12)];
    ASSERT_EQ(pair.peer().ReadAll(bytes, sizeof(bytes)).bytes, sizeof(bytes));
    // With one worker all are given before the first writer's next turn.
    if (workers() == 1) {
      EXPECT_EQ(pair.writer().counts().writes, 1u);
    }
    EXPECT_LE(pair.writer().counts().writes, std::uint64_t{kFibers});
  });
}

TEST(BatchWriterOneWorkerTest, FramesAreNotHeldUpByFibersThatCompute) {
  const fiber::RuntimeOf runtime(fiber::Shape{1, 1});
  Fiber([] {
    WriterAndPeer pair;
    constexpr int kFibers = 10;
    const auto round = [&] {
      FiberLatch written(kFibers);
      std::vector<std::function<void()>> starts(kFibers, [&] {
        const auto until = std::chrono::steady_clock::now() + std::chrono::milliseconds(1);
        while (std::chrono::steady_clock::now() < until) continue;
        EXPECT_TRUE(pair.writer().Write(FrameOf(1, 10)));
        written.CountDown();
      });
      EXPECT_TRUE(BatchStartFiberDetached(std::move(starts)));
      written.Wait();
      char bytes[kFibers * (FrameHeader::kSize + 12)];
      EXPECT_EQ(pair.peer().ReadAll(bytes, sizeof(bytes)).bytes, sizeof(bytes));
    };
    round();
    EXPECT_EQ(pair.writer().counts().writes, 1u);  // The first has waited for nine others.
    round();
    EXPECT_EQ(pair.writer().counts().writes, 1u + kFibers);  // And the next for none.
  }).Join();
}

TEST_P(BatchWriterTest, WhoWaitsForRoomGoesOnWhenThePeerReads) {
  InFiber([&] {
    WriterAndPeer pair({.max_unsent = 100'000});
    std::size_t given = 0;
    for (std::uint64_t i = 0; !pair.writer().TooMuchUnsent(); ++i) {
      OutFramePtr frame = FrameOf(i, 10'000);
      given += frame->size();
      ASSERT_TRUE(pair.writer().Write(std::move(frame)));
    }
    FiberEvent passed;
    Fiber waiter([&] {
      pair.writer().WaitForRoom();
      EXPECT_FALSE(pair.writer().TooMuchUnsent());
      passed.Set();
    });
    FiberYield();
    EXPECT_FALSE(passed.IsSet()) << "nothing has been read";
    std::vector<char> bytes(given);
    EXPECT_EQ(pair.peer().ReadAll(bytes.data(), given).bytes, given);
    waiter.Join();
  });
}

TEST_P(BatchWriterTest, APeerThatIsGoneEndsTheWriterAndTheWaits) {
  InFiber([&] {
    WriterAndPeer pair({.max_unsent = 100'000});
    while (!pair.writer().TooMuchUnsent()) {
      ASSERT_TRUE(pair.writer().Write(FrameOf(1, 10'000)));
    }
    Fiber waiter([&] { pair.writer().WaitForRoom(); });
    pair.peer().Close();
    waiter.Join();
    EXPECT_TRUE(pair.writer().failed());
    EXPECT_FALSE(pair.writer().Write(FrameOf(2, 10)));
  });
}

TEST_P(BatchWriterTest, APeerThatTakesNothingIsGivenUp) {
  InFiber([&] {
    WriterAndPeer pair({.max_unsent = 100'000, .timeout = std::chrono::milliseconds(30)});
    while (!pair.writer().TooMuchUnsent()) {
      ASSERT_TRUE(pair.writer().Write(FrameOf(1, 10'000)));
    }
    pair.writer().WaitForRoom();
    EXPECT_TRUE(pair.writer().failed());
  });
}

}  // namespace
}  // namespace weft::rpc
