// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// How a fiber that was made ready gets a worker, of its own group or, by stealing, of another one.
//
//   NotifyAfterPush(group)        any thread: unless a worker of the group searches already, wakes one that sleeps
//                                 (idle_workers.h). If all are busy: RequestSteal()
//   RequestSteal(loaded)          claims the nearest sleeper of the partners, tells it `loaded`, wakes it
//   ServeStealRequest(loaded)     that worker, first thing: steals a fiber there; if more wait, requests another steal
//   ForwardStealRequest(loaded)   a worker that was sent but has other work: sends another worker
//
// A NeighbourList names the groups that a group may steal from, nearest first. Its partners are those that have a slot
// in IdleGroups: it sends them steal requests, and its workers search them before they sleep. An idle group learns of
// work elsewhere only so, and by its workers' own searches (SG5). One worker at a time is on its way to a group
// (`steal_requested`), like a spinner within a group. Producers rely on it meanwhile, so a burst wakes one worker after
// the other.
//
// IdleGroups keeps two bits for each group, so that a search for a sleeper (SG4 in scheduling_group.h) reads one cache
// line, which no thread writes while all groups are busy, or all sleep now and then. Each NUMA node has a line of its
// own: groups that go to sleep on one node take no line from those who push on another, unless these steal across nodes
// (their masks have both), and then after their own node's. The two bits:
//
//   kSet        a worker of the group may sleep
//   kClearing   a thread finds out whether that is still so; counts as kSet meanwhile
//
//   worker, before it sleeps       producer, in need of a sleeper      producer that found none where kSet is set
//   ------------------------       ------------------------------      ------------------------------------------
//   set own bit in IdleWorkers     make the fiber ready                kSet -> kClearing
//   full fence                     full fence                          full fence
//   if kSet is not set, set it     look at both bits                   look at the group's IdleWorkers:
//   full fence                                                           if one sleeps, set kSet
//   last search                                                        clear kClearing
//
// Invariants
//   NO1  After a push and NotifyAfterPush(), or a push, a full fence and NotifyAfterFence(), a searching worker of the
//        group sees the fiber, or one is woken (IW1), or RS1 holds.
//   NO2  A group-local fiber requests no steal, since other groups may not run it, unless its push had hidden other
//        fibers from them (SchedulingPolicy::MustNotify()).
//   RS1  After a stealable fiber was made ready, a full fence and RequestSteal(), one of these holds: the worker on its
//        way sees the fiber when it steals; a worker going to sleep sees it in its last search; a sleeper is claimed
//        for it; no worker of a partner sleeps; or a worker of the fiber's own group searches (IW1).
//   RS2  A thread that sets steal_requested then claims a sleeper, or clears the flag again. The worker that was sent
//        clears it before it steals. After clearing it, a thread fences and searches, for producers that relied on it.
//   RS3  After announcing its sleep, a worker steals from each partner in which no worker searches, and finds what was
//        made ready before the fence, however many group-local fibers are in its way: it steals again until it has seen
//        as many fibers as waited there. (In between it naps. It is a sleeper meanwhile, and a claim ends the nap.)
//        HasStealable() only spares a steal in vain; group-local fibers make it true.
//   RS4  A worker that was sent and has stolen a fiber requests another steal if more wait, so all sleepers are reached
//        without further pushes. (Other thieves do so, too; they need not.)
//   IG1  While a worker sleeps, after its announcement and last search, kSet or kClearing is set: either the worker
//        sees that kSet was cleared, or the thread that clears it sees the worker.
//   IG2  A fiber made ready before the fence is seen by the worker's last search, or its producer sees the bit.
//   IG3  The thread that clears kSet sets kClearing in the same step, and only where kClearing is not set.
//   NL1  A list does not change, but its counters do. One worker writes those of itself and a neighbour.
//   NL2  Neighbours::Get() returns an empty list until Publish(), and then the one that was published.
//   NL3  A group never steals from a neighbour whose steal_every_n is 0, and sends it no request.
//   SG5  steal_every_n is the rate at which workers search another group without a request. SG4 does not depend on it,
//        except that 0 means never. Its clock is a worker's count of idle searches: a neighbour is due at the count
//        noted at the last attempt. Requests, last searches and the search after a success ignore the rate, but note
//        their attempts, so that they do not add to it.
//
// A Group, SchedulingGroup or that of tests/model/idle_loop_model.cc, has idle(), its IdleWorkers; idle_groups();
// slot(); partners(), nearest first; partner_mask(); steal_requested(); HasStealable(); MayStealFrom(loaded), true if
// `loaded` is a group that it steals from and does not outlive; Send(worker, loaded), which unparks with the request.
// Proven in tests/model/idle_loop_model.cc.
// Rejected: one line for all nodes (a push waits for it after each first sleep on another node:
// bench/results/scaling.md); a line for each group (a push reads as many); a counter of sleepers (each sleep writes the
// line); a bit that a group's first sleeper sets and its last one clears (as well, and clearing it late hides the next
// sleeper).
#ifndef WEFT_SCHEDULING_GROUP_IDLE_WAKE_AND_STEAL_H_
#define WEFT_SCHEDULING_GROUP_IDLE_WAKE_AND_STEAL_H_

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <span>
#include <vector>

