// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/net/systemd_listeners.h"

#include <unistd.h>

#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>
#include <utility>

namespace weft::io {
namespace {

constexpr int kFirst = 3;       // SD_LISTEN_FDS_START
constexpr long kMost = 100000;  // descriptors, to keep a wrong number from being a long loop

std::optional<long> Number(std::string_view text) {
  long number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return number;
}

}  // namespace

std::error_code SystemdListeners(std::vector<SystemdListener>* listeners) {
  listeners->clear();
  const char* const pid_text = std::getenv("LISTEN_PID");
  const char* const count_text = std::getenv("LISTEN_FDS");
  if (pid_text == nullptr || count_text == nullptr) return {};
  const std::optional<long> pid = Number(pid_text);
  const std::optional<long> count = Number(count_text);
  if (!pid || !count || *count < 0 || *count > kMost) return std::make_error_code(std::errc::invalid_argument);
  if (*pid != ::getpid()) return {};
  const int end = kFirst + static_cast<int>(*count);
  for (int fd = kFirst; fd < end; ++fd) {
    if (const std::error_code error = TcpListener::CheckAdoptable(fd)) return error;
  }
  const char* const names_text = std::getenv("LISTEN_FDNAMES");
  std::string_view names = names_text == nullptr ? "" : names_text;
  std::vector<SystemdListener> all;
  for (int fd = kFirst; fd < end; ++fd) {
    const std::string_view name = names.substr(0, names.find(':'));
    names.remove_prefix(names.size() == name.size() ? name.size() : name.size() + 1);
    all.push_back({.name = std::string(name), .listener = {}});
    if (const std::error_code error = all.back().listener.Adopt(fd)) return error;
  }
  *listeners = std::move(all);
  return {};
}

}  // namespace weft::io
