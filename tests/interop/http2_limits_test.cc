// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Http2Server: clients that break the protocol, take without giving, or do not read.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <string>
#include <system_error>
#include <vector>

#include "weft/fiber/fiber_scope.h"
#include "weft/fiber/this_fiber.h"
#include "weft/interop/http2/http2_flood.h"
#include "weft/interop/http2/http2_session.h"
#include "weft/interop/http2_server.h"
#include "weft/io/tcp_server.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_cancelled.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_latch.h"
#include "weft/tests/interop/http2_fixture.h"

namespace weft::interop {
namespace {

using namespace std::chrono_literals;
using io::IoResult;
using io::Reaches;
using io::Soon;
using Steady = std::chrono::steady_clock;

void Answer(Http2Request&, Http2Response& response) { static_cast<void>(response.Send(200, {}, "ok")); }

// SETTINGS_INITIAL_WINDOW_SIZE
std::string WindowOf(std::uint32_t size) { return std::string("\0\4", 2) + Number32(size); }

class Http2LimitsTest : public io::IoTest {};

// Two connections of one server.
class TwoConnections {
 public:
  explicit TwoConnections(Http2Server* http) {
    for (io::Pair* const pair : {&first_, &second_}) {
      EXPECT_TRUE(serving_.Spawn([http, pair] { static_cast<void>(http->Serve(Http2Transport(pair->server))); }));
    }
    a.Greet();
    b.Greet();
  }
  // Both clients go. Returns when both connections have ended.
  void End() {
    EXPECT_FALSE(first_.client.Shutdown());
    EXPECT_FALSE(second_.client.Shutdown());
    serving_.Wait();
  }

 private:
  io::Pair first_ = io::ConnectedPair();
  io::Pair second_ = io::ConnectedPair();
  FiberScope serving_;

