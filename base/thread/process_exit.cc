// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/base/thread/process_exit.h"

#include <dlfcn.h>
#include <unwind.h>

#include <cstdint>
#include <cstring>

namespace weft::base {

namespace {

struct Search {
  const char* function;
  bool found = false;
};

_Unwind_Reason_Code LookAtFrame(_Unwind_Context* frame, void* argument) {
  auto* const search = static_cast<Search*>(argument);
  // A return address may lie behind its function, if that ends in a call that does not return: step back one byte.
  const auto address = static_cast<std::uintptr_t>(_Unwind_GetIP(frame)) - 1;
  Dl_info info{};
  if (dladdr(reinterpret_cast<const void*>(address), &info) == 0 || info.dli_sname == nullptr ||
      std::strcmp(info.dli_sname, search->function) != 0) {
    return _URC_NO_REASON;
  }
  search->found = true;
  return _URC_END_OF_STACK;
}

bool IsCalledBy(const char* function) noexcept {
  Search search{.function = function};
  _Unwind_Backtrace(&LookAtFrame, &search);
  return search.found;
}

}  // namespace

bool IsInExit() noexcept { return IsCalledBy("exit"); }

bool IsInThreadExit() noexcept { return IsCalledBy("pthread_exit") || IsCalledBy("_Unwind_ForcedUnwind"); }

}  // namespace weft::base
