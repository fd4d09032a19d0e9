// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// LookAtDescriptors(): says in the log when nine of ten descriptors that the process may have are open, before accept()
// and connect() fail. Once, until there are fewer again.
//
// The kernel gives a new descriptor the lowest number that is free. So while the number at nine tenths of the limit is
// free, fewer are open, or have been; only if it is not are they counted. Nothing is opened for the first look: a
// library's thread that opens descriptors takes numbers that a program may rely on.
//
// Cost: two system calls of 0.1 us each. The Watchdog calls it every kLookEvery checks.
// Rejected: counting them each time (1,000 take 0.3 ms); a flag for the part (who has many knows `ulimit -n`).
#ifndef WEFT_SCHEDULING_GROUP_WATCH_DESCRIPTOR_WATCH_H_
#define WEFT_SCHEDULING_GROUP_WATCH_DESCRIPTOR_WATCH_H_

namespace weft::scheduling_group {

inline constexpr unsigned kLookEvery = 10;

void LookAtDescriptors();

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_WATCH_DESCRIPTOR_WATCH_H_
