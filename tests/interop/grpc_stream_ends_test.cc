// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// What must not be taken for the end of a stream, and what must not keep it from ending: grpc_server_stream.h and
// grpc_client.h with the real gRPC.

#include <grpcpp/impl/rpc_method.h>
#include <grpcpp/support/client_callback.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>
#include <utility>

#include "weft/fiber/fiber.h"
#include "weft/interop/grpc_client.h"
#include "weft/interop/grpc_server_stream.h"
#include "weft/sync/fiber_cancelled.h"

#include "interop/relay_fixture.h"

// A message of a kind that the adapter does not know, and that nobody can parse.
struct Opaque {};
template <>
class grpc::SerializationTraits<Opaque> {
 public:
  static Status Deserialize(ByteBuffer* buffer, Opaque* /*message*/) {
    buffer->Clear();
    return Status(StatusCode::INTERNAL, "opaque");
  }
};

namespace weft::interop {
namespace {

using namespace std::chrono_literals;
using System = std::chrono::system_clock;

constexpr char kNotUtf8[] = "\xff";

// Many() as a client sees it whose types are not the server's.
class OpaqueStub {
 public:
  explicit OpaqueStub(std::shared_ptr<grpc::Channel> channel)
      : channel_(std::move(channel)),
        many_("/weft.tests.Relay/Many", grpc::internal::RpcMethod::SERVER_STREAMING, channel_) {}
  OpaqueStub* async() { return this; }
  void Many(grpc::ClientContext* context, const Ask* ask, grpc::ClientReadReactor<Opaque>* reactor) {
    grpc::internal::ClientCallbackReaderFactory<Opaque>::Create(channel_.get(), many_, context, ask, reactor);
  }

 private:
  const std::shared_ptr<grpc::Channel> channel_;
  const grpc::internal::RpcMethod many_;
};

class GrpcStreamEndsTest : public InEachShapeWithRelay {
 protected:
  auto Many(grpc::ClientContext* context, const Ask& ask) {
    return CallServerStream(*stub, &Relay::Stub::async::Many, context, ask);
  }
  auto Sum(grpc::ClientContext* context, Answer* answer) {
    return CallClientStream(*stub, &Relay::Stub::async::Sum, context, answer);
  }
  auto Chat(grpc::ClientContext* context) { return CallBidiStream(*stub, &Relay::Stub::async::Chat, context); }

  // Sum() and Chat() read to the end of the messages. Each time that they come to it they count it in ends_.
  void CountEnds() {
    service.sum = [this](FiberServerContext& call, FiberServerReader<Ask>& reader, Answer*) {
      return ReadAll(call, reader);
    };
    service.chat = [this](FiberServerContext& call, FiberServerReader<Ask>& reader, FiberServerWriter<Answer>&) {
      return ReadAll(call, reader);
    };
  }
  grpc::Status ReadAll(FiberServerContext& call, FiberServerReader<Ask>& reader) {
    try {
      for (Ask ask; reader.Read(&ask);) ++reads_;
      ++ends_;
    } catch (const FiberCancelled&) {
      call.WaitCancelled();  // gRPC says so, too.
      EXPECT_TRUE(call.IsCancelled());
      throw;
    }
    return grpc::Status::OK;
  }

