// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/examples/serving/open_listener.h"

#include <charconv>
#include <optional>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "weft/io/socket_address.h"
#include "weft/net/systemd_listeners.h"

namespace examples {
namespace {

constexpr std::string_view kDescriptor = "fd:";

// Returns what is wrong, or nothing.
std::string TakeOnly(weft::io::TcpListener* listener) {
  constexpr std::string_view kNone = "no listening socket was handed over (LISTEN_PID, LISTEN_FDS)";
  std::vector<weft::io::SystemdListener> passed;
  if (const std::error_code error = weft::io::SystemdListeners(&passed)) {
    return std::string(kNone) + ": " + error.message();
  }
  if (passed.empty()) return std::string(kNone);
  if (passed.size() > 1) return "several sockets were handed over, and this program serves one";
  *listener = std::move(passed.front().listener);
  return {};
}

}  // namespace

int OpenListener(const std::string& where, weft::io::TcpListener* listener, std::string* why) {
  std::error_code error;
  if (where == "systemd") {
    *why = TakeOnly(listener);
    if (why->empty()) return 0;
    why->insert(0, "--listen=systemd: ");
    return 1;
  }
  if (where.starts_with(kDescriptor)) {
    int fd = -1;
    const char* const end = where.data() + where.size();
    const auto [parsed, bad] = std::from_chars(where.data() + kDescriptor.size(), end, fd);
    if (bad == std::errc() && parsed == end && fd >= 0) {
      error = listener->Adopt(fd);
      if (!error) return 0;
      *why = "--listen=" + where + ": it is no listening stream socket: " + error.message();
      return 1;
    }
  }
  const std::optional<weft::io::SocketAddress> address = weft::io::SocketAddress::Parse(where);
  if (!address) {
    *why = "--listen=" + where +
           ": expected 1.2.3.4:port, [v6]:port or unix:/path (no host names), fd:<number> or systemd";
    return 2;
  }
  error = listener->Listen(*address);
  if (!error) return 0;
  *why = "cannot listen on " + where + ": " + error.message();
  return 1;
}

}  // namespace examples
