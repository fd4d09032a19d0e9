// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include <gtest/gtest.h>

#include <optional>
#include <stdexcept>
#include <string>

#include "weft/fiber/fiber.h"
#include "weft/fiber/fiber_scope.h"
#include "weft/fiber/fiber_task.h"
#include "weft/sync/cancel_scope.h"

#include "stress/storm.h"

namespace weft::fiber {

std::string Sky::WhereFibersAre() const {
  std::string text;
  for (std::size_t place = 0; place < inside.size(); ++place) {
    if (inside[place] == 0) continue;
    text.append(" ").append(std::to_string(place)).append(":").append(std::to_string(inside[place]));
  }
  return text;
}

void Storm::Live(int depth) {
  sky_->fibers.fetch_add(1, std::memory_order_relaxed);
  try {
    for (int i = Below(4); i >= 0 && !sky_->over; --i) {
      const int what = depth > 0 ? Below(9) : 8;
      if (what < 3) {
        Family(depth - 1);
      } else if (what == 3) {
        RunTask(depth - 1);
      } else {
        WaitSomewhere();
      }
    }
  } catch (const FiberCancelled&) {
    sky_->cancelled.fetch_add(1, std::memory_order_relaxed);
    throw;
  }
}

// A scope with children, left in one of many ways.
void Storm::Family(int depth) {
  CancelScope around(Below(3) == 0 ? Deadline(Soon(3000)) : Deadline::None());
  static_cast<void>(around.Run([&] {
    FiberScope scope({.policy = static_cast<ScopePolicy>(Below(3)),
                      .limit = static_cast<std::size_t>(Below(4)),
                      .deadline = Below(4) == 0 ? Deadline(Soon(2000)) : Deadline::None()});
    try {
      LiveInFamily(&scope, &around, depth);
      scope.Wait();
    } catch (const std::runtime_error&) {
    }
  }));
}

void Storm::LiveInFamily(FiberScope* scope, CancelScope* around, int depth) {
  const auto live = [this, depth](std::uint64_t seed) {
    return [sky = sky_, depth, seed] { Storm(sky, seed).Live(depth); };
  };
  const int children = Below(6);
  for (int i = 0; i < children; ++i) {
    if (!scope->Spawn({.scheduling_group = kUnspecifiedSchedulingGroup}, live(random_()))) break;
  }
  switch (Below(8)) {
    case 0:
      scope->Cancel();
      break;
    case 1:
      throw std::runtime_error("the body fails");
    case 2:
      around->Cancel();
      break;
    case 3:
      InterruptOne(depth);
      break;
    case 4:
      static_cast<void>(scope->Run([&] { WaitSomewhere(); }));
      break;
    default:
      WaitSomewhere();
  }
}

// A fiber with a handle of its own.
void Storm::InterruptOne(int depth) {
  Shielded([&] {  // A joinable Fiber must be joined.
    std::optional<Fiber> one = Fiber::TryStart({}, [sky = sky_, depth, seed = random_()] {
      try {
        Storm(sky, seed).Live(depth);
      } catch (const Interruption&) {
      }
    });
    if (!one) return;
    if (Below(2) == 0) FiberYield();
    if (Below(2) == 0) one->Interrupt(Interruption());
    if (Below(2) == 0) FiberYield();
    one->Cancel();
    one->Join();
  });
}

// A fiber with a result, which has ended when the handle goes.
void Storm::RunTask(int depth) {
  const Visit visit(sky_, Place::kTask);
  constexpr int kResult = 7;
  try {
    FiberTask<int> task([sky = sky_, depth, seed = random_()] {
      Storm(sky, seed).Live(depth);
      return kResult;
    });
    switch (Below(4)) {
      case 0:
        task.Cancel();
        break;
      case 1:
        EXPECT_EQ(task.Wait(SoonOrNever()) && !task.IsReady(), false);
        break;
      case 2:
        EXPECT_EQ(task.Get(), kResult);
        break;
      default:
        break;
    }
  } catch (const TaskCancelled&) {
  } catch (const FiberNotStarted&) {
  }
}

}  // namespace weft::fiber
