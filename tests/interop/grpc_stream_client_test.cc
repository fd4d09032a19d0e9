// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// How streams end at the client: by deadlines, by scopes, by misuse.

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <string>

#include "weft/fiber/fiber.h"
#include "weft/fiber/fiber_scope.h"
#include "weft/interop/grpc_client.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_event.h"

#include "interop/relay_fixture.h"

namespace weft::interop {
namespace {

using namespace std::chrono_literals;
using System = std::chrono::system_clock;

// Handlers that wait for the end of their call; `entered` and `left` say that they have begun, and ended.
struct PatientService {
  explicit PatientService(RelayService& service) {
    service.many = [this](FiberServerContext& call, const Ask&, FiberServerWriter<Answer>&) { return Wait(call); };
    service.sum = [this](FiberServerContext& call, FiberServerReader<Ask>&, Answer*) { return Wait(call); };
    service.chat = [this](FiberServerContext& call, FiberServerReader<Ask>&, FiberServerWriter<Answer>&) {
      return Wait(call);
    };
  }
  grpc::Status Wait(FiberServerContext& call) {
    deadline = call.Deadline();
    entered.Set();
    call.WaitCancelled();
    left.Set();
    return grpc::Status::CANCELLED;
  }
  void AwaitEnd() {
    left.Wait();
    left.Reset();
    entered.Reset();
  }

  FiberEvent entered;
  FiberEvent left;
  System::time_point deadline;  // Of the last call.
};

class GrpcStreamClientTest : public InEachShapeWithRelay {
 protected:
  auto Many(grpc::ClientContext* context) { return CallServerStream(*stub, &Relay::Stub::async::Many, context, Ask()); }
  auto Sum(grpc::ClientContext* context, Answer* answer) {
    return CallClientStream(*stub, &Relay::Stub::async::Sum, context, answer);
  }
  auto Chat(grpc::ClientContext* context) { return CallBidiStream(*stub, &Relay::Stub::async::Chat, context); }

