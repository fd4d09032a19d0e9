// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/base/thread/process_exit.h"

#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdlib>
#include <memory>

namespace weft::base {
namespace {

// Ends the process with 10 if it is destroyed inside exit(), else with 11.
struct TellsByExitCode {
  ~TellsByExitCode() { _exit(IsInExit() ? 10 : 11); }
};

TEST(ProcessExit, IsNoticedInTheDestructorOfAStaticObject) {
  EXPECT_EXIT(
      {
        static TellsByExitCode object;
        std::exit(0);
      },
      ::testing::ExitedWithCode(10), "");
}

TEST(ProcessExit, IsNoticedInWhatAStaticObjectOwns) {
  EXPECT_EXIT(
      {
        static const auto object = std::make_unique<TellsByExitCode>();
        std::exit(0);
      },
      ::testing::ExitedWithCode(10), "");
}

TEST(ProcessExit, IsNotTakenForAnOrdinaryDestructor) {
  EXPECT_EXIT({ const TellsByExitCode object; }, ::testing::ExitedWithCode(11), "");
}

}  // namespace
}  // namespace weft::base
