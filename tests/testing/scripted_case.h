// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// ScriptedCase: a case of a selection (sync/select.h) that does in Enter() what the test says, and counts.
#ifndef WEFT_TESTS_TESTING_SCRIPTED_CASE_H_
#define WEFT_TESTS_TESTING_SCRIPTED_CASE_H_

#include <functional>

#include "weft/sync/select.h"
#include "weft/sync/wait/wait_queue.h"

namespace weft::testing {

class ScriptedCase final : public synchronization::SelectCase {
 public:
  explicit ScriptedCase(synchronization::Selection* selection) noexcept : SelectCase(selection) {}

  bool TryTake() noexcept override {
    ++tries;
    return false;
  }
  Entered Enter() noexcept override {
    ++entries;
    const Entered entered = on_enter ? on_enter() : Waits();
    if (entered == Entered::kWaits) ++left_to_leave;
    return entered;
  }
  void Leave() noexcept override { --left_to_leave; }
  bool Notified() noexcept override {
    --left_to_leave;
    ++notifications;
    return !is_hint;
  }

  // --- What on_enter() may return ---
  Entered Waits() noexcept {
    static_cast<void>(Waiting());
    return Entered::kWaits;
  }
  // A notifier comes at once, and wins unless another one has.
  Entered IsNotified() noexcept {
    static_cast<void>(Waiting());
    if (waiter().Claim(synchronization::WaitResult::kNotified)) {
      ++wins;
      waiter().Wake();
    }
    return Entered::kWaits;
  }
  // It was ready for a moment.
  Entered IsReady() noexcept { return ClaimSelf() ? Entered::kAnew : Entered::kDecided; }

  std::function<Entered()> on_enter;
  bool is_hint = false;  // a notification is none
  int tries = 0;
  int entries = 0;
  int wins = 0;
  int notifications = 0;
  int left_to_leave = 0;
};

}  // namespace weft::testing

#endif  // WEFT_TESTS_TESTING_SCRIPTED_CASE_H_
