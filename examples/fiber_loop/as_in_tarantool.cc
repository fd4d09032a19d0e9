// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Tarantool's fibers, on a FiberLoop: the programs of its description, in the same order of steps.
//
//   cord                    FiberLoop
//   fiber_start(f)          loop.AddTaskEager(f): runs at once; its spawner goes on when it waits
//   fiber_yield()           to wait until woken: FiberEvent::Wait();  to let others run: FiberYield()
//   fiber_wakeup(f)         FiberEvent::Set(): queued, in this order, and nobody runs before the caller waits
//   fiber_join(f)           Fiber::Join()
//   fiber_cancel(f)         Fiber::Cancel(): f's wait, or its next one, throws FiberCancelled, which ends f
//   fiber_testcancel()      TestCancel(); fiber_is_cancelled(): IsCancelRequested()
//   fiber_channel           FiberChannel

#include <chrono>
#include <iostream>
#include <string>

#include "weft/fiber/fiber_loop.h"
#include "weft/weft.h"

namespace {

void Say(const std::string& line) { std::cout << line << "\n"; }

// Each starts the next one at once; then the first wakes the two others, and yields.
void StartChain() {
  weft::FiberLoop loop;
  weft::FiberEvent wake_2;
  weft::FiberEvent wake_3;
  loop.AddTaskEager([&] {
    Say("fiber-1 starts fiber-2");
    loop.AddTaskEager([&] {
      Say("fiber-2 starts fiber-3");
      loop.AddTaskEager([&] {
        Say("fiber-3 yields");
        wake_3.Wait();
        Say("fiber-3 is woken");
      });
      Say("fiber-2 goes on, and yields");
      wake_2.Wait();
      Say("fiber-2 is woken");
    });
    Say("fiber-1 goes on, wakes fiber-2 and fiber-3, and yields");
    wake_2.Set();
    wake_3.Set();
    weft::FiberYield();
    Say("fiber-1 ends");
  });
  Say("the scheduler runs who is ready");
  loop.Run();
}

// fiber-2 waits for the end of fiber-1, which has not begun.
void Join() {
  weft::FiberLoop loop;
  loop.AddTaskEager([] {
    weft::Fiber fiber_1([] { Say("fiber-1 runs, and ends: its waiter is woken"); });
    Say("fiber-2 joins fiber-1");
    fiber_1.Join();
    Say("fiber-2 goes on: fiber-1 is gone");
  });
  loop.AddTask([] { Say("fiber-3 was queued after fiber-1, before fiber-2 was woken"); });
  loop.Run();
}

void Channel() {
  weft::FiberLoop loop;
  weft::FiberChannel<std::string> channel(1);
  loop.AddTask([&] {
    for (const char* item : {"one", "two", "three"}) {
      Say(std::string("put ") + item);
      if (channel.Put(item) != weft::ChannelResult::kOk) return;
    }
    channel.Close();
    Say("closed");
  });
  loop.AddTask([&] {
    for (const std::string& item : channel) Say("got " + item);
    Say("the channel is empty and closed");
  });
  loop.Run();
}

// fiber-2 cancels a fiber that waits, and one that has not begun.
void Cancel() {
  weft::FiberLoop loop;
  loop.AddTask([] {
    weft::Fiber fiber_1([] {
      try {
        Say("fiber-1 sleeps for an hour");
        weft::FiberSleepFor(std::chrono::hours(1));
        Say("never said");
      } catch (const weft::FiberCancelled&) {
        Say("fiber-1 is cancelled, cleans up, and ends");
        throw;
      }
    });
    weft::FiberYield();
    Say("fiber-2 cancels fiber-1, and joins it");
    fiber_1.Cancel();
    fiber_1.Join();
    Say("fiber-2 goes on: fiber-1 is gone");
    weft::Fiber fiber_3([] {
      Say(weft::IsCancelRequested() ? "fiber-3 begins, and is cancelled already" : "never said");
      weft::TestCancel();
      Say("never said");
    });
    fiber_3.Cancel();
    fiber_3.Join();
    Say("fiber-2 ends");
  });
  loop.Run();
}

}  // namespace

int main() {
  StartChain();
  Join();
  Channel();
  Cancel();
}