  std::atomic<int> reads_{0};
  std::atomic<int> ends_{0};
};
WEFT_INSTANTIATE_SHAPES(GrpcStreamEndsTest);

// gRPC would keep the initial metadata back together with the message, and end the write at Finish only.
TEST_P(GrpcStreamEndsTest, AFirstWriteThatMayBeHeldBackDoesNotHangItsHandler) {
  grpc::WriteOptions options;
  const auto write_two = [&](FiberServerWriter<Answer>& writer) {
    EXPECT_TRUE(writer.Write(AnswerOf(0), options));
    EXPECT_TRUE(writer.Write(AnswerOf(1), options));
    return grpc::Status::OK;
  };
  service.many = [&](FiberServerContext&, const Ask&, FiberServerWriter<Answer>& writer) { return write_two(writer); };
  service.chat = [&](FiberServerContext&, FiberServerReader<Ask>&, FiberServerWriter<Answer>& writer) {
    return write_two(writer);
  };
  const auto expect_two = [](auto& stream) {
    Answer answer;
    for (int i = 0; i < 2; ++i) {
      EXPECT_TRUE(stream.Read(&answer));
      EXPECT_EQ(answer.number(), i);
    }
    EXPECT_FALSE(stream.Read(&answer));
    EXPECT_STATUS_OK(stream.Finish());
  };
  InFiber([&] {
    for (const bool last : {true, false}) {
      options = last ? grpc::WriteOptions().set_last_message() : grpc::WriteOptions().set_buffer_hint();
      const Ask ask;
      grpc::ClientContext context;
      auto reader = Many(&context, ask);
      expect_two(reader);
      grpc::ClientContext chat_context;
      auto stream = Chat(&chat_context);
      expect_two(stream);
    }
  });
}

// At the client gRPC sends the initial metadata at once, also if they had to wait for the first message.
TEST_P(GrpcStreamEndsTest, AFirstWriteThatMayBeHeldBackDoesNotHangItsClient) {
  InFiber([&] {
    const auto hint = grpc::WriteOptions().set_buffer_hint();
    grpc::ClientContext context;
    context.set_initial_metadata_corked(true);
    Answer answer;
    auto writer = Sum(&context, &answer);
    for (int i = 1; i <= 3; ++i) EXPECT_TRUE(writer.Write(AskOf(i), hint));
    EXPECT_STATUS_OK(writer.Finish());
    EXPECT_EQ(answer.number(), 6);

    grpc::ClientContext last_context;
    last_context.set_initial_metadata_corked(true);
    auto stream = Chat(&last_context);
    EXPECT_TRUE(stream.Write(AskOf(7), grpc::WriteOptions().set_last_message()));
    EXPECT_TRUE(stream.Read(&answer));
    EXPECT_EQ(answer.number(), 7);
    EXPECT_FALSE(stream.Read(&answer));
    EXPECT_STATUS_OK(stream.Finish());
  });
}

TEST_P(GrpcStreamEndsTest, AMessageThatCannotBeParsedIsNotTakenForTheEndByItsHandler) {
  CountEnds();
  Ask unparsable;
  unparsable.set_text(kNotUtf8);
  InFiber([&] {
    grpc::ClientContext context;
    Answer answer;
    auto writer = Sum(&context, &answer);
    EXPECT_TRUE(writer.Write(AskOf(1)));
    static_cast<void>(writer.Write(unparsable));
    EXPECT_STATUS(writer.Finish(), CANCELLED);

    grpc::ClientContext chat_context;
    auto stream = Chat(&chat_context);
    EXPECT_TRUE(stream.Write(AskOf(1)));
    static_cast<void>(stream.Write(unparsable));
    stream.WritesDone();
    EXPECT_FALSE(stream.Read(&answer));
    EXPECT_STATUS(stream.Finish(), CANCELLED);
  });
  ShutdownServer(*server, std::chrono::nanoseconds::max());
  EXPECT_EQ(reads_, 2);
  EXPECT_EQ(ends_, 0);
}

// The server goes on; nothing that follows is read.
TEST_P(GrpcStreamEndsTest, AMessageThatCannotBeParsedIsNotTakenForTheEndByItsClient) {
  const auto write_all = [](FiberServerWriter<Answer>& writer) {
    EXPECT_TRUE(writer.Write(AnswerOf(1)));
    Answer unparsable;
    unparsable.set_text(kNotUtf8);
    while (writer.Write(unparsable)) {
    }
    return grpc::Status::OK;
  };
  service.many = [=](FiberServerContext&, const Ask&, FiberServerWriter<Answer>& writer) { return write_all(writer); };
  service.chat = [=](FiberServerContext&, FiberServerReader<Ask>&, FiberServerWriter<Answer>& writer) {
    return write_all(writer);
  };
  const auto expect_one = [](auto& stream) {
    Answer answer;
    EXPECT_TRUE(stream.Read(&answer));
    EXPECT_FALSE(stream.Read(&answer));
    EXPECT_FALSE(stream.Read(&answer));
    EXPECT_STATUS(stream.Finish(), INTERNAL);
  };
  InFiber([&] {
    const Ask ask;
    grpc::ClientContext context;
    auto reader = Many(&context, ask);
    expect_one(reader);
    grpc::ClientContext chat_context;
    auto stream = Chat(&chat_context);
    expect_one(stream);
  });
}

// To see a message that cannot be parsed the adapter marks those that it gives to gRPC. Nobody else sees the mark.
TEST_P(GrpcStreamEndsTest, MessagesThatWereReadHoldNothingElse) {
  service.chat = [](FiberServerContext&, FiberServerReader<Ask>& reader, FiberServerWriter<Answer>& writer) {
    Ask ask = AskOf(7);
    EXPECT_TRUE(reader.Read(&ask));
    EXPECT_EQ(ask.ByteSizeLong(), 0U);
    EXPECT_TRUE(writer.Write(Answer()));
    EXPECT_FALSE(reader.Read(&ask));
    EXPECT_EQ(ask.ByteSizeLong(), 0U);
    return grpc::Status::OK;
  };
  InFiber([&] {
    grpc::ClientContext context;
    auto stream = Chat(&context);
    EXPECT_TRUE(stream.Write(Ask()));
    stream.WritesDone();
    Answer answer = AnswerOf(7);
    EXPECT_TRUE(stream.Read(&answer));
    EXPECT_EQ(answer.ByteSizeLong(), 0U);
    EXPECT_FALSE(stream.Read(&answer));
    EXPECT_EQ(answer.ByteSizeLong(), 0U);
    EXPECT_STATUS_OK(stream.Finish());
  });
}

// Then the read ends before the call does, and the server goes on until nothing of its stream is taken any more.
TEST_P(GrpcStreamEndsTest, AReaderThatIsDroppedAfterItsLastReadCancelsItsCall) {
  std::atomic<int> left{0};
  service.many = [&](FiberServerContext&, const Ask&, FiberServerWriter<Answer>& writer) {
    while (writer.Write(AnswerOf(0))) {
    }
    ++left;
    return grpc::Status::OK;
  };
  InFiber([&] {
    OpaqueStub opaque(NewChannel());
    const Ask ask;
    grpc::ClientContext context;
    auto reader = CallServerStream(opaque, &OpaqueStub::Many, &context, ask);
    Opaque message;
    EXPECT_FALSE(reader.Read(&message));
  });
  ShutdownServer(*server, std::chrono::nanoseconds::max());
  EXPECT_EQ(left, 1);
}

TEST_P(GrpcStreamEndsTest, AMessageOverTheSizeLimitIsNotTakenForTheEnd) {
  CountEnds();
  const std::string payload(5 * 1024 * 1024, 'x');  // gRPC takes 4 MiB.
  service.many = [&](FiberServerContext&, const Ask&, FiberServerWriter<Answer>& writer) {
    Answer answer;
    answer.set_payload(payload);
    while (writer.Write(answer)) {
    }
    return grpc::Status::OK;
  };
  InFiber([&] {
    Answer answer;
    Ask ask;
    grpc::ClientContext context;
    auto reader = Many(&context, ask);
    EXPECT_FALSE(reader.Read(&answer));
    EXPECT_STATUS(reader.Finish(), RESOURCE_EXHAUSTED);

    grpc::ClientContext sum_context;
    auto writer = Sum(&sum_context, &answer);
    EXPECT_TRUE(writer.Write(AskOf(1)));
    ask.set_payload(payload);
    static_cast<void>(writer.Write(ask));
    EXPECT_STATUS(writer.Finish(), RESOURCE_EXHAUSTED);
  });
  ShutdownServer(*server, std::chrono::nanoseconds::max());
  EXPECT_EQ(reads_, 1);
  EXPECT_EQ(ends_, 0);
}

// Each round ends somewhere between the call's begin and the middle of its messages.
TEST_P(GrpcStreamEndsTest, WhateverBreaksAnUploadOffAPartIsNeverTakenForTheWhole) {
  enum class By { kCancel, kDrop, kDeadline };
  CountEnds();
  const auto upload = [&](By by, int messages, System::duration patience) {
    grpc::ClientContext context;
    if (by == By::kDeadline) context.set_deadline(System::now() + patience);
    Answer answer;
    auto writer = Sum(&context, &answer);
    for (int i = 0; (by == By::kDeadline || i < messages) && writer.Write(AskOf(1)); ++i) {
    }
    if (by == By::kDrop) return;
    if (by == By::kCancel) context.TryCancel();
    EXPECT_FALSE(writer.Finish().ok());
  };
  InFiber([&] {
    for (const By by : {By::kCancel, By::kDrop, By::kDeadline}) {
      reads_ = 0;
      System::duration patience = 1ms;
      // At least so many rounds, and as many as it takes to have been in the middle.
      for (int i = 0; i < 40 || reads_ == 0; ++i) {
        upload(by, i, patience);
        if (reads_ == 0) patience *= 2;
      }
    }
  });
  ShutdownServer(*server, std::chrono::nanoseconds::max());
  EXPECT_EQ(ends_, 0);
}

TEST_P(GrpcStreamEndsTest, AWriterThatHasFailedGetsTheServersStatusBehindUnreadAnswers) {
  service.chat = [](FiberServerContext&, FiberServerReader<Ask>&, FiberServerWriter<Answer>& writer) {
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(writer.Write(AnswerOf(i)));
    return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "enough");
  };
  InFiber([&] {
    grpc::ClientContext context;
    auto stream = Chat(&context);
    while (stream.Write(AskOf(0))) {
    }
    const grpc::Status status = stream.Finish();
    EXPECT_STATUS(status, INVALID_ARGUMENT);
    EXPECT_EQ(status.error_message(), "enough");
  });
}

}  // namespace
}  // namespace weft::interop
