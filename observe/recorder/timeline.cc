// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/observe/recorder/timeline.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <string_view>

#include "weft/base/report/str_cat.h"

namespace weft::observe {
namespace {

using scheduling_group::EventKind;
using scheduling_group::WaitReason;

struct Placed {
  const RecordedEvent* event;
  std::size_t track;
};

std::vector<Placed> InOrder(const RecordingData& data) {
  std::vector<Placed> all;
  for (std::size_t t = 0; t < data.tracks.size(); ++t) {
    for (const RecordedEvent& event : data.tracks[t].events) all.push_back({&event, t});
  }
  std::stable_sort(all.begin(), all.end(), [](const Placed& a, const Placed& b) { return a.event->ns < b.event->ns; });
  return all;
}

class Builder {
 public:
  Builder(const RecordingData& data, Timeline* timeline)
      : data_(data), timeline_(*timeline), open_(data.tracks.size()) {}

  void Build() {
    for (std::size_t t = 0; t < open_.size(); ++t) {
      if (data_.tracks[t].running != 0) open_[t] = {.fiber = data_.tracks[t].running, .begin = data_.begin_ns};
    }
    for (const Placed& placed : InOrder(data_)) Add(*placed.event, placed.track);
    for (std::size_t t = 0; t < open_.size(); ++t) {
      const RecordedTrack& track = data_.tracks[t];
      EndTurn(t, track.open || track.events.empty() ? data_.end_ns : track.events.back().ns, EventKind::kNone, {});
    }
    for (auto& [fiber, wait] : waiting_) timeline_.waits.push_back(wait);
  }

 private:
  struct Open {
    std::uint64_t fiber = 0;
    std::int64_t begin = 0;
  };

  void Add(const RecordedEvent& event, std::size_t track) {
    switch (event.kind) {
      case EventKind::kParked: {
        const std::uint64_t left = open_[track].fiber;
        const auto reason = WaitReason::FromWord(event.b);
        EndTurn(track, event.ns, event.kind, reason);
        if (left != 0) waiting_[left] = {.fiber = left, .parked = event.ns, .reason = reason};
        Enter(event, track);
        break;
      }
      case EventKind::kYielded:
      case EventKind::kEnded:
        open_[track].fiber = event.b;  // Also the first one.
        if (open_[track].begin == 0) open_[track].begin = event.ns;
        EndTurn(track, event.ns, event.kind, {});
        Enter(event, track);
        break;
      case EventKind::kEntered:
        EndTurn(track, event.ns, EventKind::kNone, {});
        Enter(event, track);
        break;
      case EventKind::kRan:
        Ran(event.a, event.ns, track);
        break;
      case EventKind::kStarted:
      case EventKind::kWoken:
        Ready(event, track);
        break;
      case EventKind::kWaited:
        Sampled(event, track);
        break;
      default:
        break;
    }
  }

  void EndTurn(std::size_t track, std::int64_t at, EventKind how, WaitReason reason) {
    Open& open = open_[track];
    if (open.fiber != 0) {
      timeline_.turns.push_back({.track = track,
                                 .fiber = open.fiber,
                                 .begin = open.begin,
                                 .end = std::max(at, open.begin),
                                 .how = how,
                                 .reason = reason});
    }
    open = {};
  }

  void Enter(const RecordedEvent& event, std::size_t track) {
    open_[track] = {.fiber = event.a, .begin = event.ns};
    if (event.a != 0) Ran(event.a, event.ns, track);
  }

  void Ran(std::uint64_t fiber, std::int64_t at, std::size_t track) {
    if (const auto found = waiting_.find(fiber); found != waiting_.end()) {
      found->second.ran = std::max(at, found->second.parked);
      timeline_.waits.push_back(found->second);
      waiting_.erase(found);
    }
    if (const auto found = ready_.find(fiber); found != ready_.end()) {
      Timeline::Wake& wake = timeline_.wakes[found->second];
      wake.to_track = track;
      wake.ran = std::max(at, wake.at);
      ready_.erase(found);
    }
  }

  void Ready(const RecordedEvent& event, std::size_t track) {
    if (const auto found = waiting_.find(event.a); found != waiting_.end()) {
      found->second.woken = std::max(event.ns, found->second.parked);
      found->second.waker = event.b;
    }
    ready_[event.a] = timeline_.wakes.size();
    timeline_.wakes.push_back({.start = event.kind == EventKind::kStarted,
                               .fiber = event.a,
                               .waker = event.b,
                               .from_track = track,
                               .at = event.ns});
  }

  // It belongs to the wake before it on its track, which has the same time.
  void Sampled(const RecordedEvent& event, std::size_t track) {
    for (auto wake = timeline_.wakes.rbegin(); wake != timeline_.wakes.rend() && wake->at == event.ns; ++wake) {
      if (wake->from_track != track) continue;
      timeline_.sampled.push_back({.fiber = wake->fiber,
                                   .waker = wake->waker,
                                   .weight = std::uint64_t{1} << (event.a & 63),
                                   .waited = static_cast<std::int64_t>(event.a >> 8) * 1'000'000,
                                   .reason = WaitReason::FromWord(event.b)});
      return;
    }
  }

  const RecordingData& data_;
  Timeline& timeline_;
  std::vector<Open> open_;
  std::unordered_map<std::uint64_t, Timeline::Wait> waiting_;
  std::unordered_map<std::uint64_t, std::size_t> ready_;  // a fiber's last wake
};

}  // namespace

std::string TextOf(WaitReason reason) {
  std::string kind = ToString(reason.kind());
  if (reason.of_descriptor()) return base::StrCat(kind, " ", reason.object());
  if (reason.object() == 0) return kind;
  std::array<char, 16> digits{};
  const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), reason.object(), 16);
  return base::StrCat(kind, " 0x", std::string_view(digits.data(), static_cast<std::size_t>(end.ptr - digits.data())));
}

Timeline::Timeline(const RecordingData& data) { Builder(data, this).Build(); }

}  // namespace weft::observe
