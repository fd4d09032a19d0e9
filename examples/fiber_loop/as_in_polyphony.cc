// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Polyphony's time-outs, on a FiberLoop: a block of code is given up when its time is over, wherever it waits.
//
//   timeout(d) { ... }                        FailAfter(d, f): throws DeadlineExceeded
//   cancel_after(d) { ... }                   the same; CancelAfter(d): the scope that the caller is in
//   move_on_after(d) { ... }                  MoveOnAfter(d, f): a std::optional, or false
//   move_on_after(d, with_value: v) { ... }   MoveOnAfter(d, f, v)
//   ensure                                    destructors
//
// Raising in another fiber, and supervision: examples/supervised_workers.cc. The echo server: examples/line_echo.cc.

#include <chrono>
#include <iostream>
#include <optional>
#include <string>

#include "weft/fiber/fiber_loop.h"
#include "weft/weft.h"

using namespace std::chrono_literals;

namespace {

void Say(const std::string& line) { std::cout << line << "\n"; }

// Knows nothing of time-outs.
std::string Ask(std::chrono::milliseconds takes) {
  struct Ensure {
    ~Ensure() { Say("  (the connection is closed)"); }
  } ensure;
  weft::FiberSleepFor(takes);
  return "an answer";
}
std::string AskInTime() { return Ask(1ms); }
std::string AskForAnHour() { return Ask(1h); }

void MoveOn() {
  Say("in time: " + weft::MoveOnAfter(1h, AskInTime, "none"));
  Say("moves on with a value: " + weft::MoveOnAfter(5ms, AskForAnHour, "none"));
  const std::optional<std::string> answer = weft::MoveOnAfter(5ms, AskForAnHour);
  Say(answer ? "an answer after an hour" : "moves on without one");
}

void Fail() {
  try {
    Say(weft::FailAfter(1h, AskInTime));
    Say(weft::FailAfter(5ms, AskForAnHour));
  } catch (const weft::DeadlineExceeded&) {
    Say("fails: the time is over");
  }
}

// The outer block's time is over first: the inner one does not move on.
void Nest() {
  const bool ended = weft::MoveOnAfter(5ms, [] {
    static_cast<void>(weft::MoveOnAfter(1h, AskForAnHour));
    Say("never said");
  });
  Say(ended ? "the inner block has moved on" : "the outer block moves on");
}

void Cancel() {
  weft::CancelScope scope;
  const bool ended = scope.Run([] {
    Say("works without a limit, and sets one");
    weft::CancelAfter(5ms);
    Say(AskForAnHour());
  });
  Say(ended ? "it has ended" : "it is cancelled");
}

}  // namespace

int main() {
  weft::FiberLoop loop;
  loop.AddTask([] {
    MoveOn();
    Fail();
    Nest();
    Cancel();
  });
  loop.AddTask([] { Say("another fiber runs while the first one waits"); });
  loop.Run();
}
