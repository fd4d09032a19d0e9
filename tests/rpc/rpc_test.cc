// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Client and server of examples/rpc in one process.

#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "weft/base/report/str_cat.h"
#include "weft/examples/rpc/echo_service.h"
#include "weft/examples/rpc/frame.h"
#include "weft/examples/rpc/retry_pauses.h"
#include "weft/examples/rpc/rpc_channel.h"
#include "weft/examples/rpc/rpc_controller.h"
#include "weft/examples/rpc/rpc_server.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/fiber_scope.h"
#include "weft/fiber/this_fiber.h"
#include "weft/io/socket_address.h"
#include "weft/io/tcp_listener.h"
#include "weft/io/tcp_stream.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_latch.h"
#include "weft/tests/rpc/rpc_fixture.h"

#include "examples/rpc/echo.pb.h"
#include "examples/rpc/meta.pb.h"

namespace weft::rpc {
namespace {

using namespace std::chrono_literals;
using google::protobuf::Closure;
using Steady = std::chrono::steady_clock;

class RpcTest : public fiber::InEachShape {};
INSTANTIATE_TEST_SUITE_P(Shapes, RpcTest,
                         ::testing::Values(fiber::Shape{1, 1}, fiber::Shape{2, 1}, fiber::Shape{4, 1},
                                           fiber::Shape{8, 1}),
                         &fiber::NameOf);

// --- Calls ---

TEST_P(RpcTest, TenThousandCallsFromAHundredFibersOverOneConnectionAreByteExact) {
  InFiber([] {
    EchoServiceImpl echo;
    RunningServer server(&echo);
    Client client(server->local_address());
    std::vector<Fiber> callers;
    std::atomic<int> exact{0};
    for (int f = 0; f < 100; ++f) {
      callers.emplace_back([&, f] {
        std::mt19937 random(static_cast<unsigned>(f));
        for (int i = 0; i < 100; ++i) {
          std::string payload(random() % (i % 25 == 0 ? 100'000 : 500), '\0');
          for (char& byte : payload) byte = static_cast<char>(random());
          Controller controller;
          controller.set_timeout(60s);
          if (client.Echo(&controller, payload) == payload && !controller.Failed()) ++exact;
        }
      });
    }
    for (Fiber& caller : callers) caller.Join();
    EXPECT_EQ(exact, 10'000);
    EXPECT_EQ(server->counts().requests, 10'000u);
    EXPECT_EQ(server->counts().connections, 1u);
  });
}

TEST_P(RpcTest, PlainThreadsCallTooAndBlockOnlyThemselves) {
  EchoServiceImpl echo;
  RunningServer server(&echo);
  Client client(server->local_address());
  Controller controller;
  EXPECT_EQ(client.Echo(&controller, "from a thread"), "from a thread") << controller.ErrorText();
}

TEST_P(RpcTest, AnswersOvertakeEachOtherOnOneConnection) {
  InFiber([] {
    FiberEvent gate;
    ScriptedService service([&](Controller*, const EchoRequest* request, EchoAnswer* answer, Closure* done) {
      if (request->payload() == "first") gate.Wait();
      answer->set_payload(request->payload());
      done->Run();
    });
    RunningServer server(&service);
    Client client(server->local_address());
    std::atomic<bool> first_answered{false};
    Fiber first([&] {
      Controller controller;
      EXPECT_EQ(client.Echo(&controller, "first"), "first");
      first_answered = true;
    });
    for (int i = 0; i < 10; ++i) EXPECT_EQ(client.CodeOf("later"), OK);
    EXPECT_FALSE(first_answered);
    gate.Set();
    first.Join();
  });
}

TEST_P(RpcTest, AnAsynchronousCallReturnsAtOnceAndRunsItsClosureInAFiber) {
  InFiber([] {
    FiberEvent gate;
    ScriptedService service([&](Controller*, const EchoRequest* request, EchoAnswer* answer, Closure* done) {
      gate.Wait();
      answer->set_payload(request->payload());
      done->Run();
    });
    RunningServer server(&service);
    Client client(server->local_address());
    struct Call {
      Controller controller;
      EchoRequest request;
      EchoAnswer answer;
      FiberEvent* done = nullptr;
      bool in_fiber = false;
      static void Done(Call* call) {
        call->in_fiber = IsRunningInFiberWorker();
        call->done->Set();
      }
    };
    FiberEvent done;
    Call call;
    call.done = &done;
    call.request.set_payload("later");
    EchoService::Stub(&client.channel())
        .Echo(&call.controller, &call.request, &call.answer, google::protobuf::NewCallback(&Call::Done, &call));
    EXPECT_FALSE(done.IsSet()) << "the handler waits for the gate";
    gate.Set();
    done.Wait();
    EXPECT_TRUE(call.in_fiber);
    EXPECT_FALSE(call.controller.Failed()) << call.controller.ErrorText();
    EXPECT_EQ(call.answer.payload(), "later");
  });
}

TEST_P(RpcTest, WhatTheHandlerSaysOfItsFailureReachesTheCaller) {
  InFiber([] {
    ScriptedService service([](Controller* controller, const EchoRequest*, EchoAnswer*, Closure* done) {
      controller->SetFailed("no such document");
      done->Run();
    });
    RunningServer server(&service);
    Client client(server->local_address());
    Controller controller;
    client.Echo(&controller, "x");
    EXPECT_TRUE(controller.Failed());
    EXPECT_EQ(controller.error_code(), FAILED);
    EXPECT_EQ(controller.ErrorText(), "no such document");
    controller.Reset();
    EXPECT_FALSE(controller.Failed());
  });
}

TEST_P(RpcTest, APoolSpreadsItsCallsOverItsConnections) {
  InFiber([] {
    EchoServiceImpl echo;
    RunningServer server(&echo);
    Client client(server->local_address(), {.connections = 3});
    while (client.channel().counts().connected < 3) {
      ASSERT_EQ(client.CodeOf("x"), OK);
    }
    for (int i = 0; i < 3; ++i) EXPECT_EQ(client.CodeOf("x"), OK);  // One on each.
    EXPECT_EQ(server->counts().connections, 3u);
    EXPECT_TRUE(client.channel().Healthy());
  });
}

// --- Deadlines ---

TEST_P(RpcTest, TheDeadlineTravelsToTheHandler) {
  InFiber([] {
    Deadline seen;
    Steady::time_point at;
    ScriptedService service([&](Controller* controller, const EchoRequest*, EchoAnswer*, Closure* done) {
      seen = controller->deadline();
      at = Steady::now();
      done->Run();
    });
    RunningServer server(&service);
    Client client(server->local_address());
    Controller controller;
    controller.set_timeout(60s);
    client.Echo(&controller, "x");
    ASSERT_FALSE(controller.Failed()) << controller.ErrorText();
    EXPECT_GE(seen, controller.deadline());  // The way took some time, and the rest is counted from the arrival.
    EXPECT_LE(seen.time_point(), at + 60s);
    controller.Reset();
    client.Echo(&controller, "x");
    EXPECT_TRUE(seen.is_none());
  });
}

TEST_P(RpcTest, ACallEndsAtItsDeadlineWhateverTheServerDoes) {
  InFiber([] {
    FiberEvent gate;
    ScriptedService service([&](Controller*, const EchoRequest*, EchoAnswer*, Closure* done) {
      gate.Wait();
      done->Run();
    });
    RunningServer server(&service);
    Client client(server->local_address(), {.timeout = 20ms});
    Controller controller;
    const auto before = Steady::now();
    client.Echo(&controller, "x");
    EXPECT_GE(Steady::now() - before, 20ms);
    EXPECT_EQ(controller.error_code(), DEADLINE_EXCEEDED);
    gate.Set();
    // The late answer matches no call, and the next call's is right.
    controller.Reset();
    controller.set_timeout(60s);
    client.Echo(&controller, "y");
    EXPECT_EQ(controller.error_code(), OK) << controller.ErrorText();
  });
}

TEST_P(RpcTest, WhatIsLateBeforeItIsSentIsNotSent) {
  InFiber([] {
    EchoServiceImpl echo;
    RunningServer server(&echo);
    Client client(server->local_address());
    EXPECT_EQ(client.CodeOf("x"), OK);
    Controller controller;
    controller.set_deadline(-1s);
    client.Echo(&controller, "x");
    EXPECT_EQ(controller.error_code(), DEADLINE_EXCEEDED);
    EXPECT_EQ(server->counts().requests, 1u);
  });
}

// --- Raw connections ---

TEST(RpcOneWorkerTest, ARequestWhoseTimeIsOverWhenItsTurnComesIsNotBegun) {
  const fiber::RuntimeOf runtime(fiber::Shape{1, 1});
  Fiber([] {
    std::atomic<int> begun{0};
    ScriptedService service([&](Controller*, const EchoRequest*, EchoAnswer*, Closure* done) {
      ++begun;
      const auto until = Steady::now() + 5ms;
      while (Steady::now() < until) continue;  // Keeps the only worker.
      done->Run();
    });
    RunningServer server(&service);
    RawClient client(server->local_address());
    // One segment, so one read: they come at the same time.
    client.Send(RequestBytes(1, "no hurry") + RequestBytes(2, "within a millisecond", 1'000));
    Frame frame;
    AnswerMeta meta;
    ASSERT_TRUE(client.Receive(&frame, &meta));
    EXPECT_EQ(frame.header.correlation_id, 1u);
    EXPECT_EQ(meta.error_code(), OK);
    ASSERT_TRUE(client.Receive(&frame, &meta));
    EXPECT_EQ(frame.header.correlation_id, 2u);
    EXPECT_EQ(meta.error_code(), DEADLINE_EXCEEDED);
    EXPECT_EQ(begun, 1);
    EXPECT_EQ(server->counts().late, 1u);
  }).Join();
}

TEST_P(RpcTest, BadRequestsAreAnsweredWithWhatIsWrongAndTheConnectionGoesOn) {
  InFiber([] {
    EchoServiceImpl echo;
    RunningServer server(&echo);
    RawClient client(server->local_address());
    const std::string good = RequestBytes(9, "good");
    const auto expect = [&](const std::string& bytes, ErrorCode code) {
      client.Send(bytes);
      Frame frame;
      AnswerMeta meta;
      ASSERT_TRUE(client.Receive(&frame, &meta));
      EXPECT_EQ(meta.error_code(), code) << meta.error_text();
      EXPECT_EQ(meta.error_text().empty(), code == OK);
    };
    expect(FrameBytes({.meta_size = 3, .correlation_id = 1}, "\xff\xff\xff"), BAD_REQUEST);
    expect(RequestBytes(2, "x", 0, "weft.rpc.NoService"), NO_SUCH_METHOD);
    expect(RequestBytes(3, "x", 0, "weft.rpc.EchoService", "Shout"), NO_SUCH_METHOD);
    expect(FrameBytes({}, ""), NO_SUCH_METHOD);
    RequestMeta meta;
    meta.set_service("weft.rpc.EchoService");
    meta.set_method("Echo");
    const std::string text = meta.SerializeAsString();
    expect(FrameBytes({.meta_size = static_cast<std::uint32_t>(text.size()), .body_size = 2, .correlation_id = 4},
                      text + "\xff\xff"),
           BAD_REQUEST);
    expect(good, OK);
    EXPECT_EQ(server->counts().bad, 2u);
  });
}

TEST_P(RpcTest, WhatIsNoFrameEndsItsConnectionAfterTheAnswersToWhatCameBefore) {
  InFiber([] {
    EchoServiceImpl echo;
    RunningServer server(&echo);
    RawClient client(server->local_address());
    RawClient other(server->local_address());
    client.Send(RequestBytes(1, "good") + "GET / HTTP/1.1\r\nHost: here\r\n\r\n" + std::string(5'000, 'x'));
    Frame frame;
    AnswerMeta meta;
    ASSERT_TRUE(client.Receive(&frame, &meta));
    EXPECT_EQ(frame.header.correlation_id, 1u);
    EXPECT_FALSE(client.Receive(&frame, &meta));
    other.Send(RequestBytes(2, "good"));
    EXPECT_TRUE(other.Receive(&frame, &meta));
  });
}

TEST_P(RpcTest, AFrameThatIsTooLargeIsAnsweredBeforeTheConnectionIsClosed) {
  InFiber([] {
    EchoServiceImpl echo;
    RunningServer server(&echo, {.limits = {.max_body = 1'000}});
    RawClient client(server->local_address());
    client.Send(RequestBytes(7, std::string(2'000, 'x')));
    Frame frame;
    AnswerMeta meta;
    ASSERT_TRUE(client.Receive(&frame, &meta));
    EXPECT_EQ(frame.header.correlation_id, 7u);
    EXPECT_EQ(meta.error_code(), TOO_LARGE);
    EXPECT_NE(meta.error_text().find("1000"), std::string::npos) << meta.error_text();
    EXPECT_FALSE(client.Receive(&frame, &meta));
  });
}

TEST_P(RpcTest, MessagesThatAreTooLargeFailTheirCallOnly) {
  InFiber([] {
    ScriptedService service([](Controller*, const EchoRequest* request, EchoAnswer* answer, Closure* done) {
      answer->set_payload(request->payload() + request->payload());
      done->Run();
    });
    RunningServer server(&service, {.limits = {.max_body = 1'000}});
    Client client(server->local_address(), {.limits = {.max_body = 1'000}});
    EXPECT_EQ(client.CodeOf(std::string(2'000, 'x')), TOO_LARGE);  // the request
    EXPECT_EQ(client.CodeOf(std::string(700, 'x')), TOO_LARGE);    // the answer
    EXPECT_EQ(client.CodeOf(std::string(400, 'x')), OK);
    EXPECT_EQ(client.channel().counts().connects, 1u);
  });
}

// Whatever bytes come, the server answers others, and stops.
TEST_P(RpcTest, RandomBytesDoNotHarmTheServer) {
  InFiber([] {
    EchoServiceImpl echo;
    RunningServer server(&echo);
    for (unsigned seed = 1; seed <= 100; ++seed) {
      std::mt19937 random(seed);
      std::string bytes = RequestBytes(1, "x", random() % 3) + RequestBytes(2, std::string(random() % 300, 'y'));
      for (unsigned i = 0; i < 1 + random() % 5; ++i) bytes[random() % bytes.size()] = static_cast<char>(random());
      bytes.resize(random() % bytes.size());
      RawClient client(server->local_address());
      client.Send(bytes);
      // Half of them read the answers, the others are gone.
      if (seed % 2 == 0) {
        EXPECT_FALSE(client.stream().ShutdownWrite());
        char answer[512];
        while (client.stream().ReadSome(answer, sizeof(answer), kSoon).bytes != 0) continue;
      }
    }
    Client client(server->local_address());
    EXPECT_EQ(client.CodeOf("still there"), OK);
  });
}

// --- Cancellation ---

TEST_P(RpcTest, ACanceledCallEndsItsHandlerAndTheFibersOfItsScopes) {
  InFiber([] {
    WaitsForEver scene;
    RunningServer server(&scene.service);
    Client client(server->local_address());
    Controller controller;
    Fiber caller([&] { client.Echo(&controller, "x"); });
    scene.AwaitBegun(1);
    controller.StartCancel();
    caller.Join();
    EXPECT_EQ(controller.error_code(), CANCELED);
    scene.AwaitEnded(1);
    EXPECT_EQ(client.CodeOf("at once"), OK);
  });
}

TEST_P(RpcTest, ACallerThatIsCanceledTellsTheServer) {
  InFiber([] {
    WaitsForEver scene;
    RunningServer server(&scene.service);
    Client client(server->local_address());
    CancelScope scope;
    Fiber caller([&] {
      Controller controller;
      EXPECT_FALSE(scope.Run([&] {
        client.Echo(&controller, "x");
        ADD_FAILURE() << "it was not cancelled";
      }));
      EXPECT_EQ(controller.error_code(), CANCELED);
    });
    scene.AwaitBegun(1);
    scope.Cancel();
    caller.Join();
    scene.AwaitEnded(1);
    EXPECT_EQ(client.CodeOf("at once"), OK);  // The connection is none the worse.
  });
}

// Without the cancel frame the handler, which was told of no deadline, would run on.
TEST_P(RpcTest, ACallWhoseTimeIsOverTellsTheServer) {
  InFiber([] {
    RawServer server;
    Client client(server.address());
    std::atomic<bool> cancelled{false};
    // Again and again: the time of a call may be over before it is sent.
    Fiber caller([&] {
      while (!cancelled) {
        Controller controller;
        controller.set_timeout(5ms);
        client.Echo(&controller, "x");
        EXPECT_EQ(controller.error_code(), DEADLINE_EXCEEDED);
      }
    });
    io::TcpStream stream = server.Accept();
    FrameReader reader{FrameLimits{}};
    std::vector<FrameHeader> came;
    while (came.empty() || came.back().kind != FrameKind::kCancel) {
      Frame frame;
      if (reader.Next(&frame) == FrameReader::Result::kFrame) {
        came.push_back(frame.header);
        continue;
      }
      const std::span<char> room = reader.Room();
      const io::IoResult got = stream.ReadSome(room.data(), room.size(), kSoon);
      ASSERT_GT(got.bytes, 0u);
      reader.Filled(got.bytes);
    }
    cancelled = true;
    caller.Join();
    const auto is_its_request = [&](const FrameHeader& header) {
      return header.kind == FrameKind::kRequest && header.correlation_id == came.back().correlation_id;
    };
    EXPECT_EQ(std::count_if(came.begin(), came.end(), is_its_request), 1);
  });
}

TEST_P(RpcTest, TheDeadlineOnTheWireEndsTheHandler) {
  InFiber([] {
    WaitsForEver scene;
    RunningServer server(&scene.service);
    RawClient client(server->local_address());
    client.Send(RequestBytes(1, "x", 20'000));
    Frame answer;
    AnswerMeta meta;
    ASSERT_TRUE(client.Receive(&answer, &meta));
    EXPECT_EQ(meta.error_code(), DEADLINE_EXCEEDED);
    scene.AwaitEnded(1);
  });
}

// A handler that asks another server: the scope's deadline goes on, and ends the inner call with the outer one.
TEST_P(RpcTest, WhatAHandlerAsksOfOthersHasItsDeadlineAndEndsWithIt) {
  InFiber([] {
    WaitsForEver inner_scene;
    std::atomic<bool> has_deadline{false};
    ScriptedService inner([&](Controller* controller, const EchoRequest* request, EchoAnswer* answer, Closure* done) {
      has_deadline = !controller->deadline().is_none() && CurrentDeadline() == controller->deadline();
      inner_scene.service.Echo(controller, request, answer, done);
    });
    RunningServer inner_server(&inner);
    Client inner_client(inner_server->local_address());
    ScriptedService outer([&](Controller*, const EchoRequest* request, EchoAnswer*, Closure*) {
      Controller controller;
      inner_client.Echo(&controller, request->payload());
      ADD_FAILURE() << "it was not cancelled";
    });
    RunningServer outer_server(&outer);
    Client client(outer_server->local_address());
    Controller controller;
    controller.set_timeout(60s);
    Fiber caller([&] { client.Echo(&controller, "x"); });
    inner_scene.AwaitBegun(1);
    controller.StartCancel();
    caller.Join();
    inner_scene.AwaitEnded(1);
    EXPECT_TRUE(has_deadline);
  });
}

TEST_P(RpcTest, AClientThatHasGoneEndsItsHandlers) {
  InFiber([] {
    WaitsForEver scene;
    RunningServer server(&scene.service);
    {
      RawClient client(server->local_address());
      client.Send(RequestBytes(1, "x") + RequestBytes(2, "x"));
      scene.AwaitBegun(2);
    }
    scene.AwaitEnded(2);
    while (server->counts().in_flight != 0) FiberYield();
  });
}

TEST_P(RpcTest, WhatOutlivesTheTimeToDrainIsEnded) {
  InFiber([] {
    WaitsForEver scene;
    RunningServer server(&scene.service);
    Client client(server->local_address());
    Controller controller;
    Fiber caller([&] { client.Echo(&controller, "x"); });
    scene.AwaitBegun(1);
    server->Stop(10ms);
    EXPECT_EQ(scene.ended, 3);
    caller.Join();
    EXPECT_TRUE(controller.Failed());
  });
}

// A service that answers when it is cancelled, or when the gate opens.
class UntilCanceled {
 public:
  FiberEvent begun;
  FiberEvent gate;
  std::atomic<int> canceled{0};
  ScriptedService service{
      [this](Controller* controller, const EchoRequest* request, EchoAnswer* answer, Closure* done) {
        struct Call {
          FiberEvent notified;
          static void Notify(Call* call) { call->notified.Set(); }
        };
        answer->set_payload(request->payload());
        if (request->payload() == "at once") return done->Run();
        Call call;
        controller->NotifyOnCancel(google::protobuf::NewCallback(&Call::Notify, &call));
        begun.Set();
        call.notified.Wait();
        if (controller->IsCanceled()) ++canceled;
        done->Run();
      }};
};

TEST_P(RpcTest, StartCancelEndsTheCallAndTellsTheHandler) {
  InFiber([] {
    UntilCanceled scene;
    RunningServer server(&scene.service);
    Client client(server->local_address());
    Controller controller;
    Fiber caller([&] { client.Echo(&controller, "x"); });
    scene.begun.Wait();
    controller.StartCancel();
    caller.Join();
    EXPECT_EQ(controller.error_code(), CANCELED);
    server->Stop(Deadline::None());  // When the handler has returned.
    EXPECT_EQ(scene.canceled, 1);
  });
}

TEST_P(RpcTest, ACallThatIsCanceledBeforeItBeginsDoesNotBegin) {
  InFiber([] {
    EchoServiceImpl echo;
    RunningServer server(&echo);
    Client client(server->local_address());
    Controller controller;
    controller.StartCancel();
    client.Echo(&controller, "x");
    EXPECT_EQ(controller.error_code(), CANCELED);
    controller.Reset();
    client.Echo(&controller, "x");
    EXPECT_EQ(controller.error_code(), OK) << controller.ErrorText();
    EXPECT_EQ(server->counts().requests, 1u);
  });
}

TEST_P(RpcTest, CancelAndAnswerAtTheSameTimeEndTheCallOnce) {
  InFiber([] {
    EchoServiceImpl echo;
    RunningServer server(&echo);
    Client client(server->local_address());
    int canceled = 0;
    for (int i = 0; i < 300; ++i) {
      Controller controller;
      FiberEvent begin;
      Fiber canceler([&] {
        begin.Wait();
        for (int turn = 0; turn < i % 8; ++turn) FiberYield();
        controller.StartCancel();
      });
      begin.Set();
      const std::string answer = client.Echo(&controller, "x");
      canceler.Join();
      ASSERT_TRUE(controller.error_code() == CANCELED || (controller.error_code() == OK && answer == "x"))
          << controller.ErrorText();
      canceled += controller.Failed();
    }
    EXPECT_EQ(client.CodeOf("y"), OK);
    RecordProperty("canceled", canceled);
  });
}

TEST_P(RpcTest, TheCallsOfAClientThatHasGoneAreCanceled) {
  InFiber([] {
    UntilCanceled scene;
    RunningServer server(&scene.service);
    {
      RawClient client(server->local_address());
      client.Send(RequestBytes(1, "x"));
      scene.begun.Wait();
    }
    server->Stop(Deadline::None());
    EXPECT_EQ(scene.canceled, 1);
  });
}

TEST_P(RpcTest, NotifyOnCancelRunsAfterACallThatWasNotCanceled) {
  InFiber([] {
    std::atomic<int> notified{0};
    struct Notify {
      static void Count(std::atomic<int>* count) { ++*count; }
    };
    ScriptedService service([&](Controller* controller, const EchoRequest*, EchoAnswer*, Closure* done) {
      controller->NotifyOnCancel(google::protobuf::NewCallback(&Notify::Count, &notified));
      EXPECT_EQ(notified, 0);
      done->Run();
    });
    RunningServer server(&service);
    Client client(server->local_address());
    EXPECT_EQ(client.CodeOf("x"), OK);
    server->Stop(Deadline::None());
    EXPECT_EQ(notified, 1);
  });
}

// --- Overload ---

TEST_P(RpcTest, RequestsOverTheLimitAreAnsweredAtOnce) {
  InFiber([] {
    UntilCanceled scene;
    RunningServer server(&scene.service, {.max_in_flight = 1});
    Client client(server->local_address());
    Controller first;
    Fiber caller([&] { client.Echo(&first, "x"); });
    scene.begun.Wait();
    EXPECT_EQ(client.CodeOf("one too many"), OVERLOADED);
    EXPECT_EQ(server->counts().overloaded, 1u);
    first.StartCancel();
    caller.Join();
    // The slot is free when the handler has ended.
    while (server->counts().in_flight != 0) FiberYield();
    EXPECT_EQ(client.CodeOf("at once"), OK);
  });
}

TEST_P(RpcTest, TheHookDecidesWhatIsAdmitted) {
  InFiber([] {
    EchoServiceImpl echo;
    std::atomic<bool> open{false};
    RunningServer server(&echo, {.admit = [&] { return open.load(); }});
    Client client(server->local_address());
    EXPECT_EQ(client.CodeOf("x"), OVERLOADED);
    open = true;
    EXPECT_EQ(client.CodeOf("x"), OK);
  });
}

TEST_P(RpcTest, AClientThatDoesNotReadItsAnswersHoldsTheServerUpAndGetsAllInTheEnd) {
  InFiber([] {
    EchoServiceImpl echo;
    RunningServer server(&echo, {.writing = {.max_unsent = 100'000}});
    RawClient client(server->local_address());
    constexpr std::uint64_t kRequests = 2'000;
    Fiber sender([&] {
      for (std::uint64_t id = 1; id <= kRequests; ++id) client.Send(RequestBytes(id, std::string(20'000, 'x')));
    });
    // More than the server may keep: it had to wait, and still waits unless the sockets hold all.
    while (server->counts().requests < 20) FiberYield();
    std::vector<bool> seen(kRequests + 1, false);
    for (std::uint64_t i = 0; i < kRequests; ++i) {
      Frame frame;
      AnswerMeta meta;
      ASSERT_TRUE(client.Receive(&frame, &meta));
      const std::uint64_t id = frame.header.correlation_id;
      ASSERT_TRUE(id >= 1 && id <= kRequests && !seen[id]);
      seen[id] = true;
    }
    sender.Join();
  });
}

// --- The end of a server ---

TEST_P(RpcTest, StopAnswersWhatIsInFlightAndRefusesTheRest) {
  InFiber([] {
    FiberEvent gate;
    FiberLatch begun(20);
    ScriptedService service([&](Controller*, const EchoRequest* request, EchoAnswer* answer, Closure* done) {
      begun.CountDown();
      gate.Wait();
      answer->set_payload(request->payload());
      done->Run();
    });
    RunningServer server(&service);
    Client client(server->local_address(), {.connections = 2});
    std::vector<Fiber> callers;
    std::atomic<int> answered{0};
    for (int i = 0; i < 20; ++i) {
      callers.emplace_back([&] {
        Controller controller;
        answered += client.Echo(&controller, "x") == "x" && !controller.Failed();
      });
    }
    begun.Wait();
    Fiber stopper([&] { server->Stop(60s); });
    while (!server->draining()) FiberYield();
    // A connection exists until the farewell has come, and the server says that it stops.
    ErrorCode code = OK;
    while (client.channel().Healthy()) {
      code = client.CodeOf("too late");
      ASSERT_EQ(code, UNAVAILABLE);
    }
    EXPECT_EQ(client.CodeOf("too late"), UNAVAILABLE);
    EXPECT_EQ(answered, 0);
    gate.Set();
    for (Fiber& caller : callers) caller.Join();
    EXPECT_EQ(answered, 20);
    stopper.Join();
  });
}

TEST_P(RpcTest, AtItsDeadlineStopCancelsAndCuts) {
  InFiber([] {
    UntilCanceled scene;
    RunningServer server(&scene.service);
    Client client(server->local_address());
    Controller controller;
    Fiber caller([&] { client.Echo(&controller, "x"); });
    scene.begun.Wait();
    server->Stop(20ms);
    caller.Join();
    EXPECT_EQ(scene.canceled, 1);
    EXPECT_TRUE(controller.error_code() == CONNECTION_LOST || controller.error_code() == OK) << controller.ErrorText();
  });
}

// SC5: the reader is about to begin the call while Stop() cancels all.
TEST_P(RpcTest, ACallThatEntersAfterAllWereCanceledIsNotBegun) {
  InFiber([] {
    FiberEvent asked;
    FiberEvent go_on;
    std::atomic<int> begun{0};
    ScriptedService service([&](Controller*, const EchoRequest*, EchoAnswer*, Closure* done) {
      ++begun;
      static_cast<void>(FiberEvent().Wait(30s));
      done->Run();
    });
    const auto admit = [&] {
      asked.Set();
      go_on.Wait();
      return true;
    };
    RunningServer server(&service, {.admit = admit});
    Client client(server->local_address());
    Controller controller;
    Fiber caller([&] { client.Echo(&controller, "x"); });
    asked.Wait();
    Fiber stopper([&] { server->Stop(10ms); });
    caller.Join();  // The connection is cut after the calls were cancelled.
    EXPECT_EQ(controller.error_code(), CONNECTION_LOST);
    go_on.Set();
    stopper.Join();
    EXPECT_EQ(begun, 0);
  });
}

TEST_P(RpcTest, UnderLoadStopLosesNoCallWithoutSayingSo) {
  InFiber([] {
    EchoServiceImpl echo;
    RunningServer server(&echo);
    Client client(server->local_address(), {.connections = 2});
    std::atomic<bool> end{false};
    std::atomic<int> right{0};
    std::atomic<int> wrong{0};
    std::vector<Fiber> callers;
    for (int i = 0; i < 50; ++i) {
      callers.emplace_back([&, i] {
        for (int n = 0; !end; ++n) {
          const std::string payload = std::to_string(i) + ":" + std::to_string(n);
          Controller controller;
          controller.set_timeout(60s);
          const std::string answer = client.Echo(&controller, payload);
          if (controller.error_code() == OK && answer == payload) {
            ++right;
          } else if (controller.error_code() == UNAVAILABLE) {
            return;  // It was not begun.
          } else {
            ++wrong;
            ADD_FAILURE() << controller.ErrorText();
            return;
          }
        }
      });
    }
    while (right < 1'000 && wrong == 0) FiberYield();
    server->Stop(60s);
    end = true;
    for (Fiber& caller : callers) caller.Join();
    EXPECT_EQ(wrong, 0);
    EXPECT_EQ(server->counts().in_flight, 0u);
  });
}

// --- The end of a connection ---

TEST_P(RpcTest, CallsInFlightFailWhenTheConnectionIsLost) {
  InFiber([] {
    RawServer server;
    Client client(server.address());
    FiberLatch ended(30);
    std::atomic<int> lost{0};
    for (int i = 0; i < 30; ++i) {
      ASSERT_TRUE(StartFiberDetached([&] {
        Controller controller;
        client.Echo(&controller, "x");
        lost += controller.error_code() == CONNECTION_LOST;
        ended.CountDown();
      }));
    }
    io::TcpStream stream = server.Accept();
    const std::size_t size = RequestBytes(1, "x").size();
    std::string requests(30 * size, '\0');
    ASSERT_EQ(stream.ReadAll(requests.data(), requests.size(), kSoon).bytes, requests.size());
    stream.Reset();
    EXPECT_TRUE(ended.Wait(kSoon)) << "a call hangs";
    EXPECT_EQ(lost, 30);
  });
}

TEST_P(RpcTest, AServerThatSendsWhatIsNoFrameIsLeft) {
  InFiber([] {
    RawServer server;
    Client client(server.address());
    Controller controller;
    Fiber caller([&] { client.Echo(&controller, "x"); });
    io::TcpStream stream = server.Accept();
    std::string request = RequestBytes(1, "x");
    ASSERT_EQ(stream.ReadAll(request.data(), request.size(), kSoon).bytes, request.size());
    EXPECT_TRUE(stream.WriteAll("HTTP/1.1 400 Bad Request\r\n\r\n", kSoon).ok());
    caller.Join();
    EXPECT_EQ(controller.error_code(), CONNECTION_LOST);
    EXPECT_NE(controller.ErrorText().find("WEFT"), std::string::npos) << controller.ErrorText();
  });
}

TEST_P(RpcTest, WithoutAServerCallsFailWithTheReason) {
  InFiber([] {
    io::SocketAddress nobody;
    { nobody = RawServer().address(); }
    Client client(nobody);
    Controller controller;
    client.Echo(&controller, "x");
    EXPECT_EQ(controller.error_code(), UNAVAILABLE);
    EXPECT_NE(controller.ErrorText().find(nobody.ToString()), std::string::npos) << controller.ErrorText();
    EXPECT_FALSE(client.channel().Healthy());
  });
}

TEST_P(RpcTest, AChannelFindsAServerThatComesBack) {
  InFiber([] {
    EchoServiceImpl echo;
    // A host of this process's own, so that nobody else gets the port meanwhile.
    const int pid = ::getpid();
    const std::string host = base::StrCat("127.", 1 + (pid >> 16) % 250, ".", (pid >> 8) % 256, ".", pid % 256, ":0");
    auto server = std::make_unique<RunningServer>(&echo, Server::Options{}, *io::SocketAddress::Parse(host));
    const io::SocketAddress address = (*server)->local_address();
    Client client(address, {.connections = 2, .backoff_least = 1ms, .backoff_most = 5ms});
    EXPECT_EQ(client.CodeOf("x"), OK);
    server.reset();
    while (client.channel().Healthy()) FiberYield();
    EXPECT_EQ(client.CodeOf("x"), UNAVAILABLE);
    server = std::make_unique<RunningServer>(&echo, Server::Options{}, address);
    const Deadline patience = kSoon;
    while (client.CodeOf("x") != OK) {
      ASSERT_FALSE(patience.expired()) << "the channel does not find the server";
      FiberSleepFor(1ms);
    }
    EXPECT_TRUE(client.channel().Healthy());
  });
}

// --- Calls that are made again ---

// A process that hands its listening socket over to the next one; a long call goes on over the old connection.
TEST_P(RpcTest, RestartsWithOneListeningSocketFailNoCall) {
  InFiber([] {
    FiberEvent gate;
    std::atomic<int> long_calls{0};
    ScriptedService service([&](Controller*, const EchoRequest* request, EchoAnswer* answer, Closure* done) {
      if (request->payload() == "long") {
        ++long_calls;
        gate.Wait();
      }
      answer->set_payload(request->payload());
      done->Run();
    });
    io::TcpListener listener;
    ASSERT_FALSE(listener.Listen(kAnyPort));
    const auto start = [&] {
      io::TcpListener same;
      EXPECT_FALSE(same.Adopt(::dup(listener.fd())));
      auto server = std::make_unique<Server>();
      server->AddService(&service);
      EXPECT_TRUE(server->Start(std::move(same)));
      return server;
    };
    auto server = start();
    Client client(listener.local_address(), {.connections = 2});
    Fiber long_caller([&] { EXPECT_EQ(client.CodeOf("long"), OK); });
    while (long_calls == 0) FiberYield();
    std::atomic<bool> stop{false};
    std::atomic<int> calls{0};
    std::vector<Fiber> callers;
    for (int i = 0; i < 10; ++i) {
      callers.emplace_back([&] {
        while (!stop) {
          Controller controller;
          EXPECT_EQ(client.Echo(&controller, "x"), "x") << controller.ErrorText();
          ++calls;
        }
      });
    }
    std::vector<Fiber> stoppers;
    for (int restart = 0; restart < 5; ++restart) {
      for (const int before = calls; calls < before + 20;) FiberYield();
      std::unique_ptr<Server> old = std::exchange(server, start());
      stoppers.emplace_back([old = std::move(old)] { old->Stop(60s); });  // The first waits for the long call.
      if (restart != 0) stoppers.back().Join();
    }
    EXPECT_EQ(long_calls, 1);
    gate.Set();
    long_caller.Join();
    stop = true;
    for (Fiber& caller : callers) caller.Join();
    stoppers.front().Join();
    EXPECT_GE(client.channel().counts().connects, 4u);
  });
}

TEST_P(RpcTest, ACallThatNobodyTakesIsMadeAgainUntilItsAttemptsOrItsTimeAreOver) {
  InFiber([] {
    std::optional<RunningServer> gone;
    EchoServiceImpl echo;
    gone.emplace(&echo);
    const io::SocketAddress nobody = (*gone)->local_address();
    gone.reset();
    RetryOptions retry{.most_attempts = 4, .pause_least = 1ms, .pause_most = 2ms};
    {
      Client client(nobody, {.retry = retry});
      while (client.channel().Healthy()) FiberYield();
      EXPECT_EQ(client.CodeOf("x"), UNAVAILABLE);
      EXPECT_EQ(client.channel().counts().retries, 3u);
    }
    retry.pause_least = retry.pause_most = 1h;
    Client client(nobody, {.timeout = kSoon, .retry = retry});
    while (client.channel().Healthy()) FiberYield();
    EXPECT_EQ(client.CodeOf("x"), UNAVAILABLE);  // At once: not within the time.
    EXPECT_EQ(client.channel().counts().retries, 0u);
  });
}

TEST_P(RpcTest, WhatAHandlerHasSeenIsNotMadeAgain) {
  InFiber([] {
    std::atomic<int> calls{0};
    ScriptedService service([&](Controller* controller, const EchoRequest* request, EchoAnswer* answer, Closure* done) {
      ++calls;
      if (request->payload() == "no") controller->SetFailed(UNAVAILABLE, "the handler's own");
      answer->set_payload(request->payload());
      done->Run();
    });
    RunningServer server(&service);
    Client client(server->local_address(), {.retry = {.pause_least = 1ms}});
    Controller controller;
    client.Echo(&controller, "no");
    EXPECT_EQ(controller.error_code(), UNAVAILABLE);
    EXPECT_EQ(controller.ErrorText(), "the handler's own");
    EXPECT_FALSE(controller.not_begun());
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(client.channel().counts().retries, 0u);
  });
}

TEST_P(RpcTest, ACallBeginsWithoutTheFailureOfTheLastOneWithItsController) {
  InFiber([] {
    std::optional<RunningServer> gone;
    std::atomic<int> calls{0};
    ScriptedService service([&](Controller*, const EchoRequest* request, EchoAnswer* answer, Closure* done) {
      ++calls;
      answer->set_payload(request->payload());
      done->Run();
    });
    gone.emplace(&service);
    const io::SocketAddress nobody = (*gone)->local_address();
    gone.reset();
    Controller controller;
    {
      Client client(nobody, {.retry = {.most_attempts = 1}});
      while (client.channel().Healthy()) FiberYield();
      client.Echo(&controller, "x");
      EXPECT_EQ(controller.error_code(), UNAVAILABLE);
      EXPECT_TRUE(controller.not_begun());
    }
    RunningServer server(&service);
    Client client(server->local_address(), {.retry = {.pause_least = 1ms}});
    EXPECT_EQ(client.Echo(&controller, "x"), "x");
    EXPECT_EQ(controller.error_code(), OK) << controller.ErrorText();
    EXPECT_EQ(calls, 1);
    EXPECT_EQ(client.channel().counts().retries, 0u);
  });
}

TEST_P(RpcTest, ACallerThatIsCanceledDoesNotWaitToCallAgain) {
  InFiber([] {
    std::optional<RunningServer> gone;
    EchoServiceImpl echo;
    gone.emplace(&echo);
    const io::SocketAddress nobody = (*gone)->local_address();
    gone.reset();
    Client client(nobody, {.retry = {.pause_least = 1h, .pause_most = 1h}});
    while (client.channel().Healthy()) FiberYield();
    Controller controller;
    CancelScope scope;
    Fiber caller([&] { EXPECT_FALSE(scope.Run([&] { client.Echo(&controller, "x"); })); });
    FiberYield();
    scope.Cancel();
    caller.Join();
    EXPECT_EQ(controller.error_code(), CANCELED);
  });
}

TEST(RetryPausesTest, DoubleUpToTheMostAndDiffer) {
  const RetryOptions options{.pause_least = 10ms, .pause_most = 40ms};
  RetryPauses pauses(options, 1);
  RetryPauses others(options, 2);
  bool differ = false;
  for (const auto most : {10ms, 20ms, 40ms, 40ms, 40ms}) {
    const auto pause = pauses.Next();
    EXPECT_LE(pause, most);
    EXPECT_GE(pause, most / 2);
    differ |= pause != others.Next();
  }
  EXPECT_TRUE(differ);
}

TEST_P(RpcTest, AChannelThatIsStoppedEndsItsCalls) {
  InFiber([] {
    UntilCanceled scene;
    RunningServer server(&scene.service);
    Client client(server->local_address());
    Controller controller;
    Fiber caller([&] { client.Echo(&controller, "x"); });
    scene.begun.Wait();
    client.channel().Stop();
    caller.Join();
    EXPECT_EQ(controller.error_code(), CONNECTION_LOST);
    EXPECT_EQ(client.CodeOf("x"), UNAVAILABLE);
  });
}

}  // namespace
}  // namespace weft::rpc
