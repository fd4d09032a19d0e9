// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/base/log.h"

#include <glog/logging.h>

#include <chrono>
#include <memory>
#include <mutex>
#include <utility>

namespace weft::base {

namespace {

struct SinkHolder {
  std::mutex lock;
  std::shared_ptr<const LogSink> sink;
};

// Never destroyed: threads may log while the process ends.
SinkHolder& TheSink() {
  static SinkHolder* const holder = new SinkHolder;
  return *holder;
}

std::shared_ptr<const LogSink> CurrentSink() {
  SinkHolder& holder = TheSink();
  std::scoped_lock guard(holder.lock);
  return holder.sink;
}

int ToGlog(LogSeverity severity) {
  switch (severity) {
    case LogSeverity::kInfo:
      return google::GLOG_INFO;
    case LogSeverity::kWarning:
      return google::GLOG_WARNING;
    case LogSeverity::kError:
    case LogSeverity::kFatal:
      break;
  }
  return google::GLOG_ERROR;
}

}  // namespace

void SetLogSink(LogSink sink) {
  std::shared_ptr<const LogSink> next;
  if (sink) next = std::make_shared<const LogSink>(std::move(sink));
  SinkHolder& holder = TheSink();
  std::scoped_lock guard(holder.lock);
  holder.sink.swap(next);
}

void EmitLogLine(LogSeverity severity, const char* file, int line, std::string_view text) {
  if (std::shared_ptr<const LogSink> sink = CurrentSink()) {
    (*sink)(severity, file, line, text);
    return;
  }
  // Of a fatal line glog learns from FatalError() itself.
  if (severity == LogSeverity::kFatal) return;
  google::LogMessage(file, line, ToGlog(severity)).stream() << text;
}

namespace log_internal {

bool RateLimiter::Admit(std::uint64_t* suppressed) noexcept {
  auto now = std::chrono::steady_clock::now().time_since_epoch();
  return AdmitAt(std::chrono::duration_cast<std::chrono::nanoseconds>(now).count(), suppressed);
}

bool RateLimiter::AdmitAt(std::int64_t now_ns, std::uint64_t* suppressed) noexcept {
  constexpr std::int64_t kIntervalNs = 1'000'000'000;
  // relaxed throughout: nothing but the two numbers themselves is passed on.
  std::int64_t next = next_ns_.load(std::memory_order_relaxed);
  if (now_ns < next || !next_ns_.compare_exchange_strong(next, now_ns + kIntervalNs, std::memory_order_relaxed)) {
    suppressed_.fetch_add(1, std::memory_order_relaxed);
    return false;
  }
  *suppressed = suppressed_.exchange(0, std::memory_order_relaxed);
  return true;
}

}  // namespace log_internal

}  // namespace weft::base
