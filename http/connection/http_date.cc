// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/http/connection/http_date.h"

#include <time.h>

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

HttpDate HttpDate::Now() {
  timespec now;
  ::clock_gettime(CLOCK_REALTIME_COARSE, &now);
  Rendered& rendered = OfThread();  // Nothing below switches.
  if (now.tv_sec != rendered.second) {
    rendered.second = now.tv_sec;
    tm utc;
    ::gmtime_r(&rendered.second, &utc);
    // Names of days and months are those of the C locale, which nobody changes here.
    ::strftime(rendered.date.text_, sizeof(rendered.date.text_), "%a, %d %b %Y %H:%M:%S GMT", &utc);
  }
  return rendered.date;
}

}  // namespace weft::http
