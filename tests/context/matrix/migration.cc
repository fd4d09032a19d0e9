// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

// What must follow a flow from thread to thread, and what must not. It is compiled in every way a user may compile it
// (CMakeLists.txt here), because faults over a switch depend on what a compiler assumes about threads. Each function
// below does everything in one body, on purpose: the optimiser sees both sides of each switch.
//
// In the variants with position-independent code this is a shared library with the switch in it; main.cc's program then
// calls RunMigrationTests().

#include <cfenv>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>
#include <thread>

#include "weft/base/thread/cpu.h"
#include "weft/context/switch/context.h"
#include "weft/context/switch_safe_errno.h"

#include "context/flow.h"

namespace {

using weft::context::Carrier;
using weft::context::Flow;
using weft::context::TestThread;
using weft::context::ThisThreadErrno;

constexpr int kMoves = 200;

int g_failures = 0;

#define EXPECT(condition)                                                          \
  do {                                                                             \
    if (!(condition)) {                                                            \
      std::fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition); \
      ++g_failures;                                                                \
    }                                                                              \
  } while (false)

thread_local int t_number = 0;

// The pattern for thread-local variables in code that suspends.
WEFT_TLS_ACCESSOR int ThreadNumber() {
  weft::base::OpaqueBarrier();
  return t_number;
}
WEFT_TLS_ACCESSOR void SetThreadNumber(int number) {
  weft::base::OpaqueBarrier();
  t_number = number;
}

// Two threads with different values of all per-thread state.
struct Threads {
  TestThread thread[2];

  Threads() {
    for (int i : {0, 1}) {
      thread[i].Run([i](Carrier*) {
        SetThreadNumber(i + 1);
        std::fesetround(i == 0 ? FE_DOWNWARD : FE_TOWARDZERO);
      });
    }
  }

  // Checks that each of them has kept its own values after a flow has run on it.
  void Resume(int i, Flow& flow) {
    thread[i].Run([i, &flow](Carrier* carrier) {
      ThisThreadErrno() = 1000 + i;
      flow.Resume(carrier);
      EXPECT(ThisThreadErrno() == 1000 + i);
      EXPECT(std::current_exception() == nullptr);
      EXPECT(std::uncaught_exceptions() == 0);
      EXPECT(std::fegetround() == (i == 0 ? FE_DOWNWARD : FE_TOWARDZERO));
    });
  }

  void RunToEnd(Flow& flow) {
    for (int i = 0; !flow.done(); ++i) Resume(i % 2, flow);
  }
};

void ErrnoFollows(Flow& self) {
  for (int i = 0; i < kMoves; ++i) {
    ThisThreadErrno() = i;
    self.Suspend();
    EXPECT(ThisThreadErrno() == i);
  }
}

// Under its own name, with the help of switch_safe_errno.h.
void ErrnoFollowsByName(Flow& self) {
  for (int i = 0; i < kMoves; ++i) {
    errno = i;
    self.Suspend();
    EXPECT(errno == i);
    errno = -i;
    self.Suspend();
    EXPECT(errno == -i);
  }
}

void ThreadIdentityDoesNotFollow(Flow& self) {
  int last = ThreadNumber();
  for (int i = 0; i < kMoves; ++i) {
    const int before = ThreadNumber();
    self.Suspend();
    const int after = ThreadNumber();
    EXPECT(before == last);
    EXPECT(after == 3 - before);
    last = after;
  }
}

void CaughtExceptionsFollow(Flow& self) {
  for (int i = 0; i < kMoves; ++i) {
    bool rethrown = false;
    try {
      try {
        throw std::runtime_error(std::to_string(i));
      } catch (const std::exception& outer) {
        self.Suspend();
        EXPECT(outer.what() == std::to_string(i));
        try {
          throw i;
        } catch (int inner) {
          self.Suspend();
          EXPECT(inner == i);
          EXPECT(std::current_exception() != nullptr);
        }
        self.Suspend();
        throw;
      }
    } catch (const std::runtime_error& again) {
      rethrown = again.what() == std::to_string(i);
    }
    EXPECT(rethrown);
    EXPECT(std::current_exception() == nullptr);
    self.Suspend();
  }
}

