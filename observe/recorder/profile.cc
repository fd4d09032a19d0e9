// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// ProfileOf(): a recording's times, added up. What stands for a stack: the fiber's name, or lock, waiter and who gave
// it up; the outermost first.

#include <cstdint>
#include <string>
#include <utility>

#include "weft/observe/flight_recorder.h"
#include "weft/observe/recorder/profile_writer.h"
#include "weft/observe/recorder/timeline.h"

namespace weft {
namespace observe {
namespace {

using scheduling_group::WaitKind;
using scheduling_group::WaitReason;

using Stack = ProfileStack;
using Totals = ProfileTotals;
using Total = ProfileTotal;

bool IsLock(WaitReason reason) { return reason.kind() == WaitKind::kMutex || reason.kind() == WaitKind::kSharedMutex; }

class Adder {
 public:
  explicit Adder(const RecordingData& data) : data_(data), timeline_(data) {}

  Totals Cpu() {
    for (const auto& turn : timeline_.turns) Add({data_.Name(turn.fiber)}, 1, turn.end - turn.begin);
    return std::move(totals_);
  }

  Totals Waits() {
    for (const auto& wait : timeline_.waits) {
      Add({data_.Name(wait.fiber), TextOf(wait.reason)}, 1, Waited(wait));
      if (wait.woken != Timeline::kUnknown) Add({data_.Name(wait.fiber), "ready"}, 1, EndOf(wait) - wait.woken);
    }
    for (const auto& wait : timeline_.sampled) {
      const auto weight = static_cast<std::int64_t>(wait.weight);
      Add({data_.Name(wait.fiber), TextOf(wait.reason)}, weight, weight * wait.waited);
    }
    return std::move(totals_);
  }

  Totals Locks() {
    for (const auto& wait : timeline_.waits) {
      if (!IsLock(wait.reason)) continue;
      const bool given = wait.woken != Timeline::kUnknown || wait.ran != Timeline::kUnknown;
      AddLock(wait.reason, wait.fiber, given ? Giver(wait.waker) : "not given yet", 1, Waited(wait));
    }
    for (const auto& wait : timeline_.sampled) {
      const auto weight = static_cast<std::int64_t>(wait.weight);
      if (IsLock(wait.reason)) AddLock(wait.reason, wait.fiber, Giver(wait.waker), weight, weight * wait.waited);
    }
    return std::move(totals_);
  }

 private:
  std::int64_t EndOf(const Timeline::Wait& wait) const {
    return wait.ran != Timeline::kUnknown ? wait.ran : data_.end_ns;
  }
  std::int64_t Waited(const Timeline::Wait& wait) const {
    return (wait.woken != Timeline::kUnknown ? wait.woken : EndOf(wait)) - wait.parked;
  }

  void Add(Stack stack, std::int64_t count, std::int64_t ns) {
    Total& total = totals_[std::move(stack)];
    total.count += count;
    total.ns += ns;
  }

  std::string Giver(std::uint64_t waker) const {
    return waker != 0 ? "given by " + data_.Name(waker) : "given by a thread";
  }
  void AddLock(WaitReason reason, std::uint64_t fiber, const std::string& giver, std::int64_t count, std::int64_t ns) {
    Add({TextOf(reason), data_.Name(fiber), giver}, count, ns);
  }

  const RecordingData& data_;
  const Timeline timeline_;
  Totals totals_;
};

Totals TotalsOf(const RecordingData& data, Profiled what) {
  Adder adder(data);
  switch (what) {
    case Profiled::kCpu:
      return adder.Cpu();
    case Profiled::kWaits:
      return adder.Waits();
    case Profiled::kLocks:
      return adder.Locks();
  }
  return {};
}

}  // namespace
}  // namespace observe

std::string ProfileOf(const Recording& recording, Profiled what, ProfileFormat format) {
  observe::Totals totals;
  if (recording.data() != nullptr) totals = observe::TotalsOf(*recording.data(), what);
  if (format == ProfileFormat::kFolded) return observe::WriteFolded({totals.begin(), totals.end()});
  return observe::WritePprof(totals, recording.length());
}

}  // namespace weft
