// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/collect.h"

namespace weft::fiber::detail {

void ChildGroup::Await() {
  scope_.Wait();
  // Cancelled from outside, while this fiber unwinds, so that Wait() does not say so: there are no results.
  if (!scope_.IsCancelled() && scope_.Cancelled() != 0) throw FiberCancelled(/*by_deadline=*/false);
}

}  // namespace weft::fiber::detail
