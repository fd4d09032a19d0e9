// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// A runtime of a given shape and an io_context with three threads of its own, around each test.
#ifndef WEFT_TESTS_INTEROP_ASIO_FIXTURE_H_
#define WEFT_TESTS_INTEROP_ASIO_FIXTURE_H_

#include <gtest/gtest.h>

#include <boost/asio/error.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/system/system_error.hpp>
#include <thread>
#include <utility>
#include <vector>

#include "weft/tests/fiber/runtime_fixture.h"

namespace weft::interop {

// Its threads run it as long as this lives.
class RunningIoContext {
 public:
  explicit RunningIoContext(int threads = 3) {
    for (int i = 0; i < threads; ++i) threads_.emplace_back([this] { Run(); });
  }
  ~RunningIoContext() {
    work_.reset();
    for (std::thread& thread : threads_) thread.join();
  }
  boost::asio::io_context& operator*() { return context_; }

 private:
  void Run() {
    for (;;) {
      try {
        context_.run();
        return;
      } catch (const boost::system::system_error& error) {
        // As use_fiber.h says of co_spawn().
        EXPECT_EQ(error.code(), boost::asio::error::operation_aborted);
      }
    }
  }

  boost::asio::io_context context_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{context_.get_executor()};
  std::vector<std::thread> threads_;
};

class WithIoContext : public fiber::InEachShape {
 protected:
  // Once in a fiber, once in a plain thread.
  static void InFiberAndInThread(testing::FunctionRef f) {
    InFiber(f);
    InThread(f);
  }

  RunningIoContext running_;
  boost::asio::io_context& io_ = *running_;
};

#define WEFT_INSTANTIATE_INTEROP_SHAPES(suite) WEFT_INSTANTIATE_THESE_SHAPES(suite, {1, 1}, {2, 1}, {4, 1}, {8, 1})

}  // namespace weft::interop

#endif  // WEFT_TESTS_INTEROP_ASIO_FIXTURE_H_
