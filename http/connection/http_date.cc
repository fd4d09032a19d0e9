// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/http/connection/http_date.h"

#include <time.h>

#include <cstddef>

#include "weft/base/thread/cpu.h"

namespace weft::http {
namespace {

// Of this thread: `second` is what its text says.
struct Rendered {
  time_t second = -1;
  HttpDate date;
};

WEFT_TLS_ACCESSOR Rendered& OfThread() {
  static thread_local Rendered rendered;
  base::OpaqueBarrier();
  return rendered;
}

}  // namespace

// strftime() would take the names of the program's locale.
void HttpDate::Render(const tm& utc) {
  constexpr std::string_view kDays = "SunMonTueWedThuFriSat";
  constexpr std::string_view kMonths = "JanFebMarAprMayJunJulAugSepOctNovDec";
  const auto name = [](std::string_view names, int i) {
    return names.substr(std::size_t{3} * static_cast<std::size_t>(i), 3);
  };
  const auto put = [](char* at, int number) {
    at[0] = static_cast<char>('0' + number / 10 % 10);
    at[1] = static_cast<char>('0' + number % 10);
  };
  std::string_view("Sun, 06 Nov 1994 08:49:37 GMT").copy(text_, sizeof(text_) - 1);
  name(kDays, utc.tm_wday).copy(text_, 3);
  put(text_ + 5, utc.tm_mday);
  name(kMonths, utc.tm_mon).copy(text_ + 8, 3);
  put(text_ + 12, (utc.tm_year + 1900) / 100);
  put(text_ + 14, utc.tm_year + 1900);
  put(text_ + 17, utc.tm_hour);
  put(text_ + 20, utc.tm_min);
  put(text_ + 23, utc.tm_sec);
}

HttpDate HttpDate::Now() {
  timespec now;
  ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
  Rendered& rendered = OfThread();  // Nothing below switches.
  if (now.tv_sec != rendered.second) {
    rendered.second = now.tv_sec;
    tm utc;
    ::gmtime_r(&rendered.second, &utc);
    rendered.date.Render(utc);
  }
  return rendered.date;
}

}  // namespace weft::http
