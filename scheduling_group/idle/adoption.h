// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Adoption: two fibers of different groups that wake each other in turn come together in one group.
//
// A steal often parts such a pair. Each hand-off then goes through the other group's queue, at several times the CPU
// time (bench/workload --workload=pairs), and while all workers are busy nobody steals either fiber back. So a fiber
// that has taken turns with another one for kTurnsOfPair wakes takes it into its own group.
//
// Each fiber has a mark: the other fiber of its last wake across groups, and how many turns the two had taken then.
//
//      A wakes B     A: (B, 0)    B: (A, 1)        0: this one woke the other
//      B wakes A     B: (A, 0)    A: (B, 2)
//      A wakes B     A: (B, 0)    B: (A, 3)        and so on
//
// A wake that is out of turn begins anew: by a fiber that was not woken by the one that it wakes, or where either had
// to do with another fiber of another group meanwhile. Any other wake empties the mark of the fiber that it wakes: one
// within a group, of several fibers at once, or by a thread, a timer or a poller.
//
// So a fiber that serves many, or asks many, or wakes on without an answer, is no member of a pair. Nor are two that
// run at the same time: the one that finds its answer there already does not wait, and is not woken.
//
//   waker's worker                              other workers
//   --------------                              -------------
//   OnWoken(): the fiber is the waker's         take what is in the queues, and steal
//   fiber.group = the waker's group
//   pushes into that group's queue; full fence  a worker that takes the fiber sees its group
//   notifies, as after any push                 a sleeper of any partner is sent to steal it (RS1)
//
// Invariants
//   AD1  The waker owns the fiber, which is in no queue, from OnWoken() or OnTaken() to its push, and changes its group
//        before the push. So a fiber is in the queues of the group that it names only, as after a steal. A fiber that
//        is woken before it has left its stack belongs to its worker, which makes it ready in its own group: neither
//        its mark nor its group changes.
//   AD2  A fiber is adopted by the partner that it takes turns with only, by a single wake in that one's own code. What
//        else runs on a fiber's stack counts as nobody's wake: polls, the end of another fiber (WorkerBase::Waker()).
//        But the end of a wait by EndPendingWait(), after a switch, counts as the next fiber's: too rare to matter.
//   AD3  It comes from a group of the same node that the waker's group steals from (NL3), and that has the same name. A
//        group-local fiber never leaves its group, and one whose creator chose its group leaves it by a steal only.
//        Fibers of a FiberLoop stay: a loop's group is nobody's neighbour.
//   AD4  An adopted fiber is pushed as one woken from outside the group: into the shared queue, where all workers of
//        the group and thieves find it, and never into a hand-off slot, where only its group would look. So it waits
//        for no fiber but those that were in the queue, even if its waker goes on running, and NO1 and RS1 hold for it:
//        if a worker of its former group idles, that one may have it back.
//   AD5  No queue gets longer by it than one would without it: when the waker has parked, as it is about to, its group
//        has no more fibers ready, for each of its workers, than the one that the fiber comes from. (By estimates; they
//        cost reads of the other group's lines, once in kTurnsOfPair wakes.) Else the pair begins anew, and the other
//        one is the next to ask, since kTurnsOfPair is even. So adoptions in a row end when the queue has grown.
//   AD6  A fiber has a mark from its begin to its end at most: the mark shares its place with the callable, and with
//        the owner that is told of the end, and never takes it from them.
//
// A fiber that has a stack of its former group's pool gives it back there (FiberEntity::MoveTo()).
//
// A Fiber has group(), partner(), set_partner() and MayBeAdopted(). A Worker has group, index and Waker(). A Group has
// MayAdoptFrom(group), HasMoreReadyThan(group) and Adopt(worker, fiber).
// Proven in tests/model/adoption_model.cc.
// Rejected: to adopt a fiber whose former wake came from the same group (one that wakes many would take them all in);
// the waker's hand-off slot (a fiber waits there while its waker runs on, and idle workers of other groups do not
// look); to leave a fiber to a group that idles (the hint that says so stays for long, and an idle worker steals).
#ifndef WEFT_SCHEDULING_GROUP_IDLE_ADOPTION_H_
#define WEFT_SCHEDULING_GROUP_IDLE_ADOPTION_H_

#include <cstdint>

namespace weft::scheduling_group {

// A fiber's mark: bit 63, the address of the other fiber, and in the bits that the address leaves free the turns.
inline constexpr std::uintptr_t kNoPartner = 0;
// So a pair pays for at most one adoption, which costs about as much as a wake across groups, in so many wakes.
inline constexpr unsigned kTurnsOfPair = 16;
static_assert(kTurnsOfPair % 2 == 0, "AD5");

template <class Fiber>
std::uintptr_t MarkOf(const Fiber* other, unsigned turns) noexcept {
  static_assert(alignof(Fiber) > kTurnsOfPair);
  return std::uintptr_t{1} << 63 | reinterpret_cast<std::uintptr_t>(other) | turns;
}

// `waker` wakes `fiber`, of another group. Returns how many turns the two have taken, with this one.
template <class Fiber>
unsigned CountTurn(Fiber* waker, Fiber* fiber) noexcept {
  const auto before = static_cast<unsigned>(waker->partner() % alignof(Fiber));
  const bool in_turn = before != 0 && waker->partner() == MarkOf(fiber, before) && fiber->partner() == MarkOf(waker, 0);
  const unsigned turns = in_turn ? before + 1 : 1;
  waker->set_partner(MarkOf(fiber, 0));
  fiber->set_partner(MarkOf(waker, turns));
  return turns;
}

// By the worker `caller`, which owns the fiber, of another group, whose wait it has ended. Returns the group in which
// it is to make the fiber ready: the fiber's, which may be the worker's from now on.
template <class Worker, class Fiber>
auto* GroupAfterWake(Worker* caller, Fiber* fiber) noexcept {
  auto* const own = caller->group;
  auto* const former = fiber->group();
  Fiber* const waker = caller->Waker();
  if (waker == nullptr) {
    fiber->set_partner(kNoPartner);
    return former;
  }
  if (CountTurn(waker, fiber) < kTurnsOfPair) return former;
  if (!fiber->MayBeAdopted() || !own->MayAdoptFrom(*former) || own->HasMoreReadyThan(*former)) {
    fiber->set_partner(MarkOf(waker, 1));  // AD5
    return former;
  }
  fiber->set_partner(kNoPartner);
  own->Adopt(caller->index, fiber);  // AD1
  return own;
}

}  // namespace weft::scheduling_group

#endif  // WEFT_SCHEDULING_GROUP_IDLE_ADOPTION_H_
