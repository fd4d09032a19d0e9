// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// The adapter against a gRPC made of plain threads, by gRPC's interfaces for mocks. gRPC's libraries are not
// instrumented, so the tests with the real one cannot run under ThreadSanitizer. These can. They show that the adapter,
// or a promise of gRPC (a callback comes after its operation was requested; OnDone comes last), orders all that the
// adapter shares with gRPC's threads.

#include <grpcpp/client_context.h>
#include <grpcpp/server_context.h>
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "weft/fiber/fiber.h"
#include "weft/fiber/this_fiber.h"
#include "weft/interop/grpc_client.h"
#include "weft/interop/grpc_server.h"
#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_latch.h"
#include "weft/tests/fiber/runtime_fixture.h"

namespace weft::interop {
namespace {

// Stands for gRPC's threads.  The destructor runs the remaining work.
class PollingThreads {
 public:
  PollingThreads() {
    for (std::thread& thread : threads_) thread = std::thread([this] { Loop(); });
  }
  ~PollingThreads() {
    {
      const std::scoped_lock lock(mutex_);
      stopped_ = true;
    }
    changed_.notify_all();
    for (std::thread& thread : threads_) thread.join();
  }
  void Post(std::function<void()> job) {
    {
      const std::scoped_lock lock(mutex_);
      jobs_.push_back(std::move(job));
    }
    changed_.notify_one();
  }

 private:
  void Loop() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return stopped_ || !jobs_.empty(); });
      if (jobs_.empty()) return;
      const std::function<void()> job = std::move(jobs_.front());
      jobs_.pop_front();
      lock.unlock();
      job();
      lock.lock();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  bool stopped_ = false;
  std::array<std::thread, 2> threads_;
};

// A call on the server's side.  Ends, by OnDone, when the method has returned, Finish has been carried out, and no
// operation is under way.
template <class Interface, class Reactor>
class MockServerCall : public Interface {
 public:
  MockServerCall(PollingThreads& threads, FiberLatch& ended) : threads_(threads), ended_(ended) {}

  // In one of the threads: what gRPC does with the method's result. The handlers of these tests wait for bound(): until
  // then the reactor keeps requests under a mutex of gRPC's library, which ThreadSanitizer does not know.
  void Bind(Reactor* reactor) {
    reactor_ = reactor;
    this->BindReactor(reactor);
    bound_.Set();
    Unref();
  }
  void PostCancel() {
    Ref();
    threads_.Post([this] {
      bound_.Wait();
      reactor_->OnCancel();
      Unref();
    });
  }
  void Finish(grpc::Status status) override {
    status_ = std::move(status);
    threads_.Post([this] { Unref(); });
  }
  void SendInitialMetadata() override {}

  FiberEvent& bound() { return bound_; }
  const grpc::Status& status() const { return status_; }

 protected:
  void Ref() { refs_.fetch_add(1, std::memory_order_relaxed); }
  void Unref() {
    if (refs_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    reactor_->OnDone();
    ended_.CountDown();
  }
  PollingThreads& threads_;
  Reactor* reactor_ = nullptr;

 private:
  grpc::internal::ServerReactor* reactor() override { return reactor_; }
  void CallOnDone() override {}

  FiberLatch& ended_;
  FiberEvent bound_;
  grpc::Status status_;
  std::atomic<int> refs_{2};  // The method, and Finish.
};

using MockUnary = MockServerCall<grpc::ServerCallbackUnary, grpc::ServerUnaryReactor>;

class MockWriter final : public MockServerCall<grpc::ServerCallbackWriter<int>, grpc::ServerWriteReactor<int>> {
 public:
  using MockServerCall::MockServerCall;
  void Write(const int* message, grpc::WriteOptions) override {
    Ref();
    threads_.Post([this, message] {
      sum += *message;
      reactor_->OnWriteDone(*message >= 0);
      Unref();
    });
  }
  void WriteAndFinish(const int*, grpc::WriteOptions, grpc::Status) override {}

  long sum = 0;
};

// The client's side: One() answers with the number plus one, Many() with the numbers below it.
class MockReader final : public grpc::ClientCallbackReader<int> {
 public:
  MockReader(PollingThreads& threads, int count, grpc::ClientReadReactor<int>* reactor)
      : threads_(threads), count_(count), reactor_(reactor) {
    BindReactor(reactor);
  }
  void StartCall() override {
    threads_.Post([this] { Unref(); });
  }
  void Read(int* message) override {
    AddHold(1);
    threads_.Post([this, message] {
      const bool ok = next_ < count_;
      if (ok) *message = next_++;
      reactor_->OnReadDone(ok);
      Unref();
    });
  }
  void AddHold(int holds) override { refs_.fetch_add(holds, std::memory_order_relaxed); }
  void RemoveHold() override {
    threads_.Post([this] { Unref(); });
  }

 private:
  void Unref() {
    if (refs_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    grpc::ClientReadReactor<int>* const reactor = reactor_;
    delete this;
    reactor->OnDone(grpc::Status(grpc::StatusCode::OUT_OF_RANGE, "the end"));
  }

  PollingThreads& threads_;
  const int count_;
  int next_ = 0;
  grpc::ClientReadReactor<int>* const reactor_;
  std::atomic<int> refs_{1};
};

class MockStub {
 public:
  explicit MockStub(PollingThreads& threads) : threads_(threads) {}
  MockStub* async() { return this; }
  void One(grpc::ClientContext*, const int* request, int* response, std::function<void(grpc::Status)> done) {
    threads_.Post([request, response, done] {
      *response = *request + 1;
      done(*request % 2 == 0 ? grpc::Status::OK : grpc::Status(grpc::StatusCode::ABORTED, "odd"));
    });
  }
  void Many(grpc::ClientContext*, const int* request, grpc::ClientReadReactor<int>* reactor) {
    new MockReader(threads_, *request, reactor);
  }

 private:
  PollingThreads& threads_;
};

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
