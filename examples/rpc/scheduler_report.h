// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// PrintSchedulerReport: what the scheduler has counted since the runtime was started, a line for each group. Any fiber
// or thread while the runtime runs.
#ifndef WEFT_EXAMPLES_RPC_SCHEDULER_REPORT_H_
#define WEFT_EXAMPLES_RPC_SCHEDULER_REPORT_H_

#include <ostream>

namespace weft::rpc {

void PrintSchedulerReport(std::ostream& out);

}  // namespace weft::rpc

#endif  // WEFT_EXAMPLES_RPC_SCHEDULER_REPORT_H_
