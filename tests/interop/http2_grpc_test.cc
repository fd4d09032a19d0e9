// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Our own client and a raw peer call an Http2GrpcService. gRPC's client does so in grpc_python_test.py.

#include "weft/interop/http2_grpc.h"

#include <zlib.h>

#include <chrono>
#include <cstdint>
#include <cstring>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <utility>

#include "weft/fiber/fiber_scope.h"
#include "weft/fiber/this_fiber.h"
#include "weft/interop/http2_client.h"
#include "weft/io/tcp_server.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_cancelled.h"
#include "weft/sync/fiber_event.h"
#include "weft/tests/interop/http2_grpc_fixture.h"

namespace weft::interop {
namespace {

using namespace std::chrono_literals;
using io::Soon;

// In place of a message of Protobuf; "!" cannot be parsed.
struct Text {
  std::string text;

  bool ParseFromArray(const void* data, int size) {
    text.assign(static_cast<const char*>(data), static_cast<std::size_t>(size));
    return text != "!";
  }
  std::size_t ByteSizeLong() const { return text.size(); }
  std::uint8_t* SerializeWithCachedSizesToArray(std::uint8_t* to) const {
    text.copy(reinterpret_cast<char*>(to), text.size());
    return to + text.size();
  }
};

class Http2GrpcTest : public io::IoTest {
 protected:
  // A service, and a client of it.
  struct Ends {
    explicit Ends(const Http2GrpcService::Options& options = {})
        : service(options), served(service.handler()), client(Http2Transport(served.client())) {
      EXPECT_TRUE(client.Start());
      service.AddUnary<Text, Text>("/t.S/Echo", [](GrpcCall&, const Text& request, Text* reply) -> GrpcStatus {
        reply->text = request.text;
        return {};
      });
    }
    Http2Answer Call(std::string_view path, std::string_view body, const Http2Headers& more = {}) {
      return client.Ask(GrpcHead(path, more), body, Soon(), 1 << 24);
    }

    Http2GrpcService service;
    ServedConnection served;
    Http2Client client;
  };

