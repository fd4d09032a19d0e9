// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Flow: the smallest coroutine on top of Context, for tests. TestThread: a thread that resumes flows on request, so
// that a test chooses the thread.
#ifndef WEFT_TESTS_CONTEXT_FLOW_H_
#define WEFT_TESTS_CONTEXT_FLOW_H_

#include <condition_variable>
#include <cstddef>
#include <cstdlib>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>

#include "weft/context/switch/context.h"

namespace weft::context {

class Flow;

// What a thread that runs flows needs; a worker in miniature.
struct Carrier : ThreadState {
  Context own;
  Flow* running = nullptr;

  void Init() {
    InitThreadState(this);
    InitThreadContext(&own);
  }
};

class Flow {
 public:
  static constexpr std::size_t kStackSize = 256 * 1024;

  explicit Flow(std::function<void(Flow&)> body)
      : body_(std::move(body)), stack_(static_cast<char*>(std::aligned_alloc(4096, kStackSize))) {
    MakeContext(&context_, stack_ + kStackSize, kStackSize, &Flow::Entry);
  }
  Flow(const Flow&) = delete;
  Flow& operator=(const Flow&) = delete;
  ~Flow() {
    DestroyContext(&context_);
    std::free(stack_);
  }

  // Resumes the flow until it suspends or ends.
  void Resume(Carrier* carrier) {
    carrier->running = this;
    SwitchContext(&carrier->own, &context_, carrier);
  }

  // In the flow: returns to the thread that resumed it.
  void Suspend() { carrier_ = static_cast<Carrier*>(SwitchContext(&context_, &carrier_->own, carrier_)); }

  // In the flow: switches straight to another flow, as a fiber does that blocks.
  void SwitchTo(Flow* next) {
    carrier_->running = next;
    next->carrier_ = carrier_;
    carrier_ = static_cast<Carrier*>(SwitchContext(&context_, &next->context_, carrier_));
  }

  bool done() const { return done_; }
  Context* context() { return &context_; }
  Carrier* carrier() { return carrier_; }
  char* stack_low() const { return stack_; }
  char* stack_high() const { return stack_ + kStackSize; }

 private:
  static void Entry(ThreadState* here) {
    Flow* self = static_cast<Carrier*>(here)->running;
    self->carrier_ = static_cast<Carrier*>(here);
    self->body_(*self);
    self->done_ = true;
    LeaveContext(&self->context_, &self->carrier_->own, self->carrier_);
  }

  std::function<void(Flow&)> body_;
  char* stack_;
  Context context_;
  Carrier* carrier_ = nullptr;
  bool done_ = false;
};

// Runs one function at a time on its own thread; Run() returns after it.
class TestThread {
 public:
  TestThread() : thread_([this] { Loop(); }) {}
  ~TestThread() {
    Run(nullptr);
    thread_.join();
  }

  void Run(std::function<void(Carrier*)> work) {
    std::unique_lock lock(mutex_);
    work_ = std::move(work);
    pending_ = true;
    changed_.notify_all();
    changed_.wait(lock, [this] { return !pending_; });
  }
  void Resume(Flow& flow) {
    Run([&flow](Carrier* carrier) { flow.Resume(carrier); });
  }
  std::thread::id id() const { return thread_.get_id(); }

 private:
  void Loop() {
    Carrier carrier;
    carrier.Init();
    for (bool stop = false; !stop;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return pending_; });
      stop = work_ == nullptr;
      if (!stop) work_(&carrier);
      pending_ = false;
      changed_.notify_all();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::function<void(Carrier*)> work_;
  bool pending_ = false;
  std::thread thread_;
};

}  // namespace weft::context

#endif  // WEFT_TESTS_CONTEXT_FLOW_H_
