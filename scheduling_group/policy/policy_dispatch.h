// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// PolicyDispatch: a group's policy. If it is built in, the functions that run at each switch and wake-up are inlined:
// by virtual calls a yield takes 1.08 of the time (22.8 ns, not 21.1; 29 instructions more), a hand-off 1.04 (33.6 ns,
// not 32.4; 45 more), a start 1.02 (9 to 18 more), with one worker, v1 or v2.
//
// Invariants
//   PD1  A function here has the same effect as its namesake of the policy, whatever the policy is: v1 and v2 are final
//        classes, so a call through a pointer to one of them is the virtual one.
#ifndef WEFT_SCHEDULING_GROUP_POLICY_POLICY_DISPATCH_H_
#define WEFT_SCHEDULING_GROUP_POLICY_POLICY_DISPATCH_H_

#include <memory>
#include <string_view>

#include "weft/base/thread/cpu.h"
#include "weft/scheduling_group/policy/policy_v1.h"
#include "weft/scheduling_group/policy/policy_v2.h"
#include "weft/scheduling_group/scheduling_policy.h"

namespace weft::scheduling_group {

class PolicyDispatch {
 public:
  // Aborts if no policy has the name.
  PolicyDispatch(std::string_view name, const SchedulingPolicy::Options& options);
  explicit PolicyDispatch(std::unique_ptr<SchedulingPolicy> policy);

  // For what does not run at each switch.
  SchedulingPolicy& operator*() const noexcept { return *policy_; }
  SchedulingPolicy* operator->() const noexcept { return policy_.get(); }

  // Written out: GCC does not inline lambdas that one function for all of them would call.
  WEFT_ALWAYS_INLINE void PushAndFence(FiberEntity* fiber, ReadyReason reason, int worker) {
    if (v2_ != nullptr) {
      v2_->PushAndFence(fiber, reason, worker);
    } else if (v1_ != nullptr) {
      v1_->PushAndFence(fiber, reason, worker);
    } else {
      policy_->PushAndFence(fiber, reason, worker);
    }
  }

  WEFT_ALWAYS_INLINE bool TryHandOffAndFence(FiberEntity* fiber, unsigned worker) noexcept {
    if (v2_ != nullptr) return v2_->TryHandOffAndFence(fiber, worker);
    if (v1_ != nullptr) return v1_->TryHandOffAndFence(fiber, worker);
    return policy_->TryHandOffAndFence(fiber, worker);
  }

  WEFT_ALWAYS_INLINE bool TryPushNewAndFence(FiberEntity* fiber, int worker) {
    if (v2_ != nullptr) return v2_->TryPushNewAndFence(fiber, worker);
    if (v1_ != nullptr) return v1_->TryPushNewAndFence(fiber, worker);
    return policy_->TryPushNewAndFence(fiber, worker);
  }

  WEFT_ALWAYS_INLINE FiberEntity* Pop(unsigned worker, bool* must_notify) {
    if (v2_ != nullptr) return v2_->Pop(worker, must_notify);
    if (v1_ != nullptr) return v1_->Pop(worker, must_notify);
    return policy_->Pop(worker, must_notify);
  }

 private:
  const std::unique_ptr<SchedulingPolicy> policy_;
  // At most one is not null: the policy, if it is that one.
  PolicyV1* const v1_;
  PolicyV2* const v2_;
};

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_POLICY_POLICY_DISPATCH_H_
