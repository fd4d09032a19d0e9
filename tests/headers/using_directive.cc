// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// `using namespace weft` beside GoogleTest, the standard library and POSIX: no name becomes ambiguous.

#include <gtest/gtest.h>
#include <poll.h>
#include <sched.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "weft/fiber/testing.h"
#include "weft/weft.h"

using namespace std;   // NOLINT
using namespace weft;  // NOLINT

class UsingDirective : public testing::Test {};

TEST_F(UsingDirective, NamesAreNotAmbiguous) {
  testing::Test::RecordProperty("posix", "names");
  timer_t timer = nullptr;
  EXPECT_EQ(timer, nullptr);
  void (*flush)() = sync;  // POSIX's, of <unistd.h>. So the namespace of folder sync is called synchronization.
  EXPECT_NE(flush, nullptr);
  RunAsFiber([] { FiberYield(); });
  io::TcpStream stream;
  EXPECT_FALSE(stream.IsOpen());
}
