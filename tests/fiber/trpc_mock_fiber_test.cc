// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// A program of its own: including mock_fiber.h refuses all starts in it, as in tRPC-Cpp.

#include <gtest/gtest.h>

#include <functional>
#include <utility>
#include <vector>

#include "weft/fiber/fiber.h"
#include "weft/fiber/testing/mock_fiber.h"
#include "weft/tests/fiber/runtime_fixture.h"

namespace weft {
namespace {

void ExpectThatStartsAreRefused() {
  bool ran = false;
  EXPECT_FALSE(StartFiberDetached([&] { ran = true; }));
  EXPECT_FALSE(StartFiberDetached(Fiber::Attributes(), [&] { ran = true; }));
  std::vector<std::function<void()>> batch(2, [&] { ran = true; });
  EXPECT_FALSE(BatchStartFiberDetached(std::move(batch)));
  EXPECT_FALSE(StartFiberDetached({.scheduling_group = 0}, [&] { ran = true; }));
  EXPECT_FALSE(Fiber::TryStart({}, [&] { ran = true; }));
  EXPECT_FALSE(ran);
}

// First: no runtime has ever run.
TEST(TrpcMockFiber, EveryStartIsRefusedWithoutARuntime) { ExpectThatStartsAreRefused(); }

TEST(TrpcMockFiber, EveryStartIsRefusedWithARuntime) {
  const fiber::RuntimeOf runtime(fiber::Shape{1, 1});
  ExpectThatStartsAreRefused();
}

}  // namespace
}  // namespace weft
