// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Streams against a gRPC made of plain threads: as grpc_reactors_test.cc, which says why.

#include <grpcpp/client_context.h>
#include <grpcpp/server_context.h>
#include <gtest/gtest.h>

#include <atomic>
#include <deque>
#include <memory>
#include <utility>

#include "weft/fiber/fiber.h"
#include "weft/fiber/fiber_scope.h"
#include "weft/interop/grpc_client.h"
#include "weft/interop/grpc_server.h"
#include "weft/sync/cancel_scope.h"
#include "weft/sync/fiber_latch.h"
#include "weft/tests/fiber/runtime_fixture.h"

#include "interop/mock_grpc.h"

// gRPC's contexts have a friend of this name. It does what gRPC does, with the call that a mock does not have, before
// it calls OnReadDone(false) for a call that was cancelled.
class grpc::testing::InteropServerContextInspector {
 public:
  static void MarkCancelled(grpc::CallbackServerContext& context) { context.marked_cancelled_ = true; }
};

namespace weft::interop {
namespace {

class GrpcStreamReactorsTest : public ::testing::TestWithParam<fiber::Shape> {
 protected:
  // Outlives the runtime: a fiber may still be in Post() when the threads have ended its call.
  PollingThreads threads_;
  fiber::RuntimeOf runtime_{GetParam()};
};
WEFT_INSTANTIATE_SHAPES(GrpcStreamReactorsTest);

template <class Mock>
struct Call {
  Call(PollingThreads& threads, FiberLatch& ended) : mock(threads, ended) {}
  Mock mock;
  grpc::CallbackServerContext context;
  int response = 0;
};

TEST_P(GrpcStreamReactorsTest, ReadsFollowEachOtherToTheEnd) {
  constexpr int kCalls = 50;
  constexpr int kMessages = 20;
  FiberLatch ended(kCalls);
  std::deque<Call<MockServerReader>> calls;
  for (int i = 0; i < kCalls; ++i) {
    auto& call = calls.emplace_back(threads_, ended);
    threads_.Post([&call] {
      auto handler = [&call](FiberServerContext&, FiberServerReader<int>& reader, int* response) {
        call.mock.bound().Wait();
        int message = 0;
        while (reader.Read(&message)) *response += message;
        return grpc::Status::OK;
      };
      call.mock.Bind(ServeClientStream<int>(&call.context, &call.response, handler));
    });
    call.mock.PostMessages(kMessages);
  }
  ended.Wait();
  for (const auto& call : calls) {
    EXPECT_EQ(call.response, kMessages * (kMessages + 1) / 2);
    EXPECT_TRUE(call.mock.status().ok());
  }
}

// OnReadDone, with a message or with the end, against OnCancel; both against the fiber.
TEST_P(GrpcStreamReactorsTest, ReadsAndCancellationsMeet) {
  constexpr int kCalls = 200;
  FiberLatch ended(kCalls);
  std::deque<Call<MockServerReader>> calls;
  for (int i = 0; i < kCalls; ++i) {
    auto& call = calls.emplace_back(threads_, ended);
    const MockServerReader::Hold hold(call.mock);
    threads_.Post([&call, captured = std::make_unique<int>(i).release()] {
      auto handler = [&call, owned = std::unique_ptr<int>(captured)](FiberServerContext&,
                                                                     FiberServerReader<int>& reader, int* response) {
        call.mock.bound().Wait();
        int message = *owned;
        while (reader.Read(&message)) *response += message;
        return grpc::Status::OK;
      };
      call.mock.Bind(ServeClientStream<int>(&call.context, &call.response, std::move(handler)));
    });
    call.mock.PostMessage(1);
    if (i % 2 == 0) {
      call.mock.PostCancel();
      call.mock.PostEnd();
    } else {
      call.mock.PostEnd();
      call.mock.PostCancel();
    }
  }
  ended.Wait();
  for (const auto& call : calls) {
    EXPECT_LE(call.response, 1);
    EXPECT_TRUE(call.mock.status().ok() || call.mock.status().error_code() == grpc::StatusCode::CANCELLED);
  }
}

// The handler learns it before OnCancel (GS6).
TEST_P(GrpcStreamReactorsTest, AStreamThatBreaksOffIsNotTakenForTheWhole) {
  constexpr int kCalls = 100;
  FiberLatch ended(kCalls);
  std::deque<Call<MockServerReader>> calls;
  for (int i = 0; i < kCalls; ++i) {
    auto& call = calls.emplace_back(threads_, ended);
    const MockServerReader::Hold hold(call.mock);
    threads_.Post([&call] {
      auto handler = [&call](FiberServerContext&, FiberServerReader<int>& reader, int* response) {
        call.mock.bound().Wait();
        int message = 0;
        while (reader.Read(&message)) {
        }
        EXPECT_FALSE(reader.Read(&message));  // It stays at the end.
        *response = message;
        return grpc::Status::OK;
      };
      call.mock.Bind(ServeClientStream<int>(&call.context, &call.response, handler));
    });
    if (i % 2 == 0) {
      call.mock.PostMessages(1);
    } else {
      call.mock.PostMessage(1);
      call.mock.PostBreakOff();
    }
  }
  ended.Wait();
  for (std::size_t i = 0; i < calls.size(); ++i) {
    EXPECT_EQ(calls[i].response, i % 2 == 0 ? 1 : 0);
    EXPECT_EQ(calls[i].mock.status().error_code(), i % 2 == 0 ? grpc::StatusCode::OK : grpc::StatusCode::CANCELLED);
  }
}

// The same for a bidirectional stream, where gRPC's context says it (GS6); OnCancel never comes.
TEST_P(GrpcStreamReactorsTest, ABidirectionalStreamThatBreaksOffIsNotTakenForTheWhole) {
  constexpr int kCalls = 100;
  FiberLatch ended(kCalls);
  std::deque<Call<MockServerStream>> calls;
  for (int i = 0; i < kCalls; ++i) {
    auto& call = calls.emplace_back(threads_, ended);
    const MockServerStream::Hold hold(call.mock);
    threads_.Post([&call] {
      auto handler = [&call](FiberServerContext&, FiberServerReader<int>& reader, FiberServerWriter<int>&) {
        call.mock.bound().Wait();
        int message = 0;
        while (reader.Read(&message)) {
        }
        call.response = message;
        return grpc::Status::OK;
      };
      call.mock.Bind(ServeBidiStream<int, int>(&call.context, handler));
    });
    if (i % 2 == 0) {
      call.mock.PostMessages(1);
    } else {
      call.mock.PostMessage(1);
      grpc::testing::InteropServerContextInspector::MarkCancelled(call.context);
      call.mock.PostBreakOff();
    }
  }
  ended.Wait();
  for (std::size_t i = 0; i < calls.size(); ++i) {
    EXPECT_EQ(calls[i].response, i % 2 == 0 ? 1 : 0);
    EXPECT_EQ(calls[i].mock.status().error_code(), i % 2 == 0 ? grpc::StatusCode::OK : grpc::StatusCode::CANCELLED);
  }
}

// A cancelled scope leaves a read under way. It is gone on with, or Finish finds it; its message comes at any time.
TEST_P(GrpcStreamReactorsTest, AReadThatWasLeftMeetsTheNextReadAndFinish) {
  constexpr int kCalls = 200;
  FiberLatch ended(kCalls);
  std::deque<Call<MockServerStream>> calls;
  for (int i = 0; i < kCalls; ++i) {
    auto& call = calls.emplace_back(threads_, ended);
    const MockServerStream::Hold hold(call.mock);
    const bool read_again = i % 2 == 0;
    threads_.Post([&call, read_again] {
      auto handler = [&call, read_again](FiberServerContext&, FiberServerReader<int>& reader,
                                         FiberServerWriter<int>& writer) {
        call.mock.bound().Wait();
        int message = 0;
        bool got_it = false;
        for (int k = 0; k < 3 && !got_it; ++k) {
          CancelScope scope;
          scope.Cancel();
          static_cast<void>(scope.Run([&] { got_it = reader.Read(&message); }));
        }
        EXPECT_TRUE(writer.Write(1));
        if (read_again) {
          if (!got_it) {
            EXPECT_TRUE(reader.Read(&message));
          }
          EXPECT_EQ(message, 42);
        }
        return grpc::Status::OK;
      };
      call.mock.Bind(ServeBidiStream<int, int>(&call.context, handler));
    });
    call.mock.PostMessage(42);
  }
  ended.Wait();
  for (const auto& call : calls) {
    EXPECT_EQ(call.mock.sum, 1);
    EXPECT_TRUE(call.mock.status().ok());
  }
}

TEST_P(GrpcStreamReactorsTest, OneFiberReadsAndOneWritesWhileTheCallIsCancelledOrNot) {
  constexpr int kCalls = 60;
  constexpr int kMessages = 20;
  FiberLatch ended(kCalls);
  std::deque<Call<MockServerStream>> calls;
  for (int i = 0; i < kCalls; ++i) {
    auto& call = calls.emplace_back(threads_, ended);
    const MockServerStream::Hold hold(call.mock);
    threads_.Post([&call] {
      auto handler = [&call](FiberServerContext&, FiberServerReader<int>& reader, FiberServerWriter<int>& writer) {
        call.mock.bound().Wait();
        FiberScope scope;
        EXPECT_TRUE(scope.Spawn([&] {
          for (int k = 1; k <= kMessages; ++k) EXPECT_TRUE(writer.Write(k));
          EXPECT_FALSE(writer.Write(-1));
        }));
        int message = 0;
        while (reader.Read(&message)) call.response += message;
        scope.Wait();
        return grpc::Status::OK;
      };
      call.mock.Bind(ServeBidiStream<int, int>(&call.context, handler));
    });
    call.mock.PostMessages(kMessages);
    if (i % 2 != 0) call.mock.PostCancel();
  }
  ended.Wait();
  for (std::size_t i = 0; i < calls.size(); i += 2) {
    EXPECT_EQ(calls[i].response, kMessages * (kMessages + 1) / 2);
    EXPECT_EQ(calls[i].mock.sum, kMessages * (kMessages + 1) / 2 - 1);
    EXPECT_TRUE(calls[i].mock.status().ok());
  }
}

TEST_P(GrpcStreamReactorsTest, ClientsWriteToTheEndOrAreDropped) {
  constexpr int kFibers = 100;
  MockStub stub(threads_);
  FiberLatch all_done(kFibers);
  for (int i = 0; i < kFibers; ++i) {
    ASSERT_TRUE(StartFiberDetached([&, i] {
      {
        grpc::ClientContext context;
        int sum = -1;
        auto writer = CallClientStream(stub, &MockStub::Sum, &context, &sum);
        for (int k = 1; k <= i; ++k) EXPECT_TRUE(writer.Write(k));
        if (i % 3 == 0) {
          EXPECT_FALSE(writer.Write(-1));
          EXPECT_FALSE(writer.Write(1));
        }
        // The others leave it to the destructor.
        if (i % 2 != 0) {
          EXPECT_EQ(writer.Finish().error_message(), "the end");
          EXPECT_EQ(sum, i % 3 == 0 ? -1 : i * (i + 1) / 2);
        }
      }
      all_done.CountDown();
    }));
  }
  all_done.Wait();
}

TEST_P(GrpcStreamReactorsTest, ClientsReadAndWriteAtOnce) {
  constexpr int kFibers = 100;
  MockStub stub(threads_);
  FiberLatch all_done(kFibers);
  for (int i = 0; i < kFibers; ++i) {
    ASSERT_TRUE(StartFiberDetached([&, i] {
      {
        grpc::ClientContext context;
        auto stream = CallBidiStream(stub, &MockStub::Chat, &context);
        Fiber writer([&] {
          for (int k = 0; k < i; ++k) EXPECT_TRUE(stream.Write(k));
          stream.WritesDone();
        });
        int message = -1;
        for (int k = 0; k < i; ++k) {
          EXPECT_TRUE(stream.Read(&message));
          EXPECT_EQ(message, k);
        }
        writer.Join();
        if (i % 2 != 0) {
          EXPECT_FALSE(stream.Read(&message));
          EXPECT_EQ(stream.Finish().error_message(), "the end");
        }
      }
      all_done.CountDown();
    }));
  }
  all_done.Wait();
}

}  // namespace
}  // namespace weft::interop
