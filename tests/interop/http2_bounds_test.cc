// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// HTTP/2: what must hold when something ends, or is too much, while the other side does not read.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "weft/base/noncontiguous_buffer.h"
#include "weft/base/ref_ptr.h"
#include "weft/fiber/this_fiber.h"
#include "weft/interop/http2/http2_session.h"
#include "weft/interop/http2_client.h"
#include "weft/interop/http2_server.h"
#include "weft/io/tcp_server.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_event.h"
#include "weft/tests/interop/http2_fixture.h"

namespace weft::interop {
namespace {

using io::Reaches;
using io::Soon;

constexpr std::uint32_t kLargestWindow = 0x7fff'ffff;

std::string Setting(char number, std::uint32_t value) { return std::string{'\0', number} + Number32(value); }

class Http2BoundsTest : public io::IoTest {};
WEFT_INSTANTIATE_IO_SHAPES(Http2BoundsTest);

// nghttp2 has made the head of a DATA frame whose bytes did not fit into the write, and then the stream was reset: its
// bytes were gone, and the peer took the next frames for them.
TEST_P(Http2BoundsTest, AFrameThatHasBegunIsSentWholeThoughItsStreamIsReset) {
  InFiber([] {
    ServedConnection served(
        [](Http2Request& request, Http2Response& response) {
          if (request.path() != "/much") return;
          EXPECT_FALSE(response.Start(200));
          EXPECT_TRUE(response.Write(std::string(300'000, 'x'), Soon()).ok());
          throw std::runtime_error("as it should");
        },
        {.max_handlers = 1, .send_buffer = 300'000});
    ShrinkBuffers(served.pair().server, served.pair().client);
    RawPeer peer(&served.client());
    peer.Greet(Setting(4, kLargestWindow));
    peer.SendFrame(kWindowUpdate, 0, 0, Number32(0x7000'0000));
    peer.Ask(1, true, "GET", "/much");
    // Refused as long as the first handler has not ended. Ever more rarely: until its RST_STREAM goes out, behind the
    // DATA, a refused stream counts as open, and nghttp2 ends a connection with too many.
    std::uint32_t stream = 1;
    for (std::chrono::microseconds pause(100); served.server().counts().requests < 2; pause *= 2) {
      FiberSleepFor(pause);
      const std::uint64_t refused = served.server().counts().refused;
      peer.Ask(stream += 2);
      ASSERT_TRUE(Reaches([&] {
        const Http2Server::Counts counts = served.server().counts();
        return counts.refused > refused || counts.requests > 1;
      }));
    }
    EXPECT_EQ(peer.Await(kRstStream, 1).code(), kInternalError);
    std::size_t bytes = 0;
    for (const Frame& frame : peer.passed()) {
      if (frame.type != kData) continue;
      EXPECT_EQ(frame.payload, std::string(frame.payload.size(), 'x'));
      bytes += frame.payload.size();
    }
    EXPECT_LT(bytes, 300'000u) << "nothing was waiting: the test has not tested";
    static_cast<void>(peer.UntilPingAnswer());
  });
}

TEST_P(Http2BoundsTest, WhatWasReadOfABodyIsNotKept) {
  InFiber([] {
    const auto stream = base::MakeRefCounted<Http2Stream>();
    std::string read;
    std::string written;
    for (int i = 0; i < 1'000; ++i) {  // The reader is always a thousand bytes behind.
      const std::string piece(1'000, static_cast<char>('a' + i % 26));
      ASSERT_TRUE(stream->PutIn(piece));
      written += piece;
      if (i == 0) continue;
      read.append(stream->in, stream->in_begin, 1'000);
      stream->SkipIn(1'000);
      ASSERT_LE(stream->in.size(), 4'000u);
    }
    EXPECT_EQ(stream->unread(), 1'000u);
    EXPECT_TRUE(read == written.substr(0, read.size()));
  });
}

// An answer may be here before another worker has left its handler: await what comes after that with Reaches().
std::size_t ReturnedWindow(const std::vector<Frame>& frames) {
  std::size_t bytes = 0;
  for (const Frame& frame : frames) {
    if (frame.type == kWindowUpdate && frame.stream == 0) bytes += frame.number();
  }
  return bytes;
}

TEST_P(Http2BoundsTest, AWholeBodyThatNobodyReadsGivesTheConnectionsWindowBack) {
  InFiber([] {
    FiberEvent may_return;
    ServedConnection served(
        [&](Http2Request&, Http2Response& response) {
          may_return.Wait();
          EXPECT_FALSE(response.Send(200, {}, "enough"));
        },
        {.connection_window = 65'535});
    RawPeer peer(&served.client());
    peer.Greet();
    peer.Ask(1, /*end=*/false, "POST");
    for (int i = 0; i < 4; ++i) peer.SendFrame(kData, i == 3 ? kEndStream : 0, 1, std::string(10'000, 'x'));
    EXPECT_EQ(ReturnedWindow(peer.UntilPingAnswer()), 0u);
    may_return.Set();
    static_cast<void>(peer.Await(kData, 1, kEndStream));
    std::size_t returned = ReturnedWindow(peer.passed());
    EXPECT_TRUE(Reaches([&] { return (returned += ReturnedWindow(peer.UntilPingAnswer())) == 40'000u; }));
  });
}

// Its answer waits for a window, so the stream goes on.
TEST_P(Http2BoundsTest, ABodyThatComesAfterItsHandlerGivesTheConnectionsWindowBack) {
  InFiber([] {
    ServedConnection served(
        [](Http2Request&, Http2Response& response) { EXPECT_FALSE(response.Send(200, {}, "enough")); },
        {.connection_window = 65'535});
    RawPeer peer(&served.client());
    peer.Greet(Setting(4, 0));
    peer.Ask(1, /*end=*/false, "POST");
    static_cast<void>(peer.Await(kHeaders, 1));
    std::size_t returned = 0;
    for (int i = 0; i < 6; ++i) {
      peer.SendFrame(kData, 0, 1, std::string(10'000, 'x'));
      returned += ReturnedWindow(peer.UntilPingAnswer());
    }
    // nghttp2 gives it back by halves.
    EXPECT_TRUE(Reaches([&] { return (returned += ReturnedWindow(peer.UntilPingAnswer())) >= 65'535u / 2; }));
  });
}

// The answer to the drain's PING and one more request come in one piece: the GOAWAY leaves that request out, so the
// client may make it again elsewhere.
TEST_P(Http2BoundsTest, ARequestThatTheLastGoAwayLeavesOutDoesNotBegin) {
  InFiber([] {
    FiberEvent began, may_answer;
    Http2Server http([&](Http2Request& request, Http2Response& response) {
      EXPECT_EQ(request.path(), "/slow");
      began.Set();
      may_answer.Wait();
      EXPECT_FALSE(response.Send(200, {}, "answer"));
    });
    io::TcpListener listener;
    ASSERT_FALSE(listener.Listen(io::OwnLoopback()));
    io::TcpServer server(std::move(listener),
                         [&](io::TcpConnection& connection) { EXPECT_FALSE(http.Serve(Http2Transport(connection))); });
    ASSERT_TRUE(server.Start());
    io::TcpStream stream;
    ASSERT_FALSE(stream.Connect(server.local_address(), Soon()));
    RawPeer peer(&stream);
    peer.Greet();
    peer.Ask(1, true, "GET", "/slow");
    began.Wait();
    Fiber stops([&] { server.Stop(Soon()); });
    static_cast<void>(peer.Await(kGoAway));
    const Frame ping = peer.Await(kPing);
    peer.Send(FrameOf(kPing, kAck, 0, ping.payload) +
              FrameOf(kHeaders, kEndHeaders | kEndStream, 3, RequestFields("POST", "/late")));
    EXPECT_EQ(peer.Await(kGoAway).number(), 1u);
    // One that began before its client read that. nghttp2 does not tell of it, so its trailers have no stream.
    peer.Send(FrameOf(kHeaders, kEndHeaders, 5, RequestFields("POST", "/late")) +
              FrameOf(kHeaders, kEndHeaders | kEndStream, 5, Literal("x-trailer", "last")) +
              FrameOf(kPing, 0, 0, "was read"));
    static_cast<void>(peer.Await(kPing, 0, kAck));
    may_answer.Set();
    EXPECT_EQ(peer.Await(kData, 1, kEndStream).payload, "answer");
    peer.AwaitEnd();
    for (const Frame& frame : peer.passed()) {
      if (frame.stream == 3) {
        EXPECT_EQ(frame.type, kRstStream);
        EXPECT_EQ(frame.code(), kRefusedStream);
      }
    }
    stream.Close();
    stops.Join();
    EXPECT_EQ(http.counts().requests, 1u);
  });
}

// nghttp2 drops them without a word, and the other side waits.
TEST_P(Http2BoundsTest, FieldsThatCannotBeSentAreRefused) {
  InFiber([] {
    const Http2Headers too_long{{"x-long", std::string(65'500, 'a')}};
    // As bytes() counts, with ":status" and "200": 65,536.
    const std::string longest(65'536 - (32 + 7 + 3) - (32 + 6), 'a');
    ServedConnection served([&](Http2Request&, Http2Response& response) {
      EXPECT_EQ(response.Send(200, too_long, "body"), Http2Errc::kBadField);
      EXPECT_FALSE(response.started());
      EXPECT_FALSE(response.Start(200, {{"x-long", longest}}));
      EXPECT_TRUE(response.started());
      EXPECT_EQ(response.Finish(too_long), Http2Errc::kBadField);
      EXPECT_FALSE(response.Finish({{"x-last", "word"}}));
    });
    Http2Client client{Http2Transport(served.client()), {.max_header_list = 1 << 20}};
    ASSERT_TRUE(client.Start());
    Http2Call call;
    const std::string path = std::string("/").append(65'500, 'a');
    EXPECT_EQ(client.OpenWithoutBody({.path = path, .authority = "a"}, &call, Soon()), Http2Errc::kBadField);
    const Http2Answer answer = client.Ask({.authority = "a"}, {}, Soon());
    EXPECT_FALSE(answer.error) << answer.error.message();
    EXPECT_EQ(answer.headers.Find("x-long"), longest);
    EXPECT_EQ(answer.trailers.Find("x-last"), "word");
  });
}

// Blocks whose deleters count.
class Blocks {
 public:
  explicit Blocks(std::size_t count, std::size_t size) : texts_(count) {
    for (std::size_t i = 0; i < count; ++i) {
      texts_[i].assign(size, static_cast<char>('a' + i % 26));
      all_ += texts_[i];
    }
  }
  NoncontiguousBuffer Buffer() {
    NoncontiguousBuffer buffer;
    for (const std::string& text : texts_) {
      buffer.AppendForeign(text.data(), text.size(), [this](const void*) { ++gone_; });
    }
    return buffer;
  }
  const std::string& all() const { return all_; }
  std::size_t gone() const { return gone_; }

 private:
  std::vector<std::string> texts_;
  std::string all_;
  std::atomic<std::size_t> gone_{0};
};

TEST_P(Http2BoundsTest, ABodyOfBlocksIsSharedUntilItIsSent) {
  InFiber([] {
    Blocks blocks(3, 1'000);
    FiberEvent dropped, may_return;
    ServedConnection served([&](Http2Request&, Http2Response& response) {
      EXPECT_FALSE(response.Start(200));
      NoncontiguousBuffer body = blocks.Buffer();
      EXPECT_EQ(response.Write(body, Soon()).bytes, 3'000u);
      EXPECT_EQ(body.ByteSize(), 3'000u);
      body.Clear();
      dropped.Set();
      Shielded([&] { EXPECT_TRUE(may_return.Wait(Soon())); });
    });
    RawPeer peer(&served.client());
    peer.Greet(Setting(4, 0));
    peer.Ask(1);
    EXPECT_TRUE(dropped.Wait(Soon()));
    EXPECT_EQ(blocks.gone(), 0u) << "copied";
    peer.SendFrame(kWindowUpdate, 0, 1, Number32(1'500));
    EXPECT_TRUE(peer.Await(kData, 1).payload == blocks.all().substr(0, 1'500));
    EXPECT_EQ(blocks.gone(), 1u);
    peer.SendFrame(kWindowUpdate, 0, 1, Number32(1'000));
    EXPECT_TRUE(peer.Await(kData, 1).payload == blocks.all().substr(1'500, 1'000));
    EXPECT_EQ(blocks.gone(), 2u);
    peer.SendFrame(kRstStream, 0, 1, Number32(kCancel));
    // The stream frees its unsent blocks, too, while the handler still runs.
    EXPECT_TRUE(Reaches([&] { return blocks.gone() == 3; }));
    may_return.Set();
  });
}

TEST_P(Http2BoundsTest, ABodyOfBlocksComesWholeThroughSmallWindows) {
  InFiber([] {
    Blocks blocks(40, 3'001);
    ServedConnection served(
        [&](Http2Request& request, Http2Response& response) {
          EXPECT_FALSE(response.Start(200));
          EXPECT_TRUE(response.Write("first", Soon()).ok());
          const std::size_t size = blocks.all().size();
          EXPECT_EQ(response.Write(blocks.Buffer(), Soon()).bytes, size);
          EXPECT_EQ(response.Write(NoncontiguousBuffer(), Soon()).bytes, 0u);
          EXPECT_TRUE(response.Write("last", Soon()).ok());
          if (request.method() == "HEAD") {
            EXPECT_EQ(blocks.gone(), 80u);
          }
        },
        {.send_buffer = 1'234});
    Http2Client client{Http2Transport(served.client()), {.stream_window = 5'000}};
    ASSERT_TRUE(client.Start());
    const Http2Answer answer = client.Ask({.authority = "a"}, {}, Soon());
    EXPECT_FALSE(answer.error) << answer.error.message();
    EXPECT_TRUE(answer.body == "first" + blocks.all() + "last") << answer.body.size();
    EXPECT_EQ(blocks.gone(), 40u);
    EXPECT_EQ(client.Ask({.method = "HEAD", .authority = "a"}, {}, Soon()).body, "");
  });
}

TEST_P(Http2BoundsTest, AWriteOfBlocksThatIsLateSaysHowManyBytesItTook) {
  InFiber([] {
    Blocks blocks(4, 1'000);
    FiberEvent late;
    ServedConnection served(
        [&](Http2Request&, Http2Response& response) {
          EXPECT_FALSE(response.Start(200));
          NoncontiguousBuffer body = blocks.Buffer();
          const io::IoResult put = response.Write(body, std::chrono::milliseconds(10));
          EXPECT_EQ(put.error, std::errc::timed_out);
          EXPECT_EQ(put.bytes, 2'500u);
          body.Skip(put.bytes);
          late.Set();
          EXPECT_EQ(response.Write(body, Soon()).bytes, 1'500u);
          response.Reset();
        },
        {.send_buffer = 2'500});
    RawPeer peer(&served.client());
    peer.Greet(Setting(4, 0));
    peer.Ask(1);
    late.Wait();
    peer.SendFrame(kWindowUpdate, 0, 1, Number32(2'500));
    EXPECT_TRUE(peer.Await(kData, 1).payload == blocks.all().substr(0, 2'500));
    static_cast<void>(peer.Await(kRstStream, 1));
    EXPECT_TRUE(Reaches([&] { return blocks.gone() == 4; }));
  });
}

// It took its own requests for a flood by the server.
TEST_P(Http2BoundsTest, AClientMayHaveManyRequestsThatTheServerHasNotReadYet) {
  InFiber([] {
    // TCP with little room may stand still for tens of seconds.
    io::Pair pair = io::ConnectedPair(io::UnixAddress());
    ShrinkSendBuffer(pair.client);
    RawPeer peer(&pair.server);
    Http2Client client{Http2Transport(pair.client), {.max_queued_frames = 100}};
    ASSERT_TRUE(client.Start());
    char preface[24];
    ASSERT_TRUE(pair.server.ReadAll(preface, sizeof(preface), Soon()).ok());
    peer.SendFrame(kSettings, 0, 0, Setting(3, 10'000));
    peer.SendFrame(kSettings, kAck, 0);
    static_cast<void>(peer.Await(kSettings, 0, kAck));
    constexpr std::uint32_t kCalls = 1'200;  // The kernel and one write have room for some hundred of them.
    std::vector<Http2Call> calls(kCalls);
    for (std::uint32_t i = 0; i < kCalls; ++i) {
      const std::string path = std::string("/").append(std::to_string(i)).append(200, '~');
      ASSERT_FALSE(client.OpenWithoutBody({.path = path, .authority = "a"}, &calls[i], Soon()));
    }
    peer.SendFrame(kPing, 0, 0, "for once");
    static_cast<void>(peer.Await(kPing, 0, kAck));
    static_cast<void>(peer.Await(kHeaders, 2 * kCalls - 1));
    EXPECT_TRUE(client.IsOpen());
    calls.clear();
    static_cast<void>(pair.server.Shutdown());
  });
}

// "MadeYouReset" (CVE-2025-8671): windows that are too large make us reset the stream.
TEST_P(Http2BoundsTest, ResetsThatAClientMakesUsSendCountAsItsOwn) {
  InFiber([] {
    FiberEvent never;
    ServedConnection served([&](Http2Request&, Http2Response&) { never.Wait(); },
                            {.max_resets = 5, .resets_per_second = 0});
    RawPeer peer(&served.client());
    peer.Greet();
    std::uint32_t stream = 1;
    const auto provoke_one = [&] {
      peer.Ask(stream);
      peer.SendFrame(kWindowUpdate, 0, stream, Number32(kLargestWindow));
      stream += 2;
    };
    for (int i = 0; i < 5; ++i) provoke_one();
    for (const Frame& frame : peer.UntilPingAnswer()) EXPECT_NE(frame.type, kGoAway);
    EXPECT_EQ(served.server().counts().reset, 5u);
    // On a slow machine some may live for long, and do not count. The flood is seen when more comes.
    for (int i = 0; i < 1'000 && served.server().counts().flooded == 0; ++i) {
      provoke_one();
      Frame frame;
      do {
        frame = peer.Next();
      } while (frame.type != kRstStream && frame.type != kGoAway);
      if (frame.type != kGoAway) continue;
      EXPECT_EQ(frame.code(), kEnhanceYourCalm);
      break;
    }
    served.client().Close();
    EXPECT_EQ(served.Join(), Http2Errc::kFlooded);
  });
}

}  // namespace
}  // namespace weft::interop
