// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// A test fixture that runs a runtime of a given shape around each test, and checks that no fiber is left.
#ifndef WEFT_TESTS_FIBER_RUNTIME_FIXTURE_H_
#define WEFT_TESTS_FIBER_RUNTIME_FIXTURE_H_

#include <gtest/gtest.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <ostream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "weft/base/report/build_mode.h"
#include "weft/base/thread/cpu.h"
#include "weft/fiber/fiber.h"
#include "weft/fiber/runtime.h"
#include "weft/fiber/this_fiber.h"

#include "testing/function_ref.h"
#include "testing/policy.h"

namespace weft::fiber {

// The kernel's number of the calling thread.  (std::this_thread::get_id() may survive a switch: the compiler takes it
// for constant.)
WEFT_TLS_ACCESSOR inline pid_t ThreadNumber() {
  base::OpaqueBarrier();
  return static_cast<pid_t>(::syscall(SYS_gettid));
}

struct Shape {
  int workers = 1;  // In each group.
  int groups = 1;

  friend std::ostream& operator<<(std::ostream& out, const Shape& shape) {
    return out << shape.groups << " group(s) of " << shape.workers << " worker(s)";
  }
};

// The runtime of OptionsOf() waits that long at its end for fibers that do not finish.
inline constexpr std::chrono::seconds kTerminateTimeout{60};

inline RuntimeOptions OptionsOf(Shape shape) {
  RuntimeOptions options;
  options.terminate_timeout = kTerminateTimeout;
  options.concurrency_hint = std::int64_t{shape.workers} * shape.groups;
  options.scheduling_group_size = shape.workers;
  options.scheduling_name = weft::testing::PolicyUnderTest();
  return options;
}

// Named groups, on a machine of eight CPUs, whatever this one has.
inline RuntimeOptions NamedGroupsOf(std::string groups) {
  RuntimeOptions options;
  options.terminate_timeout = kTerminateTimeout;
  options.scheduling_name = weft::testing::PolicyUnderTest();
  options.topology = "numa:1 core:8 pu:1";
  options.groups = std::move(groups);
  return options;
}

// Starts a runtime for as long as it lives.
class RuntimeOf {
 public:
  explicit RuntimeOf(const RuntimeOptions& options) { StartRuntime(options); }
  explicit RuntimeOf(Shape shape) : RuntimeOf(OptionsOf(shape)) {}
  ~RuntimeOf() {
    if (!IsRuntimeRunning()) return;  // The test has ended it.
    EXPECT_EQ(TerminateRuntime(), std::size_t{0}) << "fibers have not finished";
  }
  RuntimeOf(const RuntimeOf&) = delete;
  RuntimeOf& operator=(const RuntimeOf&) = delete;
};

// What tests of a runtime call.
class CallsInFibers {
 protected:
  // Runs f in a fiber (in a plain thread: the test itself is one). A cancellation that leaves f ends the fiber as if f
  // had returned, and would leave out what f expects after it.
  static void InFiber(testing::FunctionRef f) {
    bool returned = false;
    Fiber([&] {
      f();
      returned = true;
    }).Join();
    EXPECT_TRUE(returned) << "a cancellation has ended the fiber";
  }
  static void InThread(testing::FunctionRef f) {
    std::thread([f] { f(); }).join();
  }
};

// Every test runs once in each shape.
class InEachShape : public ::testing::TestWithParam<Shape>, protected CallsInFibers {
 protected:
  std::size_t groups() const { return static_cast<std::size_t>(GetParam().groups); }
  std::size_t workers() const { return static_cast<std::size_t>(GetParam().workers); }

 private:
  RuntimeOf runtime_{GetParam()};
};

inline std::string NameOf(const ::testing::TestParamInfo<Shape>& info) {
  return std::to_string(info.param.workers) + "Workers" + std::to_string(info.param.groups) + "Groups";
}

// Of `shapes` those that this build tries. Under AddressSanitizer some: more numbers of workers find more races, which
// ThreadSanitizer and the release build look for in all shapes.
inline std::vector<Shape> ShapesOfThisBuild(std::vector<Shape> shapes) {
  const auto is_left_out = [](const Shape& shape) {
    return shape.groups == 1 ? shape.workers == 2 || shape.workers == 8 : shape.workers == 1;
  };
  if (WEFT_ASAN) std::erase_if(shapes, is_left_out);
  return shapes;
}

#define WEFT_INSTANTIATE_THESE_SHAPES(suite, ...)                                                               \
  INSTANTIATE_TEST_SUITE_P(Shapes, suite, ::testing::ValuesIn(::weft::fiber::ShapesOfThisBuild({__VA_ARGS__})), \
                           &::weft::fiber::NameOf)
#define WEFT_INSTANTIATE_SHAPES(suite) \
  WEFT_INSTANTIATE_THESE_SHAPES(suite, {1, 1}, {2, 1}, {4, 1}, {8, 1}, {64, 1}, {1, 3}, {2, 2})

}  // namespace weft::fiber

#endif  // WEFT_TESTS_FIBER_RUNTIME_FIXTURE_H_
