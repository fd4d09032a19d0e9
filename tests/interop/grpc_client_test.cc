// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/interop/grpc_client.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "weft/fiber/fiber.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_latch.h"

#include "interop/relay_fixture.h"

namespace weft::interop {
namespace {

using namespace std::chrono_literals;
using System = std::chrono::system_clock;

class GrpcClientTest : public InEachShapeWithRelay {};
WEFT_INSTANTIATE_SHAPES(GrpcClientTest);

TEST_P(GrpcClientTest, CallsFromFibersAndFromThreads) {
  EXPECT_STATUS_OK(CallOne(1));
  InFiber([&] { EXPECT_STATUS_OK(CallOne(2)); });
}

TEST_P(GrpcClientTest, EachOfManyFibersGetsItsOwnAnswers) {
  constexpr int kFibers = 200;
  constexpr int kCallsEach = 5;
  FiberLatch all_done(kFibers);
  std::atomic<int> right{0};
  for (int i = 0; i < kFibers; ++i) {
    ASSERT_TRUE(StartFiberDetached([&, i] {
      for (int k = 0; k < kCallsEach; ++k) {
        grpc::ClientContext context;
        Ask ask;
        ask.set_number(i * kCallsEach + k);
        ask.set_payload(std::string(static_cast<std::size_t>(i), 'p'));
        Answer answer;
        EXPECT_STATUS_OK(CallOne(&context, ask, &answer));
        if (answer.number() == ask.number() && answer.payload() == ask.payload()) ++right;
      }
      all_done.CountDown();
    }));
  }
  all_done.Wait();
  EXPECT_EQ(right, kFibers * kCallsEach);
}

// With one worker the second fiber runs only because the first one, in its call, has left it.
TEST_P(GrpcClientTest, ACallBlocksOnlyItsFiber) {
  FiberEvent entered;
  FiberEvent go_on;
  service.one = [&](FiberServerContext&, const Ask&, Answer*) {
    entered.Set();
    go_on.Wait();
    return grpc::Status::OK;
  };
  Fiber caller([&] { EXPECT_STATUS_OK(CallOne(0)); });
  Fiber other([&] {
    entered.Wait();
    go_on.Set();
  });
  caller.Join();
  other.Join();
}

TEST_P(GrpcClientTest, ADeadlineEndsACallAndAStream) {
  service.one = [](FiberServerContext& call, const Ask&, Answer*) {
    call.WaitCancelled();
    return grpc::Status::OK;
  };
  service.many = [](FiberServerContext& call, const Ask&, FiberServerWriter<Answer>&) {
    call.WaitCancelled();
    return grpc::Status::OK;
  };
  InFiber([&] {
    const auto deadline = System::now() + 300ms;
    grpc::ClientContext context;
    context.set_deadline(deadline);
    Answer answer;
    EXPECT_STATUS(CallOne(&context, Ask(), &answer), DEADLINE_EXCEEDED);
    EXPECT_GE(System::now() + kGrpcMayBeEarly, deadline);

    const auto stream_deadline = System::now() + 300ms;
    grpc::ClientContext stream_context;
    stream_context.set_deadline(stream_deadline);
    FiberClientReader<Answer> reader(*stub, &Relay::Stub::async::Many, &stream_context, Ask());
    EXPECT_FALSE(reader.Read(&answer));
    EXPECT_STATUS(reader.Finish(), DEADLINE_EXCEEDED);
    EXPECT_GE(System::now() + kGrpcMayBeEarly, stream_deadline);
  });
}

TEST_P(GrpcClientTest, ACallToNobodyIsUnavailable) {
  const auto nobody =
      Relay::NewStub(grpc::CreateChannel("unix:/nonexistent/weft.socket", grpc::InsecureChannelCredentials()));
  InFiber([&] {
    grpc::ClientContext context;
    Answer answer;
    EXPECT_STATUS(CallUnary(*nobody, &Relay::Stub::async::One, &context, Ask(), &answer), UNAVAILABLE);
    grpc::ClientContext stream_context;
    FiberClientReader<Answer> reader(*nobody, &Relay::Stub::async::Many, &stream_context, Ask());
    EXPECT_FALSE(reader.Read(&answer));
    EXPECT_STATUS(reader.Finish(), UNAVAILABLE);
  });
}

TEST_P(GrpcClientTest, AStreamThatFailsGivesItsMessagesFirst) {
  service.many = [](FiberServerContext&, const Ask&, FiberServerWriter<Answer>& writer) {
    Answer answer;
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(writer.Write(answer));
    return grpc::Status(grpc::StatusCode::DATA_LOSS, "the rest is gone");
  };
  InFiber([&] {
    grpc::ClientContext context;
    FiberClientReader<Answer> reader(*stub, &Relay::Stub::async::Many, &context, Ask());
    Answer answer;
    for (int i = 0; i < 3; ++i) EXPECT_TRUE(reader.Read(&answer));
    EXPECT_FALSE(reader.Read(&answer));
    const grpc::Status status = reader.Finish();
    EXPECT_STATUS(status, DATA_LOSS);
    EXPECT_EQ(status.error_message(), "the rest is gone");
  });
}

// A writer that never ends by itself; sets `left` when its handler has seen that nobody reads.
class EndlessStreamTest : public GrpcClientTest {
 protected:
  EndlessStreamTest() {
    service.many = [this](FiberServerContext&, const Ask&, FiberServerWriter<Answer>& writer) {
      Answer answer;
      answer.set_payload(std::string(4096, 'x'));
      while (writer.Write(answer)) {
      }
      left_.Set();
      return grpc::Status::OK;
    };
  }
  FiberEvent left_;
};
WEFT_INSTANTIATE_SHAPES(EndlessStreamTest);

TEST_P(EndlessStreamTest, FinishBeforeTheEndCancelsTheCall) {
  InFiber([&] {
    grpc::ClientContext context;
    FiberClientReader<Answer> reader(*stub, &Relay::Stub::async::Many, &context, Ask());
    Answer answer;
    for (int i = 0; i < 10; ++i) EXPECT_TRUE(reader.Read(&answer));
    EXPECT_STATUS(reader.Finish(), CANCELLED);
    left_.Wait();
  });
}

TEST_P(EndlessStreamTest, AReaderThatIsDroppedCancelsTheCall) {
  InFiber([&] {
    grpc::ClientContext context;
    {
      FiberClientReader<Answer> reader(*stub, &Relay::Stub::async::Many, &context, Ask());
      Answer answer;
      EXPECT_TRUE(reader.Read(&answer));
    }
    left_.Wait();
  });
}

// The handler of number 0 calls number 1, which waits until it is cancelled.
TEST_P(GrpcClientTest, ACallOnBehalfOfAnotherIsCancelledWithItAndHasItsDeadline) {
  FiberEvent inner_entered;
  FiberEvent inner_left;
  FiberEvent outer_left;
  System::time_point outer_deadline;
  System::time_point inner_deadline;
  service.one = [&](FiberServerContext& call, const Ask& ask, Answer* answer) {
    if (ask.number() == 0) {
      outer_deadline = call.Deadline();
      const auto context = call.NewClientContext();
      Ask inner;
      inner.set_number(1);
      const grpc::Status status = CallOne(context.get(), inner, answer);
      EXPECT_STATUS(status, CANCELLED);
      outer_left.Set();
      return status;
    }
    inner_deadline = call.Deadline();
    inner_entered.Set();
    call.WaitCancelled();
    inner_left.Set();
    return grpc::Status::CANCELLED;
  };
  InFiber([&] {
    grpc::ClientContext context;
    context.set_deadline(System::now() + 90s);
    Fiber canceller([&] {
      inner_entered.Wait();
      context.TryCancel();
    });
    Answer answer;
    EXPECT_STATUS(CallOne(&context, Ask(), &answer), CANCELLED);
    inner_left.Wait();
    outer_left.Wait();
    canceller.Join();
    // The client sends the time that is left; the server counts it from the arrival.
    EXPECT_LT(outer_deadline - inner_deadline, 30s);
    EXPECT_LT(inner_deadline - outer_deadline, 30s);
  });
}

TEST_P(GrpcClientTest, ACallIsACancellationPointAndItsServerIsTold) {
  FiberEvent entered;
  FiberEvent left;
  service.one = [&](FiberServerContext& call, const Ask&, Answer*) {
    entered.Set();
    EXPECT_TRUE(call.WaitCancelled(60s));
    left.Set();
    return grpc::Status::CANCELLED;
  };
  InFiber([&] {
    CancelScope scope;
    Fiber canceller([&, handle = scope.Handle()] {
      entered.Wait();
      EXPECT_TRUE(handle.Cancel());
    });
    EXPECT_TRUE(scope.Run([&] {  // A status, no exception.
      EXPECT_STATUS(CallOne(1), CANCELLED);
      entered.Reset();
      EXPECT_STATUS(CallOne(2), CANCELLED);  // Does not begin.
      EXPECT_FALSE(entered.IsSet());
    }));
    left.Wait();
    canceller.Join();
  });
}

TEST_P(GrpcClientTest, AReadIsACancellationPoint) {
  FiberEvent left;
  service.many = [&](FiberServerContext& call, const Ask&, FiberServerWriter<Answer>& writer) {
    EXPECT_TRUE(writer.Write(Answer()));
    call.WaitCancelled();
    left.Set();
    return grpc::Status::CANCELLED;
  };
  InFiber([&] {
    CancelScope scope;
    EXPECT_TRUE(scope.Run([&] {
      grpc::ClientContext context;
      FiberClientReader<Answer> reader(*stub, &Relay::Stub::async::Many, &context, Ask());
      Answer answer;
      EXPECT_TRUE(reader.Read(&answer));
      Fiber canceller([&scope] { EXPECT_TRUE(scope.Cancel()); });
      EXPECT_FALSE(reader.Read(&answer));
      EXPECT_STATUS(reader.Finish(), CANCELLED);
      Shielded([&] { canceller.Join(); });
    }));
    left.Wait();
  });
}

}  // namespace
}  // namespace weft::interop
