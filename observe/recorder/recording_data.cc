// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/observe/recorder/recording_data.h"

#include <algorithm>
#include <cstring>
#include <unordered_set>
#include <utility>

#include "weft/base/report/str_cat.h"
#include "weft/observe/dump/memory_reader.h"
#include "weft/scheduling_group/fiber/entity_pool.h"
#include "weft/scheduling_group/fiber/fiber_entity.h"

namespace weft::observe {
namespace {

using base::CycleScale;
using scheduling_group::EntityPool;
using scheduling_group::EventKind;
using scheduling_group::EventRing;
using scheduling_group::FiberEntity;
using scheduling_group::Recorder;
using scheduling_group::RecorderRing;
using scheduling_group::RecordLevel;
using Fibers = std::unordered_set<std::uint64_t>;

constexpr std::size_t kMostName = 256;
constexpr std::uint64_t kTime = (std::uint64_t{1} << Recorder::kTimeBits) - 1;

// Events without a time follow one that has it.
bool HasTime(EventKind kind) { return kind != EventKind::kWaited && kind != EventKind::kMarkValue; }

bool FirstIsFiber(EventKind kind) {
  switch (kind) {
    case EventKind::kParked:
    case EventKind::kYielded:
    case EventKind::kEnded:
    case EventKind::kEntered:
    case EventKind::kRan:
    case EventKind::kStarted:
    case EventKind::kWoken:
    case EventKind::kStolen:
    case EventKind::kMark:
      return true;
    default:
      return false;
  }
}

bool SecondIsFiber(EventKind kind) {
  return kind == EventKind::kYielded || kind == EventKind::kEnded || kind == EventKind::kStarted ||
         kind == EventKind::kWoken;
}

bool IsSwitch(EventKind kind) {
  return kind == EventKind::kParked || kind == EventKind::kYielded || kind == EventKind::kEnded ||
         kind == EventKind::kEntered;
}

class Reader {
 public:
  Reader(std::chrono::nanoseconds last, std::size_t most)
      : now_(CycleScale::Reading::Now()), scale_(Recorder::since(), now_), room_(most + 1) {
    data_.end_ns = Nanoseconds(now_.time);
    data_.begin_ns = last.count() < data_.end_ns ? data_.end_ns - last.count() : 0;
  }

  RecordingData Read() {
    data_.refused = Recorder::refused();
    is_full_ = Recorder::level() == RecordLevel::kFull;
    Recorder::Visit([this](const RecorderRing& ring) { ReadRing(ring); });
    if (!Earliest()) data_.begin_ns = data_.end_ns;
    FindNames();
    return std::move(data_);
  }

 private:
  static std::int64_t Nanoseconds(std::chrono::steady_clock::time_point time) {
    return time.time_since_epoch() / std::chrono::nanoseconds(1);
  }

  std::int64_t TimeOf(std::uint64_t word) const {
    const std::int64_t ago = CyclesAgo(now_.cycles, word);
    return Nanoseconds(scale_.TimeOf(now_.cycles - static_cast<std::uint64_t>(ago)));
  }

