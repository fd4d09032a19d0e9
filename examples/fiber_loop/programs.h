// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// What the fibers of the three programs do, whatever loop runs them: three clients ask a service, which answers after
// a while. The service stands for what a program does by callbacks of its loop; a client waits for the answer as if it
// blocked. A thread beside the loop asks, too.
#ifndef WEFT_EXAMPLES_FIBER_LOOP_PROGRAMS_H_
#define WEFT_EXAMPLES_FIBER_LOOP_PROGRAMS_H_

#include <chrono>
#include <functional>
#include <iostream>
#include <string>
#include <thread>

#include "weft/fiber/fiber_loop.h"
#include "weft/weft.h"

namespace fiber_loop_example {

// Calls `answer` from the foreign loop after that time.
using AskLater = std::function<void(std::chrono::milliseconds after, std::function<void()> answer)>;

// A client: a function that looks as if it blocked.
inline void Client(const std::string& name, std::chrono::milliseconds patience, const AskLater& ask) {
  weft::FiberEvent answered;
  std::string answer;
  ask(patience, [&] {
    answer = "an answer for " + name;
    answered.Set();
  });
  std::cout << name << " waits" << std::endl;
  answered.Wait();  // the thread goes on in its loop
  std::cout << name << " has " << answer << std::endl;
}

// Starts all of it. `on_end` is called in the main context, when the last task has ended.
class Program {
 public:
  Program(weft::FiberLoop& loop, const AskLater& ask, std::function<void()> on_end)
      : loop_(loop), on_end_(std::move(on_end)) {
    int wait = 5;
    for (const char* name : {"one", "two", "three"}) {
      Add([name, wait, ask] { Client(name, std::chrono::milliseconds(wait), ask); });
      wait += 5;
    }
    Add([] {
      weft::FiberSleepFor(std::chrono::milliseconds(25));  // a timer of Weft's, in the same loop
      std::cout << "the sleeper has slept" << std::endl;
    });
    ++open_;
    thread_ = std::thread([this] {
      loop_.AddTaskRemote([this] {
        std::cout << "a task from another thread" << std::endl;
        loop_.RunInMainContext([this] { Close(); });
      });
    });
  }
  ~Program() { thread_.join(); }

 private:
  template <class F>
  void Add(F f) {
    ++open_;
    loop_.AddTaskFinally(std::move(f), [this](const weft::FiberLoop::Result<void>&) { Close(); });
  }
  void Close() {
    if (--open_ == 0) on_end_();
  }

  weft::FiberLoop& loop_;
  const std::function<void()> on_end_;
  int open_ = 0;
  std::thread thread_;
};

}  // namespace fiber_loop_example

#endif  // WEFT_EXAMPLES_FIBER_LOOP_PROGRAMS_H_
