// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Recorder: what workers and other threads write into their event rings (event_ring.h), and how much of it.
//
//   kOff       nothing
//   kSampled   what happens seldom: sleeps, steals, polls, timers, cancellations, marks. Of wakes and starts those that
//              ready_wait samples anyway (watch/wait_samples.h: one each 10 to 20 us of a thread), and when their
//              fibers run
//   kFull      each wake, start and switch
//
// Where the level is asked for: GroupAttention's byte has a bit for kFull.
//
//   switch        a worker tests that byte anyway before it takes a fiber, or lets one end: nothing
//   wake, start   test it: two instructions, on a line that they read anyway
//   a sample      asks for the level, in SchedulingGroup::StampFiber()
//
// Rings. Each worker, and each other thread that has something to say, takes one when it first writes. They are the
// process's: never unmapped, and given on when their threads end. Until then what they hold can be read, also when the
// runtime has ended. A ring of a worker is as large as the level asks for; where a larger one is asked for later, it
// takes another one. Without memory nothing is written (refused()), until the level is set anew.
//
// Invariants
//   REC1  A ring has one owner, which alone writes (EventRing): taken_ is set by a compare-and-swap, and given back by
//         the owner's thread.
//   REC2  What one owner has written is never shown as another's: `owner` is stored after `first`, the number of its
//         first event, and before its events. A reader copies, and then reads `owner`, then `first`.
//   REC3  The list of rings only grows, at its head. So it is read without a lock: in a forked child, too.
//
// Cost: some 10 ns an event, nearly all of it CycleClock's. A switch is one event and one reading: what ends a turn
// begins the next one. Turns, waits and their lengths are derived by readers (observe/recorder/timeline.h).
// docs/how-to/flight-recorder.md has the figures of whole operations.
// Memory: kRingOfWorker events of 24 bytes for each worker, and kRingOfThread for each other thread; pages that were
// never written cost nothing.
//
// SetLevel(), Visit(), statistics: any thread. The rest: the owner of the ring; `worker` is CurrentWorker().
// Rejected: to make the countdown of the sampler run out at each push (nothing to pay at a wake, but a yield took 50
// instructions more in kFull, and threads began with their next sample only); a clock read once in several events (a
// long turn would be smeared over its neighbours, and it is what one looks for); one reading for a wake and the switch
// after it (nobody knows without the clock whether they are near: a fiber that wakes another one and then computes for
// 10 ms would seem to have woken it 10 ms late).
#ifndef WEFT_SCHEDULING_GROUP_EVENTS_RECORDER_H_
#define WEFT_SCHEDULING_GROUP_EVENTS_RECORDER_H_

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "weft/base/thread/cpu.h"
#include "weft/base/time/cycle_clock.h"
#include "weft/scheduling_group/events/event_ring.h"

namespace weft::scheduling_group {

class FiberEntity;
class RecorderRing;
struct WorkerBase;

enum class RecordLevel : std::uint8_t { kOff, kSampled, kFull };

// The first word of an event is its kind and its time: 8 bits, and the low 56 bits of CycleClock (277 days). `a`, `b`
// are the other two. A fiber is its id; 0 is none.
enum class EventKind : std::uint8_t {
  kNone = 0,
  // A worker left a fiber, and entered `a`; 0: its loop.
  kParked,   // b: the WaitReason of the one that it left
  kYielded,  // b: the one that it left
  kEnded,    // b: the same
  kEntered,  // from its loop
  kRan,      // it entered `a`, whose wake was a sample
  // By whoever writes.
  kStarted,    // a was made ready for the first time, b: by this one; 0: by a thread
  kWoken,      // a, b: by this one; 0: by a thread, or a poll
  kWaited,     // behind a kWoken that is a sample: a: log2 of its weight, and << 8 how long it had waited, in ms;
               // b: its WaitReason
  kStolen,     // a, b: the group it came from
  kSlept,      // a worker goes to sleep. a: 1: in the poll
  kGotUp,      // a: 1: for work
  kPolled,     // a: events of descriptors that a poll brought
  kTimers,     // a: fibers made ready, b: callbacks
  kCancelled,  // a: CancelReason, b: the scope, an address
  kMark,       // a: the fiber, b: the address of the name. A kMarkValue follows
  kMarkValue,  // a: the value
  kName,       // of fiber a, b: 8 bytes of its name, which go on in the next one; at most 32; 0: its end
  kCount,
};

class Recorder {
 public:
  static constexpr std::size_t kRingOfWorker = std::size_t{1} << 13;
  static constexpr std::size_t kRingOfThread = std::size_t{1} << 10;
  static constexpr std::size_t kMostEvents = std::size_t{1} << 24;
  static constexpr std::size_t kMostRings = 4096;
  static constexpr unsigned kMostWorkers = 128;  // of a group
  static constexpr int kTimeBits = 56;

