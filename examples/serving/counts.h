// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// NamedCounts: what a server has counted, for its /stats and for the report at its end.
#ifndef WEFT_EXAMPLES_SERVING_COUNTS_H_
#define WEFT_EXAMPLES_SERVING_COUNTS_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/io/tcp_server.h"

namespace examples {

using NamedCounts = std::vector<std::pair<std::string_view, std::uint64_t>>;

inline NamedCounts Named(const weft::io::TcpServer::Counts& counts) {
  return {{"accepted", counts.accepted},
          {"refused", counts.refused},
          {"over_host_limit", counts.over_host_limit},
          {"timed_out", counts.timed_out},
          {"open", counts.open}};
}

// {"accepted":5,"refused":0}
inline std::string ToJson(const NamedCounts& counts) {
  std::string text;
  for (const auto& [name, count] : counts) {
    text.append(text.empty() ? "{\"" : ",\"").append(name).append("\":").append(std::to_string(count));
  }
  return text + '}';
}

// 5 accepted, 0 refused
inline std::string ToLine(const NamedCounts& counts) {
  std::string text;
  for (const auto& [name, count] : counts) {
    text.append(text.empty() ? "" : ", ").append(std::to_string(count)).append(" ").append(name);
  }
  return text;
}

}  // namespace examples

#endif  // WEFT_EXAMPLES_SERVING_COUNTS_H_
