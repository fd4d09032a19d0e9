// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Admin: the admin pages (weft/http/admin_server.h) of a server among the examples, by flags:
//
// --admin               where, as in 127.0.0.1:8081; port 0 lets the kernel choose. "<name>: admin pages at
//                       http://127.0.0.1:41234/" on standard output tells the address. Empty, the default: nowhere
// --admin_any_address   also where others can reach them
// --admin_may_change    flags may be set there
#ifndef WEFT_EXAMPLES_SERVING_ADMIN_H_
#define WEFT_EXAMPLES_SERVING_ADMIN_H_

#include <functional>
#include <optional>
#include <string>

#include "weft/http/admin_server.h"
#include "weft/observe/metrics.h"

namespace examples {

class Admin {
 public:
  // `metrics`: of the program, beside those of the runtime.
  explicit Admin(std::string name, std::function<void(weft::MetricsText*)> metrics = {})
      : name_(std::move(name)), metrics_(std::move(metrics)) {}

  // As the flags say. False: *why is a line that says what cannot be.
  [[nodiscard]] bool Listen(std::string* why);
  // Two steps of Listen()'s success, which do nothing if there are no pages: in a runtime, and before it ends.
  [[nodiscard]] bool Start();
  void Stop() { server_.reset(); }

 private:
  const std::string name_;
  const std::function<void(weft::MetricsText*)> metrics_;
  std::optional<weft::http::AdminServer> server_;
};

}  // namespace examples

#endif  // WEFT_EXAMPLES_SERVING_ADMIN_H_
