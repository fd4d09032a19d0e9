// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// sync/select.{h,cc} with the cases of a channel, of sockets (io/select.{h,cc}) and of other
// descriptors (io/wait_fd.{h,cc}), through all interleavings: items against hints, closures and cancellations. An item
// is taken or left in its channel (SL4), no round remembers what another has seen (SL6), a number is closed when its
// socket is (SCA1), and a closure ends waits for a descriptor (WF3), whether it is selected or not. The kernel never
// says that a descriptor is ready, so each event is a hint. The scheduler, the timers and the locks are those of
// tests/model/stubs.
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/epoll.h>

#include <array>
#include <chrono>
#include <cstdint>
#include <system_error>
#include <utility>

#include "weft/io/io_result.h"
#include "weft/io/reactor/fd_slot.h"
#include "weft/io/reactor/registration.h"
#include "weft/io/select_sockets.h"
#include "weft/io/wait_fd.h"
#include "weft/sync/cancel/cancel_node.h"
#include "weft/sync/fiber_cancelled.h"
#include "weft/sync/fiber_channel.h"
#include "weft/sync/select.h"
#include "weft/tests/model/fiber_world.h"
#include "weft/tests/testing/interleave.h"

// Drain() in a thread.
extern "C" int sched_yield() noexcept {
  weft::model::SpinHint();
  return 0;
}

namespace weft::io {

namespace {
std::array<model::Data<bool>*, 2> is_open;  // by number
// What fd_slot_pool.cc has, for one execution: it makes a slot if none is free.
struct ModelPool {
  base::SpinLock lock;
  FdSlot* free = nullptr;
};
ModelPool* pool;
bool numbers_are_old;
// Of the number that is waited for, both.
EventHandler* handler;
model::Parker* is_registered;
}  // namespace

// What io/reactor/fd_slot.cc, io/select_sockets.cc and io/wait_fd.cc ask the kernel and the reactor for.
bool ModelNumbersAreOld() { return std::exchange(numbers_are_old, false); }
FdSlot* FdSlot::TakeFree() {
  if (pool == nullptr) pool = new ModelPool;
  {
    base::SpinLockGuard guard(pool->lock);
    if (FdSlot* const slot = pool->free) {
      pool->free = slot->next_free_;
      return slot;
    }
  }
  return new FdSlot;
}
void FdSlot::GiveBack() noexcept {
  base::SpinLockGuard guard(pool->lock);
  next_free_ = std::exchange(pool->free, this);
}
void ModelClose(int fd) {
  MODEL_CHECK(is_open[fd]->Read(), "a number is closed twice (FD3)");
  is_open[fd]->Write(false);
}
bool IsReadableNow(int fd) noexcept {
  MODEL_CHECK(is_open[fd]->Read(), "a call on a number that is closed (FD3)");
  return false;
}
std::error_code Registration::Set(int, std::uint32_t, EventHandler* its_handler) {
  handler = its_handler;
  static_cast<void>(is_registered->Unpark());
  return {};
}
bool Registration::Remove(int) noexcept { return true; }
bool Registration::is_served() const noexcept { return true; }

namespace {

using model::FiberWorld;
using scheduling_group::CurrentFiber;
using synchronization::CancelNode;
using synchronization::GetCase;
using synchronization::PutCase;
using synchronization::SelectCase;
using synchronization::Selection;
using Timers = FiberWorld::Timers;

// Two sockets and a channel, with a selection of all three.
struct Parts {
  Parts() : sockets{FdSlot::Take(0), FdSlot::Take(1)} {}
  FdSlot* const sockets[2];
  FiberChannel<int> channel{1};
  CancelNode scope;
  int got = 0;

  void GiveHint(int number) const {
    synchronization::WaitList claimed;
    sockets[number]->OnEvents(EPOLLIN, &claimed);
    synchronization::WakeAll(&claimed);
  }
  void PutOne() { MODEL_CHECK(channel.TryPut(1) == ChannelResult::kOk, "there is room"); }
  void Close(int number) const { MODEL_CHECK(sockets[number]->Close(), "the only one"); }

  // Waits for an item or the closure of the first socket; no_case: it was cancelled. (The handler of the exception
  // touches nothing of the model's.)
  static constexpr int kNoCase = -1;
  int SelectOne() {
    Selection selection;
    GetCase<int> item(&selection, &channel);
    detail::SlotCase first(&selection, sockets[0], detail::Readiness::kReadable);
    detail::SlotCase second(&selection, sockets[1], detail::Readiness::kReadable);
    SelectCase* const cases[] = {&item, &first, &second};
    int taken = kNoCase;
    try {
      taken = static_cast<int>(selection.Wait(cases, Deadline::None()));
    } catch (const FiberCancelled&) {
    }
    if (taken == 0) got += item.Take() ? 1 : 0;
    if (taken == 1) MODEL_CHECK(first.error() == std::errc::operation_canceled, "it was not ready");
    MODEL_CHECK(taken != 2, "a hint was taken");
    return taken;
  }

