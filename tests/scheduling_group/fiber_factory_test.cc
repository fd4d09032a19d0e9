// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/scheduling_group/fiber/fiber_factory.h"

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <memory>
#include <string>

#include "weft/scheduling_group/fiber/entity_pool.h"
#include "weft/scheduling_group/group/scheduling_group.h"

namespace weft::scheduling_group {
namespace {

TEST(FiberFactory, ACallableIsDestroyedOnceWhetherItLivesInPlaceOrOnTheHeap) {
  auto token = std::make_shared<int>(0);
  DiscardFiber(NewFiber(nullptr, {}, [token] {}));
  EXPECT_EQ(token.use_count(), 1);
  DiscardFiber(NewFiber(nullptr, {}, [token, big = std::array<char, 500>{}] { (void)big; }));
  EXPECT_EQ(token.use_count(), 1);
}

TEST(FiberFactory, ANewFiberIsReadyAndCounted) {
  const std::size_t before = EntityPool::LiveFibers();
  FiberEntity* fiber = NewFiber(nullptr, {.group_local = true}, [] {});
  ASSERT_NE(fiber, nullptr);
  EXPECT_EQ(fiber->state().Load(), FiberPhase::kReady);
  EXPECT_TRUE(fiber->group_local());
  EXPECT_EQ(fiber->group(), nullptr);
  EXPECT_EQ(EntityPool::LiveFibers(), before + 1);
  DiscardFiber(fiber);
  EXPECT_EQ(EntityPool::LiveFibers(), before);
}

TEST(FiberFactory, TheNameIsCopied) {
  std::string name = "seeker";
  FiberEntity* fiber = NewFiber(nullptr, {.name = name.c_str()}, [] {});
  name[0] = 'k';
  EXPECT_STREQ(fiber->name(), "seeker");
  DiscardFiber(fiber);
}

TEST(FiberFactory, AStaticNameIsNotCopied) {
  static constexpr char kName[] = "tcp accept";
  for (int i = 0; i < 2; ++i) {  // The next one with a copy in the same entity.
    FiberEntity* fiber = NewFiber(nullptr, {.name_is_static = true, .name = kName, .guard_size = 8192}, [] {});
    EXPECT_EQ(fiber->name(), kName);
    EXPECT_EQ(fiber->guard_size(), 8192u);
    DiscardFiber(fiber);
    fiber = NewFiber(nullptr, {.name = kName}, [] {});
    EXPECT_NE(fiber->name(), kName);
    EXPECT_STREQ(fiber->name(), kName);
    DiscardFiber(fiber);
  }
}

// EP1. The pool hands out the most recently returned entity first.
TEST(FiberFactory, TheNextFiberInTheSameEntityHasNoneOfTheOptions) {
  FiberOwner owner{.on_exit = [](FiberOwner*) { ADD_FAILURE() << "it was never started"; }};
  const StartOptions options = {
      .group_local = true, .priority = 7, .name = "former", .stack_size = 65536, .guard_size = 8192, .owner = &owner};
  FiberEntity* former = NewFiber(nullptr, options, [] {});
  EXPECT_EQ(former->priority(), 7u);
  EXPECT_EQ(former->stack_size(), 65536u);
  EXPECT_EQ(former->guard_size(), 8192u);
  DiscardFiber(former);
  FiberEntity* fiber = NewFiber(nullptr, {}, [] {});
  ASSERT_EQ(fiber, former);
  EXPECT_FALSE(fiber->group_local());
  EXPECT_EQ(fiber->priority(), 0u);
  EXPECT_STREQ(fiber->name(), "");
  EXPECT_EQ(fiber->stack_size(), 0u);
  EXPECT_EQ(fiber->guard_size(), 0u);
  DiscardFiber(fiber);
}

TEST(FiberFactory, AGuardSizeAloneGoesWithTheStackSizeOfTheGroup) {
  SchedulingGroup::Options options;
  options.workers = 1;
  options.stack_size = 98304;
  SchedulingGroup group(options);
  FiberEntity* fiber = NewFiber(&group, {.guard_size = 8192}, [] {});
  EXPECT_EQ(fiber->group(), &group);
  EXPECT_EQ(fiber->stack_size(), 98304u);
  EXPECT_EQ(fiber->guard_size(), 8192u);
  DiscardFiber(fiber);
}

TEST(FiberFactory, ACallableThatThrowsWhenItIsMadeLeavesNothing) {
  struct Throws {
    Throws() = default;
    Throws(const Throws&) { throw 1; }
    void operator()() const {}
  };
  const std::size_t before = EntityPool::LiveFibers();
  const Throws throws;
  int execution_context = 0;
  EXPECT_THROW((void)NewFiber(nullptr, {.name = "never", .execution_context = &execution_context}, throws), int);
  EXPECT_EQ(EntityPool::LiveFibers(), before);
}

}  // namespace
}  // namespace weft::scheduling_group
