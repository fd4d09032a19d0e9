// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/interop/http2_client.h"

#include <sys/socket.h>

#include <atomic>
#include <chrono>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "weft/fiber/fiber_scope.h"
#include "weft/interop/http2_server.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_latch.h"
#include "weft/tests/interop/http2_fixture.h"

namespace weft::interop {
namespace {

using namespace std::chrono_literals;
using io::Reaches;
using io::Soon;

Http2RequestHead To(std::string_view path, std::string_view method = "GET") {
  return {.method = method, .path = path, .authority = "weft.example"};
}

// A client whose server is a RawPeer; the client's preface and settings have been read.
class Called {
 public:
  explicit Called(const Http2Options& options = {}, std::string_view settings = {})
      : client(Http2Transport(pair_.client), options), peer(&pair_.server) {
    EXPECT_TRUE(client.Start());
    char preface[24];
    EXPECT_EQ(pair_.server.ReadAll(preface, sizeof(preface), Soon()).bytes, sizeof(preface));
    static_cast<void>(peer.Await(kSettings));
    peer.SendFrame(kSettings, 0, 0, settings);
    peer.SendFrame(kSettings, kAck, 0);
    static_cast<void>(peer.Await(kSettings, 0, kAck));
  }
  ~Called() { static_cast<void>(pair_.server.Shutdown()); }

  // A whole answer: the status 200 (in HPACK's table) and a body.
  void Answer(std::uint32_t stream, std::string_view body = "ok") {
    peer.SendFrame(kHeaders, kEndHeaders, stream, "\x88");
    peer.SendFrame(kData, kEndStream, stream, body);
  }

 private:
  io::Pair pair_ = io::ConnectedPair();

