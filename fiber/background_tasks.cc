// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/fiber/background_tasks.h"

#include <mutex>
#include <string_view>

#include "weft/base/report/check.h"
#include "weft/base/report/log.h"
#include "weft/fiber/this_fiber.h"
#include "weft/sync/cancel_scope.h"

namespace weft {

BackgroundTasks::~BackgroundTasks() {
  Close();
  Shielded([this] { Wait(); });
}

void BackgroundTasks::Wait() {
  if (!scope_.core_.CheckWillEnd("BackgroundTasks")) return;
  std::unique_lock lock(mutex_);
  none_left_.wait(lock, [this] { return count_ == 0; });
}

bool BackgroundTasks::Wait(Deadline deadline) {
  if (deadline.is_none() && !scope_.core_.CheckWillEnd("BackgroundTasks")) return false;
  std::unique_lock lock(mutex_);
  return none_left_.wait(
      lock, [this] { return count_ == 0; }, deadline);
}

void BackgroundTasks::Close() {
  std::scoped_lock lock(mutex_);
  closed_ = true;
}

std::size_t BackgroundTasks::Count() const {
  std::scoped_lock lock(mutex_);
  return count_;
}

bool BackgroundTasks::Enter() {
  std::scoped_lock lock(mutex_);
  if (closed_) return false;
  ++count_;
  return true;
}

void BackgroundTasks::Leave() noexcept {
  std::scoped_lock lock(mutex_);
  if (--count_ == 0) none_left_.notify_all();  // Under the lock: BT2.
}

void BackgroundTasks::LogException(const char* text) {
  const std::string_view name = GetFiberName();
  WEFT_LOG_EVERY_SECOND(ERROR, "BackgroundTasks: the task ", name.empty() ? base::kUnnamedFiber : name,
                        " threw: ", text);
}

}  // namespace weft
