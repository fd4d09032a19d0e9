// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// The writing side of the recorder: what each switch, wake and start pays for in kFull. (recorder.cc is compiled for
// size.)

#include <algorithm>
#include <cstring>

#include "weft/scheduling_group/events/recorder.h"
#include "weft/scheduling_group/fiber/fiber_entity.h"
#include "weft/scheduling_group/fiber/wait_reason.h"
#include "weft/scheduling_group/worker/current_worker.h"

namespace weft::scheduling_group {
namespace {

constexpr std::uint64_t kTime = (std::uint64_t{1} << Recorder::kTimeBits) - 1;

WEFT_ALWAYS_INLINE void WriteNow(EventRing* ring, EventKind kind, std::uint64_t a, std::uint64_t b) noexcept {
  const std::uint64_t time = base::CycleClock::Now() & kTime;
  ring->Write(static_cast<std::uint64_t>(kind) << Recorder::kTimeBits | time, a, b);
}

std::uint64_t IdOf(const FiberEntity* fiber) noexcept { return fiber != nullptr ? fiber->id() : 0; }

}  // namespace

WEFT_ALWAYS_INLINE EventRing* Recorder::RingFor(WorkerBase* worker) noexcept {
  if (worker != nullptr) {
    RecorderRing* const ring = worker->events;
    if (ring != nullptr && ring->events.capacity() >= wanted_.load(std::memory_order_relaxed)) [[likely]] {
      return &ring->events;
    }
  }
  return NewRingFor(worker);
}

WEFT_NOINLINE void Recorder::Switched(WorkerBase* worker, EventKind kind, const FiberEntity* next,
                                      std::uint64_t b) noexcept {
  if (EventRing* const ring = RingFor(worker)) WriteNow(ring, kind, IdOf(next), b);
}

WEFT_NOINLINE void Recorder::Ended(WorkerBase* worker, const FiberEntity* fiber, const char* name,
                                   const FiberEntity* next) noexcept {
  EventRing* const ring = RingFor(worker);
  if (ring == nullptr) return;
  constexpr std::size_t kMostOfName = 32;
  const std::size_t length = ::strnlen(name, kMostOfName);
  for (std::size_t at = 0; at < length; at += sizeof(std::uint64_t)) {
    std::uint64_t part = 0;
    std::memcpy(&part, name + at, std::min(length - at, sizeof(part)));
    WriteNow(ring, EventKind::kName, fiber->id(), part);
  }
  WriteNow(ring, EventKind::kEnded, IdOf(next), fiber->id());
}

WEFT_NOINLINE void Recorder::Ran(WorkerBase* worker, const FiberEntity* fiber) noexcept {
  if (level() != RecordLevel::kSampled) return;
  if (EventRing* const ring = RingFor(worker)) WriteNow(ring, EventKind::kRan, fiber->id(), 0);
}

WEFT_NOINLINE void Recorder::Started(WorkerBase* worker, const FiberEntity* fiber) noexcept {
  EventRing* const ring = RingFor(worker);
  if (ring == nullptr) return;
  WriteNow(ring, EventKind::kStarted, fiber->id(), worker != nullptr ? IdOf(worker->Waker()) : 0);
}

WEFT_NOINLINE void Recorder::Woken(WorkerBase* worker, const FiberEntity* fiber, bool sampled,
                                   unsigned shift) noexcept {
  EventRing* const ring = RingFor(worker);
  if (ring == nullptr) return;
  WriteNow(ring, EventKind::kWoken, fiber->id(), worker != nullptr ? IdOf(worker->Waker()) : 0);
  if (!sampled) return;
  // A fiber that found no stack has another stamp.
  const auto waited =
      fiber->ready_stamp ? 0 : static_cast<std::uint64_t>(ParkClock::Since(fiber->ready_stamp.word()).count());
  ring->Write(static_cast<std::uint64_t>(EventKind::kWaited) << kTimeBits, shift | waited << 8,
              fiber->wait_reason().word());
}

WEFT_NOINLINE WEFT_COLD void Recorder::NoteNow(EventKind kind, std::uint64_t a, std::uint64_t b) noexcept {
  if (EventRing* const ring = RingFor(CurrentWorker())) WriteNow(ring, kind, a, b);
}

WEFT_NOINLINE void Recorder::Mark(const char* name, std::uint64_t value) noexcept {
  WorkerBase* const worker = CurrentWorker();
  EventRing* const ring = RingFor(worker);
  if (ring == nullptr) return;
  const std::uint64_t fiber = worker != nullptr ? IdOf(worker->Waker()) : 0;
  WriteNow(ring, EventKind::kMark, fiber, reinterpret_cast<std::uintptr_t>(name));
  ring->Write(static_cast<std::uint64_t>(EventKind::kMarkValue) << kTimeBits, value, 0);
}

}  // namespace weft::scheduling_group