  // events_of_worker: at least so many, rounded up to a power of two.
  static void SetLevel(RecordLevel level, std::size_t events_of_worker = kRingOfWorker) noexcept;
  // relaxed: carries nothing.
  static RecordLevel level() noexcept { return level_.load(std::memory_order_relaxed); }
  static bool on() noexcept { return level() != RecordLevel::kOff; }

  // --- For worker.cc, and where fibers are made ready ---
  // The caller has seen that a group records switches.
  static void Switched(WorkerBase* worker, EventKind kind, const FiberEntity* next, std::uint64_t b) noexcept;
  // name: empty: it has none.
  static void Ended(WorkerBase* worker, const FiberEntity* fiber, const char* name, const FiberEntity* next) noexcept;
  // By a worker that has left a fiber: nothing if that was no sample, or each switch is recorded.
  static void Ran(WorkerBase* worker, const FiberEntity* fiber) noexcept;
  // Of a fiber before its push; worker: nullptr: a thread. `sampled`: with the reason and the weight, 2^shift.
  static void Started(WorkerBase* worker, const FiberEntity* fiber) noexcept;
  static void Woken(WorkerBase* worker, const FiberEntity* fiber, bool sampled, unsigned shift) noexcept;

  // --- Anybody ---
  // Nothing if the level is kOff.
  static void Note(EventKind kind, std::uint64_t a, std::uint64_t b) noexcept {
    if (on()) [[unlikely]] {
      NoteNow(kind, a, b);
    }
  }
  static void Mark(const char* name, std::uint64_t value) noexcept;

  // The worker's thread ends, or its loop.
  static void Retire(WorkerBase* worker) noexcept;

  // --- For readers ---
  struct Owner {
    bool worker = false;       // else another thread
    int group = 0;             // of a worker, both
    unsigned index = 0;        // in the group
    std::uint32_t thread = 0;  // the system's number
    bool operator==(const Owner&) const = default;
  };
  // Calls visit(const RecorderRing&) for each ring that has ever been written.
  template <class Visitor>
  static void Visit(Visitor visit);
  // When the first ring was made. Zero: none was.
  static base::CycleScale::Reading since() noexcept;
  static std::size_t refused() noexcept { return refused_.load(std::memory_order_relaxed); }

 private:
  static void NoteNow(EventKind kind, std::uint64_t a, std::uint64_t b) noexcept;
  static EventRing* RingFor(WorkerBase* worker) noexcept;
  static EventRing* NewRingFor(WorkerBase* worker) noexcept;
  static RecorderRing* Take(std::uint64_t owner, std::size_t capacity) noexcept;
  static RecorderRing* Make(std::size_t capacity) noexcept;
  static void ThreadEnds(void* ring) noexcept;

  static constinit std::atomic<RecordLevel> level_;
  static constinit std::atomic<bool> no_memory_;
  static constinit std::atomic<std::size_t> wanted_;   // events of a worker's ring
  static constinit std::atomic<RecorderRing*> rings_;  // the head of the list
  static constinit std::atomic<std::size_t> ring_count_;
  static constinit std::atomic<std::size_t> refused_;
};

class RecorderRing {
 public:
  // slots: zero, and so is the rest.
  RecorderRing(EventRing::Slot* slots, std::size_t capacity) noexcept : events(slots, capacity) {}

  // The owner at the end of the copy, whose events they are; REC2. Room for events.capacity().
  std::size_t Copy(EventRing::Words* out, std::size_t* begin, Recorder::Owner* owner) const noexcept;

  // Somebody owns it. relaxed: carries nothing.
  bool taken() const noexcept { return taken_.load(std::memory_order_relaxed); }

  EventRing events;

 private:
  friend class Recorder;
  base::Atomic<std::uint64_t> owner_{0};
  base::Atomic<std::uint64_t> first_{0};
  base::Atomic<bool> taken_{true};
  RecorderRing* next_ = nullptr;
};

template <class Visitor>
void Recorder::Visit(Visitor visit) {
  // acquire: what Make() has made. Pairs with its release.
  for (const RecorderRing* ring = rings_.load(std::memory_order_acquire); ring != nullptr; ring = ring->next_)
    visit(*ring);
}

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_EVENTS_RECORDER_H_
