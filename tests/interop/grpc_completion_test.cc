// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// The adapter's own synchronisation, without gRPC: plain threads stand for gRPC's.  Runs under ThreadSanitizer too.

#include "weft/interop/grpc/grpc_completion.h"

#include <gtest/gtest.h>

#include <optional>
#include <thread>

#include "weft/fiber/fiber.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_blocking_bounded_queue.h"
#include "weft/sync/fiber_latch.h"
#include "weft/tests/fiber/runtime_fixture.h"

namespace weft::interop::detail {
namespace {

// An operation as gRPC gets it: `message` belongs to the callback between Begin() and End().
struct Operation {
  GrpcCompletion completion;
  int message = 0;
};

class GrpcCompletionTest : public fiber::InEachShape {
 protected:
  // Ends each operation it is given, with true if the message was odd; nullptr ends the thread.
  static void ActAsGrpc(FiberBlockingBoundedQueue<Operation*>& queue) {
    for (;;) {
      Operation* operation = nullptr;
      if (!queue.Pop(operation) || operation == nullptr) return;
      const bool odd = operation->message % 2 != 0;
      ++operation->message;
      operation->completion.End(odd);
    }
  }
};
WEFT_INSTANTIATE_SHAPES(GrpcCompletionTest);

TEST_P(GrpcCompletionTest, HandsMemoryBackAndForthAndMayBeDestroyedAfterAwait) {
  constexpr int kFibers = 50;
  constexpr int kOperations = 20;
  FiberBlockingBoundedQueue<Operation*> queue(16);
  std::thread first([&] { ActAsGrpc(queue); });
  std::thread second([&] { ActAsGrpc(queue); });
  FiberLatch all_done(kFibers);
  for (int i = 0; i < kFibers; ++i) {
    ASSERT_TRUE(StartFiberDetached([&, i] {
      {
        Operation operation;  // On the fiber's stack, as CallUnary() has it.
        for (int k = 0; k < kOperations; ++k) {
          operation.message = i + k;
          operation.completion.Begin("test");
          EXPECT_TRUE(queue.Push(&operation));
          EXPECT_EQ(operation.completion.Await(), (i + k) % 2 != 0);
          EXPECT_EQ(operation.message, i + k + 1);
        }
      }
      all_done.CountDown();
    }));
  }
  all_done.Wait();
  queue.Push(nullptr);
  queue.Push(nullptr);
  first.join();
  second.join();
}

TEST(GrpcCompletion, TheEndMayComeBeforeTheWait) {
  GrpcCompletion completion;
  for (const bool ok : {true, false, true}) {
    completion.Begin("test");
    completion.End(ok);
    EXPECT_EQ(completion.Await(), ok);
  }
}

// What a cancelled fiber has left is awaited by the next one, whether it has ended meanwhile or not.
TEST_P(GrpcCompletionTest, AnOperationThatWasLeftIsResumed) {
  for (int i = 0; i < 40; ++i) {
    Operation operation;
    operation.message = i;
    FiberBlockingBoundedQueue<Operation*> queue(2);
    std::thread grpc([&] { ActAsGrpc(queue); });
    InFiber([&] {
      EXPECT_TRUE(operation.completion.BeginOrResume("test"));
      CancelScope scope;
      scope.Cancel();
      std::optional<bool> ended;
      const bool before = i % 4 < 2;  // Else the end meets the wait.
      EXPECT_TRUE(before || queue.Push(&operation));
      EXPECT_TRUE(scope.Run([&] { ended = operation.completion.AwaitOrLeave(); }));
      EXPECT_TRUE(!before || !ended.has_value());
      operation.completion.CheckNobodyAwaits("test");
      EXPECT_TRUE(!before || queue.Push(&operation));
      if (!ended.has_value()) {
        EXPECT_FALSE(operation.completion.BeginOrResume("test"));
        ended = operation.completion.AwaitOrLeave();
      }
      EXPECT_EQ(ended, i % 2 != 0);
      EXPECT_TRUE(queue.Push(nullptr));
      // It is free again.
      EXPECT_TRUE(operation.completion.BeginOrResume("test"));
      operation.completion.End(true);
      EXPECT_TRUE(operation.completion.Await());
    });
    grpc.join();
    EXPECT_EQ(operation.message, i + 1);
  }
}

TEST(GrpcCompletionDeathTest, ASecondFiberIsNamedItsMistake) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_DEATH(
      {
        GrpcCompletion completion;
        completion.Begin("FiberServerWriter::Write");
        completion.Begin("FiberServerWriter::Write");
      },
      "FiberServerWriter::Write: another fiber is in it already");
  EXPECT_DEATH(
      {
        GrpcCompletion completion;
        completion.Begin("FiberClientReader::Read");
        completion.CheckNobodyAwaits("FiberClientReader::Finish");
      },
      "FiberClientReader::Finish: another fiber still reads or writes");
}

}  // namespace
}  // namespace weft::interop::detail
