// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// Workers that are started again when they fail, as Polyphony's supervise() and Erlang's supervisors do it.
//
//   Polyphony                                        here
//   supervise(*fibers, restart: :always)             RestartKind::kPermanent
//   supervise(*fibers, restart: :on_error)           RestartKind::kTransient
//   a fiber raises in another one: fiber.raise(e)    FindFiber(id)->Interrupt(e)
//   fiber.stop: it is not restarted                  FindFiber(id)->Cancel()
//
// Two workers take numbers from a channel. A number that is bad ends its worker by an exception, and the next run goes
// on with the next number. A third fiber watches: it raises an exception in a worker, which is started again for that,
// too, and stops a child that would never end. Then the channel is closed, the workers return, and nobody is left.

#include <atomic>
#include <iostream>
#include <stdexcept>

#include "weft/weft.h"

using namespace std::chrono_literals;

namespace {

constexpr int kNumbers = 1'000;

bool IsBad(int number) { return number % 100 == 99; }

struct Totals {
  std::atomic<int> good{0};
  std::atomic<int> bad{0};
  std::atomic<int> raised{0};
};

struct EnoughForNow : std::runtime_error {
  EnoughForNow() : std::runtime_error("enough for now") {}
};

void Work(weft::FiberChannel<int>& numbers, Totals& totals) {
  try {
    for (const int number : numbers) {
      if (IsBad(number)) {
        ++totals.bad;
        throw std::runtime_error("a bad number");
      }
      ++totals.good;
    }
  } catch (const EnoughForNow&) {
    ++totals.raised;
    throw;
  }
}

// The fiber of a child's present run; 0: it waits to be started.
std::uint64_t IdOf(const weft::Supervisor& supervisor, const std::string& name) {
  for (const weft::Supervisor::ChildInfo& child : supervisor.Children()) {
    if (child.name == name && child.fiber_id != 0) return child.fiber_id;
  }
  return 0;
}

void Watch(const weft::Supervisor& supervisor, weft::FiberChannel<int>& numbers, const Totals& totals) {
  while (totals.good + totals.bad < kNumbers) weft::FiberSleepFor(1ms);
  // Now the workers wait for a number that does not come.
  while (totals.raised == 0) {
    if (auto worker = weft::FindFiber(IdOf(supervisor, "worker"))) worker->Interrupt(EnoughForNow());
    weft::FiberSleepFor(1ms);
  }
  while (auto endless = weft::FindFiber(IdOf(supervisor, "endless"))) {
    endless->Cancel();
    endless->Join();
  }
  numbers.Close();
}

}  // namespace

int main() {
  weft::StartRuntime();
  Totals totals;
  std::size_t restarts = 0;
  weft::Fiber([&] {
    weft::FiberChannel<int> numbers(16);
    weft::Supervisor supervisor({.max_restarts = 100, .period = 1min, .backoff = {.first = 100us, .longest = 1ms}});
    for (int i = 0; i < 2; ++i) {
      supervisor.Add("worker", weft::RestartKind::kTransient, [&] { Work(numbers, totals); });
    }
    supervisor.Add("endless", weft::RestartKind::kPermanent, [] { weft::FiberSleepFor(1h); });
    supervisor.Add("source", weft::RestartKind::kTemporary, [&] {
      for (int i = 0; i < kNumbers; ++i) {
        if (numbers.Put(i) != weft::ChannelResult::kOk) return;
      }
    });
    supervisor.Add("watch", weft::RestartKind::kTemporary, [&] { Watch(supervisor, numbers, totals); });
    supervisor.Run();
    restarts = supervisor.Restarts();
  }).Join();
  const std::size_t unfinished = weft::TerminateRuntime();
  std::cout << totals.good << " good numbers, " << totals.bad << " bad ones, " << totals.raised
            << " exception raised by another fiber, " << restarts << " restarts\n";
  const bool as_it_should_be = totals.good + totals.bad == kNumbers && totals.bad == kNumbers / 100 &&
                               restarts == static_cast<std::size_t>(totals.bad + totals.raised);
  return as_it_should_be && unfinished == 0 ? 0 : 1;
}
