// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/base/thread/pin_library.h"

#include <dlfcn.h>
#include <link.h>

#include <atomic>

namespace weft::base {

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
