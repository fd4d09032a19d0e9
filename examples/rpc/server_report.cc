// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/examples/rpc/server_report.h"

namespace weft::rpc {

void PrintServerReport(const Server::Counts& counts, std::ostream& out) {
  out << "connections " << counts.accepted_connections << ", refused " << counts.refused_connections
      << " (of their host too many " << counts.over_host_limit << "), vanished " << counts.vanished << ", idle "
      << counts.idle << "\n";
  out << "requests " << counts.requests << ", overloaded " << counts.overloaded << " (of their connection too many "
      << counts.over_connection_limit << ", memory " << counts.over_memory << "), late " << counts.late << ", bad "
      << counts.bad << ", after the stop " << counts.unavailable << "; frames sent " << counts.answers << " by "
      << counts.writes << " writes, reads " << counts.reads << "\n";
}

}  // namespace weft::rpc
