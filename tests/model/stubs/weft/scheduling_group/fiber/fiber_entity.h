// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Replaces scheduling_group/fiber/fiber_entity.h in model tests of sync and of run_queue.h: a fiber is a model
// thread, which sleeps on a parker.
#ifndef WEFT_SCHEDULING_GROUP_FIBER_FIBER_ENTITY_H_
#define WEFT_SCHEDULING_GROUP_FIBER_FIBER_ENTITY_H_

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include "weft/base/report/str_cat.h"
#include "weft/base/thread/atomic.h"
#include "weft/base/thread/thread_annotations.h"
#include "weft/scheduling_group/fiber/cancel_word.h"
#include "weft/tests/testing/interleave.h"

namespace weft::timer {
class TimerWorker;
}  // namespace weft::timer
namespace weft::synchronization {
struct CancelNode;
}  // namespace weft::synchronization

namespace weft::scheduling_group {

// Only its timers.
class SchedulingGroup {
 public:
  timer::TimerWorker* timers = nullptr;
  bool stopping() const noexcept { return false; }
};

struct FiberOwner {
  void (*on_exit)(FiberOwner* self) = nullptr;
};

struct StartOptions {
  FiberOwner* owner = nullptr;
  synchronization::CancelNode* scope = nullptr;
};

class FiberEntity {
 public:
  std::uint64_t id() const noexcept { return reinterpret_cast<std::uintptr_t>(this) / sizeof(FiberEntity); }
  const char* name() const noexcept { return ""; }
  SchedulingGroup* group() const noexcept { return group_; }
  void set_group(SchedulingGroup* group) noexcept { group_ = group; }

  FiberEntity* next = nullptr;  // run_queue.h's
  CancelWord cancel_word;
  base::Atomic<void*> current_wait{nullptr};
  synchronization::CancelNode* innermost_scope() const noexcept {
    return cancel_word.scoped() ? innermost_if_scoped.Read() : nullptr;
  }
  base::Plain<synchronization::CancelNode*> innermost_if_scoped = nullptr;
  void EnterFirstScope(synchronization::CancelNode* scope) noexcept {
    innermost_if_scoped = scope;
    cancel_word.BeginScoped();
  }
  void LeaveAllScopes() noexcept WEFT_NO_THREAD_SAFETY_ANALYSIS {
    cancel_word.lock();
    cancel_word.Unlock(0);
  }
  void set_exit_owner(FiberOwner* owner) noexcept { exit_owner = owner; }
  void (*yield_hook)(FiberEntity* self) = nullptr;  // for its next park
  FiberOwner* exit_owner = nullptr;
  model::Parker parker;

  static constexpr std::size_t kWaitStorage = 64;
  void* wait_storage() noexcept { return wait_storage_; }

 private:
  SchedulingGroup* group_ = nullptr;
  alignas(64) std::byte wait_storage_[kWaitStorage];
};

inline std::string DescribeFiber(std::string_view name, std::uint64_t id) {
  return base::StrCat("fiber '", name, "' (id ", id, ")");
}

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_FIBER_FIBER_ENTITY_H_
