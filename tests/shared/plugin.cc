// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// A plugin with a fiber-local variable and an execution-local one. There are two of it, so that two libraries have
// variables of the same types.

#include "weft/weft.h"

namespace plugin {

struct Counter {
  ~Counter() { count = 0; }
  int count = 0;
};

}  // namespace plugin

extern "C" int CountByFiber() {
  static weft::FiberLocal<plugin::Counter> counter;
  return ++counter->count;
}

extern "C" int CountByContext() {
  static weft::FiberExecutionLocal<plugin::Counter> counter;
  return ++counter->count;
}
