// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// What AddressSanitizer and ThreadSanitizer must be told of a switch; empty functions in ordinary builds.
//
// ASan keeps the bounds of the running stack (to tell a stack address from a wild one, and to unpoison on noreturn)
// and, with detect_stack_use_after_return, a "fake stack" per flow. The two calls of a switch:
//
//     leaving flow   AsanLeave(&own fake stack, TARGET's low end, TARGET's size)      just before the jump
//     arriving flow  AsanArrive(own fake stack)                                       just after it
//
// A flow that never comes back leaves with a null fake stack, so that ASan frees the fake frames. TSan has a handle per
// flow and needs only TsanLeave(target's handle) before the jump, with flag 0: a switch carries happens-before.
//
// SAN1  Nothing instrumented runs between the Leave calls and the jump, nor between the jump and AsanArrive(): the
//       functions that call them are WEFT_NO_SANITIZE.
// SAN2  A pool poisons a free stack and unpoisons it when it hands it out (stack_pool.cc): a dangling pointer into a
//       dead fiber's frames is reported, and the next fiber does not trip over red zones that the last one left.
#ifndef WEFT_CONTEXT_SWITCH_SANITIZER_H_
#define WEFT_CONTEXT_SWITCH_SANITIZER_H_

#include <cstddef>

#include "weft/base/thread/cpu.h"

#if WEFT_ASAN
#include <sanitizer/asan_interface.h>
#include <sanitizer/common_interface_defs.h>
#endif
#if WEFT_TSAN
#include <sanitizer/tsan_interface.h>
#endif

#if WEFT_ASAN || WEFT_TSAN
#define WEFT_NO_SANITIZE __attribute__((no_sanitize("address", "thread")))
#else
#define WEFT_NO_SANITIZE
#endif

namespace weft::context {

// `fake_stack` null: this flow never comes back.
WEFT_ALWAYS_INLINE void AsanLeave([[maybe_unused]] void** fake_stack, [[maybe_unused]] const void* target_low,
                                  [[maybe_unused]] std::size_t target_size) {
#if WEFT_ASAN
  __sanitizer_start_switch_fiber(fake_stack, target_low, target_size);
#endif
}

WEFT_ALWAYS_INLINE void AsanArrive([[maybe_unused]] void* fake_stack) {
#if WEFT_ASAN
  __sanitizer_finish_switch_fiber(fake_stack, nullptr, nullptr);
#endif
}

WEFT_ALWAYS_INLINE void AsanPoison([[maybe_unused]] const void* low, [[maybe_unused]] std::size_t size) {
#if WEFT_ASAN
  __asan_poison_memory_region(low, size);
#endif
}

WEFT_ALWAYS_INLINE void AsanUnpoison([[maybe_unused]] const void* low, [[maybe_unused]] std::size_t size) {
#if WEFT_ASAN
  __asan_unpoison_memory_region(low, size);
#endif
}

WEFT_ALWAYS_INLINE void* TsanCreate() {
#if WEFT_TSAN
  return __tsan_create_fiber(0);
#else
  return nullptr;
#endif
}

WEFT_ALWAYS_INLINE void* TsanCurrent() {
#if WEFT_TSAN
  return __tsan_get_current_fiber();
#else
  return nullptr;
#endif
}

WEFT_ALWAYS_INLINE void TsanLeave([[maybe_unused]] void* target) {
#if WEFT_TSAN
  __tsan_switch_to_fiber(target, 0);
#endif
}

WEFT_ALWAYS_INLINE void TsanDestroy([[maybe_unused]] void* handle) {
#if WEFT_TSAN
  __tsan_destroy_fiber(handle);
#endif
}

}  // namespace weft::context

#endif  // WEFT_CONTEXT_SWITCH_SANITIZER_H_
