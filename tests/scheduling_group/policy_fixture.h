// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Fibers for tests of scheduling policies as data structures: they are pushed and popped and never run.
#ifndef WEFT_TESTS_SCHEDULING_GROUP_POLICY_FIXTURE_H_
#define WEFT_TESTS_SCHEDULING_GROUP_POLICY_FIXTURE_H_

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "weft/scheduling_group/fiber/fiber_entity.h"
#include "weft/scheduling_group/fiber/fiber_factory.h"
#include "weft/scheduling_group/scheduling_policy.h"

namespace weft::scheduling_group {

class PolicyFixture : public ::testing::Test {
 protected:
  static constexpr auto kStarted = ReadyReason::kStarted;
  static constexpr auto kWoken = ReadyReason::kWoken;
  static constexpr auto kYielded = ReadyReason::kYielded;
  static constexpr int kNoWorker = SchedulingPolicy::kNoWorker;

  FiberEntity* New(bool local = false, std::size_t priority = 0) {
    FiberEntity* fiber =
        NewFiber(nullptr, {.group_local = local, .priority = static_cast<std::uint8_t>(priority)}, [] {});
    fibers_.push_back(fiber);
    return fiber;
  }
  std::vector<FiberEntity*> NewFibers(std::size_t n) {
    std::vector<FiberEntity*> made;
    for (std::size_t i = 0; i < n; ++i) made.push_back(New());
    return made;
  }
  void TearDown() override {
    for (FiberEntity* fiber : fibers_) DiscardFiber(fiber);
  }

  static FiberEntity* Pop(SchedulingPolicy& policy, unsigned worker) {
    bool must_notify = false;
    return policy.Pop(worker, &must_notify);
  }

  // Calls `f` until it returns a fiber; gives up after a minute, in which something hangs.
  template <class F>
  static FiberEntity* Insist(F&& f) {
    const auto limit = std::chrono::steady_clock::now() + std::chrono::seconds(60);
    FiberEntity* fiber = nullptr;
    while (fiber == nullptr && std::chrono::steady_clock::now() < limit) fiber = f();
    return fiber;
  }

 private:
  std::vector<FiberEntity*> fibers_;
};

}  // namespace weft::scheduling_group

#endif  // WEFT_TESTS_SCHEDULING_GROUP_POLICY_FIXTURE_H_
