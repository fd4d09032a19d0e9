// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Http2Server: requests that have come in part when the drain of their TcpServer begins.

#include <chrono>
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <utility>

#include "weft/fiber/fiber.h"
#include "weft/interop/http2_server.h"
#include "weft/io/tcp_server.h"
#include "weft/io/tcp_stream.h"
#include "weft/sync/fiber_event.h"
#include "weft/tests/interop/http2_fixture.h"

namespace weft::interop {
namespace {

using io::Soon;

class Http2DrainTest : public io::IoTest {};
INSTANTIATE_TEST_SUITE_P(Shapes, Http2DrainTest,
                         ::testing::Values(fiber::Shape{1, 1}, fiber::Shape{2, 1}, fiber::Shape{2, 2}), &fiber::NameOf);

void Echo(Http2Request& request, Http2Response& response) {
  std::string body;
  EXPECT_FALSE(request.ReadAll(&body, 1 << 20, Soon()));
  EXPECT_FALSE(response.Send(200, {}, std::string(request.path()) + body));
}

// A server that echoes path and body; and a client of it, which has had an answer to stream 1.
struct Scene {
  explicit Scene(Http2Server::Handler handler = &Echo) : listening(std::move(handler)) {
    EXPECT_FALSE(stream.Connect(listening.address(), Soon()));
    peer.Greet();
    peer.Ask(1, true, "GET", "/first");
    EXPECT_EQ(peer.Await(kData, 1, kEndStream).payload, "/first");
  }

  // The server has read it.
  void SendAndAwait(std::string_view part) {
    peer.Send(FrameOf(kPing, 0, 0, "is_read?") + std::string(part));  // They come in one read.
    EXPECT_EQ(peer.Await(kPing, 0, kAck).payload, "is_read?");
  }
  // A drain has begun, and the client knows.
  void BeginStop() {
    stops = Fiber([this] { listening.server().Stop(Soon()); });
    EXPECT_EQ(peer.Await(kGoAway).number(), 0x7fff'ffffu);
  }
  void ExpectEnd() {
    peer.AwaitEnd();
    stream.Close();
    stops.Join();
    EXPECT_EQ(listening.http().counts().requests, 2u);
    EXPECT_EQ(listening.http().counts().reset, 0u);
  }

  ListeningServer listening;
  io::TcpStream stream;
  RawPeer peer{&stream};
  Fiber stops;
};

TEST_P(Http2DrainTest, ABodyOfWhichAHalfHasComeIsReadToItsEnd) {
  InFiber([] {
    for (const bool answers_ping : {true, false}) {
      FiberEvent half_read;
      Scene scene([&](Http2Request& request, Http2Response& response) {
        char half[4] = {};
        if (request.path() == "/upload") {
          EXPECT_EQ(request.Read(half, sizeof(half), Soon()).bytes, sizeof(half));
          EXPECT_FALSE(request.draining());
          half_read.Set();
        }
        std::string body;
        EXPECT_FALSE(request.ReadAll(&body, 100, Soon()));
        EXPECT_EQ(request.draining(), request.path() == "/upload");
        EXPECT_FALSE(
            response.Send(200, {}, request.path() == "/upload" ? std::string(half, sizeof(half)) + body : "/first"));
      });
      scene.peer.Ask(3, /*end=*/false, "POST", "/upload");
      scene.peer.SendFrame(kData, 0, 3, "half");
      half_read.Wait();
      scene.BeginStop();
      const Frame ping = scene.peer.Await(kPing);
      if (answers_ping) scene.peer.SendFrame(kPing, kAck, 0, ping.payload);
      EXPECT_EQ(scene.peer.Await(kGoAway).number(), 3u);
      scene.peer.SendFrame(kData, kEndStream, 3, "rest");
      EXPECT_EQ(scene.peer.Await(kData, 3, kEndStream).payload, "halfrest");
      scene.ExpectEnd();
    }
  });
}

// Such a client cannot answer the drain's PING: no other frame may come between the two.
TEST_P(Http2DrainTest, FieldsThatAreToBeContinuedAreReadToTheirEnd) {
  InFiber([] {
    const std::string fields = RequestFields("GET", "/continued");
    for (const bool after_last_goaway : {false, true}) {
      Scene scene;
      scene.SendAndAwait(FrameOf(kHeaders, kEndStream, 3, fields.substr(0, 20)));
      scene.BeginStop();
      if (after_last_goaway) {
        EXPECT_EQ(scene.peer.Await(kGoAway).number(), 3u);
      }
      scene.peer.SendFrame(kContinuation, 0, 3, fields.substr(20, 10));
      scene.peer.SendFrame(kContinuation, kEndHeaders, 3, fields.substr(30));
      EXPECT_EQ(scene.peer.Await(kData, 3, kEndStream).payload, "/continued");
      scene.ExpectEnd();
    }
  });
}

TEST_P(Http2DrainTest, AFrameOfFieldsThatIsCutIsReadToItsEnd) {
  InFiber([] {
    const std::string frame = FrameOf(kHeaders, kEndHeaders | kEndStream, 3, RequestFields("GET", "/cut"));
    constexpr std::size_t kFrameHeader = 9;
    const std::size_t parts[] = {kFrameHeader, kFrameHeader + 1, frame.size() - 1};
    Scene scenes[std::size(parts)];  // At the same time: each takes a second.
    for (std::size_t i = 0; i < std::size(parts); ++i) {
      scenes[i].SendAndAwait(std::string_view(frame).substr(0, parts[i]));
      scenes[i].BeginStop();
    }
    for (std::size_t i = 0; i < std::size(parts); ++i) {
      EXPECT_EQ(scenes[i].peer.Await(kGoAway).number(), 3u);
      scenes[i].peer.Send(std::string_view(frame).substr(parts[i]));
      EXPECT_EQ(scenes[i].peer.Await(kData, 3, kEndStream).payload, "/cut");
      scenes[i].ExpectEnd();
    }
  });
}

// As long as the server has not its number: then the last GOAWAY says that the client may make it again.
TEST_P(Http2DrainTest, AFrameHeaderThatIsCutMayComeToItsEndUntilTheLastGoAway) {
  InFiber([] {
    const std::string frame = FrameOf(kHeaders, kEndHeaders | kEndStream, 3, RequestFields("GET", "/cut"));
    Scene answered;
    answered.SendAndAwait(std::string_view(frame).substr(0, 5));
    answered.BeginStop();
    answered.peer.Send(std::string_view(frame).substr(5));
    EXPECT_EQ(answered.peer.Await(kData, 3, kEndStream).payload, "/cut");
    answered.ExpectEnd();

    Scene left_out;
    left_out.SendAndAwait(std::string_view(frame).substr(0, 5));
    left_out.BeginStop();
    EXPECT_EQ(left_out.peer.Await(kGoAway).number(), 1u);
    left_out.peer.AwaitEnd();
    left_out.stream.Close();
    left_out.stops.Join();
    EXPECT_EQ(left_out.listening.http().counts().requests, 1u);
  });
}

}  // namespace
}  // namespace weft::interop
