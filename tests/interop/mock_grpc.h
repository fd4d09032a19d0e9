// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// A gRPC made of plain threads, by gRPC's interfaces for mocks: grpc_reactors_test.cc and grpc_stream_reactors_test.cc
// run the adapter against it, also under ThreadSanitizer.
#ifndef WEFT_TESTS_INTEROP_MOCK_GRPC_H_
#define WEFT_TESTS_INTEROP_MOCK_GRPC_H_

#include <grpcpp/client_context.h>
#include <grpcpp/support/client_callback.h>
#include <grpcpp/support/server_callback.h>
#include <grpcpp/support/status.h>

#include <array>
#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "weft/sync/fiber_event.h"
#include "weft/sync/fiber_latch.h"

namespace weft::interop {

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
    threads_.Post([this] {
      Close();
      Unref();
    });
  }
  void SendInitialMetadata() override {}  // Calls with a reader have their own.

  // Keeps the call from ending while the test posts to it what the handler may not wait for.
  class Hold {
   public:
    explicit Hold(MockServerCall& call) : call_(call) { call_.Ref(); }
    ~Hold() { call_.Unref(); }
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    MockServerCall& call_;
  };

  FiberEvent& bound() { return bound_; }
  const grpc::Status& status() const { return status_; }

 protected:
  void Ref() { refs_.fetch_add(1, std::memory_order_relaxed); }
  void Unref() {
    if (refs_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    reactor_->OnDone();
    ended_.CountDown();
  }
  // Runs f in one of the threads; the call lasts as long.
  template <class F>
  void PostPart(F f) {
    Ref();
    threads_.Post([this, f] {
      f();
      Unref();
    });
  }
  // After Finish.
  virtual void Close() {}

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
    PostPart([this, message] {
      sum += *message;
      reactor_->OnWriteDone(*message >= 0);
    });
  }
  void WriteAndFinish(const int*, grpc::WriteOptions, grpc::Status) override {}

  long sum = 0;
};

// The messages that one end of a stream has sent, and the read that the other end has under way.
class MockMessages {
 public:
  void Send(int message) {
    Change([&] { messages_.push_back(message); });
  }
  void End() {
    Change([&] { ended_ = true; });
  }
  // Calls done(ok) when a message is in *into, or when no more can come.
  void Read(int* into, std::function<void(bool ok)> done) {
    Change([&] {
      into_ = into;
      done_ = std::move(done);
    });
  }

 private:
  // done() is called without the lock: it may lead to the next Read(), or to the end of this object.
  template <class F>
  void Change(F&& change) {
    std::function<void(bool)> done;
    bool ok = false;
    {
      const std::scoped_lock lock(mutex_);
      change();
      if (done_ == nullptr || (messages_.empty() && !ended_)) return;
      ok = !messages_.empty();
      if (ok) {
        *into_ = messages_.front();
        messages_.pop_front();
      }
      done = std::exchange(done_, nullptr);
    }
    done(ok);
  }

  std::mutex mutex_;
  std::deque<int> messages_;
  bool ended_ = false;
  int* into_ = nullptr;
  std::function<void(bool)> done_;
};

// A call whose client streams. As gRPC does, it ends a read that is under way when the stream is closed after Finish.
template <class Interface, class Reactor>
class MockReadingCall : public MockServerCall<Interface, Reactor> {
 public:
  using MockServerCall<Interface, Reactor>::MockServerCall;
  void Read(int* message) override {
    this->Ref();
    this->threads_.Post([this, message] {
      client_.Read(message, [this](bool ok) {
        this->reactor_->OnReadDone(ok);
        this->Unref();
      });
    });
  }
  void SendInitialMetadata() override {
    this->PostPart([this] { this->reactor_->OnSendInitialMetadataDone(!broken_off_); });
  }
  void PostMessage(int message) {
    this->PostPart([this, message] { client_.Send(message); });
  }
  void PostEnd() {
    this->PostPart([this] { client_.End(); });
  }
  // The client goes. OnCancel, for which gRPC may take any time, is the test's to call.
  void PostBreakOff() {
    this->PostPart([this] {
      broken_off_ = true;
      client_.End();
    });
  }
  // 1 to count in this order, and the end.
  void PostMessages(int count) {
    this->PostPart([this, count] {
      for (int message = 1; message <= count; ++message) client_.Send(message);
      client_.End();
    });
  }

 private:
  void Close() override { client_.End(); }

  MockMessages client_;
  std::atomic<bool> broken_off_{false};
};

using MockServerReader = MockReadingCall<grpc::ServerCallbackReader<int>, grpc::ServerReadReactor<int>>;