 public:
  RawPeer a{&first_.client};
  RawPeer b{&second_.client};
};

WEFT_INSTANTIATE_IO_SHAPES(Http2LimitsTest);

TEST_P(Http2LimitsTest, AProtocolErrorEndsTheConnectionAndItsHandlers) {
  InFiber([] {
    FiberEvent began, never;
    ServedConnection served([&](Http2Request&, Http2Response&) {
      began.Set();
      never.Wait();
    });
    RawPeer peer(&served.client());
    peer.Greet();
    peer.Ask(1);
    began.Wait();
    peer.SendFrame(kData, 0, 0, "on no stream");
    EXPECT_EQ(peer.Await(kGoAway).code(), kProtocolError);
    peer.AwaitEnd();
    served.client().Close();
    EXPECT_EQ(served.Join(), Http2Errc::kProtocolError);
    EXPECT_EQ(served.server().counts().protocol_errors, 1u);
    EXPECT_EQ(served.server().counts().settings_timeouts, 0u);
  });
}

TEST_P(Http2LimitsTest, WhatIsNotHttp2IsToldSo) {
  InFiber([] {
    ServedConnection served(&Answer);
    RawPeer peer(&served.client());
    peer.Send("GET / HTTP/1.1\r\nhost: a\r\n\r\n");
    EXPECT_EQ(peer.Await(kGoAway).code(), kProtocolError);
    peer.AwaitEnd();
    served.client().Close();
    EXPECT_EQ(served.Join(), Http2Errc::kProtocolError);
  });
}

TEST_P(Http2LimitsTest, StreamsAboveTheLimitAreRefused) {
  InFiber([] {
    FiberEvent may_answer;
    ServedConnection served(
        [&](Http2Request& request, Http2Response& response) {
          may_answer.Wait();
          Answer(request, response);
        },
        {.max_concurrent_streams = 2});
    RawPeer peer(&served.client());
    peer.Send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + FrameOf(kSettings, 0, 0));  // Not acknowledged: not binding yet.
    for (const std::uint32_t stream : {1, 3, 5}) peer.Ask(stream);
    EXPECT_EQ(peer.Await(kRstStream, 5).code(), kRefusedStream);
    EXPECT_EQ(served.server().counts().refused, 1u);
    may_answer.Set();
    static_cast<void>(peer.Await(kData, 1, kEndStream));
  });
}

TEST_P(Http2LimitsTest, StreamsAboveALimitThatWasAcknowledgedEndTheConnection) {
  InFiber([] {
    FiberEvent never;
    ServedConnection served([&](Http2Request&, Http2Response&) { never.Wait(); }, {.max_concurrent_streams = 2});
    RawPeer peer(&served.client());
    peer.Greet();
    for (const std::uint32_t stream : {1, 3, 5}) peer.Ask(stream);
    EXPECT_EQ(peer.Await(kGoAway).code(), kProtocolError);
    peer.AwaitEnd();
    served.client().Close();
    EXPECT_EQ(served.Join(), Http2Errc::kProtocolError);
    EXPECT_EQ(served.server().counts().protocol_errors, 1u);
    EXPECT_EQ(served.server().counts().refused, 0u);
  });
}

TEST_P(Http2LimitsTest, RapidResetsEndTheConnection) {
  InFiber([] {
    FiberEvent never;
    ServedConnection served([&](Http2Request&, Http2Response&) { never.Wait(); },
                            {.max_resets = 10, .resets_per_second = 0});
    RawPeer peer(&served.client());
    peer.Greet();
    std::uint32_t stream = 1;
    const auto reset_one = [&] {
      peer.Send(FrameOf(kHeaders, kEndHeaders | kEndStream, stream, RequestFields()) +
                FrameOf(kRstStream, 0, stream, Number32(kCancel)));
      stream += 2;
    };
    for (int i = 0; i < 10; ++i) reset_one();
    for (const Frame& frame : peer.UntilPingAnswer()) EXPECT_NE(frame.type, kGoAway);
    // One, unless the machine is so slow that some have lived for long.
    bool is_over = false;
    for (int i = 0; i < 1'000 && !is_over; ++i) {
      is_over = served.server().counts().flooded != 0 || (i != 0 && !served.client().WaitReadable(1ms));
      if (!is_over) reset_one();
    }
    ASSERT_TRUE(is_over) << "there is no limit";
    EXPECT_EQ(peer.Await(kGoAway).code(), kEnhanceYourCalm);
    peer.AwaitEnd();
    served.client().Close();
    EXPECT_EQ(served.Join(), Http2Errc::kFlooded);
    EXPECT_GE(served.server().counts().reset, 11u);
    EXPECT_EQ(served.server().counts().flooded, 1u);
  });
}

// nghttp2 has a limit of its own, of 1,000 at once: its clients lost their other calls by "protocol errors".
TEST_P(Http2LimitsTest, OurLimitOfResetsIsTheOneThatCounts) {
  InFiber([] {
    FiberEvent never;
    ServedConnection served([&](Http2Request&, Http2Response&) { never.Wait(); }, {.max_resets = 10'000});
    RawPeer peer(&served.client());
    peer.Greet();
    std::uint32_t stream = 1;
    for (int i = 0; i < 15; ++i) {
      std::string frames;
      for (int k = 0; k < 100; ++k, stream += 2) {
        frames += FrameOf(kHeaders, kEndHeaders | kEndStream, stream, RequestFields()) +
                  FrameOf(kRstStream, 0, stream, Number32(kCancel));
      }
      peer.Send(frames);
      for (const Frame& frame : peer.UntilPingAnswer()) EXPECT_NE(frame.type, kGoAway);
    }
    EXPECT_EQ(served.server().counts().reset, 1'500u);
  });
}

// Calls whose deadlines pass, because a backend is slow: each is reset, and each has had its place for its time.
TEST_P(Http2LimitsTest, RequestsThatAreGivenUpAfterAWhileAreNoFlood) {
  InFiber([] {
    FiberEvent never;
    ServedConnection served(
        [&](Http2Request& request, Http2Response& response) {
          if (request.path() == "/good") return Answer(request, response);
          never.Wait();
        },
        {.max_resets = 1, .resets_per_second = 0});
    RawPeer peer(&served.client());
    peer.Greet();
    std::uint32_t stream = 1;
    for (int i = 0; i < 3; ++i) {
      const std::uint32_t first = stream;
      for (; stream < first + 40; stream += 2) peer.Ask(stream);
      static_cast<void>(peer.UntilPingAnswer());
      FiberSleepFor(12ms);
      for (std::uint32_t given_up = first; given_up < stream; given_up += 2) {
        peer.SendFrame(kRstStream, 0, given_up, Number32(kCancel));
      }
    }
    peer.Ask(stream, true, "GET", "/good");
    EXPECT_EQ(peer.Await(kData, stream, kEndStream).payload, "ok");
    EXPECT_EQ(served.server().counts().reset, 60u);
    EXPECT_EQ(served.server().counts().flooded, 0u);
  });
}

TEST_P(Http2LimitsTest, AnAnsweredRequestMakesRoomForAResetOne) {
  InFiber([] {
    FiberEvent never;
    ServedConnection served(
        [&](Http2Request& request, Http2Response& response) {
          if (request.path() == "/good") return Answer(request, response);
          never.Wait();
        },
        {.max_resets = 1, .resets_per_second = 0});
    RawPeer peer(&served.client());
    peer.Greet();
    for (std::uint32_t stream = 1; stream < 40; stream += 4) {
      peer.Send(FrameOf(kHeaders, kEndHeaders | kEndStream, stream, RequestFields()) +
                FrameOf(kRstStream, 0, stream, Number32(kCancel)));
      peer.Ask(stream + 2, true, "GET", "/good");
      EXPECT_EQ(peer.Await(kData, stream + 2, kEndStream).payload, "ok");
    }
    EXPECT_EQ(served.server().counts().flooded, 0u);
  });
}

TEST_P(Http2LimitsTest, ResetsAfterTheAnswerAreNoFlood) {
  InFiber([] {
    ServedConnection served(&Answer, {.max_resets = 1, .resets_per_second = 0});
    RawPeer peer(&served.client());
    peer.Greet();
    for (std::uint32_t stream = 1; stream < 20; stream += 2) {
      peer.Ask(stream, /*end=*/false);
      static_cast<void>(peer.Await(kData, stream, kEndStream));
      peer.SendFrame(kRstStream, 0, stream, Number32(kCancel));
    }
    for (const Frame& frame : peer.UntilPingAnswer()) EXPECT_NE(frame.type, kGoAway);
    EXPECT_EQ(served.server().counts().reset, 0u);
  });
}

TEST_P(Http2LimitsTest, HandlersOfResetStreamsCountUntilTheyReturn) {
  InFiber([] {
    FiberEvent may_end;
    FiberLatch began(2);
    ServedConnection served(
        [&](Http2Request& request, Http2Response& response) {
          if (request.path() != "/stuck") return Answer(request, response);
          began.CountDown();
          Shielded([&] { may_end.Wait(); });
        },
        {.max_concurrent_streams = 2, .max_handlers = 2});
    RawPeer peer(&served.client());
    peer.Greet();
    for (const std::uint32_t stream : {1, 3}) {
      peer.Ask(stream, true, "GET", "/stuck");
    }
    began.Wait();
    for (const std::uint32_t stream : {1, 3}) peer.SendFrame(kRstStream, 0, stream, Number32(kCancel));
    peer.Ask(5);
    EXPECT_EQ(peer.Await(kRstStream, 5).code(), kRefusedStream);
    may_end.Set();
    std::uint32_t stream = 7;
    EXPECT_TRUE(Reaches([&] {
      peer.Ask(stream);
      for (;;) {
        const Frame frame = peer.Next();
        if (frame.ended() || (frame.stream == stream && frame.type == kData)) return true;
        if (frame.stream == stream && frame.type == kRstStream) break;
      }
      stream += 2;
      return false;
    }));
    EXPECT_GE(served.server().counts().refused, 1u);
  });
}

// One client could fill the server's memory by many connections.
TEST_P(Http2LimitsTest, AllConnectionsOfAServerShareALimitOfHandlers) {
  InFiber([] {
    FiberEvent never;
    FiberLatch began(2);
    Http2Server http(
        [&](Http2Request& request, Http2Response& response) {
          if (request.path() != "/waits") return Answer(request, response);
          began.CountDown();
          never.Wait();
        },
        {.max_server_handlers = 2});
    TwoConnections connections(&http);
    RawPeer& a = connections.a;
    RawPeer& b = connections.b;
    a.Ask(1, true, "GET", "/waits");
    b.Ask(1, true, "GET", "/waits");
    began.Wait();
    EXPECT_EQ(http.counts().handlers, 2u);
    b.Ask(3);
    EXPECT_EQ(b.Await(kRstStream, 3).code(), kRefusedStream);
    EXPECT_EQ(http.counts().refused, 1u);
    a.SendFrame(kRstStream, 0, 1, Number32(kCancel));
    EXPECT_TRUE(Reaches([&] { return http.counts().handlers == 1; }));
    b.Ask(5);
    EXPECT_EQ(b.Await(kData, 5, kEndStream).payload, "ok");
    EXPECT_TRUE(Reaches([&] { return http.counts().handlers == 1; }));
    // One that is reset before it begins.
    a.Send(FrameOf(kHeaders, kEndHeaders | kEndStream, 3, RequestFields()) +
           FrameOf(kRstStream, 0, 3, Number32(kCancel)));
    static_cast<void>(a.UntilPingAnswer());
    EXPECT_TRUE(Reaches([&] { return http.counts().handlers == 1; }));
    EXPECT_EQ(http.counts().refused, 1u);
    connections.End();
    EXPECT_EQ(http.counts().handlers, 0u);
  });
}

// 60,000 bytes, in frames.
std::string Upload(std::uint32_t stream, bool end) {
  constexpr int kFrames = 4;
  std::string frames;
  for (int i = 1; i <= kFrames; ++i) {
    frames += FrameOf(kData, end && i == kFrames ? kEndStream : 0, stream, std::string(15'000, 'b'));
  }
  return frames;
}

// As many windows of 1 MiB as a client has connections.
TEST_P(Http2LimitsTest, AllConnectionsOfAServerShareALimitOfUnreadBodies) {
  InFiber([] {
    FiberEvent may_read;
    std::atomic<int> cancelled{0}, read{0};
    Http2Server http(
        [&](Http2Request& request, Http2Response& response) {
          if (request.path() == "/leaves") return Answer(request, response);
          try {
            may_read.Wait();
          } catch (const FiberCancelled&) {
            ++cancelled;
            throw;
          }
          std::string body;
          EXPECT_FALSE(request.ReadAll(&body, 60'000));
          EXPECT_EQ(body, std::string(60'000, 'b'));
          ++read;
          Answer(request, response);
        },
        {.max_server_bodies = 100'000});
    const auto holds = [&](std::size_t bytes) { return Reaches([&] { return http.counts().body_bytes == bytes; }); };
    TwoConnections connections(&http);
    RawPeer& a = connections.a;
    RawPeer& b = connections.b;
    a.Ask(1, false, "POST", "/reads");
    a.Send(Upload(1, true));
    EXPECT_TRUE(holds(60'000));
    b.Ask(1, false, "POST", "/reads");
    b.Send(Upload(1, true));
    EXPECT_EQ(b.Await(kRstStream, 1).code(), kEnhanceYourCalm);
    EXPECT_TRUE(Reaches([&] { return cancelled == 1; }));
    EXPECT_TRUE(holds(60'000)) << "what had come of the stream that was reset is not given back";
    EXPECT_EQ(http.counts().over_bodies, 1u);
    // What is read has room again.
    may_read.Set();
    EXPECT_EQ(a.Await(kData, 1, kEndStream).payload, "ok");
    EXPECT_TRUE(holds(0));
    b.Ask(3, false, "POST", "/reads");
    b.Send(Upload(3, true));
    EXPECT_EQ(b.Await(kData, 3, kEndStream).payload, "ok");
    // So has what nobody reads: its handler returns, or its client resets it.
    b.Ask(5, false, "POST", "/leaves");
    b.Send(Upload(5, true));
    EXPECT_EQ(b.Await(kData, 5, kEndStream).payload, "ok");
    EXPECT_TRUE(holds(0));
    may_read.Reset();
    a.Ask(3, false, "POST", "/reads");
    a.Send(Upload(3, false));
    EXPECT_TRUE(holds(60'000));
    a.SendFrame(kRstStream, 0, 3, Number32(kCancel));
    EXPECT_TRUE(holds(0));
    // Or its connection ends.
    a.Ask(5, false, "POST", "/reads");
    a.Send(Upload(5, true));
    EXPECT_TRUE(holds(60'000));
    connections.End();
    EXPECT_EQ(http.counts().body_bytes, 0u);
    EXPECT_EQ(http.counts().over_bodies, 1u);
    EXPECT_EQ(read, 2);
  });
}

// It kept a buffer as large as its window, though nothing was unread.
TEST(Http2Stream, HasNoLargeBufferOfABodyThatWasRead) {
  Http2Stream stream;
  EXPECT_TRUE(stream.PutIn(std::string(60'000, 'b')));
  stream.SkipIn(59'999);
  EXPECT_EQ(stream.unread(), 1u);
  stream.SkipIn(1);
  EXPECT_EQ(stream.unread(), 0u);
  EXPECT_LE(stream.in.capacity(), Http2Stream::kKeptIn);
}

// A whole request and its reset that come in one read: nobody reads the body, and the window is the connection's.
TEST_P(Http2LimitsTest, ARequestThatIsResetAtOnceLeavesItsWindow) {
  InFiber([] {
    constexpr std::uint32_t kWindow = 65'535;  // The server tells of more when half of it is free.
    constexpr std::size_t kBody = 10'000;
    ServedConnection served(&Answer, {.connection_window = kWindow});
    RawPeer peer(&served.client());
    peer.Greet();
    std::uint32_t stream = 1;
    for (std::size_t sent = 0; sent < 3 * kWindow; sent += kBody, stream += 2) {
      peer.Send(FrameOf(kHeaders, kEndHeaders, stream, RequestFields("POST")) +
                FrameOf(kData, kEndStream, stream, std::string(kBody, 'b')) +
                FrameOf(kRstStream, 0, stream, Number32(kCancel)));
      static_cast<void>(peer.UntilPingAnswer());
    }
    peer.Ask(stream);
    EXPECT_EQ(peer.Await(kData, stream, kEndStream).payload, "ok");
  });
}

TEST_P(Http2LimitsTest, FieldsAboveTheLimitGet431) {
  InFiber([] {
    ServedConnection served(&Answer, {.max_header_list = 1'000});
    RawPeer peer(&served.client());
    peer.Greet();
    std::string fields = RequestFields();
    for (int i = 0; i < 10; ++i) fields += Literal("x-field", std::string(100, 'a'));
    peer.SendFrame(kHeaders, kEndHeaders, 1, fields);
    const Frame answer = peer.Await(kHeaders, 1);
    EXPECT_EQ(answer.flags, kEndHeaders | kEndStream);
    EXPECT_NE(answer.payload.find("431"), std::string::npos);
    EXPECT_EQ(peer.Await(kRstStream, 1).code(), kNoError);
    peer.Ask(3);
    EXPECT_EQ(peer.Await(kData, 3, kEndStream).payload, "ok");
    EXPECT_EQ(served.server().counts().requests, 1u);
    EXPECT_EQ(served.server().counts().too_large, 1u);
  });
}

TEST_P(Http2LimitsTest, TrailersAboveTheLimitResetTheirStream) {
  InFiber([] {
    FiberEvent ended;
    ServedConnection served(
        [&](Http2Request& request, Http2Response&) {
          char room[16];
          const auto error = MoveOnAfter(Soon(), [&] { return request.Read(room, sizeof(room)).error; });
          EXPECT_TRUE(error == Http2Errc::kHeadersTooLarge || error == std::errc::operation_canceled);
          ended.Set();
        },
        {.max_header_list = 1'000});
    RawPeer peer(&served.client());
    peer.Greet();
    peer.Ask(1, /*end=*/false, "POST");
    std::string fields;
    for (int i = 0; i < 10; ++i) fields += Literal("x-field", std::string(100, 'a'));
    peer.SendFrame(kHeaders, kEndHeaders | kEndStream, 1, fields);
    EXPECT_EQ(peer.Await(kRstStream, 1).code(), kCancel);
    // None, if request and trailers came together.
    static_cast<void>(peer.UntilPingAnswer());
    if (served.server().counts().requests != 0) ended.Wait();
    EXPECT_EQ(served.server().counts().too_large, 1u);
    EXPECT_EQ(served.server().counts().reset, 0u);
  });
}

// The session added a section's bytes on the wire to its decoded bytes, and ended the connection at half the limit.
TEST_P(Http2LimitsTest, FieldsOfSixTimesTheLimitGet431) {
  InFiber([] {
    ServedConnection served(&Answer, {.max_header_list = 1'000});
    RawPeer peer(&served.client());
    peer.Greet();
    std::string fields = RequestFields();
    for (int i = 0; i < 42; ++i) fields += Literal("x-field", std::string(100, 'a'));
    peer.SendFrame(kHeaders, kEndHeaders | kEndStream, 1, fields);
    const Frame answer = peer.Await(kHeaders, 1);
    EXPECT_NE(answer.payload.find("431"), std::string::npos);
    peer.Ask(3);
    EXPECT_EQ(peer.Await(kData, 3, kEndStream).payload, "ok");
    EXPECT_EQ(served.server().counts().flooded, 0u);
  });
}

// A kilobyte of references made nghttp2 look at megabytes of fields, after we had had enough.
TEST_P(Http2LimitsTest, ABombOfReferencesEndsTheConnection) {
  const std::string bomb = BombOf(16'000);
  const auto frames_of = [&](std::string_view where) -> std::string {
    if (where == "fields") return FrameOf(kHeaders, kEndHeaders | kEndStream, 3, RequestFields() + bomb);
    if (where == "continuation") {
      return FrameOf(kHeaders, kEndStream, 3, RequestFields()) + FrameOf(kContinuation, kEndHeaders, 3, bomb);
    }
    return FrameOf(kHeaders, kEndHeaders, 3, RequestFields("POST")) +
           FrameOf(kHeaders, kEndHeaders | kEndStream, 3, bomb);
  };
  InFiber([&] {
    for (const std::string_view where : {"fields", "continuation", "trailers"}) {
      ServedConnection served(&Answer);
      RawPeer peer(&served.client());
      peer.Greet();
      peer.SendFrame(kHeaders, kEndHeaders | kEndStream, 1, RequestFields() + BombEntry());
      EXPECT_EQ(peer.Await(kData, 1, kEndStream).payload, "ok");
      peer.Send(frames_of(where));
      EXPECT_EQ(peer.Await(kGoAway).code(), kEnhanceYourCalm) << where;
      peer.AwaitEnd();
      served.client().Close();
      EXPECT_EQ(served.Join(), Http2Errc::kFlooded) << where;
      EXPECT_EQ(served.server().counts().flooded, 1u) << where;
    }
  });
}

// A section is too long as it comes, though nghttp2 throws its fields away unseen: those of a stream that it refuses.
TEST_P(Http2LimitsTest, ALongSectionOfARefusedStreamEndsTheConnection) {
  InFiber([] {
    FiberEvent never;
    ServedConnection served([&](Http2Request&, Http2Response&) { never.Wait(); },
                            {.max_handlers = 1, .max_header_list = 1'000});
    RawPeer peer(&served.client());
    peer.Greet();
    peer.Ask(1);
    static_cast<void>(peer.UntilPingAnswer());
    peer.SendFrame(kHeaders, kEndHeaders | kEndStream, 3, RequestFields() + std::string(9'000, '\x82'));
    EXPECT_EQ(peer.Await(kGoAway).code(), kEnhanceYourCalm);
    peer.AwaitEnd();
    served.client().Close();
    EXPECT_EQ(served.Join(), Http2Errc::kFlooded);
  });
}

// Each below the limit that ends a connection at once, and 16,000 bytes for ten.
TEST_P(Http2LimitsTest, ManyRequestsWithTooManyFieldsEndTheConnection) {
  InFiber([] {
    ServedConnection served(&Answer, {.max_resets = 3, .resets_per_second = 0});
    RawPeer peer(&served.client());
    peer.Greet();
    peer.SendFrame(kHeaders, kEndHeaders | kEndStream, 1, RequestFields() + BombEntry());
    EXPECT_EQ(peer.Await(kData, 1, kEndStream).payload, "ok");
    std::uint32_t stream = 3;
    const auto ask = [&] {
      peer.SendFrame(kHeaders, kEndHeaders | kEndStream, stream, RequestFields() + BombOf(6));
      stream += 2;
    };
    for (int i = 0; i < 3; ++i) {
      ask();
      EXPECT_EQ(peer.Await(kHeaders, stream - 2).flags, kEndHeaders | kEndStream);  // 431
    }
    ask();
    EXPECT_EQ(peer.Await(kGoAway).code(), kEnhanceYourCalm);
    peer.AwaitEnd();
    served.client().Close();
    EXPECT_EQ(served.Join(), Http2Errc::kFlooded);
    EXPECT_EQ(served.server().counts().too_large, 4u);
  });
}

// While the client reads: answers that are not read have a limit of their own.
TEST_P(Http2LimitsTest, AFloodOfFramesWithoutContentEndsTheConnection) {
  struct Kind {
    const char* name;
    std::string frame;
  };
  const Kind kinds[] = {
      {"DATA", FrameOf(kData, 0, 1)},
      {"DATA of nothing but padding", FrameOf(kData, kPadded, 1, std::string("\3\0\0\0", 4))},
      {"DATA of a stream that has ended", FrameOf(kData, kEndStream, 3)},
      {"PING", FrameOf(kPing, 0, 0, "12345678")},
      {"an answer to no PING", FrameOf(kPing, kAck, 0, "12345678")},
      {"SETTINGS", FrameOf(kSettings, 0, 0)},
      {"PRIORITY", FrameOf(kPriority, 0, 1, std::string(5, '\0'))},
      {"RST_STREAM", FrameOf(kRstStream, 0, 3, Number32(kCancel))},
      {"WINDOW_UPDATE", FrameOf(kWindowUpdate, 0, 0, Number32(1))},
      {"a type that nobody knows", FrameOf(0x42, 0, 0)},
  };
  InFiber([&] {
    for (const Kind& kind : kinds) {
      FiberEvent never;
      ServedConnection served([&](Http2Request& request, Http2Response& response) {
        if (request.path() == "/quick") return Answer(request, response);
        char room[16];
        static_cast<void>(request.Read(room, sizeof(room), Soon()));
        never.Wait();
      });
      RawPeer peer(&served.client());
      peer.Greet();
      peer.Ask(1, /*end=*/false, "POST");
      peer.Ask(3, true, "GET", "/quick");
      static_cast<void>(peer.Await(kData, 3, kEndStream));
      Fiber reads([&] { peer.AwaitEnd(); });
      std::string frames;
      for (int i = 0; i < 500; ++i) frames += kind.frame;
      for (int i = 0; i < 50 && served.client().WriteAll(frames, Soon()).ok(); ++i) {
      }
      static_cast<void>(served.client().ShutdownWrite());
      EXPECT_EQ(served.Join(), Http2Errc::kFlooded) << kind.name;
      EXPECT_EQ(served.server().counts().flooded, 1u) << kind.name;
      reads.Join();
    }
  });
}

// Two window updates and a PING for each piece of a body, both ways, and what belongs to a request.
TEST_P(Http2LimitsTest, FramesThatBelongToBodiesAreNoFlood) {
  InFiber([] {
    ServedConnection served(
        [](Http2Request& request, Http2Response& response) {
          EXPECT_FALSE(response.Start(200));
          char room[16];
          for (;;) {
            const IoResult got = request.Read(room, sizeof(room), Soon());
            if (got.bytes == 0 || !response.Write(room, got.bytes, Soon()).ok()) return;
          }
        },
        {.max_empty_frames = 20, .empty_frames_per_second = 0});
    RawPeer peer(&served.client());
    peer.Greet();
    for (std::uint32_t stream = 1; stream < 20; stream += 2) {
      peer.Ask(stream, /*end=*/false, "POST");
      peer.SendFrame(kPriority, 0, stream, std::string(5, '\0'));
      for (int i = 0; i < 20; ++i) {
        peer.SendFrame(kData, 0, stream, "piece");
        EXPECT_EQ(peer.Await(kData, stream).payload, "piece");
        peer.Send(FrameOf(kWindowUpdate, 0, 0, Number32(5)) + FrameOf(kWindowUpdate, 0, stream, Number32(5)) +
                  FrameOf(kPing, 0, 0, "measures"));
        static_cast<void>(peer.Await(kPing, 0, kAck));
      }
      peer.SendFrame(kData, kEndStream, stream);
      static_cast<void>(peer.Await(kData, stream, kEndStream));
    }
    EXPECT_EQ(served.server().counts().flooded, 0u);
    for (int i = 0; i < 25; ++i) peer.SendFrame(kPing, 0, 0, "too many");
    EXPECT_EQ(peer.Await(kGoAway).code(), kEnhanceYourCalm);
  });
}

// Go's clients send one for the stream and one for the connection for every 4,096 bytes that they read, which may be
// after the last of them has come.
TEST_P(Http2LimitsTest, WindowUpdatesForABodyThatWasSentAreNoFlood) {
  InFiber([] {
    const std::string body(60'000, 'b');
    ServedConnection served(
        [&](Http2Request&, Http2Response& response) { static_cast<void>(response.Send(200, {}, body)); },
        {.max_empty_frames = 20, .empty_frames_per_second = 0});
    RawPeer peer(&served.client());
    peer.Greet();
    std::string updates;
    for (int i = 0; i < 14; ++i) {
      updates += FrameOf(kWindowUpdate, 0, 0, Number32(4'096)) + FrameOf(kWindowUpdate, 0, 1, Number32(4'096));
    }
    peer.Ask(1);
    static_cast<void>(peer.Await(kData, 1, kEndStream));
    peer.Send(updates);
    for (const Frame& frame : peer.UntilPingAnswer()) EXPECT_NE(frame.type, kGoAway);
    EXPECT_EQ(served.server().counts().flooded, 0u);
    // Nothing was sent for these.
    peer.Send(updates);
    EXPECT_EQ(peer.Await(kGoAway).code(), kEnhanceYourCalm);
  });
}

TEST(Http2EmptyFrames, AWindowUpdateOfBytesThatWereSentCostsNothing) {
  const auto update = [](std::uint32_t size) { return FrameOf(kWindowUpdate, 0, 1, Number32(size)); };
  Http2EmptyFrames frames(0);
  EXPECT_EQ(frames.Pass(update(1'024)), 1);
  frames.CountSent(3'000);  // For the stream and for the connection: 6,000.
  EXPECT_EQ(frames.Pass(update(1'023)), 1) << "as large as a body's small pieces";
  double found = 0;
  for (const char byte : update(4'096) + update(1'500)) found += frames.Pass({&byte, 1});
  EXPECT_EQ(found, 0);
  EXPECT_EQ(frames.Pass(update(1'024)), 1) << "404 are left";
  EXPECT_EQ(frames.Pass(FrameOf(kWindowUpdate, 0, 1) + FrameOf(kPing, 0, 0, "12345678")), 2);
}

TEST_P(Http2LimitsTest, AStreamNumberThatIsUsedAgainEndsTheConnection) {
  InFiber([] {
    // 1 has been answered; 7 comes before 5, which has never been.
    for (const std::uint32_t stream : {1, 5}) {
      ServedConnection served(&Answer);
      RawPeer peer(&served.client());
      peer.Greet();
      for (const std::uint32_t good : {1, 3, 7}) {
        peer.Ask(good);
        static_cast<void>(peer.Await(kData, good, kEndStream));
      }
      peer.Ask(stream);
      EXPECT_EQ(peer.Await(kGoAway).code(), kProtocolError) << stream;
      peer.AwaitEnd();
      served.client().Close();
      EXPECT_EQ(served.Join(), Http2Errc::kProtocolError) << stream;
      EXPECT_EQ(served.server().counts().requests, 3u);
    }
  });
}

// nghttp2 knows a stream that has had a priority, so nobody noted that it began.
TEST_P(Http2LimitsTest, AStreamNumberThatHadAPriorityIsNotUsedAgain) {
  InFiber([] {
    ServedConnection served(&Answer);
    RawPeer peer(&served.client());
    peer.Greet();
    peer.SendFrame(kPriority, 0, 3, std::string(5, '\0'));
    peer.Ask(3);
    static_cast<void>(peer.Await(kData, 3, kEndStream));
    peer.Ask(3);
    EXPECT_FALSE(served.client().ShutdownWrite());
    EXPECT_EQ(peer.Await(kGoAway).code(), kProtocolError);
    peer.AwaitEnd();
    served.client().Close();
    EXPECT_EQ(served.Join(), Http2Errc::kProtocolError);
  });
}

// Their sender did not know yet that we had reset the stream. Once: the second ones are a reused number.
TEST_P(Http2LimitsTest, TrailersOfAStreamThatWeHaveResetAreIgnored) {
  InFiber([] {
    FiberEvent never;
    ServedConnection served(
        [&](Http2Request& request, Http2Response& response) {
          if (request.path() == "/waits") return static_cast<void>(never.Wait());
          response.Reset();
        },
        {.max_handlers = 2});
    RawPeer peer(&served.client());
    peer.Greet();
    peer.Ask(1, true, "GET", "/waits");
    peer.Ask(3, /*end=*/false, "POST");  // It resets its stream.
    EXPECT_EQ(peer.Await(kRstStream, 3).code(), kCancel);
    std::uint32_t stream = 5;
    const std::string trailers = Literal("x-trailer", "last");
    EXPECT_TRUE(Reaches([&] { return served.server().counts().handlers == 1; }));
    peer.Ask(stream, true, "GET", "/waits");
    stream += 2;
    peer.Send(FrameOf(kHeaders, kEndHeaders, stream, RequestFields("POST")) +  // Refused: there are two handlers.
              FrameOf(kData, 0, stream, "body") + FrameOf(kHeaders, kEndHeaders | kEndStream, stream, trailers));
    EXPECT_EQ(peer.Await(kRstStream, stream).code(), kRefusedStream);
    peer.SendFrame(kHeaders, kEndHeaders | kEndStream, 3, trailers);
    for (const Frame& frame : peer.UntilPingAnswer()) EXPECT_NE(frame.type, kGoAway);
    peer.SendFrame(kHeaders, kEndHeaders | kEndStream, 3, trailers);
    EXPECT_EQ(peer.Await(kGoAway).code(), kProtocolError);
  });
}

// Before the client knows how many it may have.
TEST_P(Http2LimitsTest, TrailersOfAStreamThatNghttp2HasRefusedAreIgnored) {
  InFiber([] {
    FiberEvent never;
    ServedConnection served([&](Http2Request&, Http2Response&) { never.Wait(); }, {.max_concurrent_streams = 1});
    RawPeer peer(&served.client());
    peer.Send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + FrameOf(kSettings, 0, 0));
    peer.Ask(1);
    peer.Send(FrameOf(kHeaders, kEndHeaders, 3, RequestFields("POST")) + FrameOf(kData, 0, 3, "body") +
              FrameOf(kHeaders, kEndHeaders | kEndStream, 3, Literal("x-trailer", "last")));
    EXPECT_EQ(peer.Await(kRstStream, 3).code(), kRefusedStream);
    for (const Frame& frame : peer.UntilPingAnswer()) EXPECT_NE(frame.type, kGoAway);
  });
}

TEST(Http2Allowance, HasSoMuchAtOnceAndSoMuchMoreEachSecond) {
  Http2Allowance once(2, 0);
  EXPECT_TRUE(once.Take(2));
  EXPECT_FALSE(once.Take(1));
  once.GiveBack(5);
  EXPECT_TRUE(once.Take(2));
  EXPECT_FALSE(once.Take(1));
  Http2Allowance refilled(2, 1e12);
  for (int i = 0; i < 100; ++i) EXPECT_TRUE(refilled.Take(2));
  EXPECT_FALSE(refilled.Take(3));
}

TEST(Http2Resets, ForgetsTheOldestAndIgnoresWhatItHasForgotten) {
  Http2Resets resets;
  EXPECT_FALSE(resets.Take(1));
  for (std::int32_t i = 0; i <= static_cast<std::int32_t>(Http2Resets::kMost); ++i) resets.Add(101 + 2 * i);
  EXPECT_TRUE(resets.Take(101));
  EXPECT_TRUE(resets.Take(101));
  EXPECT_TRUE(resets.Take(99));
  EXPECT_TRUE(resets.Take(103));
  EXPECT_FALSE(resets.Take(103));
  resets.Forget();
  EXPECT_TRUE(resets.Take(103));
  EXPECT_TRUE(resets.Take(101 + 2 * static_cast<std::int32_t>(Http2Resets::kMost)));
  EXPECT_FALSE(resets.Take(103 + 2 * static_cast<std::int32_t>(Http2Resets::kMost)));
}

TEST_P(Http2LimitsTest, ManyContinuationsEndTheConnection) {
  InFiber([] {
    ServedConnection served(&Answer);
    RawPeer peer(&served.client());
    peer.Greet();
    peer.SendFrame(kHeaders, 0, 1, RequestFields());
    for (int i = 0; i < 9; ++i) peer.SendFrame(kContinuation, 0, 1, Literal("a", "b"));
    EXPECT_NE(peer.Await(kGoAway).code(), kNoError);
    peer.AwaitEnd();
    served.client().Close();
    EXPECT_TRUE(served.Join());
    EXPECT_EQ(served.server().counts().requests, 0u);
  });
}

TEST_P(Http2LimitsTest, AConnectionWithoutRequestsEndsAlsoIfItPings) {
  InFiber([] {
    EXPECT_TRUE(io::InTime(50ms, [](std::chrono::milliseconds idle) {
      ServedConnection served(&Answer, {.idle_timeout = idle});
      RawPeer peer(&served.client());
      peer.Greet();
      const auto began = Steady::now();
      peer.Ask(1);
      if (peer.Find(kData, 1, kEndStream).ended()) return false;
      Frame frame;
      do {  // A ping after each answer to one, all the time.
        peer.SendFrame(kPing, 0, 0, "are you?");
        do {
          frame = peer.Next();
        } while (frame.type != kPing && frame.type != kGoAway && !frame.ended());
      } while (frame.type == kPing);
      EXPECT_GE(Steady::now() - began, idle);
      EXPECT_EQ(frame.type, kGoAway);
      EXPECT_EQ(frame.code(), kNoError);
      EXPECT_EQ(frame.number(), 1u);
      served.client().Close();
      EXPECT_FALSE(served.Join());
      EXPECT_EQ(served.server().counts().idle_timeouts, 1u);
      return true;
    }));
  });
}

TEST_P(Http2LimitsTest, AHandlerThatTakesLongIsNotIdle) {
  InFiber([] {
    EXPECT_TRUE(io::InTime(30ms, [](std::chrono::milliseconds idle) {
      ServedConnection served(
          [&](Http2Request& request, Http2Response& response) {
            EXPECT_FALSE(FiberEvent().Wait(4 * idle));
            Answer(request, response);
          },
          {.idle_timeout = idle});
      RawPeer peer(&served.client());
      peer.Greet();
      peer.Ask(1);
      const Frame answer = peer.Find(kData, 1, kEndStream);
      if (answer.ended()) return false;
      EXPECT_EQ(answer.payload, "ok");
      EXPECT_EQ(peer.Await(kGoAway).code(), kNoError);
      return true;
    }));
  });
}

// Its answer waits for a window that is never opened.
TEST_P(Http2LimitsTest, AnAnswerThatIsNotFetchedDoesNotKeepTheConnection) {
  InFiber([] {
    EXPECT_TRUE(io::InTime(50ms, [](std::chrono::milliseconds idle) {
      ServedConnection served(&Answer, {.idle_timeout = idle});
      RawPeer peer(&served.client());
      peer.Greet(WindowOf(0));
      peer.Ask(1);
      if (peer.Find(kHeaders, 1).ended()) return false;
      EXPECT_EQ(peer.Await(kGoAway).code(), kNoError);
      served.client().Close();
      EXPECT_FALSE(served.Join());
      return true;
    }));
  });
}

TEST_P(Http2LimitsTest, AClientThatDoesNotAcknowledgeOurSettingsIsLeft) {
  InFiber([] {
    const auto began = Steady::now();  // Before the server: it sends its SETTINGS at once.
    ServedConnection served(&Answer, {.settings_timeout = 100ms});
    RawPeer peer(&served.client());
    peer.Send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + FrameOf(kSettings, 0, 0));
    EXPECT_EQ(peer.Await(kGoAway).code(), kSettingsTimeout);
    EXPECT_GE(Steady::now() - began, 100ms);
    served.client().Close();
    EXPECT_EQ(served.Join(), Http2Errc::kProtocolError);
    EXPECT_EQ(served.server().counts().settings_timeouts, 1u);
    EXPECT_EQ(served.server().counts().protocol_errors, 1u);
  });
}

TEST_P(Http2LimitsTest, AnAcknowledgedSettingsFrameHasNoTimeout) {
  InFiber([] {
    EXPECT_TRUE(io::InTime(30ms, [](std::chrono::milliseconds time) {
      ServedConnection served(
          [&](Http2Request& request, Http2Response& response) {
            EXPECT_FALSE(FiberEvent().Wait(3 * time));
            Answer(request, response);
          },
          {.settings_timeout = time});
      RawPeer peer(&served.client());
      peer.Greet();
      peer.Ask(1);
      const Frame answer = peer.Find(kData, 1, kEndStream);
      if (answer.ended()) return false;
      EXPECT_EQ(answer.payload, "ok");
      for (const Frame& frame : peer.UntilPingAnswer()) EXPECT_NE(frame.type, kGoAway);
      return true;
    }));
  });
}

// A client that is stopped, or behind a dead line, in the middle of a request: TCP keeps the connection open.
TEST_P(Http2LimitsTest, AClientThatAnswersNoPingIsLeftAndItsHandlerCancelled) {
  InFiber([] {
    FiberEvent cancelled;
    const auto began = Steady::now();
    ServedConnection served(
        [&](Http2Request&, Http2Response& response) {
          EXPECT_FALSE(response.Start(200));
          try {
            FiberEvent().Wait();  // It neither reads nor writes.
          } catch (const FiberCancelled&) {
            cancelled.Set();
            throw;
          }
        },
        {.ping_after = 50ms});
    RawPeer peer(&served.client());
    peer.Greet();
    peer.Ask(1);
    const Frame ping = peer.Await(kPing);
    EXPECT_EQ(ping.flags & kAck, 0);
    EXPECT_GE(Steady::now() - began, 50ms);
    EXPECT_TRUE(cancelled.Wait(Soon()));
    EXPECT_GE(Steady::now() - began, 100ms);
    EXPECT_EQ(peer.Await(kGoAway).code(), kNoError);
    for (const Frame& frame : peer.passed()) EXPECT_NE(frame.type, kPing) << "more than one in a silence";
    served.client().Close();
    EXPECT_EQ(served.Join(), std::errc::timed_out);
    EXPECT_EQ(served.server().counts().ping_timeouts, 1u);
    EXPECT_EQ(served.server().counts().idle_timeouts, 0u);
  });
}

TEST_P(Http2LimitsTest, AClientThatAnswersPingsIsWaitedFor) {
  InFiber([] {
    EXPECT_TRUE(io::InTime(100ms, [](std::chrono::milliseconds ping_after) {
      FiberEvent may_answer;
      ServedConnection served(
          [&](Http2Request& request, Http2Response& response) {
            may_answer.Wait();
            Answer(request, response);
          },
          {.ping_after = ping_after});
      RawPeer peer(&served.client());
      peer.Greet();
      peer.Ask(1);
      for (int i = 0; i < 3; ++i) {
        const Frame ping = peer.Find(kPing);
        if (ping.ended()) return false;
        // Any bytes are a sign of life, not only the answer.
        const std::string answer =
            i % 2 == 0 ? FrameOf(kPing, kAck, 0, ping.payload) : FrameOf(kWindowUpdate, 0, 0, Number32(1));
        if (!served.client().WriteAll(answer, Soon()).ok()) return false;
      }
      may_answer.Set();
      const Frame answer = peer.Find(kData, 1, kEndStream);
      if (answer.ended()) return false;
      EXPECT_EQ(answer.payload, "ok");
      served.client().Close();
      static_cast<void>(served.Join());
      EXPECT_EQ(served.server().counts().ping_timeouts, 0u);
      return true;
    }));
  });
}

// The idle time-out ends it.
TEST_P(Http2LimitsTest, AnIdleConnectionIsNotPinged) {
  InFiber([] {
    EXPECT_TRUE(io::InTime(25ms, [](std::chrono::milliseconds ping_after) {
      ServedConnection served(&Answer, {.idle_timeout = 4 * ping_after, .ping_after = ping_after});
      RawPeer peer(&served.client());
      peer.Greet();
      peer.Ask(1);
      const auto pings = [&] { return std::ranges::count(peer.passed(), std::uint8_t{kPing}, &Frame::type); };
      if (peer.Find(kData, 1, kEndStream).ended()) return false;
      const auto while_it_worked = pings();  // None, but on a slow machine.
      EXPECT_EQ(peer.Await(kGoAway).code(), kNoError);
      EXPECT_EQ(pings(), while_it_worked);
      served.client().Close();
      EXPECT_FALSE(served.Join());
      EXPECT_EQ(served.server().counts().idle_timeouts, 1u);
      return true;
    }));
  });
}

TEST_P(Http2LimitsTest, AnIdleConnectionWithoutATimeoutIsPinged) {
  InFiber([] {
    ServedConnection served(&Answer, {.idle_timeout = 0ms, .ping_after = 50ms});
    RawPeer peer(&served.client());
    peer.Greet();
    static_cast<void>(peer.Await(kPing));
    EXPECT_EQ(peer.Await(kGoAway).code(), kNoError);
    served.client().Close();
    EXPECT_EQ(served.Join(), std::errc::timed_out);
    EXPECT_EQ(served.server().counts().ping_timeouts, 1u);
  });
}

// The windows are open, and the kernel's buffers are full.
TEST_P(Http2LimitsTest, AClientThatDoesNotReadIsLeftAfterTheWriteTimeout) {
  InFiber([] {
    FiberLatch ended(1);
    ServedConnection served(
        [&](Http2Request&, Http2Response& response) {
          EXPECT_FALSE(response.Start(200));
          EXPECT_FALSE(response.Write(std::string(5'000'000, 'x'), Soon()).ok());
          ended.CountDown();
        },
        {.write_timeout = 200ms});
    ShrinkBuffers(served.pair().server, served.pair().client);
    RawPeer peer(&served.client());
    peer.Greet(WindowOf(0x7fff'ffff));
    peer.SendFrame(kWindowUpdate, 0, 0, Number32(0x7000'0000));
    peer.Ask(1);
    EXPECT_EQ(served.Join(), std::errc::timed_out);
    EXPECT_EQ(served.server().counts().write_timeouts, 1u);
    EXPECT_TRUE(ended.TryWait());
  });
}

TEST_P(Http2LimitsTest, AStuckWriterDoesNotHoldACancelledHandler) {
  InFiber([] {
    FiberEvent blocked;
    FiberLatch ended(2);
    ServedConnection served([&](Http2Request& request, Http2Response& response) {
      EXPECT_FALSE(response.Start(200));
      const std::string much(request.path() == "/much" ? 5'000'000 : 100'000, 'x');
      const auto took = MoveOnAfter(300ms, [&] { return response.Write(much, Soon()).error; });
      if (request.path() == "/much") {
        blocked.Set();
        EXPECT_TRUE(!took.has_value() || *took == std::errc::operation_canceled);
      }
      ended.CountDown();
    });
    ShrinkBuffers(served.pair().server, served.pair().client);
    RawPeer peer(&served.client());
    peer.Greet(WindowOf(0x7fff'ffff));
    peer.SendFrame(kWindowUpdate, 0, 0, Number32(0x7000'0000));
    peer.Ask(1, true, "GET", "/much");
    blocked.Wait();
    peer.Ask(3, true, "GET", "/little");
    EXPECT_TRUE(ended.Wait(Soon()));  // write_timeout is 30 s: neither has waited for the kernel.
  });
}

TEST_P(Http2LimitsTest, AFloodOfPingsWhoseAnswersAreNotReadEndsTheConnection) {
  InFiber([] {
    // A Unix socket leaves unread bytes with their sender, so the server's writer waits.
    ServedConnection served(&Answer, {.write_timeout = io::kSoon}, io::ConnectedPair(io::UnixAddress()));
    ShrinkSendBuffer(served.pair().server);
    RawPeer peer(&served.client());
    peer.Greet();
    std::string pings;
    for (int i = 0; i < 1'000; ++i) pings += FrameOf(kPing, 0, 0, "12345678");
    Fiber floods([&] {
      while (served.client().WriteAll(pings, Soon()).ok()) {
      }
    });
    const auto began = std::chrono::steady_clock::now();
    EXPECT_EQ(served.Join(), Http2Errc::kFlooded);
    // Long before the write's time-out, and although the flood goes on.
    EXPECT_LT(std::chrono::steady_clock::now() - began, io::kBeforeSoon);
    static_cast<void>(served.client().Shutdown());
    floods.Join();
  });
}

// The server reads on after its last words, so that they are not lost; not for as long as the peer likes.
TEST_P(Http2LimitsTest, AGoodbyeEndsThoughThePeerGoesOnSending) {
  InFiber([] {
    ServedConnection served(&Answer);
    RawPeer peer(&served.client());
    peer.Greet();
    peer.SendFrame(kData, 0, 0, "data of no stream");
    const std::string more(10'000, 'x');
    Fiber sends([&] {
      while (served.client().WriteAll(more, Soon()).ok()) {
      }
    });
    EXPECT_EQ(served.Join(), Http2Errc::kProtocolError);
    static_cast<void>(served.client().Shutdown());
    sends.Join();
  });
}

// Each stream that is refused makes a RST_STREAM.
TEST_P(Http2LimitsTest, AFloodOfResetsThatAreNotReadEndsTheConnection) {
  InFiber([] {
    FiberEvent never;
    ServedConnection served([&](Http2Request&, Http2Response&) { never.Wait(); },
                            {.max_concurrent_streams = 1, .write_timeout = 1h, .settings_timeout = 1h});
    ShrinkSendBuffer(served.pair().server);
    RawPeer peer(&served.client());
    peer.Send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + FrameOf(kSettings, 0, 0));
    Fiber floods([&] {
      const std::string fields = RequestFields();
      for (std::uint32_t stream = 1;;) {
        std::string requests;
        for (int i = 0; i < 100; ++i, stream += 2) {
          requests += FrameOf(kHeaders, kEndHeaders | kEndStream, stream, fields);
        }
        if (!served.client().WriteAll(requests, Soon()).ok()) return;
      }
    });
    EXPECT_EQ(served.Join(), Http2Errc::kFlooded);  // Long before the write's time-out.
    static_cast<void>(served.client().Shutdown());
    floods.Join();
  });
}

TEST_P(Http2LimitsTest, ADrainGoesOnWithoutAnAnswerToItsPing) {
  InFiber([] {
    ListeningServer listening(&Answer);
    io::TcpStream stream;
    ASSERT_FALSE(stream.Connect(listening.address(), Soon()));
    RawPeer peer(&stream);
    peer.Greet();
    peer.Ask(1);
    static_cast<void>(peer.Await(kData, 1, kEndStream));
    Fiber stops([&] { listening.server().Stop(Soon()); });
    EXPECT_EQ(peer.Await(kGoAway).number(), 0x7fff'ffffu);
    EXPECT_EQ(peer.Await(kGoAway).number(), 1u);
    peer.AwaitEnd();
    stream.Close();
    stops.Join();
  });
}

TEST_P(Http2LimitsTest, ATcpServersIdleTimeoutEndsAConnectionWithoutStreams) {
  InFiber([] {
    ListeningServer listening(&Answer, {.idle_timeout = 50ms});
    io::TcpStream stream;
    ASSERT_FALSE(stream.Connect(listening.address(), Soon()));
    RawPeer peer(&stream);
    peer.Greet();
    EXPECT_EQ(peer.Await(kGoAway).code(), kNoError);
    stream.Close();
    listening.server().Stop();
    EXPECT_EQ(listening.http().counts().idle_timeouts, 1u);
  });
}

TEST_P(Http2LimitsTest, ATcpServersIdleTimeoutSparesRunningHandlers) {
  InFiber([] {
    EXPECT_TRUE(io::InTime(50ms, [](std::chrono::milliseconds idle) {
      Http2Server http([&](Http2Request& request, Http2Response& response) {
        EXPECT_FALSE(FiberEvent().Wait(3 * idle));
        Answer(request, response);
      });
      io::TcpListener listener;
      EXPECT_FALSE(listener.Listen(io::OwnLoopback()));
      io::TcpServer server(std::move(listener), io::TcpServer::ConnectionHandler([&](io::TcpConnection& connection) {
                             static_cast<void>(http.Serve(Http2Transport(connection)));
                           }),
                           {.idle_timeout = idle});
      EXPECT_TRUE(server.Start());
      io::TcpStream stream;
      EXPECT_FALSE(stream.Connect(server.local_address(), Soon()));
      RawPeer peer(&stream);
      peer.Greet();
      peer.Ask(1);
      const Frame answer = peer.Find(kData, 1, kEndStream);
      if (answer.ended()) return false;
      EXPECT_EQ(answer.payload, "ok");
      if (!stream.WriteAll(FrameOf(kHeaders, kEndHeaders | kEndStream, 3, RequestFields()), Soon()).ok()) return false;
      // It answers after the drain has begun, or before.
      if (peer.Find(kHeaders, 3).ended()) return false;
      Fiber stops([&] { server.Stop(Soon()); });
      EXPECT_EQ(peer.Await(kGoAway).code(), kNoError);
      stream.Close();
      stops.Join();
      return true;
    }));
  });
}

}  // namespace
}  // namespace weft::interop