  // Runs f in a scope that is cancelled when a handler has begun. f gets nothing else to end it.
  template <class F>
  void Cancelled(PatientService& patient, F&& f) {
    CancelScope scope;
    Fiber canceller([&, handle = scope.Handle()] {
      patient.entered.Wait();
      EXPECT_TRUE(handle.Cancel());
    });
    EXPECT_TRUE(scope.Run(f));  // Values, no exception.
    canceller.Join();
    patient.AwaitEnd();
  }
};
WEFT_INSTANTIATE_SHAPES(GrpcStreamClientTest);

TEST_P(GrpcStreamClientTest, ADeadlineEndsEachKindOfStream) {
  const PatientService patient(service);
  InFiber([&] {
    grpc::ClientContext sum_context;
    sum_context.set_deadline(System::now() + 30ms);
    Answer answer;
    auto writer = Sum(&sum_context, &answer);
    EXPECT_STATUS(writer.Finish(), DEADLINE_EXCEEDED);

    grpc::ClientContext chat_context;
    chat_context.set_deadline(System::now() + 30ms);
    auto stream = Chat(&chat_context);
    EXPECT_FALSE(stream.Read(&answer));
    EXPECT_STATUS(stream.Finish(), DEADLINE_EXCEEDED);
  });
  // Waits for the handlers, if they have begun: on a busy machine a call may be over before.
  ShutdownServer(*server, std::chrono::nanoseconds::max());
}

TEST_P(GrpcStreamClientTest, TheDeadlineOfTheCallersScopeIsTheServers) {
  PatientService patient(service);
  const auto expect_ninety_seconds = [&] {
    patient.entered.Wait();
    EXPECT_LT(patient.deadline, System::now() + 91s);
    EXPECT_GT(patient.deadline, System::now() + 30s);
  };
  InFiber([&] {
    CancelScope scope(90s);
    EXPECT_TRUE(scope.Run([&] {
      {
        grpc::ClientContext context;
        auto reader = Many(&context);
        expect_ninety_seconds();
      }
      patient.AwaitEnd();
      {
        grpc::ClientContext context;
        Answer answer;
        auto writer = Sum(&context, &answer);
        expect_ninety_seconds();
      }
      patient.AwaitEnd();
      {
        grpc::ClientContext context;
        auto stream = Chat(&context);
        expect_ninety_seconds();
      }
      patient.AwaitEnd();
    }));
  });
}

// The server reads nothing, so at some time the windows are full and a write waits.
TEST_P(GrpcStreamClientTest, AWriteThatWaitsForTheServerParksItsFiberAndIsACancellationPoint) {
  PatientService patient(service);
  Ask ask;
  ask.set_payload(std::string(256 * 1024, 'x'));
  InFiber([&] {
    Cancelled(patient, [&] {
      grpc::ClientContext context;
      Answer answer;
      auto writer = Sum(&context, &answer);
      while (writer.Write(ask)) {
      }
      EXPECT_FALSE(writer.Write(ask));
      EXPECT_STATUS(writer.Finish(), CANCELLED);
    });
    Cancelled(patient, [&] {
      grpc::ClientContext context;
      auto stream = Chat(&context);
      while (stream.Write(ask)) {
      }
      EXPECT_STATUS(stream.Finish(), CANCELLED);
    });
    Answer answer;
    grpc::ClientContext context;
    auto stuck = Sum(&context, &answer);
    Fiber writer([&] {
      while (stuck.Write(ask)) {
      }
    });
    patient.entered.Wait();
    for (int i = 0; i < 20; ++i) EXPECT_STATUS_OK(CallOne(i));
    context.TryCancel();
    writer.Join();
    EXPECT_STATUS(stuck.Finish(), CANCELLED);
    patient.AwaitEnd();
  });
}

TEST_P(GrpcStreamClientTest, ReadAndFinishAreCancellationPoints) {
  PatientService patient(service);
  InFiber([&] {
    Cancelled(patient, [&] {
      grpc::ClientContext context;
      Answer answer;
      auto writer = Sum(&context, &answer);
      EXPECT_STATUS(writer.Finish(), CANCELLED);
    });
    Cancelled(patient, [&] {
      grpc::ClientContext context;
      auto stream = Chat(&context);
      Answer answer;
      EXPECT_FALSE(stream.Read(&answer));
      EXPECT_STATUS(stream.Finish(), CANCELLED);
    });
  });
}

// One of the two fibers is cancelled; the other's wait ends as well.
TEST_P(GrpcStreamClientTest, ACancelledWriterEndsTheReaderOfItsStream) {
  PatientService patient(service);
  Ask ask;
  ask.set_payload(std::string(256 * 1024, 'x'));
  InFiber([&] {
    grpc::ClientContext context;
    auto stream = Chat(&context);
    Fiber reader([&] {
      Answer answer;
      EXPECT_FALSE(stream.Read(&answer));
    });
    Cancelled(patient, [&] {
      while (stream.Write(ask)) {
      }
    });
    reader.Join();
    EXPECT_STATUS(stream.Finish(), CANCELLED);
  });
}

TEST_P(GrpcStreamClientTest, AStreamThatIsDroppedCancelsItsCallAndWaits) {
  PatientService patient(service);
  InFiber([&] {
    for (const bool write : {false, true}) {
      {
        grpc::ClientContext context;
        Answer answer;
        auto writer = Sum(&context, &answer);
        EXPECT_EQ(write, write && writer.Write(Ask()));
        patient.entered.Wait();
      }
      patient.AwaitEnd();
      {
        grpc::ClientContext context;
        auto stream = Chat(&context);
        EXPECT_EQ(write, write && stream.Write(Ask()));
        patient.entered.Wait();
      }
      patient.AwaitEnd();
    }
    // By an exception, too; and before anything has happened.
    EXPECT_THROW(
        {
          grpc::ClientContext context;
          auto stream = Chat(&context);
          throw 7;
        },
        int);
  });
  ShutdownServer(*server, std::chrono::nanoseconds::max());
}

TEST_P(GrpcStreamClientTest, FinishBeforeTheEndOfTheAnswersCancels) {
  PatientService patient(service);
  InFiber([&] {
    grpc::ClientContext context;
    auto stream = Chat(&context);
    patient.entered.Wait();
    stream.WritesDone();
    EXPECT_STATUS(stream.Finish(), CANCELLED);
    patient.AwaitEnd();
  });
}

TEST_P(GrpcStreamClientTest, ALastMessageMayCarryTheEnd) {
  InFiber([&] {
    grpc::ClientContext context;
    Answer answer;
    auto writer = Sum(&context, &answer);
    Ask ask;
    ask.set_number(7);
    EXPECT_TRUE(writer.Write(ask));
    EXPECT_TRUE(writer.Write(ask, grpc::WriteOptions().set_last_message()));
    EXPECT_FALSE(writer.Write(ask));
    EXPECT_STATUS_OK(writer.Finish());
    EXPECT_EQ(answer.number(), 14);

    grpc::ClientContext chat_context;
    auto stream = Chat(&chat_context);
    EXPECT_TRUE(stream.Write(ask, grpc::WriteOptions().set_last_message()));
    stream.WritesDone();  // It is said already.
    EXPECT_TRUE(stream.Read(&answer));
    EXPECT_FALSE(stream.Read(&answer));
    EXPECT_STATUS_OK(stream.Finish());
  });
}

TEST_P(GrpcStreamClientTest, AStreamToNobodyIsUnavailable) {
  const auto nobody =
      Relay::NewStub(grpc::CreateChannel("unix:/nonexistent/weft.socket", grpc::InsecureChannelCredentials()));
  InFiber([&] {
    grpc::ClientContext context;
    Answer answer;
    auto writer = CallClientStream(*nobody, &Relay::Stub::async::Sum, &context, &answer);
    while (writer.Write(Ask())) {
    }
    EXPECT_STATUS(writer.Finish(), UNAVAILABLE);
    grpc::ClientContext chat_context;
    auto stream = CallBidiStream(*nobody, &Relay::Stub::async::Chat, &chat_context);
    EXPECT_FALSE(stream.Read(&answer));
    EXPECT_STATUS(stream.Finish(), UNAVAILABLE);
  });
}

class GrpcStreamDeathTest : public ::testing::Test {
 protected:
  GrpcStreamDeathTest() { GTEST_FLAG_SET(death_test_style, "threadsafe"); }
};

// With one worker: when `reads` has been set and its waiter runs, the fiber that has set it is in Read().
TEST_F(GrpcStreamDeathTest, AHandlerMustNotReturnWhileItsFiberReads) {
  const auto misuse = [] {
    const fiber::RuntimeOf runtime(fiber::Shape{1, 1});
    RelayWorld world;
    world.service.chat = [](FiberServerContext&, FiberServerReader<Ask>& reader, FiberServerWriter<Answer>&) {
      FiberEvent reads;
      EXPECT_TRUE(StartFiberDetached([&] {
        Ask ask;
        reads.Set();
        static_cast<void>(reader.Read(&ask));
      }));
      reads.Wait();
      return grpc::Status::OK;
    };
    grpc::ClientContext context;
    auto stream = CallBidiStream(*world.stub, &Relay::Stub::async::Chat, &context);
    Answer answer;
    static_cast<void>(stream.Read(&answer));
  };
  EXPECT_DEATH(misuse(), "a gRPC handler has returned: another fiber still reads or writes; join it first");
}

TEST_F(GrpcStreamDeathTest, AStreamMustNotEndWhileAnotherFiberIsInIt) {
  const auto misuse = [](bool finish) {
    const fiber::RuntimeOf runtime(fiber::Shape{1, 1});
    RelayWorld world;
    const PatientService patient(world.service);
    Fiber([&] {
      grpc::ClientContext context;
      auto stream = std::make_unique<FiberClientStream<Ask, Answer>>(*world.stub, &Relay::Stub::async::Chat, &context);
      FiberEvent reads;
      Fiber reader([&] {
        Answer answer;
        reads.Set();
        static_cast<void>(stream->Read(&answer));
      });
      reads.Wait();
      if (finish) static_cast<void>(stream->Finish());
      stream.reset();
    }).Join();
  };
  EXPECT_DEATH(misuse(true), "FiberClientStream::Finish: another fiber still reads or writes");
  EXPECT_DEATH(misuse(false), "FiberClientStream's destructor: another fiber still reads or writes");
}

// The server reads nothing, so the first fiber waits in Write() when the other one goes on.
TEST_F(GrpcStreamDeathTest, TheEndOfTheWritesMustNotOvertakeAWrite) {
  const auto misuse = [] {
    const fiber::RuntimeOf runtime(fiber::Shape{1, 1});
    RelayWorld world;
    const PatientService patient(world.service);
    Fiber([&] {
      grpc::ClientContext context;
      auto stream = CallBidiStream(*world.stub, &Relay::Stub::async::Chat, &context);
      FiberEvent writes;
      Fiber writer([&] {
        Ask ask;
        ask.set_payload(std::string(256 * 1024, 'x'));
        writes.Set();
        while (stream.Write(ask)) {
        }
      });
      writes.Wait();
      stream.WritesDone();
      context.TryCancel();
      writer.Join();
    }).Join();
  };
  EXPECT_DEATH(misuse(), "FiberClientStream::WritesDone: another fiber still reads or writes");
}

TEST_F(GrpcStreamDeathTest, NothingFollowsFinish) {
  const auto misuse = [](auto&& use) {
    const fiber::RuntimeOf runtime(fiber::Shape{2, 1});
    RelayWorld world;
    grpc::ClientContext context;
    auto stream = CallBidiStream(*world.stub, &Relay::Stub::async::Chat, &context);
    static_cast<void>(stream.Finish());
    use(stream);
  };
  EXPECT_DEATH(misuse([](auto& stream) { static_cast<void>(stream.Finish()); }), "Finish: called twice");
  EXPECT_DEATH(misuse([](auto& stream) { static_cast<void>(stream.Write(Ask())); }), "Write: after Finish");
  EXPECT_DEATH(misuse([](auto& stream) { stream.WritesDone(); }), "WritesDone: after Finish");
}

}  // namespace
}  // namespace weft::interop
