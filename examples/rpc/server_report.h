// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Prints what a server has counted, in two lines.
#ifndef WEFT_EXAMPLES_RPC_SERVER_REPORT_H_
#define WEFT_EXAMPLES_RPC_SERVER_REPORT_H_

#include <ostream>

#include "weft/examples/rpc/rpc_server.h"

namespace weft::rpc {

// All of them but what is so only now: connections and in_flight.
void PrintServerReport(const Server::Counts& counts, std::ostream& out);

}  // namespace weft::rpc

#endif  // WEFT_EXAMPLES_RPC_SERVER_REPORT_H_
