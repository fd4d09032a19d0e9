// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// rpc::Server::Stop(): requests that have come in part, and what a handler learns of a drain.

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include "weft/fiber/fiber.h"
#include "weft/fiber/this_fiber.h"
#include "weft/sync/fiber_cancelled.h"
#include "weft/sync/fiber_event.h"
#include "weft/tests/fiber/runtime_fixture.h"
#include "weft/tests/rpc/rpc_fixture.h"

namespace weft::rpc {
namespace {

class RpcDrainTest : public fiber::InEachShape {};
INSTANTIATE_TEST_SUITE_P(Shapes, RpcDrainTest,
                         ::testing::Values(fiber::Shape{1, 1}, fiber::Shape{2, 1}, fiber::Shape{2, 2}), &fiber::NameOf);

using Clock = std::chrono::steady_clock;

// Longer than Stop() gives connections that have nothing in flight.
constexpr std::chrono::milliseconds kLongerThanAFarewell{1300};

void AwaitFarewell(RawClient& client) {
  Frame frame;
  EXPECT_TRUE(client.ReceiveAny(&frame));
  EXPECT_EQ(frame.header.kind, FrameKind::kFarewell);
}

// A server that echoes; a client of which it has answered a request, and read a part of the next one, `begun`.
struct Scene {
  explicit Scene(std::size_t part) : request(RequestBytes(2, "begun")) {
    client.Send(RequestBytes(1, "whole") + request.substr(0, part));  // They come in one read.
    ExpectAnswer(1, "whole");
  }

  void ExpectAnswer(std::uint64_t id, const std::string& payload) {
    Frame frame;
    AnswerMeta meta;
    EchoAnswer answer;
    ASSERT_TRUE(client.Receive(&frame, &meta));
    EXPECT_EQ(frame.header.correlation_id, id);
    EXPECT_EQ(meta.error_code(), OK) << meta.error_text();
    EXPECT_TRUE(answer.ParseFromArray(frame.body.data(), static_cast<int>(frame.body.size())));
    EXPECT_EQ(answer.payload(), payload);
  }

