// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Http2GrpcClient and servers that break gRPC or HTTP/2, stall, or go away.

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/interop/http2_grpc_client.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_event.h"
#include "weft/tests/interop/http2_grpc_client_fixture.h"

namespace weft::interop {
namespace {

using namespace std::chrono_literals;
using namespace std::string_view_literals;
using io::Soon;

// What a server does with a call on its stream 1.
struct Misdeed {
  const char* name;
  std::function<void(RawGrpcConnection&)> act;
  GrpcCode code;
};

std::string HttpStatus(std::string_view status) { return Literal(":status", status); }

std::vector<Misdeed> BadAnswers() {
  using Raw = RawGrpcConnection;
  const auto with_status = [](std::string_view status) {
    return [status](Raw& raw) {
      raw.Begin(1);
      raw.Message(1, "x");
      raw.End(1, status);
    };
  };
  const auto with_body = [](std::string body) {
    return [body](Raw& raw) {
      raw.Begin(1);
      raw.peer.SendFrame(kData, 0, 1, body);
      raw.End(1);
    };
  };
  const auto with_http = [](std::string_view status) {
    return [status](Raw& raw) { raw.peer.SendFrame(kHeaders, kEndHeaders | kEndStream, 1, HttpStatus(status)); };
  };
  const std::string good = MessageOf("x");
  return {
      {"a status that is none", with_status("abc"), GrpcCode::kUnknown},
      {"a status that nobody knows", with_status("99"), GrpcCode::kUnknown},
      {"an empty status", with_status(""), GrpcCode::kUnknown},
      {"no trailers",
       [](Raw& raw) {
         raw.Begin(1);
         raw.peer.SendFrame(kData, kEndStream, 1, MessageOf("x"));
       },
       GrpcCode::kUnknown},
      {"trailers without a status",
       [](Raw& raw) {
         raw.Begin(1);
         raw.Message(1, "x");
         raw.peer.SendFrame(kHeaders, kEndHeaders | kEndStream, 1, Literal("x-other", "1"));
       },
       GrpcCode::kUnknown},
      {"a compressed message", with_body(MessageOf("x", 1)), GrpcCode::kInternal},
      {"a flag that nobody knows", with_body(MessageOf("x", 2)), GrpcCode::kInternal},
      {"a message that is cut short", with_body(good.substr(0, 3)), GrpcCode::kInternal},
      {"a message shorter than it says", with_body(MessageOf("xxx").substr(0, 6)), GrpcCode::kInternal},
      {"a message that is too large", with_body(MessageOf(std::string(101, 'x'))), GrpcCode::kResourceExhausted},
      {"a message that says that it is too large", with_body(std::string("\0\xff\xff\xff\xff", 5)),
       GrpcCode::kResourceExhausted},
      {"HTTP 400", with_http("400"), GrpcCode::kInternal},
      {"HTTP 401", with_http("401"), GrpcCode::kUnauthenticated},
      {"HTTP 403", with_http("403"), GrpcCode::kPermissionDenied},
      {"HTTP 404", with_http("404"), GrpcCode::kUnimplemented},
      {"HTTP 302", with_http("302"), GrpcCode::kUnknown},
      {"HTTP 429", with_http("429"), GrpcCode::kUnavailable},
      {"HTTP 500", with_http("500"), GrpcCode::kUnknown},
      {"HTTP 502", with_http("502"), GrpcCode::kUnavailable},
      {"HTTP 503", with_http("503"), GrpcCode::kUnavailable},
      {"HTTP 504", with_http("504"), GrpcCode::kUnavailable},
      {"HTTP 503 with a large page",
       [](Raw& raw) {
         raw.peer.SendFrame(kHeaders, kEndHeaders, 1, HttpStatus("503"));
         raw.peer.SendFrame(kData, kEndStream, 1, std::string(500, 'x'));
       },
       GrpcCode::kUnavailable},
      {"HTTP 503 and RST_STREAM",
       [](Raw& raw) {
         raw.peer.SendFrame(kHeaders, kEndHeaders, 1, HttpStatus("503"));
         raw.peer.SendFrame(kRstStream, 0, 1, Number32(kInternalError));
       },
       GrpcCode::kUnavailable},
      {"another status at the end than in the first fields",
       [](Raw& raw) {
         raw.Begin(1, Literal("grpc-status", "0"));
         raw.Message(1, "x");
         raw.End(1, "13");
       },
       GrpcCode::kInternal},
      {"a page",
       [](Raw& raw) {
         raw.peer.SendFrame(kHeaders, kEndHeaders, 1, std::string("\x88") + Literal("content-type", "text/html"));
         raw.Message(1, "x");
         raw.End(1);
       },
       GrpcCode::kUnknown},
      {"fields that are too large",
       [](Raw& raw) {
         std::string fields = "\x88";
         for (int i = 0; i < 125; ++i) fields += Literal("x-large", std::string(100, 'x'));
         raw.peer.SendFrame(kHeaders, kEndHeaders, 1, fields);
       },
       GrpcCode::kResourceExhausted},
      {"RST_STREAM CANCEL", [](Raw& raw) { raw.peer.SendFrame(kRstStream, 0, 1, Number32(kCancel)); },
       GrpcCode::kCancelled},
      {"RST_STREAM INTERNAL_ERROR", [](Raw& raw) { raw.peer.SendFrame(kRstStream, 0, 1, Number32(kInternalError)); },
       GrpcCode::kInternal},
      {"RST_STREAM ENHANCE_YOUR_CALM in the middle",
       [](Raw& raw) {
         raw.Begin(1);
         raw.Message(1, "x");
         raw.peer.SendFrame(kRstStream, 0, 1, Number32(kEnhanceYourCalm));
       },
       GrpcCode::kResourceExhausted},
      {"a frame of no stream", [](Raw& raw) { raw.peer.SendFrame(kData, 0, 0, "x"); }, GrpcCode::kUnavailable},
      {"bytes that are no frame", [](Raw& raw) { raw.peer.Send(std::string(64, '\xff')); }, GrpcCode::kUnavailable},
      {"the end in the middle of an answer",
       [](Raw& raw) {
         raw.Begin(1);
         raw.Message(1, "x");
         raw.Close();
       },
       GrpcCode::kUnavailable},
      {"the end after the request", [](Raw& raw) { raw.Close(); }, GrpcCode::kUnavailable},
  };
}

class Http2GrpcHostileTest : public io::IoTest {
 protected:
  // A unary call, with its server.
  struct Unary {
    explicit Unary(const Http2GrpcClientOptions& options = {.max_message = 100},
                   GrpcCallOptions with = {.deadline = Soon()})
        : client(server.target(), options),
          call([this, with] { status = client.CallBytes("/t.S/M", "hello", &reply, with); }) {}
    ~Unary() { EXPECT_TRUE(!call.Joinable() || call.Join(Soon())); }

