// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/examples/serving/admin.h"

#include <gflags/gflags.h>

#include <iostream>

DEFINE_string(admin, "", "Where to serve the admin pages, as in 127.0.0.1:8081; port 0: any free one. Empty: nowhere.");
DEFINE_bool(admin_any_address, false, "Serve them also where others can reach them, who then see all of the process.");
DEFINE_bool(admin_may_change, false, "Flags may be set there.");

namespace examples {

bool Admin::Listen(std::string* why) {
  if (FLAGS_admin.empty()) return true;
  server_.emplace(weft::http::AdminServer::Options{
      .pages = {.title = name_, .may_change = FLAGS_admin_may_change, .metrics = metrics_},
      .any_address = FLAGS_admin_any_address});
  if (server_->Listen(FLAGS_admin, why)) return true;
  server_.reset();
  why->insert(0, "--admin: ");
  return false;
}

bool Admin::Start() {
  if (!server_.has_value()) return true;
  if (!server_->Start()) return false;
  std::cout << name_ << ": admin pages at " << server_->url() << std::endl;
  return true;
}

}  // namespace examples
