// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/net/connect_to_host.h"

#include <utility>

#include "weft/net/name/connect_race.h"
#include "weft/net/resolver.h"

namespace weft::io {

std::error_code ConnectToFirst(std::span<const SocketAddress> addresses, TcpStream* stream,
                               std::chrono::nanoseconds attempt_delay, Deadline deadline) {
  if (addresses.size() == 1) return stream->Connect(addresses.front(), deadline);
  Descriptor socket;
  ConnectRace race(addresses, attempt_delay);
  if (const std::error_code error = race.Run(&socket, deadline)) return error;
  *stream = TcpStream(std::move(socket));
  return {};
}

std::error_code detail::ConnectToHost(const std::string& host, const std::string& service, TcpStream* stream,
                                      const ConnectOptions& options, Deadline deadline) {
  Resolver& resolver = options.resolver != nullptr ? *options.resolver : ProcessResolver();
  const ResolveResult found = resolver.Resolve(host, service, {.family = options.family}, deadline);
  if (!found.ok()) return found.error;
  TcpStream connected;
  std::error_code error =
      ConnectToFirst(AlternateFamilies(found.addresses), &connected, options.attempt_delay, deadline);
  if (!error) error = SetLiveness(&connected, options.keep_alive, options.user_timeout);
  if (!error) *stream = std::move(connected);
  return error;
}

}  // namespace weft::io