  void ReadRing(const RecorderRing& ring) {
    if (room_ == 0) return;
    words_.resize(ring.events.capacity());
    RecordedTrack track;
    std::size_t begin = 0;
    const std::size_t count = ring.Copy(words_.data(), &begin, &track.owner);
    track.open = is_full_ && ring.taken();
    std::string* name = nullptr;
    std::size_t parts = 0;
    bool in_part_of_name = true;  // Until something else comes: the name's begin may have been overwritten.
    for (std::size_t i = begin; i < begin + count && room_ != 0; ++i) {
      const auto [first, a, b] = words_[i];
      RecordedEvent event{.kind = static_cast<EventKind>(first >> Recorder::kTimeBits), .a = a, .b = b};
      if (event.kind == EventKind::kName) {
        if (in_part_of_name) continue;
        parts = name != nullptr && named_ == a ? parts + 1 : 0;
        name = &data_.names[a];
        named_ = a;
        if (parts == 0) name->clear();
        AddPart(name, b);
        continue;
      }
      in_part_of_name = false;
      name = nullptr;
      if (HasTime(event.kind)) {
        event.ns = TimeOf(first & kTime);
        if (event.ns < data_.begin_ns) {
          if (IsSwitch(event.kind)) track.running = a;
          continue;
        }
      } else {
        if (track.events.empty()) continue;
        event.ns = track.events.back().ns;
      }
      if (event.ns > data_.end_ns) event.ns = data_.end_ns;
      if (FirstIsFiber(event.kind) && a != 0) fibers_.insert(a);
      if (SecondIsFiber(event.kind) && b != 0) fibers_.insert(b);
      if (event.kind == EventKind::kMark) AddMark(b);
      track.events.push_back(event);
      --room_;
    }
    if (!track.open) track.running = 0;  // Not since then, perhaps.
    if (track.running != 0) fibers_.insert(track.running);
    if (track.running != 0 || !track.events.empty()) data_.tracks.push_back(std::move(track));
  }

  static void AddPart(std::string* name, std::uint64_t part) {
    char text[sizeof(part)];
    std::memcpy(text, &part, sizeof(part));
    name->append(text, ::strnlen(text, sizeof(text)));
  }

  void AddMark(std::uint64_t address) {
    const auto [mark, is_new] = data_.mark_names.try_emplace(address);
    if (is_new) mark->second = memory_.ReadString(address, kMostName);
    if (mark->second.empty()) mark->second = "(a name that is gone)";
  }

  bool Earliest() {
    std::int64_t earliest = data_.end_ns;
    for (const RecordedTrack& track : data_.tracks) {
      earliest = std::min(earliest, track.running != 0 ? data_.begin_ns : track.events.front().ns);
    }
    data_.begin_ns = earliest;
    return !data_.tracks.empty();
  }

  // As FiberReader does (DFR4): a name that is there after it was copied was there.
  void FindNames() {
    if (fibers_.empty()) return;
    EntityPool::ForEach([&](const FiberEntity* fiber) {
      const std::uint64_t id = fiber->id();
      if (!fibers_.contains(id) || data_.names.contains(id)) return;
      alignas(FiberEntity) unsigned char copies[2][sizeof(FiberEntity)];
      const auto address = reinterpret_cast<std::uintptr_t>(fiber);
      const auto copy = [&](int i) { return reinterpret_cast<const FiberEntity*>(copies[i]); };
      if (!memory_.Read(copies[0], address, sizeof(FiberEntity)) || copy(0)->name_address() == nullptr) return;
      std::string name = memory_.ReadString(reinterpret_cast<std::uintptr_t>(copy(0)->name_address()), kMostName);
      if (!memory_.Read(copies[1], address, sizeof(FiberEntity)) || copy(0)->id() != id || copy(1)->id() != id ||
          copy(0)->name_address() != copy(1)->name_address()) {
        return;
      }
      data_.names.emplace(id, std::move(name));
    });
  }

  const CycleScale::Reading now_;
  const CycleScale scale_;
  std::size_t room_;  // for so many more events
  RecordingData data_;
  MemoryReader memory_;
  Fibers fibers_;
  bool is_full_ = false;
  std::uint64_t named_ = 0;
  std::vector<EventRing::Words> words_;
};

}  // namespace

std::string RecordingData::Label(std::uint64_t fiber) const {
  const auto found = names.find(fiber);
  if (found == names.end()) return base::StrCat("fiber ", fiber);
  return base::StrCat("'", found->second, "' (id ", fiber, ")");
}

std::string RecordingData::Name(std::uint64_t fiber) const {
  const auto found = names.find(fiber);
  return found == names.end() ? "(unnamed)" : found->second;
}

RecordingData ReadRings(std::chrono::nanoseconds last, std::size_t most) { return Reader(last, most).Read(); }

}  // namespace weft::observe
