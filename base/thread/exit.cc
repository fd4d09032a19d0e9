// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/base/thread/exit.h"

#include <dlfcn.h>
#include <link.h>
#include <unwind.h>

#include <atomic>
#include <cstdint>
#include <cstring>

namespace weft::base {

bool ThreadEnd::Arm(void* argument) noexcept {
  static_assert(sizeof(pthread_key_t) == sizeof(std::uint32_t));
  // relaxed, all: a key is a number that carries nothing else.
  std::uint32_t key = key_.load(std::memory_order_relaxed);
  if (key == kNoKey) {
    PinThisLibrary();  // The function must be there when threads end.
    pthread_key_t made;
    if (::pthread_key_create(&made, function_) != 0) return false;
    if (key_.compare_exchange_strong(key, made, std::memory_order_relaxed)) {
      key = made;
    } else {
      ::pthread_key_delete(made);  // Another thread was faster; no thread has armed ours.
    }
  }
  return ::pthread_setspecific(key, argument) == 0;
}

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

bool PinLibraryOf(const void* address) noexcept {
  Dl_info info{};
  link_map* map = nullptr;
  if (::dladdr1(address, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP) == 0 || map == nullptr) return false;
  if (*map->l_name == '\0') return true;  // The program itself.
  // The handle is never given back.
  return ::dlopen(map->l_name, RTLD_LAZY | RTLD_NOLOAD) != nullptr;
}

void PinThisLibrary() noexcept {
  static constinit std::atomic<bool> is_pinned{false};
  if (is_pinned.load(std::memory_order_relaxed)) return;  // relaxed: twice does no harm.
  static_cast<void>(PinLibraryOf(reinterpret_cast<const void*>(&PinThisLibrary)));
  is_pinned.store(true, std::memory_order_relaxed);
}

}  // namespace weft::base
