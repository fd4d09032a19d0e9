// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Methods whose clients stream, from both sides: grpc_server_stream.h and grpc_client.h with the real gRPC.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "weft/fiber/fiber.h"
#include "weft/fiber/fiber_scope.h"
#include "weft/fiber/testing.h"
#include "weft/interop/grpc_server_stream.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_latch.h"

#include "interop/relay_fixture.h"

namespace weft::interop {
namespace {

using namespace std::chrono_literals;
using System = std::chrono::system_clock;

constexpr int kAllOfIt = 1 << 28;  // More messages than any window holds.

class GrpcStreamTest : public InEachShapeWithRelay {
 protected:
  auto Sum(grpc::ClientContext* context, Answer* answer) {
    return CallClientStream(*stub, &Relay::Stub::async::Sum, context, answer);
  }
  auto Chat(grpc::ClientContext* context) { return CallBidiStream(*stub, &Relay::Stub::async::Chat, context); }
};
WEFT_INSTANTIATE_SHAPES(GrpcStreamTest);

TEST_P(GrpcStreamTest, AClientStreamIsReadToItsEndInAFiberWithTheAttributesAskedFor) {
  const auto add_up = service.sum;
  service.sum = [&](FiberServerContext& call, FiberServerReader<Ask>& reader, Answer* answer) {
    EXPECT_TRUE(IsRunningInFiberWorker());
    EXPECT_EQ(GetFiberName(), "sum");
    const grpc::Status status = add_up(call, reader, answer);
    Ask ask;
    EXPECT_FALSE(reader.Read(&ask));  // It stays at the end.
    EXPECT_FALSE(call.IsCancelled());
    return status;
  };
  const auto call = [&] {
    grpc::ClientContext context;
    Answer answer;
    auto writer = Sum(&context, &answer);
    for (int i = 1; i <= 1000; ++i) EXPECT_TRUE(writer.Write(AskOf(i)));
    EXPECT_STATUS_OK(writer.Finish());
    EXPECT_EQ(answer.number(), 500500);
  };
  call();
  InFiber(call);
}

TEST_P(GrpcStreamTest, AStreamWithoutMessagesIsAnswered) {
  InFiber([&] {
    grpc::ClientContext context;
    Answer answer = AnswerOf(7);
    auto writer = Sum(&context, &answer);
    EXPECT_STATUS_OK(writer.Finish());
    EXPECT_EQ(answer.number(), 0);

    grpc::ClientContext chat_context;
    auto stream = Chat(&chat_context);
    stream.WritesDone();
    EXPECT_FALSE(stream.Read(&answer));
    EXPECT_STATUS_OK(stream.Finish());
  });
}

TEST_P(GrpcStreamTest, QuestionsAndAnswersTakeTurns) {
  constexpr int kFibers = 20;
  FiberLatch all_done(kFibers);
  for (int i = 0; i < kFibers; ++i) {
    ASSERT_TRUE(StartFiberDetached([&, i] {
      {
        grpc::ClientContext context;
        auto stream = Chat(&context);
        Answer answer;
        for (int k = 0; k < 50; ++k) {
          Ask ask = AskOf(k);
          ask.set_payload(std::string(static_cast<std::size_t>(i), 'p'));
          EXPECT_TRUE(stream.Write(ask));
          EXPECT_TRUE(stream.Read(&answer));
          EXPECT_TRUE(answer.number() == k && answer.payload() == ask.payload()) << answer.number();
        }
        stream.WritesDone();
        EXPECT_FALSE(stream.Write(AskOf(0)));
        EXPECT_FALSE(stream.Read(&answer));
        EXPECT_STATUS_OK(stream.Finish());
      }
      all_done.CountDown();
    }));
  }
  all_done.Wait();
}

// Neither end reads before it writes: with one fiber at each end both would wait for each other once the windows are
// full.
TEST_P(GrpcStreamTest, AtEachEndOneFiberReadsAndOneWritesAtOnce) {
  constexpr int kMessages = 32;
  const std::string payload(256 * 1024, 'x');  // 8 MiB in each direction.
  const auto converse = [&](auto read_one, auto write_one) {
    int read = 0;
    int written = 0;
    FiberScope scope;
    EXPECT_TRUE(scope.Spawn([&] {
      while (written < kMessages && write_one(written)) ++written;
    }));
    EXPECT_TRUE(scope.Spawn([&] {
      while (read < kMessages && read_one(read)) ++read;
    }));
    scope.Wait();
    EXPECT_EQ(written, kMessages);
    EXPECT_EQ(read, kMessages);
  };
  service.chat = [&](FiberServerContext&, FiberServerReader<Ask>& reader, FiberServerWriter<Answer>& writer) {
    Answer answer;
    answer.set_payload(payload);
    converse(
        [&, ask = Ask()](int i) mutable {
          return reader.Read(&ask) && ask.number() == i && ask.payload().size() == payload.size();
        },
        [&](int i) {
          answer.set_number(i);
          return writer.Write(answer);
        });
    Ask ask;
    EXPECT_FALSE(reader.Read(&ask));
    return grpc::Status::OK;
  };
  InFiber([&] {
    grpc::ClientContext context;
    auto stream = Chat(&context);
    Ask ask;
    ask.set_payload(payload);
    converse(
        [&, answer = Answer()](int i) mutable {
          return stream.Read(&answer) && answer.number() == i && answer.payload().size() == payload.size();
        },
        [&](int i) {
          ask.set_number(i);
          return stream.Write(ask);
        });
    stream.WritesDone();
    Answer answer;
    EXPECT_FALSE(stream.Read(&answer));
    EXPECT_STATUS_OK(stream.Finish());
  });
}

// A part of an upload must not look like the whole.
TEST_P(GrpcStreamTest, AClientThatGoesIsNotTakenForTheEndOfItsMessages) {
  FiberEvent got_three;
  FiberEvent left;
  std::atomic<bool> took_it_for_the_whole{false};
  service.sum = [&](FiberServerContext& call, FiberServerReader<Ask>& reader, Answer*) {
    const auto tell = std::shared_ptr<void>(nullptr, [&left](void*) { left.Set(); });
    Ask ask;
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(reader.Read(&ask));
    got_three.Set();
    try {
      static_cast<void>(reader.Read(&ask));
      took_it_for_the_whole = true;
    } catch (const FiberCancelled&) {
      EXPECT_TRUE(call.IsCancelled());
      // No wait throws under a shield: false, again and again.
      Shielded([&] { EXPECT_FALSE(reader.Read(&ask)); });
      Shielded([&] { EXPECT_FALSE(reader.Read(&ask)); });
      throw;
    }
    return grpc::Status::OK;
  };
  InFiber([&] {
    for (const bool cancel : {true, false}) {
      got_three.Reset();
      left.Reset();
      {
        grpc::ClientContext context;
        Answer answer;
        auto writer = Sum(&context, &answer);
        for (int i = 0; i < 3; ++i) EXPECT_TRUE(writer.Write(AskOf(i)));
        got_three.Wait();
        if (cancel) {
          context.TryCancel();
          EXPECT_STATUS(writer.Finish(), CANCELLED);
        }
      }
      left.Wait();
      EXPECT_FALSE(took_it_for_the_whole) << (cancel ? "cancelled" : "dropped");
    }
  });
}

TEST_P(GrpcStreamTest, ADeadlineIsNotTakenForTheEndOfTheMessages) {
  FiberEvent entered;
  std::atomic<bool> took_it_for_the_whole{false};
  service.sum = [&](FiberServerContext&, FiberServerReader<Ask>& reader, Answer*) {
    Ask ask;
    while (reader.Read(&ask)) entered.Set();
    took_it_for_the_whole = true;
    return grpc::Status::OK;
  };
  InFiber([&] {
    // On a busy machine a call may be over before its handler has read anything.
    for (auto patience = 100ms; !entered.IsSet(); patience *= 2) {
      grpc::ClientContext context;
      context.set_deadline(System::now() + patience);
      Answer answer;
      auto writer = Sum(&context, &answer);
      while (writer.Write(AskOf(0))) {
      }
      EXPECT_STATUS(writer.Finish(), DEADLINE_EXCEEDED);
    }
  });
  ShutdownServer(*server, std::chrono::nanoseconds::max());  // Waits for the handler.
  EXPECT_FALSE(took_it_for_the_whole);
}

// The time-out of a Read() leaves its message to the next one.
TEST_P(GrpcStreamTest, AReadThatAnotherScopeCancelsLosesNoMessage) {
  constexpr int kRounds = 20;
  service.chat = [&](FiberServerContext&, FiberServerReader<Ask>& reader, FiberServerWriter<Answer>& writer) {
    Ask ask;
    for (int i = 0; i < kRounds; ++i) {
      // The client sends nothing until it has got an answer. The message of that read goes to the next one.
      Ask early;
      EXPECT_FALSE(MoveOnAfter(1ms, [&] { EXPECT_FALSE(reader.Read(&early)); }));
      EXPECT_TRUE(writer.Write(AnswerOf(i)));
      // Some of these are too early, too.
      while (!MoveOnAfter(100us, [&] { EXPECT_TRUE(reader.Read(&ask)); })) {
      }
      EXPECT_EQ(ask.number(), i);
    }
    EXPECT_FALSE(reader.Read(&ask));
    return grpc::Status::OK;
  };
  InFiber([&] {
    grpc::ClientContext context;
    auto stream = Chat(&context);
    Answer answer;
    for (int i = 0; i < kRounds; ++i) {
      EXPECT_TRUE(stream.Read(&answer));
      EXPECT_EQ(answer.number(), i);
      EXPECT_TRUE(stream.Write(AskOf(i)));
    }
    stream.WritesDone();
    EXPECT_FALSE(stream.Read(&answer));
    EXPECT_STATUS_OK(stream.Finish());
  });
}

// The writer's fiber has had enough and cancels the reader's, which waits for a client that says nothing.
TEST_P(GrpcStreamTest, AHandlerMayReturnWhileAReadIsUnderWay) {
  std::weak_ptr<int> watched;
  {
    auto captured = std::make_shared<int>(7);
    watched = captured;
    service.chat = [captured](FiberServerContext&, FiberServerReader<Ask>& reader, FiberServerWriter<Answer>& writer) {
      FiberScope scope;
      EXPECT_TRUE(scope.Spawn([&] {
        Ask ask;
        static_cast<void>(reader.Read(&ask));
        ADD_FAILURE() << "the client has sent nothing";
      }));
      EXPECT_TRUE(writer.Write(Answer()));
      scope.Cancel();
      scope.Wait();
      return grpc::Status(grpc::StatusCode::OUT_OF_RANGE, "enough");
    };
  }
  InFiber([&] {
    grpc::ClientContext context;
    auto stream = Chat(&context);
    Answer answer;
    EXPECT_TRUE(stream.Read(&answer));
    EXPECT_FALSE(stream.Read(&answer));
    const grpc::Status status = stream.Finish();
    EXPECT_STATUS(status, OUT_OF_RANGE);
    EXPECT_EQ(status.error_message(), "enough");
  });
  service.chat = nullptr;
  EXPECT_TRUE(watched.expired());
}

TEST_P(GrpcStreamTest, AHandlerMayReturnWithoutHavingReadAll) {
  service.sum = [](FiberServerContext&, FiberServerReader<Ask>&, Answer*) {
    return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "not this");
  };
  service.chat = [](FiberServerContext&, FiberServerReader<Ask>& reader, FiberServerWriter<Answer>&) {
    Ask ask;
    EXPECT_TRUE(reader.Read(&ask));
    return grpc::Status(grpc::StatusCode::INVALID_ARGUMENT, "not that");
  };
  InFiber([&] {
    grpc::ClientContext context;
    Answer answer;
    auto writer = Sum(&context, &answer);
    int i = 0;
    while (i < kAllOfIt && writer.Write(AskOf(i))) ++i;
    EXPECT_LT(i, kAllOfIt);
    grpc::Status status = writer.Finish();
    EXPECT_STATUS(status, INVALID_ARGUMENT);
    EXPECT_EQ(status.error_message(), "not this");

    grpc::ClientContext chat_context;
    auto stream = Chat(&chat_context);
    EXPECT_TRUE(stream.Write(AskOf(0)));
    EXPECT_FALSE(stream.Read(&answer));
    status = stream.Finish();
    EXPECT_STATUS(status, INVALID_ARGUMENT);
    EXPECT_EQ(status.error_message(), "not that");
  });
}

TEST_P(GrpcStreamTest, ARefusedStartIsAnsweredWithResourceExhausted) {
  std::atomic<int> ran{0};
  service.sum = [&](auto&&...) {
    ++ran;
    return grpc::Status::OK;
  };
  service.chat = [&](auto&&...) {
    ++ran;
    return grpc::Status::OK;
  };
  const auto call_both = [&](grpc::StatusCode expected) {
    grpc::ClientContext context;
    Answer answer;
    auto writer = Sum(&context, &answer);
    while (writer.Write(AskOf(1))) {
    }
    EXPECT_EQ(writer.Finish().error_code(), expected);
    grpc::ClientContext chat_context;
    auto stream = Chat(&chat_context);
    EXPECT_FALSE(stream.Read(&answer));
    EXPECT_EQ(stream.Finish().error_code(), expected);
  };
  {
    const RefuseFiberStarts refuse;
    call_both(grpc::StatusCode::RESOURCE_EXHAUSTED);
    EXPECT_EQ(ran, 0);
  }
  call_both(grpc::StatusCode::OK);
  EXPECT_EQ(ran, 2);
}

TEST_P(GrpcStreamTest, AHandlerThatThrowsAnswersUnknown) {
  service.sum = [](FiberServerContext&, FiberServerReader<Ask>& reader, Answer*) -> grpc::Status {
    Ask ask;
    EXPECT_TRUE(reader.Read(&ask));
    throw std::runtime_error("a secret");
  };
  service.chat = [](FiberServerContext&, FiberServerReader<Ask>&, FiberServerWriter<Answer>&) -> grpc::Status {
    throw 7;
  };
  InFiber([&] {
    grpc::ClientContext context;
    Answer answer;
    auto writer = Sum(&context, &answer);
    EXPECT_TRUE(writer.Write(AskOf(1)));
    const grpc::Status status = writer.Finish();
    EXPECT_STATUS(status, UNKNOWN);
    EXPECT_EQ(status.error_message().find("secret"), std::string::npos);
    grpc::ClientContext chat_context;
    auto stream = Chat(&chat_context);
    EXPECT_FALSE(stream.Read(&answer));
    EXPECT_STATUS(stream.Finish(), UNKNOWN);
  });
}

TEST_P(GrpcStreamTest, ShutdownEndsReadsWhoseTimeIsOver) {
  constexpr int kCalls = 20;
  FiberLatch all_here(kCalls);
  std::atomic<int> left{0};
  service.chat = [&](FiberServerContext&, FiberServerReader<Ask>& reader, FiberServerWriter<Answer>&) {
    const auto tell = std::shared_ptr<void>(nullptr, [&left](void*) { ++left; });
    all_here.CountDown();
    Ask ask;
    EXPECT_FALSE(reader.Read(&ask)) << "the client has sent nothing";
    return grpc::Status::OK;
  };
  FiberLatch all_answered(kCalls);
  for (int i = 0; i < kCalls; ++i) {
    ASSERT_TRUE(StartFiberDetached([&] {
      {
        grpc::ClientContext context;
        auto stream = Chat(&context);
        Answer answer;
        EXPECT_FALSE(stream.Read(&answer));
        EXPECT_FALSE(stream.Finish().ok());
      }
      all_answered.CountDown();
    }));
  }
  all_here.Wait();
  ShutdownServer(*server, 10ms);
  EXPECT_EQ(left, kCalls);
  all_answered.Wait();
}

TEST_P(GrpcStreamTest, ShutdownLetsStreamsUnderWayEnd) {
  FiberEvent draining;
  InFiber([&] {
    grpc::ClientContext context;
    auto stream = Chat(&context);
    Answer answer;
    EXPECT_TRUE(stream.Write(AskOf(1)));
    EXPECT_TRUE(stream.Read(&answer));
    Fiber stopper([&] { ShutdownServer(*server, std::chrono::nanoseconds::max()); });
    for (grpc::Status status; status.error_code() != grpc::StatusCode::UNAVAILABLE;) {
      const auto prober = Relay::NewStub(NewChannel());
      grpc::ClientContext probe;
      status = CallUnary(*prober, &Relay::Stub::async::One, &probe, Ask(), &answer);
    }
    for (int i = 0; i < 100; ++i) {
      EXPECT_TRUE(stream.Write(AskOf(i)));
      EXPECT_TRUE(stream.Read(&answer));
      EXPECT_EQ(answer.number(), i);
    }
    stream.WritesDone();
    EXPECT_FALSE(stream.Read(&answer));
    EXPECT_STATUS_OK(stream.Finish());
    stopper.Join();
  });
}

}  // namespace
}  // namespace weft::interop