#include "weft/base/report/check.h"
#include "weft/base/thread/atomic.h"
#include "weft/base/thread/cpu.h"
#include "weft/numa/memory/node_memory.h"
#include "weft/scheduling_group/idle/idle_workers.h"

namespace weft::scheduling_group {

// Announce(): a worker of the group. MayIdle(), Retract(): any thread.
class IdleGroups {
 public:
  static constexpr int kNoSlot = -1;        // such a group takes no part in this
  static constexpr int kLines = 8;          // two sockets of four nodes each
  static constexpr int kSlotsOfLine = 256;  // a cache line of bits
  static constexpr int kMaxSlots = kLines * kSlotsOfLine;

  // A set of groups.
  class Mask {
   public:
    // The nearest first: MayIdle() looks for them in this order.
    void Add(int slot) {
      std::size_t i = 0;
      while (i != count_ && parts_[i].word != WordOf(slot)) ++i;
      if (i == count_) parts_[count_++].word = WordOf(slot);
      parts_[i].bits |= (kSet | kClearing) << ShiftOf(slot);
    }
    bool Empty() const noexcept { return count_ == 0; }

   private:
    friend class IdleGroups;
    struct Part {
      std::size_t word = 0;
      std::uint64_t bits = 0;
    };
    std::size_t count_ = 0;
    std::array<Part, kMaxSlots / 32> parts_{};
  };

  constexpr IdleGroups() = default;

  // After the worker has set its bit in IdleWorkers, and a full fence.
  void Announce(int slot) noexcept {
    base::Atomic<std::uint64_t>& word = words_[WordOf(slot)];
    // relaxed, here and below: the fences order it, and it carries nothing.
    if ((word.load(std::memory_order_relaxed) & kSet << ShiftOf(slot)) == 0) {
      word.fetch_or(kSet << ShiftOf(slot), std::memory_order_relaxed);
    }
    // StoreLoad (IG2), also if another worker of the group has set it. Pairs with the fence of the producer.
    base::ThreadFence(std::memory_order_seq_cst);
  }

  // After a full fence.
  bool MayIdle(const Mask& mask) const noexcept {
    for (std::size_t i = 0; i < mask.count_; ++i) {
      const Mask::Part& part = mask.parts_[i];
      if ((words_[part.word].load(std::memory_order_relaxed) & part.bits) != 0) return true;
    }
    return false;
  }
  bool MayIdle(int slot) const noexcept {
    return (words_[WordOf(slot)].load(std::memory_order_relaxed) & (kSet | kClearing) << ShiftOf(slot)) != 0;
  }

  // The caller found no sleeper in the group. one_sleeps() looks again.
  template <class OneSleeps>
  void Retract(int slot, OneSleeps one_sleeps) noexcept {
    base::Atomic<std::uint64_t>& word = words_[WordOf(slot)];
    const std::uint64_t set = kSet << ShiftOf(slot);
    const std::uint64_t clearing = kClearing << ShiftOf(slot);
    std::uint64_t found = word.load(std::memory_order_relaxed);
    if ((found & (set | clearing)) != set) return;
    // If it fails, the next search in vain tries again.
    if (!word.compare_exchange_strong(found, (found & ~set) | clearing, std::memory_order_relaxed)) return;
    base::ThreadFence(std::memory_order_seq_cst);  // StoreLoad (IG1). Pairs with the worker's before Announce().
    if (one_sleeps()) word.fetch_or(set, std::memory_order_relaxed);
    word.fetch_and(~clearing, std::memory_order_relaxed);
  }

