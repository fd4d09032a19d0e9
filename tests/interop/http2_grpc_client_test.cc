// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Http2GrpcClient and our own servers. Servers that misbehave: http2_grpc_hostile_test.cc. Others' servers:
// grpc_peers_test.py.

#include "weft/interop/http2_grpc_client.h"

#include <netdb.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "weft/fiber/fiber_scope.h"
#include "weft/interop/http2/http2_grpc_wire.h"
#include "weft/interop/http2_grpc_health.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_cancelled.h"
#include "weft/sync/fiber_event.h"
#include "weft/tests/interop/http2_grpc_client_fixture.h"

namespace weft::interop {
namespace {

using namespace std::chrono_literals;
using io::Reaches;
using io::Soon;

class Http2GrpcClientTest : public io::IoTest {
 protected:
  static GrpcCallOptions InTime() { return {.deadline = Soon()}; }

  // Adds "/t.S/Wait", which waits until its client gives it up.
  static void AddWait(GrpcServed* served, FiberEvent* begun, FiberEvent* cancelled) {
    served->service.Add("/t.S/Wait", [=](GrpcCall& call) -> GrpcStatus {
      std::string_view message;
      while (call.ReadBytes(&message)) {
      }
      begun->Set();
      FiberEvent never;
      try {
        never.Wait();
      } catch (const FiberCancelled&) {
        cancelled->Set();
        throw;
      }
      return {};
    });
  }
};
WEFT_INSTANTIATE_IO_SHAPES(Http2GrpcClientTest);

TEST_P(Http2GrpcClientTest, AUnaryCallHasItsMessageAndStatus) {
  InFiber([] {
    GrpcServed served;
    Http2GrpcClient client(served.target(), {.max_message = 1 << 24});
    for (const std::size_t size : {0, 1, 16, 600, 20'000, 3'000'000}) {
      const Note note{std::string(size, 'x')};
      Note reply;
      GrpcAnswer answer;
      const GrpcStatus status = client.Call("/t.S/Echo", note, &reply, InTime(), &answer);
      EXPECT_TRUE(status.ok()) << status.message;
      EXPECT_TRUE(reply.text == note.text) << size;
      EXPECT_EQ(answer.server, served.target());
      EXPECT_EQ(answer.attempts, 1u);
      EXPECT_EQ(answer.trailers.Find("grpc-status"), "0");
    }
    std::string bytes;
    EXPECT_TRUE(client.CallBytes("/t.S/Echo", "plain", &bytes, InTime()).ok());
    EXPECT_EQ(bytes, "plain");
    EXPECT_EQ(client.counts().calls, 7u);
    EXPECT_EQ(client.counts().connected, 1u);
  });
}

TEST_P(Http2GrpcClientTest, AThreadCalls) {
  std::optional<GrpcServed> served;
  InFiber([&] { served.emplace(); });
  InThread([&] {
    Http2GrpcClient client(served->target());
    Note reply;
    EXPECT_TRUE(client.Call("/t.S/Echo", Note{"thread"}, &reply, InTime()).ok());
    EXPECT_EQ(reply.text, "thread");
    GrpcClientCall call = client.Open("/t.S/EchoAll", InTime());
    EXPECT_TRUE(call.Write(Note{"again"}));
    EXPECT_TRUE(call.Read(&reply));
    EXPECT_EQ(reply.text, "again");
    EXPECT_TRUE(call.Finish().ok());
  });
  InFiber([&] { served.reset(); });
}

TEST_P(Http2GrpcClientTest, ManyFibersCallAtTheSameTime) {
  InFiber([] {
    GrpcServed served;
    Http2GrpcClient client(served.target(), {.connections_per_server = 2, .calls_per_connection = 5});
    std::atomic<int> right{0};
    FiberScope scope;
    for (int fiber = 0; fiber < 30; ++fiber) {
      ASSERT_TRUE(scope.Spawn([&, fiber] {
        for (int i = 0; i < io::Scaled(16); ++i) {
          const Note note{std::to_string(fiber) + std::string(static_cast<std::size_t>(i * 100), 'x')};
          Note reply;
          const GrpcStatus status = client.Call("/t.S/Echo", note, &reply, InTime());
          EXPECT_TRUE(status.ok()) << status.message;
          right += reply.text == note.text ? 1 : 0;
        }
      }));
    }
    scope.Wait();
    EXPECT_EQ(right, 30 * io::Scaled(16));
    EXPECT_LE(client.counts().connected, 2u);
  });
}

TEST_P(Http2GrpcClientTest, StatusTextAndMetadataComeAlong) {
  InFiber([] {
    GrpcServed served;
    served.service.Add("/t.S/Fail", [](GrpcCall& call) -> GrpcStatus {
      call.AddMetadata("x-before", std::string(call.metadata().Find("x-asked")));
      call.AddTrailer("x-after", "2");
      std::string_view message;
      while (call.ReadBytes(&message)) EXPECT_TRUE(call.WriteBytes(message));
      return {GrpcCode::kNotFound, " 100 % of \xda\x80\n"};
    });
    Http2GrpcClient client(served.target());
    const GrpcCallOptions options{.deadline = Soon(), .metadata = {{"x-asked", "yes"}}};
    std::string reply = "as it was";
    GrpcAnswer answer;
    const GrpcStatus status = client.CallBytes("/t.S/Fail", "x", &reply, options, &answer);
    EXPECT_EQ(status.code, GrpcCode::kNotFound);
    EXPECT_EQ(status.message, " 100 % of \xda\x80\n");
    EXPECT_EQ(reply, "as it was");
    EXPECT_EQ(answer.metadata.Find("x-before"), "yes");
    EXPECT_EQ(answer.trailers.Find("x-after"), "2");

    GrpcClientCall call = client.Open("/t.S/Fail", options);
    EXPECT_TRUE(call.WriteBytes("x"));
    EXPECT_TRUE(call.AwaitMetadata());
    EXPECT_EQ(call.metadata().Find("x-before"), "yes");
    EXPECT_EQ(call.Finish().code, GrpcCode::kNotFound);
    EXPECT_EQ(call.answer().trailers.Find("x-after"), "2");
    EXPECT_EQ(call.answer().attempts, 1u);
    // An answer with nothing but a status has one section of fields.
    EXPECT_EQ(client.CallBytes("/t.S/Nobody", "x", &reply, options, &answer).code, GrpcCode::kUnimplemented);
    EXPECT_EQ(answer.trailers.Find("grpc-status"), "12");
    EXPECT_EQ(client.Open("/t.S/Nobody", options).Finish().code, GrpcCode::kUnimplemented);
  });
}

TEST_P(Http2GrpcClientTest, MessagesStreamInEachWay) {
  InFiber([] {
    GrpcServed served;
    Http2GrpcClient client(served.target(), {.max_message = 1 << 24});
    Note reply;
    GrpcClientCall both = client.Open("/t.S/EchoAll", InTime());
    for (int i = 0; i < 50; ++i) {
      const Note note{std::string(static_cast<std::size_t>(i * i * 10), 'x')};
      ASSERT_TRUE(both.Write(note));
      ASSERT_TRUE(both.Read(&reply));
      ASSERT_TRUE(reply.text == note.text);
    }
    both.WritesDone();
    EXPECT_FALSE(both.Read(&reply));
    EXPECT_TRUE(both.Finish().ok());
    EXPECT_FALSE(both.Write(reply));

    GrpcClientCall joined = client.Open("/t.S/Joined", InTime());
    std::string all;
    for (int i = 0; i < 100; ++i) {
      const Note note{std::string(1'000, static_cast<char>('a' + i % 26))};
      ASSERT_TRUE(joined.Write(note));
      all += note.text;
    }
    joined.WritesDone();
    EXPECT_TRUE(joined.Read(&reply));
    EXPECT_TRUE(reply.text == all);
    EXPECT_TRUE(joined.Finish().ok());

    GrpcClientCall count = client.Open("/t.S/Count", InTime());
    ASSERT_TRUE(count.Write(Note{"300"}));
    count.WritesDone();
    int came = 0;
    while (count.Read(&reply)) ++came;
    EXPECT_EQ(came, 300);
    EXPECT_TRUE(count.Finish().ok());
    // What was not read is dropped.
    GrpcClientCall dropped = client.Open("/t.S/Count", InTime());
    ASSERT_TRUE(dropped.Write(Note{"300"}));
    EXPECT_TRUE(dropped.Finish().ok());
  });
}

TEST_P(Http2GrpcClientTest, OneFiberReadsWhileAnotherOneWritesMoreThanTheWindows) {
  InFiber([] {
    GrpcServed served;
    Http2GrpcClient client(served.target());
    GrpcClientCall call = client.Open("/t.S/EchoAll", InTime());
    constexpr int kNotes = 60;
    FiberScope scope;
    ASSERT_TRUE(scope.Spawn([&] {
      for (int i = 0; i < kNotes; ++i) EXPECT_TRUE(call.Write(Note{std::string(20'000, 'x')}));
      call.WritesDone();
    }));
    Note reply;
    int came = 0;
    while (call.Read(&reply)) came += reply.text.size() == 20'000 ? 1 : 0;
    scope.Wait();
    EXPECT_EQ(came, kNotes);
    EXPECT_TRUE(call.Finish().ok());
  });
}

TEST_P(Http2GrpcClientTest, TheDeadlineGoesToTheServerAndEndsTheCall) {
  InFiber([] {
    FiberEvent begun, cancelled;
    std::optional<Deadline> seen;
    GrpcServed served;
    AddWait(&served, &begun, &cancelled);
    served.service.Add("/t.S/See", [&](GrpcCall& call) -> GrpcStatus {
      seen = call.deadline();
      return call.WriteBytes("seen") ? GrpcStatus() : GrpcStatus{GrpcCode::kAborted};
    });
    Http2GrpcClient client(served.target());
    std::string reply;
    EXPECT_TRUE(client.CallBytes("/t.S/See", "", &reply).ok());
    EXPECT_TRUE(seen->is_none());
    EXPECT_TRUE(client.CallBytes("/t.S/See", "", &reply, InTime()).ok());
    EXPECT_FALSE(seen->is_none());
    EXPECT_LE(*seen, Soon());
    // That of a scope around the call, too.
    CancelScope scope(Soon());
    EXPECT_TRUE(scope.Run([&] { EXPECT_TRUE(client.CallBytes("/t.S/See", "", &reply, {.deadline = 24h}).ok()); }));
    EXPECT_LE(*seen, Soon());

    const auto late = [&] { return client.CallBytes("/t.S/Wait", "", &reply, {.deadline = 20ms}).code; };
    EXPECT_EQ(late(), GrpcCode::kDeadlineExceeded);
    EXPECT_EQ(client.CallBytes("/t.S/Wait", "", &reply, {.deadline = 0s}).code, GrpcCode::kDeadlineExceeded);
    CancelScope short_scope(20ms);
    GrpcCode code{};
    static_cast<void>(short_scope.Run([&] { code = client.CallBytes("/t.S/Wait", "", &reply).code; }));
    EXPECT_EQ(code, GrpcCode::kDeadlineExceeded);
    GrpcClientCall call = client.Open("/t.S/Wait", {.deadline = 20ms});
    std::string_view message;
    EXPECT_FALSE(call.ReadBytes(&message));
    EXPECT_EQ(call.Finish().code, GrpcCode::kDeadlineExceeded);
  });
}

TEST_P(Http2GrpcClientTest, ATimeoutHasAtMostEightDigitsAndIsNotTooShort) {
  InFiber([] {
    for (const std::chrono::nanoseconds timeout :
         {1ns, 99'999'999ns, 100'000'000ns, 100'000'001ns, 99'999'999'999ns, 100'000'000'000ns,
          std::chrono::nanoseconds(31h), std::chrono::nanoseconds(99'999'999s), std::chrono::nanoseconds(100'000'000s),
          std::chrono::nanoseconds::max()}) {
      const std::string text = FormatGrpcTimeout(timeout);
      EXPECT_LE(text.size(), 9u) << text;
      const auto back = ParseGrpcTimeout(text);
      ASSERT_TRUE(back.has_value()) << text;
      EXPECT_GE(*back, std::min(timeout, std::chrono::nanoseconds::max() / 2)) << text;
    }
    EXPECT_EQ(FormatGrpcTimeout(99'999'999ns), "99999999n");
    EXPECT_EQ(FormatGrpcTimeout(100'000'001ns), "100001u");
  });
}

TEST_P(Http2GrpcClientTest, ACancelledFiberResetsItsStream) {
  InFiber([] {
    FiberEvent begun, cancelled;
    GrpcServed served;
    AddWait(&served, &begun, &cancelled);
    Http2GrpcClient client(served.target());
    for (const bool is_stream : {false, true}) {
      begun.Reset();
      cancelled.Reset();
      GrpcCode code{};
      CancelScope scope;
      Fiber caller([&] {
        static_cast<void>(scope.Run([&] {
          std::string reply;
          if (is_stream) {
            code = client.Open("/t.S/Wait").Finish().code;
          } else {
            code = client.CallBytes("/t.S/Wait", "", &reply).code;
          }
        }));
      });
      EXPECT_TRUE(begun.Wait(Soon()));
      scope.Cancel();
      caller.Join();
      EXPECT_EQ(code, GrpcCode::kCancelled);
      EXPECT_TRUE(cancelled.Wait(Soon()));
    }
  });
}

TEST_P(Http2GrpcClientTest, AnybodyMayCancelAStreamAndADroppedOneIsReset) {
  InFiber([] {
    FiberEvent begun, cancelled;
    GrpcServed served;
    AddWait(&served, &begun, &cancelled);
    Http2GrpcClient client(served.target());
    GrpcClientCall call = client.Open("/t.S/Wait");
    call.WritesDone();
    Fiber reader([&] {
      std::string_view message;
      EXPECT_FALSE(call.ReadBytes(&message));
    });
    EXPECT_TRUE(begun.Wait(Soon()));
    call.Cancel();
    reader.Join();
    EXPECT_EQ(call.Finish().code, GrpcCode::kCancelled);
    EXPECT_TRUE(cancelled.Wait(Soon()));

    begun.Reset();
    cancelled.Reset();
    call = client.Open("/t.S/Wait");
    call.WritesDone();
    EXPECT_TRUE(begun.Wait(Soon()));
    call = GrpcClientCall();
    EXPECT_TRUE(cancelled.Wait(Soon()));
  });
}

TEST_P(Http2GrpcClientTest, MessagesAreLimited) {
  InFiber([] {
    GrpcServed served;
    Http2GrpcClient client(served.target(), {.max_message = 1'000});
    Note reply;
    EXPECT_TRUE(client.Call("/t.S/Echo", Note{std::string(1'000, 'x')}, &reply, InTime()).ok());
    EXPECT_EQ(client.Call("/t.S/Echo", Note{std::string(1'001, 'x')}, &reply, InTime()).code,
              GrpcCode::kResourceExhausted);
    GrpcClientCall call = client.Open("/t.S/EchoAll", InTime());
    EXPECT_TRUE(call.Write(Note{std::string(1'000, 'x')}));
    EXPECT_TRUE(call.Read(&reply));
    EXPECT_TRUE(call.Write(Note{std::string(1'001, 'x')}));
    EXPECT_FALSE(call.Read(&reply));
    EXPECT_EQ(call.Finish().code, GrpcCode::kResourceExhausted);
  });
}

TEST_P(Http2GrpcClientTest, MetadataOfGrpcsOwnOrOfNoFieldAreRefused) {
  InFiber([] {
    GrpcServed served;
    Http2GrpcClient client(served.target());
    for (const std::string_view name : {"grpc-timeout", "content-type", "connection"}) {
      const GrpcCallOptions options{.deadline = Soon(), .metadata = {{name, "x"}}};
      std::string reply;
      EXPECT_EQ(client.CallBytes("/t.S/Echo", "", &reply, options).code, GrpcCode::kInternal) << name;
      EXPECT_EQ(client.Open("/t.S/Echo", options).Finish().code, GrpcCode::kInternal) << name;
    }
    EXPECT_EQ(served.begun(), 0u);
  });
}

// --- Policies ---

// A service whose "/t.S/Flaky" fails some times with a code before it answers.
struct Flaky {
  explicit Flaky(GrpcCode code, int failures) : left(failures) {
    served.service.Add("/t.S/Flaky", [this, code](GrpcCall& call) -> GrpcStatus {
      again = std::string(call.metadata().Find("grpc-previous-rpc-attempts"));
      ++asked;
      if (left-- > 0) return {code, "not now"};
      Note note;
      Note all;
      while (call.Read(&note)) all.text += note.text;
      return call.Write(all) ? GrpcStatus() : GrpcStatus{GrpcCode::kAborted};
    });
  }
  GrpcServed served;
  std::atomic<int> left;
  std::atomic<int> asked{0};
  std::string again;
};

GrpcCallPolicy RetryThreeTimes() { return {.retry = {.max_attempts = 4, .initial_backoff = 1ms}}; }

TEST_P(Http2GrpcClientTest, WhatThePolicySaysIsMadeAgain) {
  InFiber([] {
    const GrpcCallPolicy policy = RetryThreeTimes();
    const GrpcCallOptions options{.deadline = Soon(), .policy = &policy};
    for (const int failures : {0, 1, 3, 4}) {
      Flaky flaky(GrpcCode::kUnavailable, failures);
      Http2GrpcClient client(flaky.served.target());
      std::string reply;
      GrpcAnswer answer;
      const GrpcStatus status = client.CallBytes("/t.S/Flaky", "x", &reply, options, &answer);
      EXPECT_EQ(status.code, failures < 4 ? GrpcCode::kOk : GrpcCode::kUnavailable);
      EXPECT_EQ(answer.attempts, static_cast<std::size_t>(std::min(failures + 1, 4)));
      EXPECT_EQ(flaky.again, failures == 0 ? "" : std::to_string(std::min(failures, 3)));
    }
    for (const int failures : {0, 1, 3, 4}) {
      Flaky flaky(GrpcCode::kUnavailable, failures);
      Http2GrpcClient client(flaky.served.target());
      GrpcClientCall call = client.Open("/t.S/Flaky", options);
      EXPECT_TRUE(call.Write(Note{"a"}) || failures == 4);
      EXPECT_TRUE(call.Write(Note{"b"}) || failures == 4);
      call.WritesDone();
      Note all;
      EXPECT_EQ(call.Read(&all), failures < 4);
      EXPECT_EQ(all.text, failures < 4 ? "ab" : "");
      EXPECT_EQ(call.Finish().code, failures < 4 ? GrpcCode::kOk : GrpcCode::kUnavailable);
      EXPECT_EQ(call.answer().attempts, static_cast<std::size_t>(std::min(failures + 1, 4)));
    }
  });
}

TEST_P(Http2GrpcClientTest, WhatThePolicyDoesNotSayIsMadeOnce) {
  InFiber([] {
    GrpcCallPolicy policy = RetryThreeTimes();
    const auto attempts = [&](GrpcCode code, const Http2GrpcClientOptions& options = {}) {
      Flaky flaky(code, 10);
      Http2GrpcClient client(flaky.served.target(), options);
      std::string reply;
      EXPECT_EQ(client.CallBytes("/t.S/Flaky", "x", &reply, {.deadline = Soon(), .policy = &policy}).code, code);
      EXPECT_EQ(client.Open("/t.S/Flaky", {.deadline = Soon(), .policy = &policy}).Finish().code, code);
      return flaky.asked.load();
    };
    EXPECT_EQ(attempts(GrpcCode::kUnavailable), 8);
    EXPECT_EQ(attempts(GrpcCode::kAborted), 2);
    // Without a budget.
    EXPECT_EQ(attempts(GrpcCode::kUnavailable, {.budget = {.share = 0, .reserve = 0}}), 2);
    policy.codes = {GrpcCode::kAborted};
    EXPECT_EQ(attempts(GrpcCode::kAborted), 8);
    // By default nothing is made again.
    policy = {};
    EXPECT_EQ(attempts(GrpcCode::kUnavailable), 2);
  });
}

TEST_P(Http2GrpcClientTest, APauseEndsWithTheCall) {
  InFiber([] {
    const GrpcCallPolicy policy{.retry = {.max_attempts = 4, .initial_backoff = 1h, .max_backoff = 1h, .jitter = 0}};
    Flaky flaky(GrpcCode::kUnavailable, 10);
    Http2GrpcClient client(flaky.served.target());
    // The answer must come in time, else it counts.
    EXPECT_TRUE(io::InTime(50ms, [&](std::chrono::milliseconds time) {
      std::string reply;
      return client.CallBytes("/t.S/Flaky", "x", &reply, {.deadline = time, .policy = &policy}).code ==
                 GrpcCode::kDeadlineExceeded &&
             client.Open("/t.S/Flaky", {.deadline = time, .policy = &policy}).Finish().code ==
                 GrpcCode::kDeadlineExceeded;
    }));
    // Cancel() ends the pause of a stream.
    const int before = flaky.asked;
    GrpcClientCall call = client.Open("/t.S/Flaky", {.policy = &policy});
    Fiber reader([&] {
      std::string_view message;
      EXPECT_FALSE(call.ReadBytes(&message));
    });
    EXPECT_TRUE(Reaches([&] { return flaky.asked > before; }));
    call.Cancel();
    EXPECT_TRUE(reader.Join(Soon()));
    EXPECT_EQ(call.Finish().code, GrpcCode::kCancelled);
  });
}

TEST_P(Http2GrpcClientTest, ASlowCallIsHedgedAtAnotherServer) {
  InFiber([] {
    FiberEvent begun, cancelled;
    GrpcServed slow, quick;
    slow.service.Add("/t.S/Work", [&](GrpcCall&) -> GrpcStatus {
      begun.Set();
      FiberEvent never;
      try {
        never.Wait();
      } catch (const FiberCancelled&) {
        cancelled.Set();
        throw;
      }
      return {};
    });
    quick.service.Add("/t.S/Work", [&](GrpcCall& call) -> GrpcStatus {
      return call.WriteBytes("quick") ? GrpcStatus() : GrpcStatus{GrpcCode::kAborted};
    });
    // Under load the slow one's handler may not have begun when the other one answers.
    for (std::chrono::milliseconds delay = 10ms; !begun.IsSet() && delay < 10s; delay *= 3) {
      const GrpcCallPolicy policy{.hedge = {.delay = delay, .max_attempts = 2}};
      Http2GrpcClient client(slow.target() + "," + quick.target(), {.policy = policy});
      // One of two goes to the slow one first.
      for (int i = 0; i < 2; ++i) {
        std::string reply;
        GrpcAnswer answer;
        EXPECT_TRUE(client.CallBytes("/t.S/Work", "x", &reply, InTime(), &answer).ok());
        EXPECT_EQ(reply, "quick");
        EXPECT_EQ(answer.server, quick.target());
      }
      EXPECT_GE(client.counts().attempts, 3u);
    }
    EXPECT_TRUE(begun.IsSet());
    EXPECT_TRUE(cancelled.Wait(Soon()));
  });
}

TEST_P(Http2GrpcClientTest, WhatHasFailedIsHedgedAtOnceIfThePolicySaysSo) {
  InFiber([] {
    GrpcCallPolicy policy{.hedge = {.max_attempts = 3}};
    const auto attempts = [&](GrpcCode code, int failures, GrpcCode wanted,
                              const Http2GrpcClientOptions& options = {}) {
      Flaky flaky(code, failures);
      Http2GrpcClient client(flaky.served.target(), options);
      std::string reply;
      GrpcAnswer answer;
      EXPECT_EQ(client.CallBytes("/t.S/Flaky", "x", &reply, {.deadline = Soon(), .policy = &policy}, &answer).code,
                wanted);
      EXPECT_EQ(answer.attempts, static_cast<std::size_t>(flaky.asked));
      return flaky.asked.load();
    };
    EXPECT_EQ(attempts(GrpcCode::kUnavailable, 2, GrpcCode::kOk), 3);
    EXPECT_EQ(attempts(GrpcCode::kUnavailable, 9, GrpcCode::kUnavailable), 3);
    EXPECT_EQ(attempts(GrpcCode::kAborted, 1, GrpcCode::kAborted), 1);
    EXPECT_EQ(attempts(GrpcCode::kUnavailable, 1, GrpcCode::kUnavailable, {.budget = {.share = 0, .reserve = 0}}), 1);
  });
}

TEST_P(Http2GrpcClientTest, StreamsThatNobodyReadsLeaveRoomForOtherCalls) {
  InFiber([] {
    constexpr int kStreams = 40;
    std::atomic<int> full{0};
    GrpcServed served;
    served.service.Add("/t.S/Fill", [&](GrpcCall& call) -> GrpcStatus {
      std::size_t written = 0;
      while (call.WriteBytes(std::string(1'000, 'x'))) {
        written += 1'000;
        full += written == 60'000 ? 1 : 0;
      }
      return {};
    });
    Http2GrpcClient client(served.target());
    std::vector<GrpcClientCall> streams;
    for (int i = 0; i < kStreams; ++i) {
      streams.push_back(client.Open("/t.S/Fill", InTime()));
      streams.back().WritesDone();
    }
    EXPECT_TRUE(Reaches([&] { return full == kStreams; }));
    Note reply;
    const GrpcStatus status = client.Call("/t.S/Echo", Note{std::string(30'000, 'x')}, &reply, InTime());
    EXPECT_TRUE(status.ok()) << status.message;
    for (GrpcClientCall& stream : streams) stream.Cancel();
  });
}

// --- Servers ---

TEST_P(Http2GrpcClientTest, ServersTakeTurnsAndADeadOneIsPassedOver) {
  InFiber([] {
    std::optional<GrpcServed> first(std::in_place), second(std::in_place);
    const std::string first_target = first->target();
    Http2GrpcClient client(first_target + "," + second->target());
    int at_first = 0;
    const auto call = [&] {
      std::string reply;
      GrpcAnswer answer;
      const GrpcStatus status = client.CallBytes("/t.S/Echo", "x", &reply, InTime(), &answer);
      EXPECT_TRUE(status.ok()) << status.message;
      at_first += answer.server == first_target ? 1 : 0;
    };
    for (int i = 0; i < 10; ++i) call();
    EXPECT_EQ(at_first, 5);
    first.reset();
    for (int i = 0; i < 20; ++i) call();
    EXPECT_EQ(at_first, 5);
    second.reset();
    std::string reply;
    EXPECT_EQ(client.CallBytes("/t.S/Echo", "x", &reply, InTime()).code, GrpcCode::kUnavailable);
    EXPECT_EQ(client.Open("/t.S/Echo", InTime()).Finish().code, GrpcCode::kUnavailable);
  });
}

TEST_P(Http2GrpcClientTest, EachAddressOfANameIsAServerAndNewOnesAreFound) {
  InFiber([] {
    GrpcServed first, second, third;
    std::atomic<bool> moved{false};
    io::Resolver::Options source;
    source.look_up = [&](const std::string& host, const std::string& service, io::ResolveOptions) {
      EXPECT_EQ(host, "shop.example");
      EXPECT_EQ(service, "grpc");
      io::ResolveResult found;
      found.addresses = {moved ? third.address() : first.address(), second.address()};
      return found;
    };
    io::Resolver resolver(source);
    Http2GrpcClient client("shop.example:grpc", {.each_address = true, .resolve_after = 20ms, .resolver = &resolver});
    std::set<std::string> servers;
    const auto call = [&] {
      std::string reply;
      GrpcAnswer answer;
      EXPECT_TRUE(client.CallBytes("/t.S/Echo", "x", &reply, InTime(), &answer).ok());
      servers.insert(answer.server);
      return answer.server;
    };
    for (int i = 0; i < 4; ++i) call();
    EXPECT_EQ(servers.size(), 2u);
    EXPECT_EQ(client.counts().servers, 2u);
    moved = true;
    const std::string wanted = third.target();
    EXPECT_TRUE(Reaches([&] { return call().find(wanted) != std::string::npos; }));
    servers.clear();
    for (int i = 0; i < 6; ++i) call();
    EXPECT_EQ(servers.size(), 2u);
  });
}

TEST_P(Http2GrpcClientTest, ServersThatStayKeepTheirTurnsWhenTheNameIsLookedUpAgain) {
  InFiber([] {
    GrpcServed first, second;
    std::atomic<int> looked_up{0};
    io::Resolver::Options source;
    source.look_up = [&](const std::string&, const std::string&, io::ResolveOptions) {
      ++looked_up;
      io::ResolveResult found;
      found.addresses = {second.address(), first.address()};  // in any order
      return found;
    };
    io::Resolver resolver(source);
    Http2GrpcClient client("shop.example:grpc", {.each_address = true, .resolve_after = 0ms, .resolver = &resolver});
    std::uint64_t calls = 0;
    // A call during a look-up begins none.
    EXPECT_TRUE(Reaches([&] {
      std::string reply;
      EXPECT_TRUE(client.CallBytes("/t.S/Echo", "x", &reply, InTime()).ok());
      return ++calls % 2 == 0 && looked_up >= 6;
    }));
    EXPECT_EQ(first.begun(), calls / 2);
    EXPECT_EQ(second.begun(), calls / 2);
  });
}

TEST_P(Http2GrpcClientTest, AKeyStaysAtItsServer) {
  InFiber([] {
    GrpcServed first, second, third;
    Http2GrpcClient client(first.target() + "," + second.target() + "," + third.target(),
                           {.balance = io::BalancePolicy::kConsistentHash});
    std::set<std::string> used;
    for (const std::string key : {"a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"}) {
      std::set<std::string> servers;
      for (int i = 0; i < 3; ++i) {
        std::string reply;
        GrpcAnswer answer;
        const GrpcCallOptions options{.deadline = Soon(), .key = key};
        EXPECT_TRUE(client.CallBytes("/t.S/Echo", "x", &reply, options, &answer).ok());
        servers.insert(answer.server);
        GrpcClientCall call = client.Open("/t.S/EchoAll", options);
        EXPECT_TRUE(call.Finish().ok());
        servers.insert(call.answer().server);
      }
      EXPECT_EQ(servers.size(), 1u) << key;
      used.insert(servers.begin(), servers.end());
    }
    EXPECT_GT(used.size(), 1u);
  });
}

TEST_P(Http2GrpcClientTest, ANameThatIsNotFoundIsUnavailable) {
  InFiber([] {
    io::Resolver::Options source;
    source.look_up = [](const std::string&, const std::string&, io::ResolveOptions) {
      return io::ResolveResult{.error = {EAI_NONAME, io::ResolveCategory()}, .addresses = {}};
    };
    io::Resolver resolver(source);
    for (const bool each_address : {false, true}) {
      Http2GrpcClient client("nowhere.example:1", {.each_address = each_address, .resolver = &resolver});
      std::string reply;
      const GrpcStatus status = client.CallBytes("/t.S/Echo", "x", &reply, InTime());
      EXPECT_EQ(status.code, GrpcCode::kUnavailable);
      // Also when the name is not looked up again yet.
      const GrpcStatus again = client.Open("/t.S/Echo", InTime()).Finish();
      EXPECT_EQ(again.code, GrpcCode::kUnavailable);
      EXPECT_EQ(again.message, status.message);
    }
  });
}

TEST_P(Http2GrpcClientTest, ALookUpThatDoesNotEndIsLeftWithTheClient) {
  InFiber([] {
    FiberEvent asked, answered;
    io::Resolver::Options source;
    source.look_up = [&](const std::string&, const std::string&, io::ResolveOptions) {
      asked.Set();
      answered.Wait();
      return io::ResolveResult{.error = {EAI_NONAME, io::ResolveCategory()}, .addresses = {}};
    };
    io::Resolver resolver(source);
    {
      Http2GrpcClient client("slow.example:1", {.each_address = true, .resolver = &resolver, .connect_timeout = 1h});
      std::string reply;
      EXPECT_EQ(client.CallBytes("/t.S/Echo", "x", &reply, {.deadline = 10ms}).code, GrpcCode::kDeadlineExceeded);
      EXPECT_TRUE(asked.Wait(Soon()));
    }  // Does not wait for the answer.
    answered.Set();
  });
}

TEST_P(Http2GrpcClientTest, AServerThatDoesNotServeIsLeftOut) {
  InFiber([] {
    Http2GrpcHealth first_health, second_health;
    GrpcServed first, second, without;
    first_health.AddTo(&first.service);
    second_health.AddTo(&second.service);
    first_health.SetServing("t.S", false);
    second_health.SetServing("t.S", true);
    Http2GrpcClient client(first.target() + "," + second.target() + "," + without.target(), {.health_service = "t.S"});
    const auto servers = [&] {
      std::set<std::string> found;
      for (int i = 0; i < 6; ++i) {
        std::string reply;
        GrpcAnswer answer;
        EXPECT_TRUE(client.CallBytes("/t.S/Echo", "x", &reply, InTime(), &answer).ok());
        found.insert(answer.server);
      }
      return found;
    };
    EXPECT_TRUE(Reaches([&] { return servers() == std::set<std::string>{second.target(), without.target()}; }));
    first_health.SetServing("t.S", true);
    EXPECT_TRUE(Reaches([&] { return servers().size() == 3; }));
    first_health.SetServing("t.S", false);
    second_health.SetServing("t.S", false);
    EXPECT_TRUE(Reaches([&] { return servers() == std::set<std::string>{without.target()}; }));
  });
}

TEST_P(Http2GrpcClientTest, AUnixSocketIsATarget) {
  InFiber([] {
    const io::SocketAddress address = io::UnixAddress();
    io::TcpListener listener;
    ASSERT_FALSE(listener.Listen(address));
    Http2GrpcService service;
    service.AddUnary<Note, Note>("/t.S/Echo", [](GrpcCall&, const Note& note, Note* reply) -> GrpcStatus {
      reply->text = note.text;
      return {};
    });
    Http2Server http(service.handler());
    io::TcpServer server(std::move(listener), http.ForTcpServer());
    ASSERT_TRUE(server.Start());
    Http2GrpcClient client(address.ToString());
    Note reply;
    const GrpcStatus status = client.Call("/t.S/Echo", Note{"x"}, &reply, InTime());
    EXPECT_TRUE(status.ok()) << status.message;
  });
}

}  // namespace
}  // namespace weft::interop