class MockServerStream final
    : public MockReadingCall<grpc::ServerCallbackReaderWriter<int, int>, grpc::ServerBidiReactor<int, int>> {
 public:
  using MockReadingCall::MockReadingCall;
  void Write(const int* message, grpc::WriteOptions) override {
    PostPart([this, message] {
      sum += *message;
      reactor_->OnWriteDone(*message >= 0);
    });
  }
  void WriteAndFinish(const int*, grpc::WriteOptions, grpc::Status) override {}

  long sum = 0;
};

// A stream at the client. Ends, by OnDone, when no hold and no operation is left.
template <class Interface, class Reactor>
class MockClientCall : public Interface {
 public:
  MockClientCall(PollingThreads& threads, Reactor* reactor) : threads_(threads), reactor_(reactor) {
    this->BindReactor(reactor);
  }
  void StartCall() override { PostUnref(); }
  void AddHold(int holds) override { refs_.fetch_add(holds, std::memory_order_relaxed); }
  void RemoveHold() override { PostUnref(); }

 protected:
  ~MockClientCall() override = default;

  template <class F>
  void PostPart(F f) {
    AddHold(1);
    threads_.Post([this, f] {
      f();
      Unref();
    });
  }
  void Unref() {
    if (refs_.fetch_sub(1, std::memory_order_acq_rel) != 1) return;
    Reactor* const reactor = reactor_;
    delete this;
    reactor->OnDone(grpc::Status(grpc::StatusCode::OUT_OF_RANGE, "the end"));
  }

  PollingThreads& threads_;
  Reactor* const reactor_;

 private:
  void PostUnref() {
    threads_.Post([this] { Unref(); });
  }

  std::atomic<int> refs_{1};
};

// Many() answers with the numbers below its request.
class MockReader final : public MockClientCall<grpc::ClientCallbackReader<int>, grpc::ClientReadReactor<int>> {
 public:
  MockReader(PollingThreads& threads, int count, grpc::ClientReadReactor<int>* reactor)
      : MockClientCall(threads, reactor), count_(count) {}
  void Read(int* message) override {
    PostPart([this, message] {
      const bool ok = next_ < count_;
      if (ok) *message = next_++;
      reactor_->OnReadDone(ok);
    });
  }

 private:
  const int count_;
  int next_ = 0;
};

// Sum() answers with the sum of its messages; a negative one is not taken.
class MockClientWriter final : public MockClientCall<grpc::ClientCallbackWriter<int>, grpc::ClientWriteReactor<int>> {
 public:
  MockClientWriter(PollingThreads& threads, int* response, grpc::ClientWriteReactor<int>* reactor)
      : MockClientCall(threads, reactor), response_(response) {}
  void Write(const int* message, grpc::WriteOptions) override {
    PostPart([this, message] {
      const bool ok = *message >= 0;
      if (ok) sum_ += *message;
      reactor_->OnWriteDone(ok);
    });
  }
  void WritesDone() override {
    PostPart([this] {
      *response_ = sum_;
      reactor_->OnWritesDoneDone(true);
    });
  }

 private:
  int* const response_;
  int sum_ = 0;
};

// Chat() answers each message with itself.
class MockClientStream final
    : public MockClientCall<grpc::ClientCallbackReaderWriter<int, int>, grpc::ClientBidiReactor<int, int>> {
 public:
  using MockClientCall::MockClientCall;
  void Write(const int* message, grpc::WriteOptions) override {
    PostPart([this, message] {
      echo_.Send(*message);
      reactor_->OnWriteDone(true);
    });
  }
  void WritesDone() override {
    PostPart([this] {
      echo_.End();
      reactor_->OnWritesDoneDone(true);
    });
  }
  void Read(int* message) override {
    AddHold(1);
    threads_.Post([this, message] {
      echo_.Read(message, [this](bool ok) {
        reactor_->OnReadDone(ok);
        Unref();
      });
    });
  }

 private:
  MockMessages echo_;
};

// One() answers with the number plus one; an odd one fails.
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
  void Sum(grpc::ClientContext*, int* response, grpc::ClientWriteReactor<int>* reactor) {
    new MockClientWriter(threads_, response, reactor);
  }
  void Chat(grpc::ClientContext*, grpc::ClientBidiReactor<int, int>* reactor) {
    new MockClientStream(threads_, reactor);
  }

 private:
  PollingThreads& threads_;
};

}  // namespace weft::interop

#endif  // WEFT_TESTS_INTEROP_MOCK_GRPC_H_
