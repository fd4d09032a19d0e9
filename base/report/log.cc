// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/base/report/log.h"

#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <iterator>
#include <memory>
#include <mutex>
#include <utility>

#include "weft/base/report/default_sink.h"

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
  // FatalError() itself writes a fatal line.
  if (severity != LogSeverity::kFatal) log_internal::WriteToDefaultSink(severity, file, line, text);
}

namespace log_internal {

void WriteToStderr(char severity, const char* file, int line, std::string_view text) noexcept {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  tm date{};
  localtime_r(&now.tv_sec, &date);
  const char* const slash = std::strrchr(file, '/');
  char head[256];
  const int length =
      std::snprintf(head, sizeof head, "%c%04d%02d%02d %02d:%02d:%02d.%06ld %5d %s:%d] ", severity, date.tm_year + 1900,
                    date.tm_mon + 1, date.tm_mday, date.tm_hour, date.tm_min, date.tm_sec, now.tv_nsec / 1000,
                    static_cast<int>(gettid()), slash != nullptr ? slash + 1 : file, line);
  const auto head_size = std::min<std::size_t>(static_cast<std::size_t>(std::max(length, 0)), sizeof head - 1);
  // No allocation: memory may be exhausted. A failed write cannot be reported anywhere.
  char end = '\n';
  const iovec parts[] = {{head, head_size}, {const_cast<char*>(text.data()), text.size()}, {&end, 1}};
  [[maybe_unused]] const ssize_t written = ::writev(STDERR_FILENO, parts, std::size(parts));
}

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
