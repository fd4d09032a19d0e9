// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// What the admin pages show, as JSON: OverviewJson(), what the scheduler and the process count; MachineJson(), CPUs and
// threads, as /sys and /proc have them; FlagsJson(), the flags of gflags, and SetFlag().
//
// Times are in nanoseconds, of the monotonic clock. Counts begin with the process: a browser makes rates of two
// answers.
//
// Any fiber and thread. MachineJson() reads files, some 50 us for each CPU and thread.
#ifndef WEFT_HTTP_ADMIN_VIEWS_H_
#define WEFT_HTTP_ADMIN_VIEWS_H_

#include <string>
#include <string_view>

namespace weft::http {

std::string OverviewJson(std::string_view title);
std::string MachineJson();
std::string FlagsJson(bool may_change);
// "name=value". False: *why is a line that says why.
[[nodiscard]] bool SetFlag(std::string_view assignment, std::string* why);

}  // namespace weft::http

#endif  // WEFT_HTTP_ADMIN_VIEWS_H_
