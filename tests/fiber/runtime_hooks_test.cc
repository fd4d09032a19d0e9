// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/runtime/runtime_hooks.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "weft/scheduling_group/fiber/fiber_entity.h"
#include "weft/timer/callback/callback_timer.h"

namespace weft::fiber::detail {
namespace {

bool forked = false;

TEST(RuntimeHooks, TheLayersBelowAreGivenWhatTheyCall) {
  InstallRuntimeHooks([] { forked = true; });
  EXPECT_NE(scheduling_group::fiber_hooks.destroy_fiber_locals, nullptr);
  EXPECT_NE(scheduling_group::fiber_hooks.release_execution_context, nullptr);
  EXPECT_NE(timer::execution_context_hooks.add_reference, nullptr);
  EXPECT_NE(timer::execution_context_hooks.release, nullptr);

  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) ::_exit(forked ? 0 : 1);
  int status = -1;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0) << "a child is not told";
  EXPECT_FALSE(forked);
}

}  // namespace
}  // namespace weft::fiber::detail