    RawGrpcServer server;
    Http2GrpcClient client;
    std::string reply;
    GrpcStatus status;
    Fiber call;
  };
};
WEFT_INSTANTIATE_IO_SHAPES(Http2GrpcHostileTest);

TEST_P(Http2GrpcHostileTest, ABadAnswerOfAUnaryCallHasItsStatus) {
  InFiber([] {
    std::vector<Misdeed> misdeeds = BadAnswers();
    misdeeds.push_back({"no message",
                        [](RawGrpcConnection& raw) {
                          raw.Begin(1);
                          raw.End(1);
                        },
                        GrpcCode::kInternal});
    misdeeds.push_back({"two messages",
                        [](RawGrpcConnection& raw) {
                          raw.Begin(1);
                          raw.Message(1, "x");
                          raw.Message(1, "y");
                          raw.End(1);
                        },
                        GrpcCode::kInternal});
    for (const Misdeed& misdeed : misdeeds) {
      Unary unary;
      const auto raw = unary.server.Accept();
      EXPECT_EQ(raw->AwaitBody(1), MessageOf("hello"));
      misdeed.act(*raw);
      EXPECT_TRUE(unary.call.Join(Soon())) << misdeed.name;
      EXPECT_EQ(unary.status.code, misdeed.code) << misdeed.name << ": " << unary.status.message;
    }
  });
}

TEST_P(Http2GrpcHostileTest, ABadAnswerOfAStreamHasItsStatus) {
  InFiber([] {
    for (const Misdeed& misdeed : BadAnswers()) {
      RawGrpcServer server;
      Http2GrpcClient client(server.target(), {.max_message = 100});
      GrpcStatus status;
      Fiber call([&] {
        GrpcClientCall stream = client.Open("/t.S/M", {.deadline = Soon()});
        EXPECT_TRUE(stream.WriteBytes("hello"));
        stream.WritesDone();
        std::string_view message;
        while (stream.ReadBytes(&message)) EXPECT_EQ(message, "x");
        status = stream.Finish();
      });
      const auto raw = server.Accept();
      EXPECT_EQ(raw->AwaitBody(1), MessageOf("hello"));
      misdeed.act(*raw);
      EXPECT_TRUE(call.Join(Soon())) << misdeed.name;
      EXPECT_EQ(status.code, misdeed.code) << misdeed.name << ": " << status.message;
    }
  });
}

TEST_P(Http2GrpcHostileTest, MessagesAfterAnEarlyStatusAreRead) {
  InFiber([] {
    RawGrpcServer server;
    Http2GrpcClient client(server.target());
    Fiber calls([&] {
      std::string reply;
      EXPECT_TRUE(client.CallBytes("/t.S/M", "hello", &reply, {.deadline = Soon()}).ok());
      EXPECT_EQ(reply, "x");
      GrpcClientCall stream = client.Open("/t.S/M", {.deadline = Soon()});
      stream.WritesDone();
      std::string_view message;
      EXPECT_TRUE(stream.ReadBytes(&message));
      EXPECT_EQ(message, "x");
      EXPECT_TRUE(stream.Finish().ok());
      // Nothing but a status.
      GrpcClientCall empty = client.Open("/t.S/M", {.deadline = Soon()});
      EXPECT_FALSE(empty.ReadBytes(&message));
      EXPECT_TRUE(empty.Finish().ok());
      EXPECT_EQ(empty.answer().trailers.Find("grpc-status"), "0");
    });
    const auto raw = server.Accept();
    for (const std::uint32_t stream : {1, 3}) {
      static_cast<void>(raw->AwaitBody(stream));
      raw->Begin(stream, Literal("grpc-status", "0"));
      raw->Message(stream, "x");
      raw->peer.SendFrame(kHeaders, kEndHeaders | kEndStream, stream, Literal("x-other", "1"));
    }
    static_cast<void>(raw->peer.Await(kHeaders, 5));
    raw->Refuse(5, "0");
    calls.Join();
  });
}

TEST_P(Http2GrpcHostileTest, CompressedAnswersAreUnpacked) {
  InFiber([] {
    // "hello" by gzip.
    const std::string packed("\x1f\x8b\x08\0\0\0\0\0\x02\x03\xcb\x48\xcd\xc9\xc9\x07\0\x86\xa6\x10\x36\x05\0\0\0", 25);
    RawGrpcServer server;
    Http2GrpcClient client(server.target());
    Fiber calls([&] {
      std::string reply;
      const GrpcStatus status = client.CallBytes("/t.S/M", "x", &reply, {.deadline = Soon()});
      EXPECT_TRUE(status.ok()) << status.message;
      EXPECT_EQ(reply, "hello");
      GrpcClientCall stream = client.Open("/t.S/M", {.deadline = Soon()});
      stream.WritesDone();
      std::string_view message;
      EXPECT_TRUE(stream.ReadBytes(&message));
      EXPECT_EQ(message, "hello");
      EXPECT_TRUE(stream.Finish().ok());
    });
    const auto raw = server.Accept();
    for (const std::uint32_t stream : {1, 3}) {
      static_cast<void>(raw->AwaitBody(stream));
      raw->Begin(stream, Literal("grpc-encoding", "gzip"));
      raw->peer.SendFrame(kData, 0, stream, MessageOf(packed, 1));
      raw->End(stream);
    }
    calls.Join();
  });
}

TEST_P(Http2GrpcHostileTest, AMessageThatCannotBeParsedFailsTheCall) {
  InFiber([] {
    FiberEvent was_reset;
    RawGrpcServer server;
    Http2GrpcClient client(server.target());
    Fiber calls([&] {
      Note note;
      EXPECT_EQ(client.Call("/t.S/M", Note{"x"}, &note, {.deadline = Soon()}).code, GrpcCode::kInternal);
      GrpcClientCall stream = client.Open("/t.S/M", {.deadline = Soon()});
      EXPECT_FALSE(stream.Read(&note));
      EXPECT_FALSE(stream.Write(note));
      EXPECT_EQ(stream.Finish().code, GrpcCode::kInternal);
      EXPECT_TRUE(was_reset.Wait(Soon()));  // Its destructor would reset the stream, too.
    });
    const auto raw = server.Accept();
    static_cast<void>(raw->AwaitBody(1));
    raw->Answer(1, "!");
    static_cast<void>(raw->peer.Await(kHeaders, 3));
    raw->Begin(3);
    raw->Message(3, "!");
    EXPECT_EQ(raw->peer.Await(kRstStream, 3).code(), kCancel);
    was_reset.Set();
    calls.Join();
  });
}

TEST_P(Http2GrpcHostileTest, AStallPastTheDeadlineResetsTheStream) {
  InFiber([] {
    using Act = void (*)(RawGrpcConnection&);
    const Act acts[] = {
        [](RawGrpcConnection&) {},
        [](RawGrpcConnection& raw) { raw.Begin(3); },
        [](RawGrpcConnection& raw) {
          raw.Begin(3);
          raw.peer.SendFrame(kData, 0, 3, MessageOf("xxx").substr(0, 6));
        },
    };
    for (const Act act : acts) {
      EXPECT_TRUE(io::InTime(20ms, [&](std::chrono::milliseconds time) {
        Unary unary;  // The connection is there before the time begins.
        const auto raw = unary.server.Accept();
        static_cast<void>(raw->AwaitBody(1));
        raw->Answer(1, "x");
        unary.call.Join();
        Fiber calls([&] {
          std::string reply;
          EXPECT_EQ(unary.client.CallBytes("/t.S/M", "late", &reply, {.deadline = time}).code,
                    GrpcCode::kDeadlineExceeded);
          EXPECT_TRUE(unary.client.CallBytes("/t.S/M", "after", &reply, {.deadline = Soon()}).ok());
        });
        const bool has_begun = raw->AwaitBody(3) == MessageOf("late");
        if (has_begun) {
          act(*raw);
          EXPECT_EQ(raw->peer.Await(kRstStream, 3).code(), kCancel);
          EXPECT_EQ(raw->AwaitBody(5), MessageOf("after"));
        }
        raw->Answer(has_begun ? 5 : 3, "x");
        calls.Join();
        return has_begun;
      }));
    }
  });
}

TEST_P(Http2GrpcHostileTest, InACancelledScopeNoCallBegins) {
  InFiber([] {
    RawGrpcServer server;
    Http2GrpcClient client(server.target());
    Fiber calls([&] {
      std::string reply;
      EXPECT_TRUE(client.CallBytes("/t.S/M", "before", &reply, {.deadline = Soon()}).ok());
      CancelScope scope;
      scope.Cancel();
      static_cast<void>(scope.Run([&] {
        EXPECT_EQ(client.CallBytes("/t.S/M", "cancelled", &reply).code, GrpcCode::kCancelled);
        EXPECT_EQ(client.Open("/t.S/M").Finish().code, GrpcCode::kCancelled);
      }));
      EXPECT_TRUE(client.CallBytes("/t.S/M", "after", &reply, {.deadline = Soon()}).ok());
    });
    const auto raw = server.Accept();
    static_cast<void>(raw->AwaitBody(1));
    raw->Answer(1, "x");
    // It has the next number.
    const bool is_next = raw->AwaitBody(3) == MessageOf("after");
    EXPECT_TRUE(is_next);
    if (is_next) raw->Answer(3, "x");
    raw->Close();
    calls.Join();
  });
}

TEST_P(Http2GrpcHostileTest, AServerThatAcceptsNothingEndsACallByItsDeadlineOrTheConnectTimeout) {
  InFiber([] {
    const GrpcConnect never = [](const GrpcPeer&, Deadline deadline, std::unique_ptr<GrpcLink>*) {
      FiberEvent event;
      static_cast<void>(event.Wait(deadline));
      return std::make_error_code(std::errc::timed_out);
    };
    std::string reply;
    Http2GrpcClient patient("127.0.0.1:1", {.connect = never, .connect_timeout = 1h});
    EXPECT_EQ(patient.CallBytes("/t.S/M", "x", &reply, {.deadline = 20ms}).code, GrpcCode::kDeadlineExceeded);
    Http2GrpcClient hasty("127.0.0.1:1", {.connect = never, .connect_timeout = 20ms});
    EXPECT_EQ(hasty.CallBytes("/t.S/M", "x", &reply, {.deadline = Soon()}).code, GrpcCode::kUnavailable);
  });
}

TEST_P(Http2GrpcHostileTest, AConnectionThatIsGivenUpOrThrowsIsNoCancelledCall) {
  InFiber([] {
    const GrpcConnect acts[] = {
        [](const GrpcPeer&, Deadline, std::unique_ptr<GrpcLink>*) {
          return std::make_error_code(std::errc::operation_canceled);
        },
        [](const GrpcPeer&, Deadline, std::unique_ptr<GrpcLink>*) -> std::error_code {
          throw std::runtime_error("no certificate");
        },
    };
    for (const GrpcConnect& act : acts) {
      Http2GrpcClient client("127.0.0.1:1", {.connect = act});
      std::string reply;
      EXPECT_EQ(client.CallBytes("/t.S/M", "x", &reply, {.deadline = Soon()}).code, GrpcCode::kUnavailable);
      EXPECT_EQ(client.Open("/t.S/M", {.deadline = Soon()}).Finish().code, GrpcCode::kUnavailable);
    }
  });
}

TEST_P(Http2GrpcHostileTest, AWriteThatTheServerDoesNotTakeEndsWithTheCall) {
  InFiber([] {
    enum class End { kCancel, kScope, kDeadline };
    for (const End end : {End::kCancel, End::kScope, End::kDeadline}) {
      EXPECT_TRUE(io::InTime(end == End::kDeadline ? 50ms : 9s, [&](std::chrono::milliseconds time) {
        RawGrpcServer server;
        Http2GrpcClient client(server.target());
        GrpcClientCall stream;
        GrpcCode code{};
        CancelScope scope;
        FiberEvent opened;
        Fiber call([&] {
          static_cast<void>(scope.Run([&] {
            stream = client.Open("/t.S/M", {.deadline = time});
            opened.Set();
            EXPECT_FALSE(stream.WriteBytes(std::string(200'000, 'x')));  // HTTP/2's first window: 65,535
            code = stream.Finish().code;
          }));
        });
        const auto raw = server.Accept();
        bool is_full = true;
        for (std::size_t came = 0; is_full && came < 65'535;) {
          const Frame frame = raw->peer.Find(kData, 1);
          came += frame.payload.size();
          is_full = !frame.ended();
        }
        EXPECT_TRUE(opened.Wait(Soon()));
        if (end == End::kCancel) stream.Cancel();
        if (end == End::kScope) scope.Cancel();
        const bool is_reset = is_full && raw->peer.Find(kRstStream, 1).code() == kCancel;
        call.Join();
        EXPECT_EQ(code, end == End::kDeadline ? GrpcCode::kDeadlineExceeded : GrpcCode::kCancelled);
        return is_reset;
      }));
    }
  });
}

TEST_P(Http2GrpcHostileTest, AFurtherConnectionIsMadeWhenEachHasItsCalls) {
  InFiber([] {
    RawGrpcServer server;
    Http2GrpcClient client(server.target(), {.connections_per_server = 2, .calls_per_connection = 1});
    const auto call = [&](std::string text) {
      return Fiber([&client, text] {
        std::string reply;
        EXPECT_TRUE(client.CallBytes("/t.S/M", text, &reply, {.deadline = Soon()}).ok());
        EXPECT_EQ(reply, text);
      });
    };
    Fiber first = call("1");
    const auto one = server.Accept();
    static_cast<void>(one->AwaitBody(1));
    Fiber second = call("2");  // Does not wait for the other connection.
    static_cast<void>(one->AwaitBody(3));
    const auto other = server.Accept();
    EXPECT_TRUE(io::Reaches([&] { return client.counts().connected == 2; }));
    Fiber third = call("3");
    static_cast<void>(other->AwaitBody(1));
    Fiber fourth = call("4");  // A third connection may not be.
    static_cast<void>(other->AwaitBody(3));
    one->Answer(1, "1");
    one->Answer(3, "2");
    other->Answer(1, "3");
    other->Answer(3, "4");
    for (Fiber* fiber : {&first, &second, &third, &fourth}) fiber->Join();
    EXPECT_EQ(client.counts().connected, 2u);
  });
}

TEST_P(Http2GrpcHostileTest, AWatchOfHealthLeavesAConnectionThatGoesAway) {
  InFiber([] {
    for (const bool has_answered : {false, true}) {
      RawGrpcServer server;
      const Http2GrpcClient client(server.target(), {.health_service = ""});
      const auto raw = server.Accept();
      static_cast<void>(raw->AwaitBody(1));
      if (has_answered) {
        raw->Begin(1);
        raw->Message(1, "\x08\x01");
      }
      raw->GoAway(0x7fff'ffff);
      // Else a server that drains would wait for it.
      EXPECT_EQ(raw->peer.Await(kRstStream, 1).code(), kCancel);
      raw->peer.AwaitEnd();
    }
  });
}

TEST_P(Http2GrpcHostileTest, GoAwayMovesWhatWasNotBegunToAnotherConnection) {
  InFiber([] {
    RawGrpcServer server;
    Http2GrpcClient client(server.target());
    std::string replies[2];
    const auto call = [&](int i) {
      return Fiber(
          [&, i] { EXPECT_TRUE(client.CallBytes("/t.S/M", "hello", &replies[i], {.deadline = Soon()}).ok()); });
    };
    Fiber first = call(0);
    const auto old = server.Accept();
    static_cast<void>(old->AwaitBody(1));
    Fiber second = call(1);
    static_cast<void>(old->AwaitBody(3));
    old->GoAway(1);
    const auto next = server.Accept();
    EXPECT_EQ(next->AwaitBody(1), MessageOf("hello"));
    next->Answer(1, "second");
    second.Join();
    old->Answer(1, "first");
    first.Join();
    EXPECT_EQ(replies[0], "first");
    EXPECT_EQ(replies[1], "second");
    EXPECT_EQ(client.counts().replayed, 1u);
    EXPECT_EQ(client.counts().attempts, 2u);
  });
}

TEST_P(Http2GrpcHostileTest, GoAwayMovesAStreamWithItsMessages) {
  InFiber([] {
    for (const bool has_ended : {false, true}) {
      RawGrpcServer server;
      Http2GrpcClient client(server.target());
      Fiber call([&] {
        GrpcClientCall stream = client.Open("/t.S/M", {.deadline = Soon()});
        EXPECT_TRUE(stream.WriteBytes("one"));
        EXPECT_TRUE(stream.WriteBytes("two"));
        if (has_ended) stream.WritesDone();
        std::string_view message;
        EXPECT_TRUE(stream.ReadBytes(&message));
        EXPECT_EQ(message, "answer");
        EXPECT_EQ(stream.WriteBytes("three"), !has_ended);
        EXPECT_TRUE(stream.Finish().ok());
        EXPECT_EQ(stream.answer().attempts, 1u);
      });
      const auto old = server.Accept();
      std::string got;
      const std::string two = MessageOf("one") + MessageOf("two");
      while (got.size() < two.size()) got += old->peer.Await(kData, 1).payload;
      old->GoAway(0);
      const auto next = server.Accept();
      for (got.clear(); !has_ended && got.size() < two.size();) got += next->peer.Await(kData, 1).payload;
      EXPECT_EQ(has_ended ? next->AwaitBody(1) : got, two);  // To its end.
      next->Begin(1);
      next->Message(1, "answer");
      if (!has_ended) {
        EXPECT_EQ(next->AwaitBody(1), MessageOf("three"));
      }
      next->End(1);
      call.Join();
      EXPECT_EQ(client.counts().replayed, 1u);
    }
  });
}

TEST_P(Http2GrpcHostileTest, AStreamThatIsLongerThanWhatIsKeptIsNotMadeAgain) {
  InFiber([] {
    RawGrpcServer server;
    Http2GrpcClient client(server.target(), {.http2 = {.send_buffer = 1'000, .ping_without_calls = false}});
    GrpcStatus status;
    Fiber call([&] {
      GrpcClientCall stream = client.Open("/t.S/M", {.deadline = Soon()});
      EXPECT_TRUE(stream.WriteBytes(std::string(600, 'x')));
      EXPECT_TRUE(stream.WriteBytes(std::string(600, 'x')));
      std::string_view message;
      EXPECT_FALSE(stream.ReadBytes(&message));
      status = stream.Finish();
    });
    const auto raw = server.Accept();
    std::size_t came = 0;
    while (came < 1'200) came += raw->peer.Await(kData, 1).payload.size();
    raw->GoAway(0);
    call.Join();
    EXPECT_EQ(status.code, GrpcCode::kUnavailable);
    EXPECT_EQ(client.counts().replayed, 0u);
  });
}

TEST_P(Http2GrpcHostileTest, AnAnswerThatHasBegunIsNotMadeAgain) {
  InFiber([] {
    const GrpcCallPolicy policy{.retry = {.max_attempts = 4, .initial_backoff = 1ms}};
    RawGrpcServer server;
    Http2GrpcClient client(server.target(), {.policy = policy});
    GrpcStatus status;
    Fiber call([&] { status = client.Open("/t.S/M", {.deadline = Soon()}).Finish(); });
    const auto raw = server.Accept();
    static_cast<void>(raw->peer.Await(kHeaders, 1));
    raw->Begin(1);
    raw->End(1, "14");
    call.Join();
    EXPECT_EQ(status.code, GrpcCode::kUnavailable);
    EXPECT_EQ(client.counts().attempts, 1u);
  });
}

TEST_P(Http2GrpcHostileTest, AServerMayForbidAnotherAttempt) {
  InFiber([] {
    const GrpcCallPolicy policy{.retry = {.max_attempts = 2, .initial_backoff = 1ms}};
    for (const std::string_view pushback : {"-1"sv, "never"sv, "5"sv}) {
      Unary unary({.policy = policy});
      const auto raw = unary.server.Accept();
      static_cast<void>(raw->AwaitBody(1));
      raw->Refuse(1, "14", Literal("grpc-retry-pushback-ms", pushback));
      if (pushback == "5") {
        static_cast<void>(raw->AwaitBody(3));
        raw->Answer(3, "x");
      }
      unary.call.Join();
      EXPECT_EQ(unary.status.ok(), pushback == "5") << pushback;
    }
  });
}

TEST_P(Http2GrpcHostileTest, AServerThatRefusesEachStreamIsAskedFourTimes) {
  InFiber([] {
    Unary unary;
    const auto raw = unary.server.Accept();
    for (const std::uint32_t stream : {1, 3, 5, 7}) {
      static_cast<void>(raw->AwaitBody(stream));
      raw->peer.SendFrame(kRstStream, 0, stream, Number32(kRefusedStream));
    }
    unary.call.Join();
    EXPECT_EQ(unary.status.code, GrpcCode::kUnavailable);
    EXPECT_EQ(unary.client.counts().attempts, 1u);
    EXPECT_EQ(unary.client.counts().replayed, 3u);
  });
}

TEST_P(Http2GrpcHostileTest, AServerWhoseConnectionsFailIsLeftAlone) {
  InFiber([] {
    std::atomic<int> tried{0};
    const GrpcConnect refused = [&](const GrpcPeer&, Deadline, std::unique_ptr<GrpcLink>*) {
      ++tried;
      return std::make_error_code(std::errc::connection_refused);
    };
    Http2GrpcClient client("127.0.0.1:1",
                           {.breaker = {.failures = 3, .open_for = 1h, .open_for_most = 1h}, .connect = refused});
    for (int i = 0; i < 10; ++i) {
      std::string reply;
      EXPECT_EQ(client.CallBytes("/t.S/M", "x", &reply, {.deadline = Soon()}).code, GrpcCode::kUnavailable);
    }
    EXPECT_EQ(tried, 3);
    EXPECT_EQ(client.counts().not_connected, 3u);
  });
}

TEST_P(Http2GrpcHostileTest, ASilentServerIsFoundByAPingWhileThereAreCalls) {
  InFiber([] {
    EXPECT_TRUE(io::InTime(50ms, [](std::chrono::milliseconds ping_after) {
      Unary unary({.http2 = {.ping_after = ping_after, .ping_without_calls = false}});
      const auto raw = unary.server.Accept();
      static_cast<void>(raw->AwaitBody(1));
      raw->Answer(1, "x");
      unary.call.Join();
      if (!unary.status.ok()) return false;
      // Its reader waits already.
      unary.call =
          Fiber([&] { unary.status = unary.client.CallBytes("/t.S/M", "again", &unary.reply, {.deadline = Soon()}); });
      static_cast<void>(raw->AwaitBody(3));
      // Answered, it goes on.
      const Frame ping = raw->peer.Find(kPing);
      if (ping.ended()) return false;
      raw->peer.SendFrame(kPing, kAck, 0, ping.payload);
      static_cast<void>(raw->peer.Find(kPing));
      EXPECT_TRUE(unary.call.Join(Soon()));
      EXPECT_EQ(unary.status.code, GrpcCode::kUnavailable);
      return true;
    }));
    // No call, no ping.
    EXPECT_TRUE(io::InTime(20ms, [](std::chrono::milliseconds ping_after) {
      Unary unary({.http2 = {.ping_after = ping_after, .ping_without_calls = false}});
      const auto raw = unary.server.Accept();
      static_cast<void>(raw->AwaitBody(1));
      raw->Answer(1, "x");
      unary.call.Join();
      if (!unary.status.ok()) return false;
      static_cast<void>(raw->peer.UntilPingAnswer());
      char byte;
      EXPECT_EQ(raw->peer.stream().ReadSome(&byte, 1, 4 * ping_after).error, std::errc::timed_out);
      return true;
    }));
  });
}

TEST_P(Http2GrpcHostileTest, WhenAPingFindsNobodyTheNameIsLookedUpAgain) {
  if (GetParam().workers != 2 || GetParam().groups != 1) return;  // It takes a second, the pause between two look-ups.
  InFiber([] {
    RawGrpcServer server;  // The kernel accepts, and nobody answers.
    std::atomic<int> looked_up{0};
    io::Resolver::Options source;
    source.look_up = [&](const std::string&, const std::string&, io::ResolveOptions) {
      ++looked_up;
      io::ResolveResult found;
      found.addresses = {server.address()};
      return found;
    };
    io::Resolver resolver(source);
    Http2GrpcClient client("shop.example:grpc", {.each_address = true,
                                                 .resolve_after = 1h,
                                                 .resolver = &resolver,
                                                 .http2 = {.ping_after = 100ms, .ping_without_calls = false}});
    std::string reply;
    EXPECT_EQ(client.CallBytes("/t.S/M", "x", &reply, {.deadline = Soon()}).code, GrpcCode::kUnavailable);
    EXPECT_EQ(looked_up, 1);
    EXPECT_TRUE(io::Reaches([&] {
      static_cast<void>(client.CallBytes("/t.S/M", "x", &reply, {.deadline = 10ms}));
      return looked_up == 2;
    }));
  });
}

}  // namespace
}  // namespace weft::interop
