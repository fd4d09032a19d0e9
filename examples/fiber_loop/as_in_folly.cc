// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// folly's FiberManager, as a FiberLoop: a task that waits for what a callback brings, others meanwhile, tasks of other
// threads, finally, and the main context.
//
//   FiberManager            FiberLoop
//   addTask                 AddTask
//   addTaskEager            AddTaskEager
//   addTaskRemote           AddTaskRemote
//   addTaskFinally          AddTaskFinally
//   runInMainContext        RunInMainContext
//   loopUntilNoReady        LoopUntilNoReady, RunReady
//   Promise, Future         Promise, Future: Get() parks its fiber, others run
//   Baton                   FiberEvent

#include <functional>
#include <iostream>
#include <latch>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>

#include "weft/fiber/fiber_loop.h"
#include "weft/fiber/future.h"
#include "weft/weft.h"

namespace {

void Say(const std::string& line) { std::cout << line << std::endl; }

// The service answers nothing before this.
std::latch service_is_up(1);

// An asynchronous call, answered by a callback on another thread; and the same for fibers, which block on its future.
std::thread CallWithCallback(const std::string& request, std::function<void(std::string)> callback) {
  return std::thread([=] {
    service_is_up.wait();
    callback("response to " + request);
  });
}

std::string Call(const std::string& request) {
  weft::Promise<std::string> promise;
  weft::Future<std::string> future = promise.GetFuture();
  std::thread service = CallWithCallback(request, [&](std::string answer) { promise.SetValue(std::move(answer)); });
  std::string response = future.Get();  // The fiber waits; its loop runs others.
  service.join();
  return response;
}

}  // namespace

int main() {
  weft::FiberLoop loop;

  loop.AddTask([] {
    Say("task 1 calls");
    Say("task 1 has the " + Call("request 1"));
  });
  loop.AddTask([] {
    Say("task 2 runs while task 1 waits");
    service_is_up.count_down();
  });
  loop.AddTaskEager([] {
    Say("the eager task runs before both");
    weft::FiberYield();
    Say("the eager task goes on behind them");
  });
  loop.Run();

  loop.AddTaskFinally([] { return Call("request 2"); },
                      [](const weft::FiberLoop::Result<std::string>& result) {
                        Say("finally, in the main context: " + result.value());
                      });
  loop.AddTaskFinally([]() -> int { throw std::runtime_error("no answer"); },
                      [](const weft::FiberLoop::Result<int>& result) {
                        Say(std::string("finally, with an exception: ") + (result.has_value() ? "no" : "yes"));
                      });
  loop.Run();

  bool ran = false;
  std::thread other([&] {
    loop.AddTaskRemote([&] {
      Say("a task that another thread has added");
      ran = true;
    });
  });
  loop.RunUntil([&] { return ran; });
  other.join();

  loop.AddTask([&] {
    const int sum = loop.RunInMainContext([] {
      volatile int large[200'000];  // more than a fiber's stack
      for (int i = 0; i < 200'000; ++i) large[i] = 1;
      int total = 0;
      for (int i = 0; i < 200'000; ++i) total += large[i];
      return total;
    });
    Say("the main context has counted to " + std::to_string(sum));
  });
  loop.Run();
}