 public:
  Http2Client client;
  RawPeer peer;
};

// SETTINGS_MAX_CONCURRENT_STREAMS
std::string AtMost(std::uint32_t streams) { return std::string("\0\3", 2) + Number32(streams); }

class Http2ClientTest : public io::IoTest {};
WEFT_INSTANTIATE_IO_SHAPES(Http2ClientTest);

TEST_P(Http2ClientTest, ManyFibersCallAtTheSameTime) {
  InFiber([] {
    ServedConnection served(
        [](Http2Request& request, Http2Response& response) {
          std::string body;
          EXPECT_FALSE(request.ReadAll(&body, 1 << 20, Soon()));
          EXPECT_FALSE(response.Send(200, {{"x-path", request.path()}}, body, Soon()));
        },
        {.max_concurrent_streams = 7});
    Http2Client client{Http2Transport(served.client())};
    ASSERT_TRUE(client.Start());
    ASSERT_FALSE(client.Ping(Soon()));  // The server's settings have come before its answer.
    std::atomic<int> answered{0};
    FiberScope scope;
    for (int fiber = 0; fiber < 40; ++fiber) {
      ASSERT_TRUE(scope.Spawn([&, fiber] {
        for (int i = 0; i < io::Scaled(16); ++i) {
          const std::string path = std::string("/").append(std::to_string(fiber)).append("-").append(std::to_string(i));
          const std::string body(static_cast<std::size_t>(fiber * i * 100), 'a');
          const Http2Answer answer = client.Ask(To(path, "POST"), body, Soon());
          EXPECT_FALSE(answer.error) << answer.error.message();
          EXPECT_EQ(answer.headers.Find("x-path"), path);
          EXPECT_TRUE(answer.body == body);
          answered.fetch_add(1);
        }
      }));
    }
    scope.Wait();
    EXPECT_EQ(answered.load(), 40 * io::Scaled(16));
    EXPECT_EQ(served.server().counts().refused, 0u);
  });
}

TEST_P(Http2ClientTest, AThreadCalls) {
  InFiber([] {
    ServedConnection served([](Http2Request&, Http2Response& response) { (void)response.Send(200, {}, "ok"); });
    Http2Client client{Http2Transport(served.client())};
    ASSERT_TRUE(client.Start());
    FiberEvent done;
    std::thread thread([&] {
      EXPECT_EQ(client.Ask(To("/"), {}, Soon()).body, "ok");
      EXPECT_FALSE(client.Ping(Soon()));
      done.Set();
    });
    done.Wait();
    thread.join();
  });
}

TEST_P(Http2ClientTest, CallsWaitWhileTheServerAllowsNoMore) {
  InFiber([] {
    Called called({}, AtMost(1));
    ASSERT_FALSE([&] {
      Fiber answers([&] {
        const Frame ping = called.peer.Await(kPing);
        called.peer.SendFrame(kPing, kAck, 0, ping.payload);
      });
      const std::error_code error = called.client.Ping(Soon());
      answers.Join();
      return error;
    }());
    Http2Call first, second;
    ASSERT_FALSE(called.client.OpenWithoutBody(To("/1"), &first, Soon()));
    EXPECT_EQ(called.client.OpenWithoutBody(To("/2"), &second, 20ms), std::errc::timed_out);
    FiberLatch done(3);  // A thread's join would keep the only worker from reading its answer.
    std::vector<io::Actor> later;
    std::atomic<int> begun{0};
    for (const bool in_fiber : {true, false, true}) {
      later.emplace_back(in_fiber, [&] {
        Http2Call call;
        EXPECT_FALSE(called.client.OpenWithoutBody(To("/3"), &call, Soon()));
        begun.fetch_add(1);
        EXPECT_FALSE(call.AwaitAnswer(Soon()));
        done.CountDown();
      });
    }
    for (const std::uint32_t stream : {1, 3, 5, 7}) {
      static_cast<void>(called.peer.Await(kHeaders, stream));
      EXPECT_LE(begun.load(), static_cast<int>(stream / 2));
      called.Answer(stream);
    }
    done.Wait();
    for (io::Actor& actor : later) actor.Join();
    EXPECT_FALSE(first.AwaitAnswer(Soon()));
  });
}

// A place becomes free while the time of those that wait for it is over, again and again: one that still waits gets it.
TEST_P(Http2ClientTest, APlaceIsNotLostWithACallerThatGivesUp) {
  InFiber([] {
    ServedConnection served(
        [](Http2Request&, Http2Response& response) {
          FiberEvent never;
          static_cast<void>(never.Wait(1ms));
          static_cast<void>(response.Send(200, {}, "ok"));
        },
        {.max_concurrent_streams = 1, .max_handlers = 10});
    Http2Client client{Http2Transport(served.client())};
    ASSERT_TRUE(client.Start());
    ASSERT_FALSE(client.Ping(Soon()));
    FiberScope scope;
    for (int i = 0; i < 8; ++i) {
      ASSERT_TRUE(scope.Spawn([&, i] {
        for (int round = 0; round < io::Scaled(40); ++round) {
          const Deadline deadline = i < 6 ? Deadline(std::chrono::microseconds(500 * (i + 1))) : Soon();
          const Http2Answer answer = client.Ask(To("/"), {}, deadline);
          if (i >= 6) {
            EXPECT_FALSE(answer.error) << answer.error.message();
          }
        }
      }));
    }
    scope.Wait();
    EXPECT_TRUE(client.IsOpen());
  });
}

TEST_P(Http2ClientTest, ACallThatIsGivenUpResetsItsStream) {
  InFiber([] {
    Called called;
    {
      Http2Call dropped;
      ASSERT_FALSE(called.client.OpenWithoutBody(To("/"), &dropped, Soon()));
      static_cast<void>(called.peer.Await(kHeaders, 1));
    }
    EXPECT_EQ(called.peer.Await(kRstStream, 1).code(), kCancel);

    Http2Call late;
    ASSERT_FALSE(called.client.OpenWithoutBody(To("/"), &late, 20ms));
    EXPECT_EQ(late.AwaitAnswer(), std::errc::timed_out);
    EXPECT_EQ(called.peer.Await(kRstStream, 3).code(), kCancel);

    Http2Call cancelled;
    ASSERT_FALSE(called.client.Open(To("/", "POST"), &cancelled, Soon()));
    CancelScope scope(10ms);
    static_cast<void>(scope.Run([&] {
      char room[8];
      EXPECT_EQ(cancelled.Read(room, sizeof(room)).error, std::errc::operation_canceled);
    }));
    EXPECT_EQ(called.peer.Await(kRstStream, 5).code(), kCancel);
    EXPECT_EQ(cancelled.Write("x").error, std::errc::operation_canceled);

    Http2Call goes_on;  // The time of one read is over, not that of the call.
    ASSERT_FALSE(called.client.OpenWithoutBody(To("/"), &goes_on, Soon()));
    EXPECT_EQ(goes_on.AwaitAnswer(5ms), std::errc::timed_out);
    static_cast<void>(called.peer.Await(kHeaders, 7));
    called.Answer(7);
    EXPECT_FALSE(goes_on.AwaitAnswer());
    EXPECT_EQ(goes_on.status(), 200);
  });
}

TEST_P(Http2ClientTest, AWriteThatIsGivenUpWhileItsWindowOpensLosesNothing) {
  InFiber([] {
    Called called({.send_buffer = 1'000});
    Http2Call call;
    ASSERT_FALSE(called.client.Open(To("/", "POST"), &call, Soon()));
    static_cast<void>(called.peer.Await(kHeaders, 1));
    std::size_t put = 0;
    constexpr std::size_t kAll = 200'000;
    Fiber reads([&] {
      for (std::size_t got = 0; got < kAll;) {
        const Frame frame = called.peer.Await(kData, 1);
        ASSERT_FALSE(frame.ended());
        got += frame.payload.size();
        if (frame.payload.empty()) continue;
        const std::string more = Number32(static_cast<std::uint32_t>(frame.payload.size()));
        called.peer.Send(FrameOf(kWindowUpdate, 0, 0, more) + FrameOf(kWindowUpdate, 0, 1, more));
      }
    });
    const std::string text(10'000, 'x');
    while (put < kAll) {
      const std::size_t size = std::min(text.size(), kAll - put);
      put += call.Write(text.data(), size, std::chrono::microseconds(put % 7 * 20)).bytes;
    }
    reads.Join();
  });
}

TEST_P(Http2ClientTest, WhatTheServerHasNotBegunMayBeMadeAgain) {
  InFiber([] {
    Called called;
    Http2Call first, second, refused;
    ASSERT_FALSE(called.client.OpenWithoutBody(To("/1"), &first, Soon()));
    ASSERT_FALSE(called.client.OpenWithoutBody(To("/2"), &refused, Soon()));
    ASSERT_FALSE(called.client.OpenWithoutBody(To("/3"), &second, Soon()));
    static_cast<void>(called.peer.Await(kHeaders, 5));
    called.peer.SendFrame(kRstStream, 0, 3, Number32(kRefusedStream));
    EXPECT_EQ(refused.AwaitAnswer(Soon()), Http2Errc::kNotBegun);
    EXPECT_TRUE(called.client.IsOpen());
    called.peer.SendFrame(kGoAway, 0, 0, Number32(1) + Number32(kNoError));
    EXPECT_EQ(second.AwaitAnswer(Soon()), Http2Errc::kNotBegun);
    EXPECT_FALSE(called.client.IsOpen());
    EXPECT_EQ(called.client.Ask(To("/4"), {}, Soon()).error, Http2Errc::kNotBegun);
    called.Answer(1);
    EXPECT_FALSE(first.AwaitAnswer(Soon()));
    char room[8];
    EXPECT_EQ(first.Read(room, sizeof(room), Soon()).bytes, 2u);
  });
}

// A stream whose reads find nothing until they may.
class HeldBack {
 public:
  explicit HeldBack(io::TcpStream* stream) : stream_(stream) {}
  io::IoResult ReadRequest(void* data, std::size_t size, Deadline deadline) { return ReadSome(data, size, deadline); }
  io::IoResult ReadSome(void* data, std::size_t size, Deadline deadline) {
    may_read.Wait();
    return stream_->ReadSome(data, size, deadline);
  }
  std::error_code AwaitRequest(Deadline deadline) { return WaitReadable(deadline); }
  std::error_code WaitReadable(Deadline deadline) {
    may_read.Wait();
    return stream_->WaitReadable(deadline);
  }
  io::IoResult WriteSome(const void* data, std::size_t size, Deadline deadline) {
    return stream_->WriteSome(data, size, deadline);
  }
  std::error_code ShutdownWrite(Deadline) { return stream_->ShutdownWrite(); }
  io::TcpStream& transport() { return *stream_; }

  FiberEvent may_read;

 private:
  io::TcpStream* const stream_;
};

// The second request waits for the writer, which lets other fibers run, when the GOAWAY comes.
TEST_P(Http2ClientTest, ARequestThatWaitsForTheWriterHasNotBegun) {
  InFiber([] {
    io::Pair pair = io::ConnectedPair();
    RawPeer peer(&pair.server);
    peer.SendFrame(kSettings, 0, 0);
    peer.SendFrame(kGoAway, 0, 0, Number32(0) + Number32(kNoError));
    HeldBack stream(&pair.client);
    Http2Client client{Http2Transport(stream)};
    ASSERT_TRUE(client.Start());
    Http2Call first;
    ASSERT_FALSE(client.OpenWithoutBody(To("/"), &first, Soon()));
    stream.may_read.Set();
    Http2Call second;
    std::error_code error = client.OpenWithoutBody(To("/"), &second, Soon());
    if (!error) error = second.AwaitAnswer(Soon());
    EXPECT_EQ(error, Http2Errc::kNotBegun);
    EXPECT_EQ(first.AwaitAnswer(Soon()), Http2Errc::kNotBegun);
  });
}

// The same when the server has finished its side without a GOAWAY, and still reads.
TEST_P(Http2ClientTest, ARequestThatHasNotBegunIsNotSent) {
  InFiber([] {
    io::Pair pair = io::ConnectedPair();
    RawPeer peer(&pair.server);
    peer.SendFrame(kSettings, 0, 0);
    ASSERT_FALSE(pair.server.ShutdownWrite());
    std::error_code error;
    {
      HeldBack stream(&pair.client);
      Http2Client client{Http2Transport(stream)};
      ASSERT_TRUE(client.Start());
      Http2Call first, second;
      ASSERT_FALSE(client.OpenWithoutBody(To("/"), &first, Soon()));
      stream.may_read.Set();
      error = client.OpenWithoutBody(To("/"), &second, Soon());
      if (!error) error = second.AwaitAnswer(Soon());
      EXPECT_EQ(first.AwaitAnswer(Soon()), Http2Errc::kConnectionLost);
    }
    pair.client.Close();
    bool sent = false;
    char preface[24];
    EXPECT_EQ(pair.server.ReadAll(preface, sizeof(preface), Soon()).bytes, sizeof(preface));
    for (Frame frame = peer.Next(); !frame.ended(); frame = peer.Next()) {
      sent |= frame.type == kHeaders && frame.stream == 3;
    }
    EXPECT_EQ(error, sent ? Http2Errc::kConnectionLost : Http2Errc::kNotBegun);
  });
}

// The server answers the first of two calls, and resets the connection before the second one is sent. The client has
// read nothing yet.
class Reset {
 public:
  Reset() {
    EXPECT_TRUE(client.Start());
    EXPECT_FALSE(client.OpenWithoutBody(To("/"), &answered, Soon()));
    char preface[24];
    EXPECT_EQ(pair_.server.ReadAll(preface, sizeof(preface), Soon()).bytes, sizeof(preface));
    RawPeer peer(&pair_.server);
    static_cast<void>(peer.Await(kHeaders, 1));
    peer.SendFrame(kSettings, 0, 0);
    peer.SendFrame(kHeaders, kEndHeaders, 1, "\x88");
    peer.SendFrame(kData, kEndStream, 1, "ok");
    const linger reset{.l_onoff = 1, .l_linger = 0};
    EXPECT_EQ(::setsockopt(pair_.server.fd(), SOL_SOCKET, SO_LINGER, &reset, sizeof(reset)), 0);
    pair_.server.Close();
    EXPECT_FALSE(client.OpenWithoutBody(To("/"), &late, Soon()));
    EXPECT_TRUE(Reaches([this] { return !client.IsOpen(); }));
  }

 private:
  io::Pair pair_ = io::ConnectedPair();

 public:
  HeldBack stream{&pair_.client};
  Http2Client client{Http2Transport(stream)};
  Http2Call answered, late;
};

// All calls ended with a write that had failed, also those whose answers had come.
TEST_P(Http2ClientTest, AnAnswerThatHasComeIsNotLostWithAnothersWrite) {
  InFiber([] {
    Reset reset;
    EXPECT_EQ(reset.client.Ask(To("/"), {}, Soon()).error, Http2Errc::kNotBegun);
    reset.stream.may_read.Set();
    EXPECT_FALSE(reset.answered.AwaitAnswer(Soon()));
    char room[8];
    EXPECT_EQ(reset.answered.Read(room, sizeof(room), Soon()).bytes, 2u);
    const std::error_code error = reset.late.AwaitAnswer(Soon());
    EXPECT_TRUE(error == std::errc::broken_pipe || error == std::errc::connection_reset) << error.message();
  });
}

TEST_P(Http2ClientTest, CloseEndsTheReadingAfterAFailedWrite) {
  InFiber([] {
    Reset reset;
    reset.client.Close();
    EXPECT_EQ(reset.answered.AwaitAnswer(Soon()), Http2Errc::kConnectionLost);
    EXPECT_EQ(reset.late.AwaitAnswer(Soon()), Http2Errc::kConnectionLost);
  });
}

TEST_P(Http2ClientTest, AGoAwayEndsTheWaitForAPlace) {
  InFiber([] {
    Called called({}, AtMost(0));
    Fiber answers([&] {
      const Frame ping = called.peer.Await(kPing);
      called.peer.SendFrame(kPing, kAck, 0, ping.payload);
    });
    ASSERT_FALSE(called.client.Ping(Soon()));
    answers.Join();
    Fiber waits([&] { EXPECT_EQ(called.client.Ask(To("/"), {}, Soon()).error, Http2Errc::kNotBegun); });
    called.peer.SendFrame(kGoAway, 0, 0, Number32(0) + Number32(kNoError));
    waits.Join();
  });
}

TEST_P(Http2ClientTest, TheEndOfTheConnectionEndsEveryWait) {
  InFiber([] {
    Called called;
    Http2Call reads, writes, awaits;
    for (Http2Call* call : {&reads, &writes, &awaits}) ASSERT_FALSE(called.client.Open(To("/", "POST"), call, Soon()));
    static_cast<void>(called.peer.Await(kHeaders, 5));
    std::vector<io::Actor> actors;
    const std::string much(300'000, 'x');
    actors.emplace_back(true, [&] {
      char room[8];
      EXPECT_EQ(reads.Read(room, sizeof(room), Soon()).error, Http2Errc::kConnectionLost);
    });
    actors.emplace_back(true, [&] { EXPECT_FALSE(writes.Write(much, Soon()).ok()); });
    FiberEvent thread_has_ended;
    actors.emplace_back(false, [&] {
      EXPECT_EQ(awaits.AwaitAnswer(Soon()), Http2Errc::kConnectionLost);
      thread_has_ended.Set();
    });
    actors.emplace_back(true, [&] { EXPECT_EQ(called.client.Ping(Soon()), Http2Errc::kConnectionLost); });
    static_cast<void>(called.peer.Await(kPing));
    EXPECT_FALSE(called.peer.stream().ShutdownWrite());
    thread_has_ended.Wait();
    for (io::Actor& actor : actors) actor.Join();
    EXPECT_FALSE(called.client.IsOpen());
  });
}

TEST_P(Http2ClientTest, CloseEndsCalls) {
  InFiber([] {
    Called called;
    Http2Call call;
    ASSERT_FALSE(called.client.OpenWithoutBody(To("/"), &call, Soon()));
    Fiber waits([&] { EXPECT_EQ(call.AwaitAnswer(Soon()), Http2Errc::kConnectionLost); });
    static_cast<void>(called.peer.Await(kHeaders, 1));
    called.client.Close();
    waits.Join();
    EXPECT_EQ(called.peer.Await(kGoAway).code(), kNoError);
    EXPECT_EQ(called.client.Ask(To("/"), {}, Soon()).error, Http2Errc::kNotBegun);
  });
}

TEST_P(Http2ClientTest, AServerThatIsSilentIsFoundByPings) {
  InFiber([] {
    EXPECT_TRUE(io::InTime(50ms, [](std::chrono::milliseconds ping_after) {
      Called called({.ping_after = ping_after});
      Http2Call call;
      if (called.client.OpenWithoutBody(To("/"), &call, Soon())) return false;
      const Frame ping = called.peer.Find(kPing);
      if (ping.ended()) return false;
      called.peer.SendFrame(kPing, kAck, 0, ping.payload);
      if (called.peer.Find(kPing).ended()) return false;  // And no answer to that one.
      EXPECT_EQ(call.AwaitAnswer(), std::errc::timed_out);
      EXPECT_FALSE(called.client.IsOpen());
      return true;
    }));
  });
}

TEST_P(Http2ClientTest, InterimAnswersAreSkipped) {
  InFiber([] {
    Called called;
    Http2Call call;
    ASSERT_FALSE(called.client.OpenWithoutBody(To("/"), &call, Soon()));
    static_cast<void>(called.peer.Await(kHeaders, 1));
    called.peer.SendFrame(kHeaders, kEndHeaders, 1, Literal(":status", "103") + Literal("link", "early"));
    called.Answer(1);
    EXPECT_FALSE(call.AwaitAnswer(Soon()));
    EXPECT_EQ(call.status(), 200);
    EXPECT_FALSE(call.headers().Has("link"));
  });
}

// Each of them counts as a flood; nothing made room for more.
TEST_P(Http2ClientTest, InterimAnswersToManyCallsAreNoFlood) {
  InFiber([] {
    Called called({.max_resets = 2, .resets_per_second = 0});
    std::error_code error;
    Fiber asks([&] {
      for (int i = 0; i < 10 && !error; ++i) error = called.client.Ask(To("/"), {}, Soon()).error;
    });
    for (std::uint32_t stream = 1; stream < 20; stream += 2) {
      if (called.peer.Find(kHeaders, stream).ended()) break;
      called.peer.SendFrame(kHeaders, kEndHeaders, stream, Literal(":status", "100"));
      called.peer.SendFrame(kHeaders, kEndHeaders, stream, Literal(":status", "103") + Literal("link", "early"));
      called.Answer(stream);
    }
    asks.Join();
    EXPECT_FALSE(error);
  });
}

TEST_P(Http2ClientTest, AServersBombOfReferencesEndsTheConnection) {
  InFiber([] {
    for (const bool in_trailers : {false, true}) {
      Called called;
      Http2Answer answer;
      Fiber asks([&] {
        EXPECT_FALSE(called.client.Ask(To("/first"), {}, Soon()).error);
        answer = called.client.Ask(To("/second"), {}, Soon());
      });
      static_cast<void>(called.peer.Await(kHeaders, 1));
      called.peer.SendFrame(kHeaders, kEndHeaders | kEndStream, 1, std::string("\x88").append(BombEntry()));
      static_cast<void>(called.peer.Await(kHeaders, 3));
      if (in_trailers) called.peer.SendFrame(kHeaders, kEndHeaders, 3, "\x88");
      called.peer.SendFrame(kHeaders, kEndHeaders | kEndStream, 3,
                            std::string(in_trailers ? "" : "\x88").append(BombOf(16'000)));
      EXPECT_EQ(called.peer.Await(kGoAway).code(), kEnhanceYourCalm);
      asks.Join();
      EXPECT_EQ(answer.error, Http2Errc::kFlooded);
    }
  });
}

TEST_P(Http2ClientTest, AServerThatFloodsEndsTheConnection) {
  InFiber([] {
    const std::string interim = FrameOf(kHeaders, kEndHeaders, 1,
                                        "\x08\x03"
                                        "103");  // ":status" of HPACK's table.
    for (const std::string& frame : {interim, FrameOf(kPing, 0, 0, "12345678"), FrameOf(kData, 0, 1)}) {
      Called called;
      Http2Answer answer;
      Fiber asks([&] { answer = called.client.Ask(To("/waits"), {}, Soon()); });
      static_cast<void>(called.peer.Await(kHeaders, 1));
      if (frame != interim) called.peer.SendFrame(kHeaders, kEndHeaders, 1, "\x88");
      Fiber reads([&] { called.peer.AwaitEnd(); });
      std::string frames;
      for (int i = 0; i < 500; ++i) frames += frame;
      for (int i = 0; i < 50 && called.peer.stream().WriteAll(frames, Soon()).ok(); ++i) {
      }
      static_cast<void>(called.peer.stream().ShutdownWrite());
      asks.Join();
      EXPECT_EQ(answer.error, Http2Errc::kFlooded);
      reads.Join();
    }
  });
}

TEST_P(Http2ClientTest, AnAnswerHasItsLimits) {
  InFiber([] {
    Called called({.max_header_list = 1'000});
    Http2Call call;
    ASSERT_FALSE(called.client.OpenWithoutBody(To("/"), &call, Soon()));
    static_cast<void>(called.peer.Await(kHeaders, 1));
    std::string fields = "\x88";
    for (int i = 0; i < 10; ++i) fields += Literal("x-field", std::string(100, 'a'));
    called.peer.SendFrame(kHeaders, kEndHeaders, 1, fields);
    EXPECT_EQ(call.AwaitAnswer(Soon()), Http2Errc::kHeadersTooLarge);
    EXPECT_EQ(called.peer.Await(kRstStream, 1).code(), kCancel);
    Fiber answers([&] {
      static_cast<void>(called.peer.Await(kHeaders, 3));
      called.Answer(3, "four");
      EXPECT_EQ(called.peer.Await(kHeaders, 5).stream, 5u);
      called.Answer(5, "four");
    });
    EXPECT_EQ(called.client.Ask(To("/"), {}, Soon(), 3).error, std::errc::message_size);
    EXPECT_EQ(called.client.Ask(To("/"), {}, Soon(), 4).body, "four");
    answers.Join();
  });
}

TEST_P(Http2ClientTest, AnUnreadAnswerGivesTheConnectionsWindowBack) {
  InFiber([] {
    Called called({.connection_window = 65'535});
    std::size_t returned = 0;
    for (std::uint32_t stream = 1; stream < 9; stream += 2) {
      Http2Call call;
      ASSERT_FALSE(called.client.OpenWithoutBody(To("/"), &call, Soon()));
      static_cast<void>(called.peer.Await(kHeaders, stream));
      for (int i = 0; i < 4; ++i) {
        if (i == 0) called.peer.SendFrame(kHeaders, kEndHeaders, stream, "\x88");
        called.peer.SendFrame(kData, i == 3 ? kEndStream : 0, stream, std::string(10'000, 'x'));
      }
      EXPECT_FALSE(call.AwaitAnswer(Soon()));
      call = Http2Call();
      for (const Frame& frame : called.peer.UntilPingAnswer()) {
        if (frame.type == kWindowUpdate && frame.stream == 0) returned += frame.number();
      }
      ASSERT_GE(65'535 + returned, (stream / 2 + 1) * 40'000u) << "the window is used up";
    }
    EXPECT_GE(returned, 160'000u - 65'535 / 2);
  });
}

TEST_P(Http2ClientTest, RequestsThatCannotBeAreNotSent) {
  InFiber([] {
    Called called;
    Http2Call call;
    const std::vector<Http2RequestHead> bad{
        {.path = "/"},
        To("/a b"),
        To("/a\r\nb"),
        To(""),
        To("/", "G T"),
        {.path = "/", .authority = "a b"},
        {.path = "/", .authority = "a", .scheme = ""},
        {.path = "/", .authority = "a", .headers = {{"x", "a\nb"}}},
        {.path = "/", .authority = "a", .headers = {{":path", "/b"}}},
        {.path = "/", .authority = "a", .headers = {{"connection", "close"}}},
        {.path = "/", .authority = "a", .headers = {{"host", "b"}}},
    };
    for (const Http2RequestHead& head : bad) {
      EXPECT_EQ(called.client.OpenWithoutBody(head, &call, Soon()), Http2Errc::kBadField) << head.path;
    }
    ASSERT_FALSE(called.client.OpenWithoutBody({.headers = {{"host", "a"}}}, &call, Soon()));
    EXPECT_EQ(call.Write("x").error, Http2Errc::kWrongOrder);
    EXPECT_EQ(called.peer.Await(kHeaders).stream, 1u);
    Http2Call both;
    EXPECT_FALSE(called.client.OpenWithoutBody({.authority = "a:80", .headers = {{"host", "A"}}}, &both, Soon()));
  });
}

TEST_P(Http2ClientTest, AServerThatBreaksTheProtocolIsTold) {
  InFiber([] {
    Called called;
    Http2Call call;
    ASSERT_FALSE(called.client.OpenWithoutBody(To("/"), &call, Soon()));
    called.peer.SendFrame(kData, 0, 0, "on no stream");
    EXPECT_EQ(call.AwaitAnswer(Soon()), Http2Errc::kProtocolError);
    EXPECT_EQ(called.peer.Await(kGoAway).code(), kProtocolError);
  });
}

}  // namespace
}  // namespace weft::interop
