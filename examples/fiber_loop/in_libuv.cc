// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Fibers in a program that is built on libuv: a uv_poll_t watches FiberLoop::NotifyFd().

#include <uv.h>

#include <utility>

#include "programs.h"

namespace {

void CallLater(uv_loop_t* loop, std::chrono::milliseconds after, std::function<void()> callback) {
  struct Timer {
    uv_timer_t handle;
    std::function<void()> callback;
  };
  auto* const timer = new Timer{.handle = {}, .callback = std::move(callback)};
  uv_timer_init(loop, &timer->handle);
  timer->handle.data = timer;
  uv_timer_start(
      &timer->handle,
      [](uv_timer_t* handle) {
        static_cast<Timer*>(handle->data)->callback();
        uv_close(reinterpret_cast<uv_handle_t*>(handle),
                 [](uv_handle_t* closed) { delete static_cast<Timer*>(closed->data); });
      },
      static_cast<std::uint64_t>(after.count()), 0);
}

}  // namespace

int main() {
  uv_loop_t* const loop = uv_default_loop();
  weft::FiberLoop fibers;
  uv_poll_t watch;
  watch.data = &fibers;
  uv_poll_init(loop, &watch, fibers.NotifyFd());
  uv_poll_start(&watch, UV_READABLE,
                [](uv_poll_t* handle, int, int) { static_cast<weft::FiberLoop*>(handle->data)->RunReady(); });

  {
    const fiber_loop_example::Program program(
        fibers, [&](auto after, auto answer) { CallLater(loop, after, answer); },
        [&] { uv_close(reinterpret_cast<uv_handle_t*>(&watch), nullptr); });  // then the loop has nothing left
    uv_run(loop, UV_RUN_DEFAULT);
    fibers.Run();  // what the last tasks still do
  }
  uv_loop_close(loop);
  std::cout << "done" << std::endl;
}
