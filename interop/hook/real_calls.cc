// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/interop/hook/real_calls.h"

#include <dlfcn.h>

#include <cstdlib>
#include <cstring>

namespace weft::hook {

namespace {

// A trivial type, and nothing switches while it is true.
thread_local bool is_finding = false;

}  // namespace

namespace real {
#define WEFT_DEFINE_REAL_CALL(name, type, number) constinit RealCall<type> name{#name, number};
WEFT_REAL_CALLS(WEFT_DEFINE_REAL_CALL)
#undef WEFT_DEFINE_REAL_CALL
}  // namespace real

void* FindRealCall(const char* name) noexcept {
  if (is_finding) return nullptr;
  is_finding = true;
  void* const found = ::dlsym(RTLD_NEXT, name);
  is_finding = false;
  if (found == nullptr) std::abort();  // Without it nothing could be said, either.
  return found;
}

// Before constructors that have no priority.
[[gnu::constructor(101)]] static void FindRealCalls() {
#define WEFT_FIND_REAL_CALL(name, type, number) static_cast<void>(real::name.Find());
  WEFT_REAL_CALLS(WEFT_FIND_REAL_CALL)
#undef WEFT_FIND_REAL_CALL
}

}  // namespace weft::hook