  // The group ends; it has no workers any more.
  void Forget(int slot) noexcept {
    words_[WordOf(slot)].fetch_and(~((kSet | kClearing) << ShiftOf(slot)), std::memory_order_relaxed);
  }

 private:
  static constexpr std::uint64_t kSet = 1;
  static constexpr std::uint64_t kClearing = 2;

  static constexpr std::size_t WordOf(int slot) noexcept { return static_cast<std::size_t>(slot) / 32; }
  static constexpr unsigned ShiftOf(int slot) noexcept { return static_cast<unsigned>(slot) % 32 * 2; }

  static_assert(kSlotsOfLine / 32 * sizeof(std::uint64_t) == base::kCacheLineSize);
  alignas(base::kCacheLineSize) std::array<base::Atomic<std::uint64_t>, kMaxSlots / 32> words_{};
};

// The slots that are taken. Constant-initialised and never destroyed, like IdleGroups.
class IdleGroupSlots {
 public:
  constexpr IdleGroupSlots() = default;

  // Of a node's line (any number, from 0). kNoSlot: too many groups have it.
  int Take(unsigned line) noexcept {
    const int first = static_cast<int>(line % IdleGroups::kLines) * IdleGroups::kSlotsOfLine;
    for (int slot = first; slot < first + IdleGroups::kSlotsOfLine; ++slot) {
      bool free = false;
      // acquire: pairs with the release in Return().
      if (taken_[static_cast<std::size_t>(slot)].compare_exchange_strong(free, true, std::memory_order_acquire)) {
        return slot;
      }
    }
    return IdleGroups::kNoSlot;
  }
  // release: Forget() comes before.
  void Return(int slot) noexcept { taken_[static_cast<std::size_t>(slot)].store(false, std::memory_order_release); }

 private:
  std::array<base::Atomic<bool>, IdleGroups::kMaxSlots> taken_{};
};

// Owns a group's slot while the group lives; kNoSlot: the group has none.
class IdleGroupSlot {
 public:
  // wanted: false: it is to have none. line: of the group's node.
  IdleGroupSlot(IdleGroups& groups, IdleGroupSlots& slots, bool wanted, unsigned line) noexcept
      : groups_(groups), slots_(slots), slot_(wanted ? slots.Take(line) : IdleGroups::kNoSlot) {}
  IdleGroupSlot(const IdleGroupSlot&) = delete;
  IdleGroupSlot& operator=(const IdleGroupSlot&) = delete;
  ~IdleGroupSlot() {
    if (slot_ == IdleGroups::kNoSlot) return;
    groups_.Forget(slot_);
    slots_.Return(slot_);
  }
  int Get() const noexcept { return slot_; }

 private:
  IdleGroups& groups_;
  IdleGroupSlots& slots_;
  const int slot_;
};

// Of one worker and one victim. The worker writes, any thread reads. relaxed throughout: statistics.
struct alignas(base::kCacheLineSize) StealCounters {
  std::atomic<std::uint64_t> attempts{0};
  std::atomic<std::uint64_t> stolen_in{0};
};

inline constexpr int kSameNodeDistance = 10;  // as in the ACPI table

// A Group has slot(), its place in IdleGroups. The list lies on its group's node: its workers read it at each search,
// and a push reads the mask.
template <class Group>
class NeighbourList : public numa::NodeAllocated {
 public:
  struct Neighbour {
    Group* group;
    // Without a request, steal at each n-th idle search (SG5); 0: never.
    unsigned steal_every_n;
    int distance = kSameNodeDistance;  // between the NUMA nodes of the two
    bool operator==(const Neighbour&) const = default;
  };

