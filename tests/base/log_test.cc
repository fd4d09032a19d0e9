// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/base/report/log.h"

#include <gtest/gtest.h>

#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace weft::base {
namespace {

struct Line {
  LogSeverity severity;
  std::string file;
  int line;
  std::string text;
};

// Catches log lines during a test.
class Log : public ::testing::Test {
 protected:
  void SetUp() override {
    SetLogSink([this](LogSeverity severity, const char* file, int line, std::string_view text) {
      std::scoped_lock guard(lock_);
      lines_.push_back({severity, file, line, std::string(text)});
    });
  }
  void TearDown() override { SetLogSink(nullptr); }

  std::vector<Line> lines() {
    std::scoped_lock guard(lock_);
    return lines_;
  }

 private:
  std::mutex lock_;
  std::vector<Line> lines_;
};

TEST_F(Log, HandsTheSinkSeverityPlaceAndText) {
  const int line = __LINE__ + 1;
  WEFT_LOG(WARNING, "queue of ", 16, " is ", std::string("full"));
  WEFT_LOG(INFO, "a");
  WEFT_LOG(ERROR, 1.5);
  ASSERT_EQ(lines().size(), 3u);
  EXPECT_EQ(lines()[0].severity, LogSeverity::kWarning);
  EXPECT_EQ(lines()[0].line, line);
  EXPECT_TRUE(lines()[0].file.ends_with("tests/base/log_test.cc"));
  EXPECT_EQ(lines()[0].text, "queue of 16 is full");
  EXPECT_EQ(lines()[1].severity, LogSeverity::kInfo);
  EXPECT_EQ(lines()[2].severity, LogSeverity::kError);
  EXPECT_EQ(lines()[2].text, "1.5");
}

TEST_F(Log, GoesToGlogAgainWhenTheSinkIsTakenAway) {
  SetLogSink(nullptr);
  ::testing::internal::CaptureStderr();
  WEFT_LOG(ERROR, "to glog");
  EXPECT_NE(::testing::internal::GetCapturedStderr().find("log_test.cc"), std::string::npos);
  EXPECT_TRUE(lines().empty());
}

TEST_F(Log, WritesAtMostOneLineASecondFromOnePlace) {
  for (int i = 0; i < 1000; ++i) WEFT_LOG_EVERY_SECOND(INFO, "number ", i);
  // Two if the loop was held up for a second.
  ASSERT_GE(lines().size(), 1u);
  EXPECT_LE(lines().size(), 2u);
  EXPECT_EQ(lines()[0].text, "number 0");
}

TEST_F(Log, SaysHowManyLinesWereLeftOut) {
  log_internal::LogAfterSuppression(LogSeverity::kInfo, "f", 1, 3, "text");
  log_internal::LogAfterSuppression(LogSeverity::kInfo, "f", 1, 0, "text");
  ASSERT_EQ(lines().size(), 2u);
  EXPECT_EQ(lines()[0].text, "text [3 more like this were left out]");
  EXPECT_EQ(lines()[1].text, "text");
}

TEST(RateLimiter, AdmitsOneASecondAndCountsTheRest) {
  log_internal::RateLimiter limiter;
  constexpr std::int64_t kSecond = 1'000'000'000;
  std::uint64_t suppressed = 99;
  EXPECT_TRUE(limiter.AdmitAt(5 * kSecond, &suppressed));
  EXPECT_EQ(suppressed, 0u);
  EXPECT_FALSE(limiter.AdmitAt(5 * kSecond, &suppressed));
  EXPECT_FALSE(limiter.AdmitAt(6 * kSecond - 1, &suppressed));
  EXPECT_TRUE(limiter.AdmitAt(6 * kSecond, &suppressed));
  EXPECT_EQ(suppressed, 2u);
  EXPECT_TRUE(limiter.AdmitAt(60 * kSecond, &suppressed));
  EXPECT_EQ(suppressed, 0u);
}

TEST(RateLimiter, AdmitsOneOfManyThreadsThatComeAtOnce) {
  constexpr int kThreads = 8;
  log_internal::RateLimiter limiter;
  std::atomic<int> admitted{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < kThreads; ++i) {
    threads.emplace_back([&] {
      std::uint64_t suppressed = 0;
      if (limiter.AdmitAt(1'000'000'000, &suppressed)) ++admitted;
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(admitted, 1);
}

}  // namespace
}  // namespace weft::base
