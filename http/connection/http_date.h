// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// HttpDate: the time of day as HTTP writes it, for the field Date.
//
// Rendered once a second by each thread, from the coarse clock: one for all would need a lock, or a timer that wakes an
// idle process each second. A value, since a fiber may go on on another thread.
#ifndef WEFT_HTTP_CONNECTION_HTTP_DATE_H_
#define WEFT_HTTP_CONNECTION_HTTP_DATE_H_

#include <time.h>

#include <string_view>

namespace weft::http {

class HttpDate {
 public:
  // Any fiber and thread.
  static HttpDate Now();

  std::string_view text() const { return {text_, sizeof(text_) - 1}; }

 private:
  void Render(const tm& utc);

  char text_[30];  // "Sun, 06 Nov 1994 08:49:37 GMT"
};

}  // namespace weft::http

#endif  // WEFT_HTTP_CONNECTION_HTTP_DATE_H_
