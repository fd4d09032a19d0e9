// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/base/report/check.h"

#include <gtest/gtest.h>

#include <ostream>
#include <string>
#include <string_view>

#include "weft/base/report/log.h"

namespace weft::base {
namespace {

struct Streamed {
  int* times;
};
std::ostream& operator<<(std::ostream& stream, const Streamed& streamed) {
  ++*streamed.times;
  return stream << "streamed";
}

int Evaluated(int* times) {
  ++*times;
  return 0;
}

TEST(Check, DoesNotEvaluateThePiecesOfACheckThatHolds) {
  int streamed = 0;
  int evaluated = 0;
  WEFT_CHECK(true, Streamed{&streamed}, Evaluated(&evaluated));
  EXPECT_EQ(streamed, 0);
  EXPECT_EQ(evaluated, 0);
}

TEST(Check, EvaluatesItsConditionOnce) {
  int evaluated = 0;
  WEFT_CHECK(Evaluated(&evaluated) == 0);
  EXPECT_EQ(evaluated, 1);
}

TEST(Check, IsOneStatement) {
  if (true)
    WEFT_CHECK(true);
  else
    WEFT_CHECK(false);
}

TEST(Dcheck, EvaluatesItsConditionInDebugBuildsOnly) {
  int evaluated = 0;
  WEFT_DCHECK(Evaluated(&evaluated) == 0, "piece");
#ifdef NDEBUG
  EXPECT_EQ(evaluated, 0);
#else
  EXPECT_EQ(evaluated, 1);
#endif
}

void FailsACheck() { WEFT_CHECK(1 + 1 == 3, "sum ", 2, ' ', std::string("as a string")); }
void FailsABareCheck() { WEFT_CHECK(1 + 1 == 3); }

TEST(CheckDeathTest, SaysWhatFailedWhereAndWithWhichPieces) {
  EXPECT_DEATH(FailsACheck(), "check_test.cc:[0-9]+\\] sum 2 as a string .in FailsACheck");
  EXPECT_DEATH(FailsABareCheck(), "Check failed: 1 \\+ 1 == 3 .in FailsABareCheck");
}

TEST(CheckDeathTest, FatalAndUnreachableEndTheProcess) {
  EXPECT_DEATH(WEFT_FATAL("value ", 7), "value 7");
  EXPECT_DEATH(WEFT_UNREACHABLE(), "cannot be reached");
}

#ifndef NDEBUG
TEST(DcheckDeathTest, EndsTheProcessInDebugBuilds) { EXPECT_DEATH(WEFT_DCHECK(false, "in debug"), "in debug"); }
#endif

TEST(CheckDeathTest, AddsWhatTheContextHookSays) {
  SetCheckContextHook([] { return std::string("fiber \"worker bee\" id 12"); });
  EXPECT_DEATH(FailsACheck(), "as a string .in FailsACheck; fiber \"worker bee\" id 12.");
  SetCheckContextHook([] { return std::string(); });
  EXPECT_DEATH(FailsACheck(), "in FailsACheck.\n");
  SetCheckContextHook(nullptr);
}

TEST(CheckDeathTest, CallsTheHookAfterItsMessage) {
  SetFatalErrorHook([](bool, const void*) { std::fprintf(stderr, "<hook>\n"); });
  EXPECT_DEATH(FailsACheck(), "check_test.cc:[0-9]+\\] sum 2 as (.|\n)*<hook>");
  SetFatalErrorHook(nullptr);
  EXPECT_DEATH(FailsACheck(), "in FailsACheck.\n$");
}

TEST(CheckDeathTest, TellsTheUsersSinkAndGlog) {
  SetLogSink([](LogSeverity severity, const char*, int, std::string_view text) {
    if (severity == LogSeverity::kFatal) std::fprintf(stderr, "<sink: %.*s>\n", int(text.size()), text.data());
  });
  EXPECT_DEATH(FailsACheck(), "<sink: sum 2 (.|\n)*check_test.cc:[0-9]+\\] sum 2 as");
  SetLogSink(nullptr);
}

TEST(CheckDeathTest, ACheckThatFailsInTheHookOrTheSinkDoesNotRecur) {
  SetCheckContextHook([]() -> std::string { WEFT_FATAL("in the hook"); });
  EXPECT_DEATH(FailsACheck(), "in the hook");
  SetCheckContextHook(nullptr);
  SetLogSink([](LogSeverity, const char*, int, std::string_view) { WEFT_FATAL("in the sink"); });
  EXPECT_DEATH(FailsACheck(), "in the sink");
  SetLogSink(nullptr);
}

}  // namespace
}  // namespace weft::base