  ScriptedService service{[](Controller*, const EchoRequest* request, EchoAnswer* answer, Closure* done) {
    answer->set_payload(request->payload());
    done->Run();
  }};
  RunningServer server{&service};
  RawClient client{server->local_address()};
  const std::string request;
};

// It was answered with UNAVAILABLE.
TEST_P(RpcDrainTest, ARequestThatIsHalfReadIsReadToItsEndAndRun) {
  InFiber([] {
    const std::size_t size = RequestBytes(2, "begun").size();
    for (const std::size_t part : {std::size_t{1}, FrameHeader::kSize, FrameHeader::kSize + 1, size - 1}) {
      Scene scene(part);
      Fiber stopper([&] { scene.server->Stop(60s); });
      AwaitFarewell(scene.client);
      // In two pieces, of which the first does not end it; and what is behind it has not begun.
      if (part + 1 < size) scene.client.Send(scene.request.substr(part, 1));
      scene.client.Send(scene.request.substr(std::min(part + 1, size - 1)) + RequestBytes(3, "late"));
      for (int i = 0; i < 2; ++i) {
        Frame frame;
        AnswerMeta meta;
        ASSERT_TRUE(scene.client.Receive(&frame, &meta));
        EXPECT_EQ(meta.error_code(), frame.header.correlation_id == 2 ? OK : UNAVAILABLE) << meta.error_text();
      }
      scene.client.stream().Close();
      stopper.Join();
      EXPECT_EQ(scene.server->counts().requests, 2u);
      EXPECT_EQ(scene.server->counts().unavailable, 1u);
    }
  });
}

// Its connection was cut a second after the last answer.
TEST_P(RpcDrainTest, ARequestThatIsHalfReadMayTakeUntilTheDeadline) {
  InFiber([] {
    Scene scene(FrameHeader::kSize + 1);
    Fiber stopper([&] { scene.server->Stop(60s); });
    AwaitFarewell(scene.client);
    FiberSleepFor(kLongerThanAFarewell);
    scene.client.Send(scene.request.substr(FrameHeader::kSize + 1));
    scene.ExpectAnswer(2, "begun");
    scene.client.stream().Close();
    stopper.Join();
  });
}

TEST_P(RpcDrainTest, ARequestThatDoesNotComeToItsEndHoldsTheStopUntilItsDeadline) {
  InFiber([] {
    Scene scene(FrameHeader::kSize + 1);
    const auto begin = Clock::now();
    scene.server->Stop(kLongerThanAFarewell);
    EXPECT_GE(Clock::now() - begin, kLongerThanAFarewell);
    EXPECT_EQ(scene.server->counts().connections, 0u);
    EXPECT_EQ(scene.server->counts().requests, 1u);
  });
}

TEST_P(RpcDrainTest, AClientThatGoesInTheMiddleOfARequestDoesNotHoldTheStop) {
  InFiber([] {
    Scene scene(FrameHeader::kSize + 1);
    const auto begin = Clock::now();
    Fiber stopper([&] { scene.server->Stop(kSoon); });
    AwaitFarewell(scene.client);
    scene.client.stream().Close();
    stopper.Join();
    EXPECT_LT(Clock::now() - begin, kBeforeSoon);
  });
}

TEST_P(RpcDrainTest, AFrameThatIsTooLargeDoesNotHoldTheStop) {
  InFiber([] {
    const std::string header = FrameBytes({.body_size = (4 << 20) + 1, .correlation_id = 2}, "");
    Scene scene(0);
    scene.client.Send(RequestBytes(1, "whole") + header.substr(0, 10));
    scene.ExpectAnswer(1, "whole");
    const auto begin = Clock::now();
    Fiber stopper([&] { scene.server->Stop(kSoon); });
    AwaitFarewell(scene.client);
    scene.client.Send(header.substr(10));
    Frame frame;
    AnswerMeta meta;
    ASSERT_TRUE(scene.client.Receive(&frame, &meta));
    EXPECT_EQ(meta.error_code(), TOO_LARGE);
    scene.client.stream().Close();
    stopper.Join();
    EXPECT_LT(Clock::now() - begin, kBeforeSoon);
  });
}

TEST_P(RpcDrainTest, ARequestThatBeginsAfterTheDrainDoesNotHoldTheStop) {
  InFiber([] {
    Scene scene(1);
    RawClient late(scene.server->local_address());
    Frame frame;
    AnswerMeta meta;
    late.Send(RequestBytes(1, "in time"));
    ASSERT_TRUE(late.Receive(&frame, &meta));
    EXPECT_EQ(meta.error_code(), OK);
    const auto begin = Clock::now();
    Fiber stopper([&] { scene.server->Stop(kSoon); });
    AwaitFarewell(scene.client);
    AwaitFarewell(late);
    late.Send(RequestBytes(3, "late") + scene.request.substr(0, FrameHeader::kSize + 1));
    ASSERT_TRUE(late.Receive(&frame, &meta));
    EXPECT_EQ(meta.error_code(), UNAVAILABLE);
    scene.client.Send(scene.request.substr(1));
    scene.ExpectAnswer(2, "begun");
    EXPECT_FALSE(late.ReceiveAny(&frame));  // After its time the connection is closed.
    stopper.Join();
    EXPECT_LT(Clock::now() - begin, kBeforeSoon);
    EXPECT_EQ(scene.server->counts().unavailable, 1u);
  });
}

TEST_P(RpcDrainTest, AHandlerCanTellADrainFromAClientThatHasGone) {
  InFiber([] {
    struct Seen {
      FiberEvent began, ended;
      bool draining = false;
    };
    Seen leaves, stays;
    leaves.draining = true;
    Server* serving = nullptr;
    ScriptedService service([&](Controller*, const EchoRequest* request, EchoAnswer*, Closure*) {
      Seen& seen = request->payload() == "leaves" ? leaves : stays;
      EXPECT_FALSE(serving->draining());
      seen.began.Set();
      try {
        FiberEvent().Wait();
      } catch (const FiberCancelled&) {
        seen.draining = serving->draining();
        seen.ended.Set();
        throw;
      }
    });
    RunningServer server(&service);
    serving = server.operator->();
    RawClient leaver(server->local_address()), stayer(server->local_address());
    leaver.Send(RequestBytes(1, "leaves"));
    stayer.Send(RequestBytes(1, "stays"));
    leaves.began.Wait();
    stays.began.Wait();
    leaver.stream().Close();
    EXPECT_TRUE(leaves.ended.Wait(kSoon));
    EXPECT_FALSE(leaves.draining);
    server->Stop(10ms);
    EXPECT_TRUE(stays.ended.Wait(kSoon));
    EXPECT_TRUE(stays.draining);
  });
}

}  // namespace
}  // namespace weft::rpc
