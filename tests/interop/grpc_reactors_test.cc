// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// The adapter against a gRPC made of plain threads, by gRPC's interfaces for mocks. gRPC's libraries are not
// instrumented, so the tests with the real one cannot run under ThreadSanitizer. These can. They show that the adapter,
// or a promise of gRPC (a callback comes after its operation was requested; OnDone comes last), orders all that the
// adapter shares with gRPC's threads.

#include <grpcpp/client_context.h>
#include <grpcpp/server_context.h>
#include <gtest/gtest.h>

#include <deque>
#include <memory>
#include <utility>

#include "weft/fiber/fiber.h"
#include "weft/fiber/this_fiber.h"
#include "weft/interop/grpc_client.h"
#include "weft/interop/grpc_server.h"
#include "weft/sync/fiber_latch.h"
#include "weft/tests/fiber/runtime_fixture.h"

#include "interop/mock_grpc.h"

namespace weft::interop {
namespace {

class GrpcReactorsTest : public ::testing::TestWithParam<fiber::Shape> {
 protected:
  // Outlives the runtime: a fiber may still be in Post() when the threads have ended its call.
  PollingThreads threads_;
  fiber::RuntimeOf runtime_{GetParam()};
};
WEFT_INSTANTIATE_SHAPES(GrpcReactorsTest);

TEST_P(GrpcReactorsTest, UnaryCallsEndOnceWhetherCancelledOrNot) {
  constexpr int kCalls = 200;
  FiberLatch ended(kCalls);
  struct Call {
    explicit Call(PollingThreads& threads, FiberLatch& ended) : unary(threads, ended) {}
    MockUnary unary;
    grpc::CallbackServerContext context;
    int request = 0;
    int response = 0;
  };
  std::deque<Call> calls;
  for (int i = 0; i < kCalls; ++i) {
    Call& call = calls.emplace_back(threads_, ended);
    call.request = i;
    const bool cancel = i % 2 != 0;
    if (cancel) call.unary.PostCancel();
    threads_.Post([&call, cancel, captured = std::make_unique<int>(i).release()] {
      auto handler = [&call, cancel, owned = std::unique_ptr<int>(captured)](FiberServerContext& context,
                                                                             const int& request, int* response) {
        call.unary.bound().Wait();
        if (cancel) context.WaitCancelled();
        EXPECT_EQ(context.IsCancelled(), cancel);
        *response = request + *owned;
        return cancel ? grpc::Status::CANCELLED : grpc::Status::OK;
      };
      call.unary.Bind(ServeUnary(&call.context, &call.request, &call.response, std::move(handler)));
    });
  }
  ended.Wait();
  for (const Call& call : calls) {
    EXPECT_EQ(call.response, 2 * call.request);
    EXPECT_EQ(call.unary.status().ok(), call.request % 2 == 0);
  }
}

TEST_P(GrpcReactorsTest, WritesFollowEachOtherAndTellWhetherTheyWereCarriedOut) {
  constexpr int kCalls = 50;
  constexpr int kWrites = 20;
  FiberLatch ended(kCalls);
  struct Call {
    explicit Call(PollingThreads& threads, FiberLatch& ended) : writer(threads, ended) {}
    MockWriter writer;
    grpc::CallbackServerContext context;
    int request = 0;
  };
  std::deque<Call> calls;
  for (int i = 0; i < kCalls; ++i) {
    Call& call = calls.emplace_back(threads_, ended);
    call.writer.PostCancel();
    threads_.Post([&call] {
      auto handler = [&call](FiberServerContext&, const int&, FiberServerWriter<int>& writer) {
        call.writer.bound().Wait();
        for (int k = 1; k <= kWrites; ++k) EXPECT_TRUE(writer.Write(k));
        EXPECT_FALSE(writer.Write(-1));
        return grpc::Status::OK;
      };
      call.writer.Bind(ServeServerStream<int>(&call.context, &call.request, handler));
    });
  }
  ended.Wait();
  for (const Call& call : calls) EXPECT_EQ(call.writer.sum, kWrites * (kWrites + 1) / 2 - 1);
}

TEST_P(GrpcReactorsTest, ClientsGetAnswersAndStatus) {
  constexpr int kFibers = 100;
  MockStub stub(threads_);
  FiberLatch all_done(kFibers);
  for (int i = 0; i < kFibers; ++i) {
    ASSERT_TRUE(StartFiberDetached([&, i] {
      for (int k = i; k < i + 10; ++k) {
        grpc::ClientContext context;
        int response = 0;
        const grpc::Status status = CallUnary(stub, &MockStub::One, &context, k, &response);
        EXPECT_EQ(response, k + 1);
        EXPECT_EQ(status.ok(), k % 2 == 0);
      }
      all_done.CountDown();
    }));
  }
  all_done.Wait();
}

TEST_P(GrpcReactorsTest, ReadersReadToTheEndOrStopEarly) {
  constexpr int kFibers = 100;
  MockStub stub(threads_);
  FiberLatch all_done(kFibers);
  for (int i = 0; i < kFibers; ++i) {
    ASSERT_TRUE(StartFiberDetached([&, i] {
      {
        grpc::ClientContext context;
        FiberClientReader<int> reader(stub, &MockStub::Many, &context, i);
        int number = -1;
        const int wanted = i % 3 == 0 ? i / 2 : i + 1;
        for (int k = 0; k < wanted; ++k) {
          EXPECT_EQ(reader.Read(&number), k < i);
          EXPECT_TRUE(k >= i || number == k) << number;
        }
        // The others leave it to the destructor.
        if (i % 3 != 1) {
          EXPECT_EQ(reader.Finish().error_message(), "the end");
        }
      }
      all_done.CountDown();
    }));
  }
  all_done.Wait();
}

}  // namespace
}  // namespace weft::interop