struct SuspendsWhenDestroyed {
  Flow& self;
  ~SuspendsWhenDestroyed() {
    EXPECT(std::uncaught_exceptions() == 1);
    self.Suspend();
    EXPECT(std::uncaught_exceptions() == 1);
    try {
      throw 1.5;
    } catch (double) {
      self.Suspend();
      EXPECT(std::uncaught_exceptions() == 1);
    }
  }
};

void UnwindingFollows(Flow& self) {
  for (int i = 0; i < kMoves; ++i) {
    int caught = -1;
    try {
      SuspendsWhenDestroyed suspends{self};
      throw i;
    } catch (int value) {
      caught = value;
    }
    EXPECT(caught == i);
    EXPECT(std::uncaught_exceptions() == 0);
  }
}

void FloatingPointModeFollows(Flow& self) {
  std::fesetround(FE_UPWARD);
  volatile double one = 1.0, three = 3.0;
  const double up = one / three;
  for (int i = 0; i < kMoves; ++i) {
    self.Suspend();
    EXPECT(std::fegetround() == FE_UPWARD);
    EXPECT(one / three == up);
  }
}

// More values than there are registers, integers and doubles, alive over each switch.
void LocalVariablesFollow(Flow& self) {
  volatile int seed = 3;
  long a = seed, b = a * 5, c = b * 7, d = c * 11, e = d * 13, f = e * 17, g = f * 19, h = g * 23;
  double p = a, q = p * 1.5, r = q * 1.5, s = r * 1.5, t = s * 1.5;
  long sum = a + b + c + d + e + f + g + h;
  double product = p * q * r * s * t;
  for (int i = 0; i < kMoves; ++i) {
    self.Suspend();
    EXPECT(a + b + c + d + e + f + g + h == sum);
    EXPECT(p * q * r * s * t == product);
    a += seed, h -= seed;
    p *= 2, t /= 2;
  }
}

// Two flows that hand the thread to each other directly, in catch blocks, while the thread changes under both.
void FlowsSwitchDirectly(Threads& threads) {
  Flow* flows[2] = {};
  const auto body = [&flows](int me, Flow& self) {
    for (int i = 0; i < kMoves; ++i) {
      try {
        throw me * 10000 + i;
      } catch (int value) {
        ThisThreadErrno() = value;
        const int number = ThreadNumber();
        if (!flows[1 - me]->done()) self.SwitchTo(flows[1 - me]);
        EXPECT(value == me * 10000 + i);
        EXPECT(ThisThreadErrno() == value);
        if (i % 3 == 0) self.Suspend();
        EXPECT(ThisThreadErrno() == value);
        EXPECT(ThreadNumber() == 1 || ThreadNumber() == 2);
        EXPECT(number == 1 || number == 2);
      }
      EXPECT(std::current_exception() == nullptr);
    }
  };
  Flow first([&](Flow& self) { body(0, self); });
  Flow second([&](Flow& self) { body(1, self); });
  flows[0] = &first;
  flows[1] = &second;
  for (int i = 0; !first.done() || !second.done(); ++i) threads.Resume(i % 2, first.done() ? second : first);
}

}  // namespace

__attribute__((visibility("default"))) int RunMigrationTests() {
  Threads threads;
  for (auto* body : {ErrnoFollows, ErrnoFollowsByName, ThreadIdentityDoesNotFollow, CaughtExceptionsFollow,
                     UnwindingFollows, FloatingPointModeFollows, LocalVariablesFollow}) {
    Flow flow(body);
    threads.RunToEnd(flow);
  }
  FlowsSwitchDirectly(threads);
  return g_failures;
}
