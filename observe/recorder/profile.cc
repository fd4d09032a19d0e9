// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// ProfileOf(): a recording's times, added up. What stands for a stack: the fiber's name, or lock, waiter and who gave
// it up; the outermost first.
//
// pprof: message Profile of github.com/google/pprof/proto/profile.proto, of which these fields are written:
// 1 sample_type {1 type, 2 unit}, 2 sample {1 location_id, 2 value}, 4 location {1 id, 4 line {1 function_id}},
// 5 function {1 id, 2 name}, 6 string_table, 10 duration_nanos.

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "weft/observe/flight_recorder.h"
#include "weft/observe/recorder/timeline.h"

namespace weft {
namespace observe {
namespace {

using scheduling_group::WaitKind;
using scheduling_group::WaitReason;

struct Total {
  std::int64_t count = 0;
  std::int64_t ns = 0;
};
using Stack = std::vector<std::string>;  // the outermost first
using Totals = std::map<Stack, Total>;

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

std::string Folded(const Totals& totals) {
  std::string text;
  for (const auto& [stack, total] : totals) {
    std::string_view between;
    for (const std::string& frame : stack) {
      text += between;
      for (const char c : frame) text += c == ';' || c == '\n' ? '_' : c;
      between = ";";
    }
    text += ' ';
    text += std::to_string(total.ns / 1000);
    text += '\n';
  }
  return text;
}

// A message of a protocol buffer.
class Message {
 public:
  void Number(unsigned field, std::uint64_t value) {
    Varint(field << 3);
    Varint(value);
  }
  void Bytes(unsigned field, std::string_view bytes) {
    constexpr unsigned kLengthDelimited = 2;
    Varint(field << 3 | kLengthDelimited);
    Varint(bytes.size());
    bytes_ += bytes;
  }
  void Varint(std::uint64_t value) {
    for (; value >= 0x80; value >>= 7) bytes_ += static_cast<char>(value | 0x80);
    bytes_ += static_cast<char>(value);
  }
  const std::string& bytes() const { return bytes_; }

 private:
  std::string bytes_;
};

class PprofWriter {
 public:
  std::string Write(const Totals& totals, std::int64_t length) {
    static_cast<void>(StringAt(""));
    SampleType("events", "count");
    SampleType("time", "nanoseconds");
    for (const auto& [stack, total] : totals) {
      Message locations;
      for (auto frame = stack.rbegin(); frame != stack.rend(); ++frame) locations.Varint(LocationOf(*frame));
      Message values;
      values.Varint(static_cast<std::uint64_t>(total.count));
      values.Varint(static_cast<std::uint64_t>(total.ns));
      Message sample;
      sample.Bytes(1, locations.bytes());
      sample.Bytes(2, values.bytes());
      profile_.Bytes(2, sample.bytes());
    }
    for (const std::string& text : strings_) profile_.Bytes(6, text);
    profile_.Number(10, static_cast<std::uint64_t>(length));
    return profile_.bytes();
  }

 private:
  std::uint64_t StringAt(const std::string& text) {
    const auto [found, is_new] = string_numbers_.try_emplace(text, strings_.size());
    if (is_new) strings_.push_back(text);
    return found->second;
  }

  void SampleType(const char* type, const char* unit) {
    Message message;
    message.Number(1, StringAt(type));
    message.Number(2, StringAt(unit));
    profile_.Bytes(1, message.bytes());
  }

  // Its function has the same number.
  std::uint64_t LocationOf(const std::string& frame) {
    const auto [found, is_new] = locations_.try_emplace(frame, locations_.size() + 1);
    if (is_new) {
      Message line;
      line.Number(1, found->second);
      Message location;
      location.Number(1, found->second);
      location.Bytes(4, line.bytes());
      profile_.Bytes(4, location.bytes());
      Message function;
      function.Number(1, found->second);
      function.Number(2, StringAt(frame));
      profile_.Bytes(5, function.bytes());
    }
    return found->second;
  }

  Message profile_;
  std::vector<std::string> strings_;
  std::unordered_map<std::string, std::uint64_t> string_numbers_;
  std::unordered_map<std::string, std::uint64_t> locations_;
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
  if (format == ProfileFormat::kFolded) return observe::Folded(totals);
  return observe::PprofWriter().Write(totals, recording.length().count());
}

}  // namespace weft