  // Of a group with so many workers.
  NeighbourList(std::span<const Neighbour> neighbours, unsigned workers, int node) {
    if (neighbours.empty()) return;
    neighbours_ = numa::NodeArray<Neighbour>(neighbours.size(), node);
    partners_ = numa::NodeArray<Group*>(neighbours.size(), node);
    counters_ = numa::NodeArray<StealCounters>(neighbours.size() * workers, node);
    std::copy(neighbours.begin(), neighbours.end(), neighbours_.objects().begin());
    all = neighbours_.objects();
    std::size_t count = 0;
    for (const Neighbour& neighbour : all) {
      if (neighbour.steal_every_n == 0 || neighbour.group->slot() == IdleGroups::kNoSlot) continue;
      partners_[count++] = neighbour.group;
      partner_mask.Add(neighbour.group->slot());
    }
    partners = partners_.objects().first(count);
  }

  StealCounters& counters(unsigned worker, std::size_t neighbour) const {
    return counters_[worker * all.size() + neighbour];
  }
  // For reports and tests.
  std::vector<std::span<const std::byte>> Memory() const {
    return {std::as_bytes(std::span(this, 1)), std::as_bytes(all), std::as_bytes(partners),
            std::as_bytes(counters_.objects())};
  }
  bool MayStealFrom(const Group& group) const noexcept {
    for (const Neighbour& neighbour : all) {
      if (neighbour.group == &group) return neighbour.steal_every_n != 0;
    }
    return false;
  }

  // Whether fibers of `group` may come to this one by adoption (AD3).
  bool MayAdoptFrom(const Group& group) const noexcept {
    for (const Neighbour& neighbour : all) {
      if (neighbour.group == &group) return neighbour.steal_every_n != 0 && neighbour.distance == kSameNodeDistance;
    }
    return false;
  }

  std::span<const Neighbour> all;
  std::span<Group* const> partners;
  IdleGroups::Mask partner_mask;

 private:
  numa::NodeArray<Neighbour> neighbours_;
  numa::NodeArray<Group*> partners_;
  numa::NodeArray<StealCounters> counters_;
};

// A group's present list.
template <class Group>
class Neighbours {
 public:
  using List = NeighbourList<Group>;

  // node: of the group.
  Neighbours(unsigned workers, int node) : workers_(workers), node_(node), none_({}, workers, node) {}

  // Any thread. acquire: the list. Pairs with the release in Publish().
  const List& Get() const noexcept { return *list_.load(std::memory_order_acquire); }

  // Once.
  void Publish(std::span<const typename List::Neighbour> neighbours) {
    WEFT_CHECK(published_ == nullptr, "SchedulingGroup::SetNeighbours: once");
    published_.reset(new (numa::OnNode{node_}) List(neighbours, workers_, node_));
    list_.store(published_.get(), std::memory_order_release);  // Pairs with the acquire in Get().
  }

