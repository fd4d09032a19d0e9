// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Fibers in a program that is built on Asio: a stream_descriptor waits until FiberLoop::NotifyFd() is readable.

#include <boost/asio/io_context.hpp>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/steady_timer.hpp>
#include <memory>
#include <utility>

#include "programs.h"

namespace {

namespace asio = boost::asio;

class FibersInContext {
 public:
  explicit FibersInContext(asio::io_context& context) : watch_(context, fibers_.NotifyFd()) { Wait(); }
  ~FibersInContext() { watch_.release(); }  // The descriptor is the FiberLoop's.

  weft::FiberLoop& fibers() { return fibers_; }
  void Stop() { watch_.cancel(); }

 private:
  void Wait() {
    watch_.async_wait(asio::posix::stream_descriptor::wait_read, [this](const boost::system::error_code& error) {
      if (error) return;
      Wait();  // First: a task may call Stop().
      fibers_.RunReady();
    });
  }

  weft::FiberLoop fibers_;
  asio::posix::stream_descriptor watch_;
};

}  // namespace

int main() {
  asio::io_context context;
  FibersInContext in_context(context);
  const auto call_later = [&](std::chrono::milliseconds after, std::function<void()> answer) {
    const auto timer = std::make_shared<asio::steady_timer>(context, after);
    timer->async_wait([timer, answer = std::move(answer)](const boost::system::error_code&) { answer(); });
  };

  const fiber_loop_example::Program program(in_context.fibers(), call_later, [&] { in_context.Stop(); });
  context.run();
  in_context.fibers().Run();  // what the last tasks still do
  std::cout << "done" << std::endl;
}
