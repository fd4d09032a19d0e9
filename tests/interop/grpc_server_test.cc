// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/interop/grpc_server.h"

#include <grpc/grpc.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <iterator>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "weft/fiber/fiber.h"
#include "weft/fiber/fiber_scope.h"
#include "weft/fiber/testing.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_latch.h"
#include "weft/tests/fiber/runtime_fixture.h"

#include "interop/relay_fixture.h"

namespace weft::interop {
namespace {

using namespace std::chrono_literals;
using System = std::chrono::system_clock;

class GrpcServerTest : public InEachShapeWithRelay {};
WEFT_INSTANTIATE_SHAPES(GrpcServerTest);

TEST_P(GrpcServerTest, AHandlerIsAFiberWithTheAttributesAskedFor) {
  service.one = [](FiberServerContext& call, const Ask& ask, Answer* answer) {
    EXPECT_TRUE(IsRunningInFiberWorker());
    EXPECT_EQ(GetFiberName(), "one");
    EXPECT_FALSE(call.IsCancelled());
    EXPECT_EQ(call.Deadline(), System::time_point::max());
    answer->set_payload(ask.payload() + "!");
    return grpc::Status::OK;
  };
  grpc::ClientContext context;
  Ask ask;
  ask.set_payload("hello");
  Answer answer;
  EXPECT_STATUS_OK(CallOne(&context, ask, &answer));
  EXPECT_EQ(answer.payload(), "hello!");
}

TEST_P(GrpcServerTest, StatusAndMetadataReachTheClient) {
  service.one = [](FiberServerContext& call, const Ask&, Answer*) {
    call.grpc_context().AddTrailingMetadata("looked-at", "three places");
    return grpc::Status(grpc::StatusCode::NOT_FOUND, "no such thing");
  };
  grpc::ClientContext context;
  Answer answer;
  const grpc::Status status = CallOne(&context, Ask(), &answer);
  EXPECT_STATUS(status, NOT_FOUND);
  EXPECT_EQ(status.error_message(), "no such thing");
  const auto& metadata = context.GetServerTrailingMetadata();
  const auto found = metadata.find("looked-at");
  ASSERT_NE(found, metadata.end());
  EXPECT_EQ(std::string(found->second.begin(), found->second.end()), "three places");
}

// If a handler blocked its worker, one worker would serve one call, and the latch would never open.
TEST_P(GrpcServerTest, AHundredHandlersWaitForEachOther) {
  constexpr int kCalls = 100;
  FiberLatch all_here(kCalls);
  service.one = [&](FiberServerContext&, const Ask& ask, Answer* answer) {
    all_here.ArriveAndWait();
    answer->set_number(ask.number());
    return grpc::Status::OK;
  };
  FiberLatch all_answered(kCalls);
  for (int i = 0; i < kCalls; ++i) {
    ASSERT_TRUE(StartFiberDetached([&, i] {
      EXPECT_STATUS_OK(CallOne(i));
      all_answered.CountDown();
    }));
  }
  all_answered.Wait();
}

TEST_P(GrpcServerTest, ACancelledCallIsSeenByItsHandler) {
  FiberEvent entered;
  FiberEvent left;
  service.one = [&](FiberServerContext& call, const Ask&, Answer*) {
    EXPECT_FALSE(call.IsCancelled());
    entered.Set();
    call.WaitCancelled();
    EXPECT_TRUE(call.IsCancelled());
    EXPECT_TRUE(call.grpc_context().IsCancelled());
    EXPECT_TRUE(call.WaitCancelled(0s));
    left.Set();
    return grpc::Status::CANCELLED;
  };
  InFiber([&] {
    grpc::ClientContext context;
    Fiber canceller([&] {
      entered.Wait();
      context.TryCancel();
    });
    Answer answer;
    EXPECT_STATUS(CallOne(&context, Ask(), &answer), CANCELLED);
    left.Wait();
    canceller.Join();
  });
}

TEST_P(GrpcServerTest, AnOverdueCallIsSeenByItsHandler) {
  FiberEvent entered;
  std::atomic<int> not_in_time{0};
  service.one = [&](FiberServerContext& call, const Ask&, Answer*) {
    entered.Set();
    call.WaitCancelled();
    if (call.Deadline() > System::now() + 1min) ++not_in_time;
    return grpc::Status::OK;
  };
  // On a busy machine a call may be over before it comes to its handler.
  for (auto patience = 300ms; !entered.IsSet(); patience *= 2) {
    grpc::ClientContext context;
    const auto deadline = System::now() + patience;
    context.set_deadline(deadline);
    Answer answer;
    EXPECT_STATUS(CallOne(&context, Ask(), &answer), DEADLINE_EXCEEDED);
    EXPECT_GE(System::now() + kGrpcMayBeEarly, deadline);
  }
  // Waits for the handlers, and cancels none.
  ShutdownServer(*server, std::chrono::nanoseconds::max());
  EXPECT_EQ(not_in_time, 0);
}

// It waits for nothing that knows of gRPC.
TEST_P(GrpcServerTest, ACancelledCallEndsItsHandlerAndTheFibersOfItsScopes) {
  FiberLatch begun(3);
  std::atomic<int> ended{0};
  FiberEvent left;
  service.one = [&](FiberServerContext& call, const Ask&, Answer*) -> grpc::Status {
    const auto ends = [&](auto&& wait) {
      try {
        wait();
      } catch (const FiberCancelled&) {
        EXPECT_TRUE(call.IsCancelled());
        ++ended;
        throw;
      }
    };
    const auto tell = std::shared_ptr<void>(nullptr, [&left](void*) { left.Set(); });
    FiberScope parts;
    for (int i = 0; i < 2; ++i) {
      EXPECT_TRUE(parts.Spawn([&] {
        begun.CountDown();
        ends([] { EXPECT_FALSE(FiberEvent().Wait(5s)); });
      }));
    }
    begun.CountDown();
    ends([] { FiberSleepFor(5s); });
    return grpc::Status::OK;
  };
  InFiber([&] {
    grpc::ClientContext context;
    Fiber canceller([&] {
      begun.Wait();
      context.TryCancel();
    });
    Answer answer;
    EXPECT_STATUS(CallOne(&context, Ask(), &answer), CANCELLED);
    canceller.Join();
    left.Wait();
    EXPECT_EQ(ended, 3);
  });
}

TEST_P(GrpcServerTest, TheClientsDeadlineIsThatOfTheHandlersScope) {
  service.one = [&](FiberServerContext& call, const Ask&, Answer* answer) {
    EXPECT_EQ(CurrentDeadline().is_none(), call.Deadline() == System::time_point::max());
    answer->set_number(static_cast<int>(std::chrono::duration_cast<std::chrono::seconds>(TimeLeft()).count() / 60));
    return grpc::Status::OK;
  };
  InFiber([&] {
    grpc::ClientContext without;
    Answer answer;
    EXPECT_STATUS_OK(CallOne(&without, Ask(), &answer));
    // The caller's scope has one.
    CancelScope scope(90s);
    EXPECT_TRUE(scope.Run([&] {
      grpc::ClientContext context;
      EXPECT_STATUS_OK(CallOne(&context, Ask(), &answer));
    }));
    EXPECT_EQ(answer.number(), 1);
    // The earlier one counts.
    EXPECT_TRUE(scope.Run([&] {
      grpc::ClientContext context;
      context.set_deadline(System::now() + 30s);
      EXPECT_STATUS_OK(CallOne(&context, Ask(), &answer));
    }));
    EXPECT_EQ(answer.number(), 0);
  });
}

TEST_P(GrpcServerTest, WaitCancelledWithADeadlineIsASleepIfNothingHappens) {
  service.one = [](FiberServerContext& call, const Ask&, Answer*) {
    const auto begin = std::chrono::steady_clock::now();
    EXPECT_FALSE(call.WaitCancelled(5ms));
    EXPECT_GE(std::chrono::steady_clock::now() - begin, 5ms);
    EXPECT_FALSE(call.WaitCancelled(System::now() + 5ms));
    return grpc::Status::OK;
  };
  EXPECT_STATUS_OK(CallOne(0));
}

TEST_P(GrpcServerTest, ARefusedStartIsAnsweredWithResourceExhausted) {
  std::atomic<int> ran{0};
  service.one = [&](FiberServerContext&, const Ask&, Answer*) {
    ++ran;
    return grpc::Status::OK;
  };
  service.many = [&](FiberServerContext&, const Ask&, FiberServerWriter<Answer>&) {
    ++ran;
    return grpc::Status::OK;
  };
  {
    const RefuseFiberStarts refuse;
    const grpc::Status status = CallOne(0);
    EXPECT_STATUS(status, RESOURCE_EXHAUSTED);
    EXPECT_NE(status.error_message().find("no fiber could be started"), std::string::npos) << status.error_message();

    grpc::ClientContext context;
    FiberClientReader<Answer> reader(*stub, &Relay::Stub::async::Many, &context, Ask());
    Answer answer;
    EXPECT_FALSE(reader.Read(&answer));
    EXPECT_STATUS(reader.Finish(), RESOURCE_EXHAUSTED);
    EXPECT_EQ(ran, 0);
  }
  EXPECT_STATUS_OK(CallOne(0));
  EXPECT_EQ(ran, 1);
}

TEST_P(GrpcServerTest, AHandlerThatThrowsAnswersUnknownAndTellsTheClientNothingElse) {
  service.one = [](FiberServerContext&, const Ask& ask, Answer*) -> grpc::Status {
    if (ask.number() == 0) throw std::runtime_error("a secret");
    throw ask.number();
  };
  for (const int number : {0, 1}) {
    const grpc::Status status = CallOne(number);
    EXPECT_STATUS(status, UNKNOWN);
    EXPECT_EQ(status.error_message().find("secret"), std::string::npos);
  }
}

TEST_P(GrpcServerTest, WhatAHandlerCapturesIsGoneWhenTheCallIsAnswered) {
  std::weak_ptr<int> watched;
  {
    auto captured = std::make_shared<int>(7);
    watched = captured;
    service.one = [captured](FiberServerContext&, const Ask&, Answer*) { return grpc::Status::OK; };
  }
  EXPECT_STATUS_OK(CallOne(0));
  service.one = nullptr;  // The call's own copy remains.
  EXPECT_TRUE(watched.expired());
}

TEST_P(GrpcServerTest, AStreamComesInOrder) {
  InFiber([&] {
    grpc::ClientContext context;
    Ask ask;
    ask.set_number(1000);
    FiberClientReader<Answer> reader(*stub, &Relay::Stub::async::Many, &context, ask);
    Answer answer;
    int expected = 0;
    while (reader.Read(&answer)) EXPECT_EQ(answer.number(), expected++);
    EXPECT_EQ(expected, 1000);
    EXPECT_FALSE(reader.Read(&answer));
    EXPECT_STATUS_OK(reader.Finish());
  });
}

// The client does not read, so the writer halts; its worker, perhaps the only one, serves others.
TEST_P(GrpcServerTest, AWriterThatWaitsForTheClientParksOnlyItsFiber) {
  constexpr int kMessages = 128;
  const std::string payload(256 * 1024, 'x');  // 32 MiB in all: more than any window.
  FiberEvent begun;
  std::atomic<bool> wrote_all{false};
  service.many = [&](FiberServerContext&, const Ask&, FiberServerWriter<Answer>& writer) {
    Answer answer;
    answer.set_payload(payload);
    for (int i = 0; i < kMessages; ++i) {
      EXPECT_TRUE(writer.Write(answer));
      begun.Set();
    }
    wrote_all = true;
    return grpc::Status::OK;
  };
  InFiber([&] {
    grpc::ClientContext context;
    FiberClientReader<Answer> reader(*stub, &Relay::Stub::async::Many, &context, Ask());
    begun.Wait();
    for (int i = 0; i < 20; ++i) EXPECT_STATUS_OK(CallOne(i));
    EXPECT_FALSE(wrote_all);
    Answer answer;
    int read = 0;
    while (reader.Read(&answer)) read += answer.payload() == payload ? 1 : 0;
    EXPECT_EQ(read, kMessages);
    EXPECT_TRUE(wrote_all);
    EXPECT_STATUS_OK(reader.Finish());
  });
}

TEST_P(GrpcServerTest, WritesFailOnceTheClientHasGone) {
  FiberEvent left;
  service.many = [&](FiberServerContext& call, const Ask&, FiberServerWriter<Answer>& writer) {
    Answer answer;
    answer.set_payload(std::string(1024, 'x'));
    while (writer.Write(answer)) {
    }
    EXPECT_FALSE(writer.Write(answer));
    call.WaitCancelled();
    left.Set();
    return grpc::Status::OK;
  };
  InFiber([&] {
    grpc::ClientContext context;
    FiberClientReader<Answer> reader(*stub, &Relay::Stub::async::Many, &context, Ask());
    Answer answer;
    EXPECT_TRUE(reader.Read(&answer));
    context.TryCancel();
    while (reader.Read(&answer)) {
    }
    EXPECT_STATUS(reader.Finish(), CANCELLED);
    left.Wait();
  });
}

TEST_P(GrpcServerTest, ShutdownFromAFiberLetsCallsUnderWayEnd) {
  // The server closes at its last answer. If a probe lies unread then, the kernel resets the connection, and answers
  // that it has not sent yet are lost.
  stub = Relay::NewStub(NewChannel(Probes::kNo));
  constexpr int kCalls = 20;
  FiberLatch all_here(kCalls);
  FiberEvent go_on;
  service.one = [&](FiberServerContext& call, const Ask& ask, Answer* answer) {
    if (ask.number() < 0) return grpc::Status::OK;  // Only to see whether the server takes calls.
    all_here.CountDown();
    go_on.Wait();
    EXPECT_FALSE(call.IsCancelled());
    answer->set_number(ask.number());
    return grpc::Status::OK;
  };
  InFiber([&] {
    FiberLatch all_answered(kCalls);
    for (int i = 0; i < kCalls; ++i) {
      ASSERT_TRUE(StartFiberDetached([&, i] {
        EXPECT_STATUS_OK(CallOne(i));
        all_answered.CountDown();
      }));
    }
    all_here.Wait();
    std::atomic<bool> is_down{false};
    Fiber stopper([&] {
      ShutdownServer(*server, std::chrono::nanoseconds::max());
      is_down = true;
    });
    // Once the server takes no more calls, no connection can be made.
    for (grpc::Status status; status.error_code() != grpc::StatusCode::UNAVAILABLE;) {
      const auto prober = Relay::NewStub(NewChannel());
      grpc::ClientContext context;
      Ask ask;
      ask.set_number(-1);
      Answer answer;
      status = CallUnary(*prober, &Relay::Stub::async::One, &context, ask, &answer);
    }
    EXPECT_FALSE(is_down);
    go_on.Set();
    all_answered.Wait();
    stopper.Join();
    EXPECT_TRUE(is_down);
  });
}

TEST_P(GrpcServerTest, ShutdownCancelsCallsWhoseTimeIsOverAndWaitsForTheirHandlers) {
  constexpr int kCalls = 20;
  FiberLatch all_here(kCalls);
  std::atomic<int> left{0};
  service.one = [&](FiberServerContext& call, const Ask&, Answer*) {
    all_here.CountDown();
    call.WaitCancelled();
    Shielded([] { FiberYield(); });
    ++left;
    return grpc::Status::OK;
  };
  FiberLatch all_answered(kCalls);
  for (int i = 0; i < kCalls; ++i) {
    ASSERT_TRUE(StartFiberDetached([&, i] {
      EXPECT_FALSE(CallOne(i).ok());
      all_answered.CountDown();
    }));
  }
  all_here.Wait();
  ShutdownServer(*server, 10ms);
  EXPECT_EQ(left, kCalls);
  all_answered.Wait();
}

std::size_t CountThreads() {
  return static_cast<std::size_t>(
      std::distance(std::filesystem::directory_iterator("/proc/self/task"), std::filesystem::directory_iterator()));
}

// gRPC's last threads end by themselves, soon after the last of its objects is gone.
bool AwaitEndOfGrpc(std::size_t threads) {
  for (const auto give_up = System::now() + 20s; System::now() < give_up; std::this_thread::yield()) {
    if (grpc_is_initialized() == 0 && CountThreads() <= threads) return true;
  }
  return false;
}

TEST(GrpcServer, LeavesNoFiberAndNoThreadBehind) {
  constexpr std::size_t kThisThread = 1;
  ASSERT_TRUE(AwaitEndOfGrpc(kThisThread)) << CountThreads() << " threads are left of the tests before";
  for (int round = 0; round < 3; ++round) {
    const fiber::RuntimeOf runtime(fiber::Shape{2, 1});  // Reports a remaining fiber.
    RelayWorld world;
    FiberLatch all_answered(50);
    for (int i = 0; i < 50; ++i) {
      ASSERT_TRUE(StartFiberDetached([&, i] {
        EXPECT_STATUS_OK(world.CallOne(i));
        all_answered.CountDown();
      }));
    }
    all_answered.Wait();
  }
  EXPECT_TRUE(AwaitEndOfGrpc(kThisThread)) << CountThreads() << " threads; initialized: " << grpc_is_initialized();
}

}  // namespace
}  // namespace weft::interop