 private:
  const unsigned workers_;
  const int node_;
  const List none_;
  std::unique_ptr<const List> published_;
  std::atomic<const List*> list_{&none_};
};

// A worker of the group is idle; it or IW1 takes care of the fiber.
template <class Group>
bool SomebodyIdles(Group& group) noexcept {
  return group.idle().spinners() != 0 || !group.idle().sleepers().Empty();
}

// A worker of a partner has announced its sleep. (The others' last search is still to come.)
template <class Group>
bool APartnerSleeps(Group& group) noexcept {
  for (Group* partner : group.partners()) {
    if (group.idle_groups().MayIdle(partner->slot()) && !partner->idle().sleepers().Empty() &&
        partner->MayStealFrom(group)) {
      return true;
    }
  }
  return false;
}

// The part of RequestSteal() after the caller's fence. False: no worker sleeps.
template <class Group>
bool SendNearestSleeper(Group& loaded) {
  for (Group* partner : loaded.partners()) {
    if (!loaded.idle_groups().MayIdle(partner->slot())) continue;
    if (!partner->idle().sleepers().Empty() && !partner->MayStealFrom(loaded)) continue;
    const int worker = partner->idle().ClaimSleeper();
    if (worker != IdleWorkers::kNobody) {
      partner->Send(static_cast<unsigned>(worker), &loaded);
      return true;
    }
    loaded.idle_groups().Retract(partner->slot(), [&] { return !partner->idle().sleepers().Empty(); });
  }
  return false;
}

// Any thread, after making a stealable fiber ready in `loaded`, and a full fence.
template <class Group>
void RequestSteal(Group& loaded) {
  if (SomebodyIdles(loaded) || !loaded.idle_groups().MayIdle(loaded.partner_mask())) return;
  do {
    // relaxed, all: the fences order them. The load first: a producer that relies on another takes no line.
    if (loaded.steal_requested().load(std::memory_order_relaxed)) return;
    if (!loaded.HasStealable()) return;  // For example, the fiber is in a hand-off slot.
    if (loaded.steal_requested().exchange(true, std::memory_order_relaxed)) return;
    if (SendNearestSleeper(loaded)) return;
    loaded.steal_requested().store(false, std::memory_order_relaxed);
    base::ThreadFence(std::memory_order_seq_cst);  // StoreLoad (RS2). Pairs with the producer's fence.
  } while (!SomebodyIdles(loaded) && APartnerSleeps(loaded));
}

// By the worker that was sent. steal(): from `loaded`.
template <class Group, class Steal>
auto ServeStealRequest(Group& loaded, Steal steal) {
  loaded.steal_requested().store(false, std::memory_order_relaxed);
  base::ThreadFence(std::memory_order_seq_cst);  // StoreLoad (RS2). Pairs with the producer's fence.
  auto fiber = steal();
  if (fiber != nullptr) RequestSteal(loaded);  // RS4
  return fiber;
}

template <class Group>
void ForwardStealRequest(Group& loaded) {
  loaded.steal_requested().store(false, std::memory_order_relaxed);
  base::ThreadFence(std::memory_order_seq_cst);  // StoreLoad (RS2). Pairs with the producer's fence.
  RequestSteal(loaded);
}

// 200 to 800 ns, by the processor, a small part of the cost of a wake-up. With 2 workers on 2 CPUs starts from two
// threads (bench/workload --workload=spawn_ext) take 0.90 to 0.99 of the time without it.
inline constexpr int kPausesBeforeWake = 16;

// A plain thread, between a push with a full fence and NotifyAfterFence(). A wake-up costs the thread a system call
// and, where CPUs are scarce, its CPU, which the kernel gives to the worker. If another worker is up it may come first:
// it ends a short fiber, takes the new one, and spins. workers: how many the group has.
inline void PauseBeforeWake(const IdleWorkers& idle, unsigned workers) noexcept {
  for (int i = kPausesBeforeWake; i > 0; --i) {
    if (idle.NobodyToWakeAfterFence() || idle.sleepers().Count() == workers) return;
    base::CpuRelax();
  }
}

// False: a worker searches already, or none sleeps.
template <class Group>
WEFT_NOINLINE bool WakeSleeper(Group& group) {
  const int worker = group.idle().ClaimWorkerToWake();
  if (worker == IdleWorkers::kNobody) return false;
  group.Send(static_cast<unsigned>(worker), &group);
  return true;
}

template <class Group>
WEFT_NOINLINE void RequestStealByPartners(Group& group) {
  RequestSteal(group);
}

// After a fence: the first check of RequestSteal(), without a call.
template <class Group>
WEFT_ALWAYS_INLINE bool APartnerMayIdle(Group& group) noexcept {
  return group.idle_groups().MayIdle(group.partner_mask());
}

// local: only this group may run the fiber; must_notify() is called only then.
template <class Group, class MustNotify>
WEFT_ALWAYS_INLINE void NotifyAfterFence(Group& group, bool local, MustNotify must_notify) {
  if (!group.idle().NobodyToWakeAfterFence()) [[unlikely]] {
    if (WakeSleeper(group)) return;
  }
  if (APartnerMayIdle(group) && (!local || must_notify())) RequestStealByPartners(group);  // NO2
}

template <class Group>
void NotifyAfterPush(Group& group) {
  if (!group.idle().NobodyToWake() && WakeSleeper(group)) return;
  if (APartnerMayIdle(group)) RequestStealByPartners(group);
}

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_IDLE_WAKE_AND_STEAL_H_