  void CheckTheEnd() {
    got += channel.TryGet() ? 1 : 0;
    MODEL_CHECK(got == 1, "the item is lost, or there are two");
    for (int number : {0, 1}) {
      static_cast<void>(sockets[number]->Close());
      MODEL_CHECK(!is_open[number]->Read(), "the number is in use for ever");
    }
  }
};

template <class Build>
void Explore(const model::Options& options, Build build) {
  const model::Result result = model::Explore(options, [&](model::Scenario& scenario) {
    pool = nullptr;
    numbers_are_old = true;
    handler = nullptr;
    is_registered = scenario.New<model::Parker>("registered");
    for (auto*& open : is_open) open = scenario.New<model::Data<bool>>("open", true);
    FiberWorld world(scenario);
    build(scenario, world);
  });
  EXPECT_TRUE(result.passed) << result.report;
}

// The last case is given a hint. In the next round the first is given an item, and the second is found to be closed.
TEST(SelectionModel, AHintAnItemAndAClosure) {
  Explore({.name = "select: hint, item, closure", .preemptions = 2, .weak_choices = 1},
          [](model::Scenario& scenario, FiberWorld& world) {
            auto* parts = new Parts;
            world.Fiber("selects", Timers::kNo,
                        [=] { MODEL_CHECK(parts->SelectOne() != Parts::kNoCase, "nobody has cancelled it"); });
            world.Thread("hints", [=] { parts->GiveHint(1); });
            world.Thread("puts, closes", [=] {
              parts->PutOne();
              parts->Close(0);
            });
            scenario.AtEnd([=] { parts->CheckTheEnd(); });
          });
}

TEST(SelectionModel, AHintAnItemAndACancellation) {
  Explore({.name = "select: hint, item, cancellation", .preemptions = 1, .weak_choices = 1},
          [](model::Scenario& scenario, FiberWorld& world) {
            auto* parts = new Parts;
            world.Fiber("selects", Timers::kNo, [=] {
              EnterScope(CurrentFiber(), &parts->scope);
              static_cast<void>(parts->SelectOne());
              LeaveScope(CurrentFiber(), &parts->scope);
            });
            world.Thread("hints, puts", [=] {
              parts->GiveHint(1);
              parts->PutOne();
            });
            world.Thread("cancels", [=] { Cancel(&parts->scope); });
            scenario.AtEnd([=] { parts->CheckTheEnd(); });
          });
}

// Two hints in a row, for both sockets.
TEST(SelectionModel, HintsForBoth) {
  Explore({.name = "select: hints for both", .preemptions = 2, .weak_choices = 1},
          [](model::Scenario& scenario, FiberWorld& world) {
            auto* parts = new Parts;
            world.Fiber("selects", Timers::kNo, [=] { MODEL_CHECK(parts->SelectOne() == 0, "nothing else is there"); });
            world.Thread("hints", [=] { parts->GiveHint(1); });
            world.Thread("hints, puts", [=] {
              parts->GiveHint(0);
              parts->PutOne();
            });
            scenario.AtEnd([=] { parts->CheckTheEnd(); });
          });
}

// What a channel says to those that select it while it is closed.
void CloseWhileSelected(bool full) {
  Explore({.name = full ? "select: a full channel is closed" : "select: an empty channel is closed",
           .preemptions = 3,
           .weak_choices = 2},
          [full](model::Scenario&, FiberWorld& world) {
            auto* channel = new FiberChannel<int>(1);
            if (full) MODEL_CHECK(channel->TryPut(0) == ChannelResult::kOk, "there is room");
            world.Fiber("selects", Timers::kNo, [=] {
              Selection selection;
              int item = 1;
              GetCase<int> get(&selection, channel);
              PutCase<int> put(&selection, channel, &item);
              SelectCase* const cases[] = {full ? static_cast<SelectCase*>(&put) : &get};
              MODEL_CHECK(selection.Wait(cases, Deadline::None()) == 0, "nothing else is there");
              const ChannelResult result = full ? put.result() : get.Take().result();
              MODEL_CHECK(result == ChannelResult::kClosed, "it was closed");
            });
            world.Thread("closes", [=] { channel->Close(); });
          });
}

TEST(SelectionModel, AChannelIsClosedWhileItIsSelected) {
  CloseWhileSelected(/*full=*/false);
  CloseWhileSelected(/*full=*/true);
}

void GiveEvent(std::uint32_t event) {
  synchronization::WaitList claimed;
  handler->OnEvents(event, &claimed);
  synchronization::WakeAll(&claimed);
}

// When it is waited for: an event that others want, the number is closed, and the next descriptor that has it is ready.
void CloseWhenItIsRegistered() {
  is_registered->Park();
  GiveEvent(EPOLLOUT);
  MODEL_CHECK(!CloseFd(0), "the only one");
  GiveEvent(EPOLLIN);
}

TEST(WaitFdModel, AClosureEndsAWait) {
  for (const auto timers : {Timers::kNo, Timers::kYes}) {
    Explore({.name = timers == Timers::kNo ? "wait_fd: closure" : "wait_fd: closure, time-out",
             .preemptions = 3,
             .weak_choices = 1},
            [timers](model::Scenario&, FiberWorld& world) {
              world.Fiber("waits", timers, [=] {
                const Deadline deadline = timers == Timers::kNo ? Deadline::None() : std::chrono::hours(1);
                const WaitFdResult result = WaitFd(0, POLLIN, deadline);
                MODEL_CHECK(result.error == std::errc::operation_canceled || result.error == std::errc::timed_out,
                            "it waits for the next descriptor of that number (WF3)");
              });
              world.Thread("closes", [] { CloseWhenItIsRegistered(); });
            });
  }
}

TEST(WaitFdModel, AClosureEndsASelection) {
  Explore({.name = "select: a descriptor is closed", .preemptions = 3, .weak_choices = 1},
          [](model::Scenario&, FiberWorld& world) {
            world.Fiber("selects", Timers::kNo, [=] {
              Selection selection;
              detail::FdCase fd(&selection, 0, POLLIN);
              SelectCase* const cases[] = {&fd};
              MODEL_CHECK(selection.Wait(cases, Deadline::None()) == 0, "nothing else is there");
              MODEL_CHECK(fd.result().error == std::errc::operation_canceled,
                          "it waits for the next descriptor of that number (WF3)");
            });
            world.Thread("closes", [] { CloseWhenItIsRegistered(); });
          });
}

}  // namespace
}  // namespace weft::io