  static std::string StatusOf(const Http2Answer& answer) {
    EXPECT_FALSE(answer.error) << answer.error.message();
    EXPECT_EQ(answer.status, 200);
    EXPECT_EQ(answer.headers.Find("content-type"), "application/grpc");
    return std::string(GrpcEndOf(answer).Find("grpc-status"));
  }
  static std::string MessageOfStatus(const Http2Answer& answer) {
    return std::string(GrpcEndOf(answer).Find("grpc-message"));
  }
};
WEFT_INSTANTIATE_IO_SHAPES(Http2GrpcTest);

TEST_P(Http2GrpcTest, AUnaryCallIsAnsweredWithMessageAndStatus) {
  InFiber([] {
    Ends ends({.max_message = 1 << 24});
    for (const std::size_t size : {0, 1, 16, 600, 20'000, 3'000'000}) {
      const std::string text(size, 'x');
      const Http2Answer answer = ends.Call("/t.S/Echo", MessageOf(text));
      EXPECT_EQ(StatusOf(answer), "0");
      EXPECT_FALSE(answer.headers.Has("grpc-status"));
      EXPECT_TRUE(answer.body == MessageOf(text)) << size;
    }
  });
}

TEST_P(Http2GrpcTest, AStatusOfTheHandlerComesAloneAndItsTextIsEncoded) {
  InFiber([] {
    Ends ends;
    ends.service.AddUnary<Text, Text>("/t.S/Fail", [](GrpcCall& call, const Text&, Text* reply) -> GrpcStatus {
      reply->text = "not sent";
      call.AddMetadata("x-before", "1");
      call.AddTrailer("x-after", "2");
      return {GrpcCode::kNotFound, " 100 % of \xda\x80\n"};
    });
    const Http2Answer answer = ends.Call("/t.S/Fail", MessageOf("x"));
    EXPECT_EQ(StatusOf(answer), "5");
    EXPECT_EQ(MessageOfStatus(answer), "%20100 %25 of %DA%80%0A");
    EXPECT_EQ(answer.body, "");
    EXPECT_EQ(answer.headers.Find("x-before"), "1");
    EXPECT_EQ(answer.headers.Find("x-after"), "2");
  });
}

TEST_P(Http2GrpcTest, MetadataGoesBothWays) {
  InFiber([] {
    Ends ends;
    ends.service.AddUnary<Text, Text>("/t.S/Meta", [](GrpcCall& call, const Text&, Text* reply) -> GrpcStatus {
      EXPECT_EQ(call.method(), "/t.S/Meta");
      reply->text = call.metadata().Find("x-asked");
      call.AddMetadata("x-before", "1");
      call.AddTrailer("x-after", "2");
      return {};
    });
    const Http2Answer answer = ends.Call("/t.S/Meta", MessageOf(""), {{"x-asked", "yes"}});
    EXPECT_EQ(StatusOf(answer), "0");
    EXPECT_EQ(answer.body, MessageOf("yes"));
    EXPECT_EQ(answer.headers.Find("x-before"), "1");
    EXPECT_EQ(answer.trailers.Find("x-after"), "2");
    EXPECT_FALSE(answer.headers.Has("x-after"));
  });
}

TEST_P(Http2GrpcTest, FieldsThatMayNotBeSentFailTheCall) {
  InFiber([] {
    Ends ends;
    ends.service.Add("/t.S/Bad", [](GrpcCall& call) -> GrpcStatus {
      std::string_view message;
      EXPECT_TRUE(call.ReadBytes(&message));
      if (message == "metadata" || message == "early") call.AddMetadata("connection", "x");
      if (message == "trailer") call.AddTrailer("x-a", "line\nbreak");
      if (message == "ours") call.AddMetadata("grpc-status", "0");
      if (message == "our trailer") call.AddTrailer("content-type", "text/plain");
      if (message != "metadata") {
        EXPECT_EQ(call.WriteBytes("answer"), message != "early" && message != "ours");
      }
      return {};
    });
    for (const std::string_view what : {"metadata", "early", "ours"}) {
      const Http2Answer answer = ends.Call("/t.S/Bad", MessageOf(what));
      EXPECT_EQ(StatusOf(answer), "13") << what;
      EXPECT_EQ(answer.body, "") << what;
    }
    for (const std::string_view what : {"trailer", "our trailer"}) {
      EXPECT_EQ(StatusOf(ends.Call("/t.S/Bad", MessageOf(what))), "13") << what;
    }
    ends.service.AddUnary<Text, Text>("/t.S/BadUnary", [](GrpcCall& call, const Text& text, Text* reply) -> GrpcStatus {
      call.AddTrailer(text.text, "line\nbreak");
      *reply = text;
      return {};
    });
    for (const std::string_view name : {"x-a", "grpc-status"}) {
      const Http2Answer answer = ends.Call("/t.S/BadUnary", MessageOf(name));
      EXPECT_EQ(StatusOf(answer), "13") << name;
      EXPECT_EQ(answer.body, "") << name;
    }
    EXPECT_EQ(StatusOf(ends.Call("/t.S/Bad", MessageOf("good"))), "0");
  });
}

TEST_P(Http2GrpcTest, MessagesStreamBothWays) {
  InFiber([] {
    Ends ends;
    ends.service.Add("/t.S/EchoAll", [](GrpcCall& call) -> GrpcStatus {
      Text text;
      int count = 0;
      for (; call.Read(&text); ++count) EXPECT_TRUE(call.Write(text));
      return {GrpcCode::kOk, std::to_string(count)};
    });
    Http2Call call;
    ASSERT_FALSE(ends.client.Open(GrpcHead("/t.S/EchoAll"), &call, Soon()));
    for (int i = 0; i < 50; ++i) {
      const std::string message = MessageOf(std::string(static_cast<std::size_t>(i * i * 10), 'x'));
      // In two parts, wherever they are cut.
      const std::size_t cut = static_cast<std::size_t>(i) % (message.size() + 1);
      ASSERT_TRUE(call.Write(std::string_view(message).substr(0, cut), Soon()).ok());
      ASSERT_TRUE(call.Write(std::string_view(message).substr(cut), Soon()).ok());
      if (i == 0) {
        ASSERT_FALSE(call.AwaitAnswer(Soon()));
      }
      std::string got;
      char room[4096];
      while (got.size() < message.size()) {
        const io::IoResult read = call.Read(room, std::min(sizeof(room), message.size() - got.size()), Soon());
        ASSERT_NE(read.bytes, 0u);
        got.append(room, read.bytes);
      }
      ASSERT_TRUE(got == message);
    }
    ASSERT_FALSE(call.Finish());
    char byte;
    EXPECT_EQ(call.Read(&byte, 1, Soon()).bytes, 0u);
    EXPECT_EQ(call.trailers().Find("grpc-status"), "0");
    EXPECT_EQ(call.trailers().Find("grpc-message"), "50");
  });
}

TEST_P(Http2GrpcTest, MessagesThatAreNoneEndTheCallWithTheirStatus) {
  InFiber([] {
    Ends ends({.max_message = 100});
    ends.service.Add("/t.S/Count", [](GrpcCall& call) -> GrpcStatus {
      Text text;
      while (call.Read(&text)) {
      }
      EXPECT_FALSE(call.WriteBytes("after a failure nothing is sent"));
      return {};
    });
    const std::string good = MessageOf("good");
    for (const std::string_view path : {"/t.S/Echo", "/t.S/Count"}) {
      const std::string before = path == "/t.S/Count" ? good : "";
      EXPECT_EQ(StatusOf(ends.Call(path, before + MessageOf("x", 1))), "13");
      EXPECT_EQ(StatusOf(ends.Call(path, before + MessageOf("x", 2))), "13");
      EXPECT_EQ(StatusOf(ends.Call(path, before + MessageOf(std::string(101, 'x')))), "8");
      EXPECT_EQ(StatusOf(ends.Call(path, before + std::string(1, '\0') + "\xff\xff\xff\xff")), "8");
      EXPECT_EQ(StatusOf(ends.Call(path, before + good.substr(0, 8))), "13");
      EXPECT_EQ(StatusOf(ends.Call(path, before + good.substr(0, 3))), "13");
      EXPECT_EQ(StatusOf(ends.Call(path, before + MessageOf("!"))), "13");
    }
    EXPECT_EQ(StatusOf(ends.Call("/t.S/Echo", "")), "12");
    EXPECT_EQ(StatusOf(ends.Call("/t.S/Echo", good + good)), "12");
    EXPECT_EQ(StatusOf(ends.Call("/t.S/Echo", good + good.substr(0, 3))), "12");
    EXPECT_EQ(StatusOf(ends.Call("/t.S/Echo", MessageOf(std::string(100, 'x')))), "0");
  });
}

TEST_P(Http2GrpcTest, WhatIsNoCallOfGrpcIsRefused) {
  InFiber([] {
    Ends ends;
    const auto ask = [&](std::string_view method, const Http2Headers& headers) {
      return ends.client.Ask({.method = method, .path = "/t.S/Echo", .authority = "x", .headers = headers},
                             MessageOf("x"), Soon());
    };
    EXPECT_EQ(ask("PUT", {{"content-type", "application/grpc"}}).status, 405);
    for (const std::string_view type : {"text/plain", "application/grpcx", ""}) {
      EXPECT_EQ(ask("POST", {{"content-type", type}}).status, 415) << type;
    }
    EXPECT_EQ(ask("POST", {}).status, 415);
    for (const std::string_view type : {"application/grpc+proto", "application/grpc;x=y"}) {
      EXPECT_EQ(StatusOf(ask("POST", {{"content-type", type}})), "0") << type;
    }
    const Http2Answer nobody = ends.Call("/t.S/Nobody", MessageOf("x"));
    EXPECT_EQ(StatusOf(nobody), "12");
    EXPECT_EQ(MessageOfStatus(nobody), "no method /t.S/Nobody");
    const Http2Answer compressed = ends.Call("/t.S/Echo", MessageOf("x", 1), {{"grpc-encoding", "br"}});
    EXPECT_EQ(StatusOf(compressed), "12");
    EXPECT_EQ(compressed.headers.Find("grpc-accept-encoding"), "identity,gzip");
    EXPECT_EQ(StatusOf(ends.Call("/t.S/Echo", MessageOf("x"), {{"grpc-encoding", "identity"}})), "0");
  });
}

TEST_P(Http2GrpcTest, MessagesMayBeCompressedByGzip) {
  const auto packed = [](std::string_view text) {
    z_stream stream = {};
    EXPECT_EQ(deflateInit2(&stream, 9, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY), Z_OK);
    std::string to(deflateBound(&stream, text.size()), '\0');
    stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
    stream.avail_in = static_cast<uInt>(text.size());
    stream.next_out = reinterpret_cast<Bytef*>(to.data());
    stream.avail_out = static_cast<uInt>(to.size());
    EXPECT_EQ(deflate(&stream, Z_FINISH), Z_STREAM_END);
    to.resize(stream.total_out);
    deflateEnd(&stream);
    return to;
  };
  InFiber([&] {
    Ends ends({.max_message = 300'000});
    const auto call = [&](std::string_view body) { return ends.Call("/t.S/Echo", body, {{"grpc-encoding", "gzip"}}); };
    for (const std::size_t size : {0, 1, 4'096, 4'097, 300'000}) {
      const std::string text(size, 'x');
      const Http2Answer answer = call(MessageOf(packed(text), 1));
      EXPECT_EQ(StatusOf(answer), "0");
      EXPECT_TRUE(answer.body == MessageOf(text)) << size;
    }
    EXPECT_EQ(call(MessageOf("plain")).body, MessageOf("plain"));
    const std::string good = packed("good");
    EXPECT_EQ(StatusOf(call(MessageOf(packed(std::string(300'001, 'x')), 1))), "8");
    EXPECT_EQ(StatusOf(call(MessageOf(packed(std::string(3'000'000, 'x')), 1))), "8");
    EXPECT_EQ(StatusOf(call(MessageOf("no gzip", 1))), "13");
    EXPECT_EQ(StatusOf(call(MessageOf("", 1))), "13");
    EXPECT_EQ(StatusOf(call(MessageOf(good.substr(0, good.size() - 1), 1))), "13");
    EXPECT_EQ(StatusOf(call(MessageOf(good + "more", 1))), "13");
    EXPECT_EQ(StatusOf(call(MessageOf(good, 2))), "13");
  });
}

TEST_P(Http2GrpcTest, MetadataAboveTheLimitAreResourceExhausted) {
  InFiber([] {
    Ends ends;
    const std::string large(20'000, 'm');
    EXPECT_EQ(StatusOf(ends.Call("/t.S/Echo", MessageOf("x"), {{"x-large", large}})), "8");
    Http2Headers fields{{"x-large", large}, {"te", "trailers"}, {"content-type", "application/grpc+proto"}};
    const Http2RequestHead head{.method = "POST", .path = "/t.S/Echo", .authority = "x", .headers = fields};
    EXPECT_EQ(StatusOf(ends.client.Ask(head, MessageOf("x"), Soon())), "8");
    EXPECT_EQ(ends.client.Ask({.path = "/", .authority = "x", .headers = {{"x-large", large}}}, "", Soon()).status,
              431);
    EXPECT_EQ(StatusOf(ends.Call("/t.S/Echo", MessageOf("x"))), "0");
  });
}

TEST_P(Http2GrpcTest, TheDeadlineIsTheHandlersAndEndsIt) {
  InFiber([] {
    Ends ends;
    FiberEvent never;
    std::optional<Deadline> seen;
    int cancelled = 0;
    ends.service.AddUnary<Text, Text>("/t.S/Wait", [&](GrpcCall& call, const Text& text, Text*) -> GrpcStatus {
      seen = call.deadline();
      if (text.text == "at once") return {};
      try {
        never.Wait();
      } catch (const FiberCancelled&) {
        ++cancelled;
        throw;
      }
      return {};
    });
    const auto call = [&](std::string_view timeout, std::string_view text) {
      seen.reset();
      return StatusOf(ends.Call("/t.S/Wait", MessageOf(text), {{"grpc-timeout", timeout}}));
    };
    // On a busy machine the time may be over before the handler has begun.
    do EXPECT_EQ(call("10m", "wait"), "4");
    while (!seen.has_value());
    EXPECT_EQ(cancelled, 1);
    EXPECT_EQ(call("0n", "at once"), "4");
    bool began = false;
    ends.service.Add("/t.S/Begin", [&](GrpcCall&) -> GrpcStatus {
      began = true;
      return {};
    });
    EXPECT_EQ(StatusOf(ends.Call("/t.S/Begin", MessageOf("x"), {{"grpc-timeout", "0n"}})), "4");
    EXPECT_FALSE(began || seen.has_value()) << "its time was over before it began";
    constexpr auto kMost = std::chrono::nanoseconds::max() / 2;
    for (const auto& [timeout, whole] : {std::pair<std::string_view, std::chrono::nanoseconds>{"1H", 1h},
                                         {"2M", 2min},
                                         {"30S", 30s},
                                         {"99999m", 99'999ms},
                                         {"99999999u", 99'999'999us},
                                         {"99999999H", kMost}}) {
      EXPECT_EQ(call(timeout, "at once"), "0") << timeout;
      ASSERT_TRUE(seen.has_value());
      EXPECT_LE(seen->remaining(), whole) << timeout;
      EXPECT_GT(seen->remaining(), whole - 20s) << timeout;
    }
    for (const std::string_view wrong : {"", "1", "S", "123456789S", "1x", "-1S", "1.5S", "S1"}) {
      EXPECT_EQ(call(wrong, "at once"), "13") << wrong;
      EXPECT_FALSE(seen.has_value());
    }
    EXPECT_EQ(StatusOf(ends.Call("/t.S/Wait", MessageOf("at once"))), "0");
    EXPECT_TRUE(seen->is_none());
  });
}

// In the middle of a message only a reset says that it is not the whole.
TEST_P(Http2GrpcTest, ADeadlineEndsReadsAndWrites) {
  InFiber([] {
    Ends ends;
    ends.service.Add("/t.S/Reads", [](GrpcCall& call) -> GrpcStatus {
      Text text;
      while (call.Read(&text)) {
      }
      return {};
    });
    Http2Call reads;
    ASSERT_FALSE(ends.client.Open(GrpcHead("/t.S/Reads", {{"grpc-timeout", "20m"}}), &reads, Soon()));
    ASSERT_FALSE(reads.AwaitAnswer(Soon()));
    EXPECT_EQ(reads.headers().Find("grpc-status"), "4");

    FiberEvent ended;
    ends.service.Add("/t.S/Writes", [&](GrpcCall& call) -> GrpcStatus {
      try {
        while (call.WriteBytes(std::string(10'000, 'x'))) {
        }
      } catch (const FiberCancelled&) {
        ended.Set();
        throw;
      }
      return {};
    });
    Http2Call writes;
    do {  // On a busy machine the time may be over before the handler has begun.
      ASSERT_FALSE(ends.client.Open(GrpcHead("/t.S/Writes", {{"grpc-timeout", "50m"}}), &writes, Soon()));
      ASSERT_FALSE(writes.AwaitAnswer(Soon()));
    } while (writes.headers().Has("grpc-status"));
    EXPECT_TRUE(ended.Wait(Soon()));  // The client reads nothing.
    char room[4096];
    io::IoResult got;
    do {
      got = writes.Read(room, sizeof(room), Soon());
    } while (got.bytes != 0);
    EXPECT_EQ(got.error, Http2Errc::kStreamReset);
  });
}

TEST_P(Http2GrpcTest, AReplyThatTheClientDoesNotTakeEndsWithTheDeadline) {
  InFiber([] {
    Http2GrpcService service;
    service.AddUnary<Text, Text>("/t.S/Large", [](GrpcCall&, const Text&, Text* reply) -> GrpcStatus {
      reply->text.assign(500'000, 'x');
      return {};
    });
    ServedConnection served(service.handler());
    RawPeer peer(&served.client());  // It opens no window.
    peer.Greet();
    peer.SendFrame(kHeaders, kEndHeaders, 1,
                   RequestFields("POST", "/t.S/Large") + Literal("content-type", "application/grpc") +
                       Literal("grpc-timeout", "200m"));  // The handler must have begun by then.
    peer.SendFrame(kData, kEndStream, 1, MessageOf("x"));
    EXPECT_EQ(peer.Await(kRstStream, 1).code(), kCancel);
  });
}

TEST_P(Http2GrpcTest, AHandlerThatReturnsAnErrorAtTheDeadlineHasMissedIt) {
  InFiber([] {
    Ends ends;
    bool began = false;
    ends.service.AddUnary<Text, Text>("/t.S/Catch", [&](GrpcCall&, const Text& text, Text* reply) -> GrpcStatus {
      began = true;
      FiberEvent never;
      try {
        never.Wait();
      } catch (const FiberCancelled&) {
        if (text.text == "throws") throw std::runtime_error("as it should");
      }
      *reply = text;
      return {text.text == "ok" ? GrpcCode::kOk : GrpcCode::kUnavailable};
    });
    const auto call = [&](std::string_view what) {
      std::string status;
      began = false;
      do {  // On a busy machine the time may be over before it begins.
        status = StatusOf(ends.Call("/t.S/Catch", MessageOf(what), {{"grpc-timeout", "10m"}}));
      } while (!began);
      return status;
    };
    EXPECT_EQ(call("fails"), "4");
    EXPECT_EQ(call("throws"), "4");
    EXPECT_EQ(call("ok"), "0");
  });
}

// A cancelled upload looked like a whole one.
TEST_P(Http2GrpcTest, AClientThatGivesUpIsNotTheEndOfItsMessages) {
  InFiber([] {
    Ends ends;
    FiberEvent read, ended;
    bool came_to_its_end = false;
    ends.service.Add("/t.S/Upload", [&](GrpcCall& call) -> GrpcStatus {
      Text text;
      try {
        while (call.Read(&text)) read.Set();
        came_to_its_end = true;
      } catch (const FiberCancelled&) {
        ended.Set();
        throw;
      }
      return {};
    });
    {
      Http2Call call;
      ASSERT_FALSE(ends.client.Open(GrpcHead("/t.S/Upload"), &call, Soon()));
      ASSERT_TRUE(call.Write(MessageOf("part"), Soon()).ok());
      read.Wait();
    }
    EXPECT_TRUE(ended.Wait(Soon()));
    EXPECT_FALSE(came_to_its_end);
  });
}

TEST_P(Http2GrpcTest, ReadsAndWritesThatNeedNotWaitAreCancellationPoints) {
  InFiber([] {
    Ends ends;
    int reads = 0;
    ends.service.Add("/t.S/Busy", [&](GrpcCall& call) -> GrpcStatus {
      const Deadline limit = Soon();
      Text text;
      while (call.Read(&text)) {
        ++reads;
        while (!IsCancelRequested() && !limit.expired()) {
        }
      }
      return {};
    });
    std::string many;
    for (int i = 0; i < 1'000; ++i) many += MessageOf("x");
    EXPECT_EQ(StatusOf(ends.Call("/t.S/Busy", many, {{"grpc-timeout", "50m"}})), "4");
    EXPECT_LE(reads, 1);  // 0: its time was over before it began.
  });
}

// A stream is idle for as long as its client likes.
TEST_P(Http2GrpcTest, TheTimeOfTheServersStreamsDoesNotCount) {
  InFiber([] {
    Http2GrpcService service;
    FiberEvent waits;
    service.Add("/t.S/Idle", [&](GrpcCall& call) -> GrpcStatus {
      Text text;
      waits.Set();
      return {call.Read(&text) && text.text == "at last" ? GrpcCode::kOk : GrpcCode::kAborted};
    });
    ServedConnection served(service.handler(), {.stream_timeout = 20ms});
    Http2Client client{Http2Transport(served.client())};
    ASSERT_TRUE(client.Start());
    Http2Call call;
    ASSERT_FALSE(client.Open(GrpcHead("/t.S/Idle"), &call, Soon()));
    waits.Wait();
    EXPECT_EQ(call.AwaitAnswer(60ms), std::errc::timed_out) << "the server has given the call up";
    ASSERT_TRUE(call.Write(MessageOf("at last"), Soon()).ok());
    ASSERT_FALSE(call.AwaitAnswer(Soon()));
    EXPECT_EQ(call.headers().Find("grpc-status"), "0");
  });
}

// Nor does it take more memory than has come: what a message says of its size is only a limit.
TEST_P(Http2GrpcTest, AMessageMayComeByteByByte) {
  InFiber([] {
    Ends ends;
    Http2Call call;
    ASSERT_FALSE(ends.client.Open(GrpcHead("/t.S/Echo"), &call, Soon()));
    const std::string message = MessageOf(std::string(300, 'x'));
    for (const char byte : message) ASSERT_TRUE(call.Write(&byte, 1, Soon()).ok());
    ASSERT_FALSE(call.Finish());
    ASSERT_FALSE(call.AwaitAnswer(Soon()));
    std::string got(message.size(), '\0');
    for (std::size_t size = 0; size < got.size();) {
      const io::IoResult read = call.Read(got.data() + size, got.size() - size, Soon());
      ASSERT_NE(read.bytes, 0u);
      size += read.bytes;
    }
    EXPECT_EQ(got, message);
    char byte;
    EXPECT_EQ(call.Read(&byte, 1, Soon()).bytes, 0u);
    EXPECT_EQ(call.trailers().Find("grpc-status"), "0");
  });
}

TEST_P(Http2GrpcTest, MetadataMayGoBeforeTheFirstMessageHasCome) {
  InFiber([] {
    Ends ends;
    ends.service.Add("/t.S/Early", [](GrpcCall& call) -> GrpcStatus {
      call.AddMetadata("x-ready", "yes");
      EXPECT_TRUE(call.SendMetadata());
      EXPECT_TRUE(call.SendMetadata());
      Text text;
      return {call.Read(&text) ? GrpcCode::kOk : GrpcCode::kAborted};
    });
    Http2Call call;
    ASSERT_FALSE(ends.client.Open(GrpcHead("/t.S/Early"), &call, Soon()));
    ASSERT_FALSE(call.AwaitAnswer(Soon()));
    EXPECT_EQ(call.headers().Find("x-ready"), "yes");
    ASSERT_TRUE(call.Write(MessageOf("x"), Soon()).ok());
    char byte;
    EXPECT_EQ(call.Read(&byte, 1, Soon()).bytes, 0u);
    EXPECT_EQ(call.trailers().Find("grpc-status"), "0");
  });
}

TEST_P(Http2GrpcTest, AUnaryHandlerThatWritesItselfSendsItsReplyBehindThat) {
  InFiber([] {
    Ends ends;
    ends.service.AddUnary<Text, Text>("/t.S/Two", [](GrpcCall& call, const Text& text, Text* reply) -> GrpcStatus {
      EXPECT_TRUE(call.WriteBytes("first"));
      *reply = text;
      return {};
    });
    const Http2Answer answer = ends.Call("/t.S/Two", MessageOf("second"));
    EXPECT_EQ(StatusOf(answer), "0");
    EXPECT_EQ(answer.body, MessageOf("first") + MessageOf("second"));
  });
}

TEST_P(Http2GrpcTest, OneFiberReadsWhileAnotherOneWrites) {
  InFiber([] {
    Ends ends;
    ends.service.Add("/t.S/Both", [](GrpcCall& call) -> GrpcStatus {
      FiberScope scope;
      EXPECT_TRUE(scope.Spawn([&] {
        while (call.WriteBytes("x")) FiberYield();  // Until the reader has failed.
      }));
      Text text;
      while (call.Read(&text)) {
      }
      scope.Wait();
      return {};
    });
    for (int i = 0; i < io::Scaled(20); ++i) {
      EXPECT_EQ(StatusOf(ends.Call("/t.S/Both", MessageOf("a") + MessageOf("b") + MessageOf("!"))), "13");
    }
  });
}

TEST_P(Http2GrpcTest, TheTextOfAStatusIsCutBetweenTwoCharacters) {
  InFiber([] {
    Ends ends;
    ends.service.AddUnary<Text, Text>("/t.S/Text", [](GrpcCall&, const Text& text, Text*) -> GrpcStatus {
      return {GrpcCode::kAborted, text.text};
    });
    const auto message = [&](const std::string& text) {
      const Http2Answer answer = ends.Call("/t.S/Text", MessageOf(text));
      EXPECT_EQ(StatusOf(answer), "10");
      return MessageOfStatus(answer);
    };
    EXPECT_EQ(message(" "), "%20");
    EXPECT_EQ(message("a "), "a%20");
    EXPECT_EQ(message("~\x7f"), "~%7F");
    EXPECT_EQ(message(std::string(5'000, 'x')), std::string(2'048, 'x'));
    EXPECT_EQ(message(std::string(2'047, 'x') + "\xda\x80"), std::string(2'047, 'x'));
  });
}

TEST_P(Http2GrpcTest, AClientThatGivesUpEndsTheHandler) {
  InFiber([] {
    Ends ends;
    FiberEvent began, ended;
    ends.service.Add("/t.S/Wait", [&](GrpcCall&) -> GrpcStatus {
      FiberEvent never;
      began.Set();
      try {
        never.Wait();
      } catch (const FiberCancelled&) {
        ended.Set();
        throw;
      }
      return {};
    });
    {
      Http2Call call;
      ASSERT_FALSE(ends.client.Open(GrpcHead("/t.S/Wait", {{"grpc-timeout", "1H"}}), &call, Soon()));
      began.Wait();
    }
    EXPECT_TRUE(ended.Wait(Soon()));
    EXPECT_EQ(StatusOf(ends.Call("/t.S/Echo", MessageOf("x"))), "0");
  });
}

TEST_P(Http2GrpcTest, AHandlerThatThrowsFailsItsCallOnly) {
  InFiber([] {
    Ends ends;
    ends.service.Add("/t.S/Throw", [](GrpcCall& call) -> GrpcStatus {
      std::string_view message;
      EXPECT_TRUE(call.ReadBytes(&message));
      if (message == "late") {
        EXPECT_TRUE(call.WriteBytes("part"));
      }
      if (message == "odd") throw 5;
      throw std::runtime_error("as it should");
    });
    for (const std::string_view what : {"std", "odd"}) {
      EXPECT_EQ(StatusOf(ends.Call("/t.S/Throw", MessageOf(what))), "2");
    }
    const Http2Answer late = ends.Call("/t.S/Throw", MessageOf("late"));
    EXPECT_EQ(StatusOf(late), "2");
    EXPECT_EQ(late.body, MessageOf("part"));
  });
}

TEST_P(Http2GrpcTest, AHandlerCanTellADrainFromAClientThatGaveUp) {
  InFiber([] {
    FiberEvent never;
    FiberEvent began[2], ended[2];
    bool draining[2] = {true, false};
    Http2GrpcService service;
    service.Add("/t.S/Wait", [&](GrpcCall& call) -> GrpcStatus {
      const int i = call.metadata().Find("x-stays") == "1" ? 1 : 0;
      EXPECT_FALSE(call.draining());
      began[i].Set();
      try {
        never.Wait();
      } catch (const FiberCancelled&) {
        draining[i] = call.draining();
        ended[i].Set();
        throw;
      }
      return {};
    });
    Http2Server http(service.handler());
    io::TcpListener listener;
    ASSERT_FALSE(listener.Listen(io::OwnLoopback()));
    io::TcpServer server(std::move(listener),
                         [&](io::TcpConnection& connection) { (void)http.Serve(Http2Transport(connection)); });
    ASSERT_TRUE(server.Start());
    io::TcpStream stream;
    ASSERT_FALSE(stream.Connect(server.local_address(), Soon()));
    Http2Client client{Http2Transport(stream)};
    ASSERT_TRUE(client.Start());
    {
      Http2Call call;
      ASSERT_FALSE(client.Open(GrpcHead("/t.S/Wait"), &call, Soon()));
      began[0].Wait();
    }
    EXPECT_TRUE(ended[0].Wait(Soon()));
    EXPECT_FALSE(draining[0]);
    Http2Call call;
    ASSERT_FALSE(client.Open(GrpcHead("/t.S/Wait", {{"x-stays", "1"}}), &call, Soon()));
    began[1].Wait();
    server.Stop(1ms);
    EXPECT_TRUE(ended[1].IsSet());
    EXPECT_TRUE(draining[1]);
  });
}

}  // namespace
}  // namespace weft::interop
