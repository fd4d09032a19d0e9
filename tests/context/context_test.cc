// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/context/switch/context.h"

#include <execinfo.h>
#include <gtest/gtest.h>

#include <array>
#include <cerrno>
#include <cfenv>
#include <cstdint>
#include <exception>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "context/flow.h"

extern "C" void weft_context_start();  // The first instructions of every flow (context.cc).

namespace weft::context {
namespace {

class ContextTest : public ::testing::Test {
 protected:
  void SetUp() override { here_.Init(); }
  Carrier here_;
};

using ContextDeathTest = ContextTest;

TEST_F(ContextTest, TakesAPointerOfSpaceWithoutSanitizers) {
#if !WEFT_ASAN && !WEFT_TSAN
  EXPECT_EQ(sizeof(Context), sizeof(void*));
#endif
}

TEST_F(ContextTest, AFlowRunsWhenSwitchedToAndGoesOnWhereItLeft) {
  std::vector<int> steps;
  Flow flow([&](Flow& self) {
    steps.push_back(1);
    self.Suspend();
    steps.push_back(3);
  });
  EXPECT_TRUE(steps.empty());
  flow.Resume(&here_);
  steps.push_back(2);
  EXPECT_FALSE(flow.done());
  flow.Resume(&here_);
  EXPECT_TRUE(flow.done());
  EXPECT_EQ(steps, (std::vector<int>{1, 2, 3}));
}

TEST_F(ContextTest, SwitchReturnsTheStateOfTheThreadThatCameBack) {
  TestThread one;
  TestThread two;
  std::vector<Carrier*> seen;
  Flow flow([&](Flow& self) {
    seen.push_back(self.carrier());
    self.Suspend();
    seen.push_back(self.carrier());
  });
  Carrier* of_one = nullptr;
  Carrier* of_two = nullptr;
  one.Run([&](Carrier* carrier) {
    of_one = carrier;
    flow.Resume(carrier);
  });
  two.Run([&](Carrier* carrier) {
    of_two = carrier;
    flow.Resume(carrier);
  });
  EXPECT_EQ(seen, (std::vector<Carrier*>{of_one, of_two}));
  EXPECT_NE(of_one, of_two);
}

TEST_F(ContextTest, FlowsSwitchToEachOtherWithoutTheThreadsOwnStack) {
  std::string trace;
  Flow* second_flow = nullptr;
  Flow first([&](Flow& self) {
    trace += "a";
    self.SwitchTo(second_flow);
    trace += "c";
  });
  Flow second([&](Flow& self) {
    trace += "b";
    self.SwitchTo(&first);
    trace += "d";
  });
  second_flow = &second;
  first.Resume(&here_);
  EXPECT_EQ(trace, "abc");
  EXPECT_TRUE(first.done());
  second.Resume(&here_);
  EXPECT_EQ(trace, "abcd");
}

TEST_F(ContextTest, AThousandFlowsUseOneStackOneAfterTheOther) {
  constexpr std::size_t kSize = 64 * 1024;
  std::unique_ptr<char[]> stack(new char[kSize]);
  char* top = reinterpret_cast<char*>(reinterpret_cast<std::uintptr_t>(stack.get() + kSize) & ~std::uintptr_t{15});
  struct Counting : Carrier {
    Context flow;
    int runs = 0;
  } counting;
  counting.Init();
  for (int i = 0; i < 1000; ++i) {
    MakeContext(&counting.flow, top, static_cast<std::size_t>(top - stack.get()), [](ThreadState* here) {
      auto* mine = static_cast<Counting*>(here);
      [[maybe_unused]] volatile char frame[512];
      frame[0] = 1;
      frame[511] = 1;
      ++mine->runs;
      LeaveContext(&mine->flow, &mine->own, mine);
    });
    SwitchContext(&counting.own, &counting.flow, &counting);
    DestroyContext(&counting.flow);
  }
  EXPECT_EQ(counting.runs, 1000);
}

TEST_F(ContextTest, AFlowStartsWithAnAlignedStack) {
  bool aligned = false;
  Flow flow([&](Flow&) {
    // The ABI's promise to a function; movaps on its frame relies on it.
    aligned = reinterpret_cast<std::uintptr_t>(__builtin_frame_address(0)) % 16 == 0;
  });
  flow.Resume(&here_);
  EXPECT_TRUE(aligned);
}

// Calls function(argument) with the callee-saved registers, but for an aarch64 frame pointer, set to values made of
// `seed`; returns how many of them changed.
extern "C" int CallWithPatterns(void (*function)(void*), void* argument, std::uint64_t seed);
#if defined(__x86_64__)
asm(R"(
  .text
  .globl CallWithPatterns
  .type CallWithPatterns, @function
CallWithPatterns:
  pushq %rbx
  pushq %rbp
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  pushq %rdx
  leaq 1(%rdx), %rbx
  leaq 2(%rdx), %rbp
  leaq 3(%rdx), %r12
  leaq 4(%rdx), %r13
  leaq 5(%rdx), %r14
  leaq 6(%rdx), %r15
  movq %rdi, %rax
  movq %rsi, %rdi
  call *%rax
  popq %rdx
  xorl %eax, %eax
  xorl %ecx, %ecx
  subq %rdx, %rbx
  cmpq $1, %rbx
  setne %cl
  addl %ecx, %eax
  subq %rdx, %rbp
  cmpq $2, %rbp
  setne %cl
  addl %ecx, %eax
  subq %rdx, %r12
  cmpq $3, %r12
  setne %cl
  addl %ecx, %eax
  subq %rdx, %r13
  cmpq $4, %r13
  setne %cl
  addl %ecx, %eax
  subq %rdx, %r14
  cmpq $5, %r14
  setne %cl
  addl %ecx, %eax
  subq %rdx, %r15
  cmpq $6, %r15
  setne %cl
  addl %ecx, %eax
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbp
  popq %rbx
  ret
  .size CallWithPatterns, .-CallWithPatterns
)");
#elif defined(__aarch64__)
asm(R"(
  .text
  .globl CallWithPatterns
  .type CallWithPatterns, %function
CallWithPatterns:
  stp x29, x30, [sp, #-176]!
  mov x29, sp
  stp x19, x20, [sp, #16]
  stp x21, x22, [sp, #32]
  stp x23, x24, [sp, #48]
  stp x25, x26, [sp, #64]
  stp x27, x28, [sp, #80]
  stp d8, d9, [sp, #96]
  stp d10, d11, [sp, #112]
  stp d12, d13, [sp, #128]
  stp d14, d15, [sp, #144]
  str x2, [sp, #160]
  .irp n, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28
  add x\n, x2, #\n
  .endr
  .irp n, 8, 9, 10, 11, 12, 13, 14, 15
  add x3, x2, #\n
  fmov d\n, x3
  .endr
  mov x3, x0
  mov x0, x1
  blr x3
  ldr x2, [sp, #160]
  mov w0, wzr
  .irp n, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28
  sub x3, x\n, x2
  cmp x3, #\n
  cinc w0, w0, ne
  .endr
  .irp n, 8, 9, 10, 11, 12, 13, 14, 15
  fmov x3, d\n
  sub x3, x3, x2
  cmp x3, #\n
  cinc w0, w0, ne
  .endr
  ldp x19, x20, [sp, #16]
  ldp x21, x22, [sp, #32]
  ldp x23, x24, [sp, #48]
  ldp x25, x26, [sp, #64]
  ldp x27, x28, [sp, #80]
  ldp d8, d9, [sp, #96]
  ldp d10, d11, [sp, #112]
  ldp d12, d13, [sp, #128]
  ldp d14, d15, [sp, #144]
  ldp x29, x30, [sp], #176
  ret
  .size CallWithPatterns, .-CallWithPatterns
)");
#endif

TEST_F(ContextTest, KeepsTheCalleeSavedRegistersOfBothSides) {
  int changed_in_flow = -1;
  Flow flow([&](Flow& self) {
    changed_in_flow =
        CallWithPatterns([](void* flow) { static_cast<Flow*>(flow)->Suspend(); }, &self, 0x1111111111110000);
  });
  struct Arguments {
    Flow* flow;
    Carrier* carrier;
  } arguments{&flow, &here_};
  const auto resume = [](void* raw) {
    auto* arguments = static_cast<Arguments*>(raw);
    arguments->flow->Resume(arguments->carrier);
  };
  EXPECT_EQ(CallWithPatterns(resume, &arguments, 0x2222222222220000), 0);
  EXPECT_EQ(CallWithPatterns(resume, &arguments, 0x3333333333330000), 0);
  EXPECT_TRUE(flow.done());
  EXPECT_EQ(changed_in_flow, 0);
}

#if defined(__x86_64__)
std::uint32_t SseControl() {
  std::uint32_t word;
  asm volatile("stmxcsr %0" : "=m"(word));
  return word & 0xffc0;  // Without the exception flags.
}
void SetSseControl(std::uint32_t word) { asm volatile("ldmxcsr %0" : : "m"(word)); }
std::uint16_t X87Control() {
  std::uint16_t word;
  asm volatile("fnstcw %0" : "=m"(word));
  return word;
}
void SetX87Control(std::uint16_t word) { asm volatile("fldcw %0" : : "m"(word)); }

TEST_F(ContextTest, KeepsTheFloatingPointControlWordsOfBothSides) {
  const std::uint32_t sse = SseControl();
  const std::uint16_t x87 = X87Control();
  bool kept = false;
  Flow flow([&](Flow& self) {
    SetSseControl(sse | 0x8000);                               // Flush to zero.
    SetX87Control(static_cast<std::uint16_t>(x87 & ~0x0300));  // Single precision.
    self.Suspend();
    kept = SseControl() == (sse | 0x8000) && X87Control() == (x87 & ~0x0300);
  });
  flow.Resume(&here_);
  EXPECT_EQ(SseControl(), sse);
  EXPECT_EQ(X87Control(), x87);
  TestThread other;
  other.Resume(flow);
  EXPECT_TRUE(kept);
  EXPECT_EQ(SseControl(), sse);
}
#elif defined(__aarch64__)
std::uint64_t Fpcr() {
  std::uint64_t word;
  asm volatile("mrs %0, fpcr" : "=r"(word));
  return word;
}
void SetFpcr(std::uint64_t word) { asm volatile("msr fpcr, %0" : : "r"(word)); }

TEST_F(ContextTest, KeepsTheFloatingPointControlWordsOfBothSides) {
  constexpr std::uint64_t kFlushToZero = std::uint64_t{1} << 24;
  const std::uint64_t before = Fpcr();
  bool kept = false;
  Flow flow([&](Flow& self) {
    SetFpcr(before | kFlushToZero);
    self.Suspend();
    kept = Fpcr() == (before | kFlushToZero);
  });
  flow.Resume(&here_);
  EXPECT_EQ(Fpcr(), before);
  TestThread other;
  other.Resume(flow);
  EXPECT_TRUE(kept);
  EXPECT_EQ(Fpcr(), before);
}
#endif

TEST_F(ContextTest, TheRoundingModeFollowsTheFlowToAnotherThread) {
  int in_flow = -1;
  Flow flow([&](Flow& self) {
    std::fesetround(FE_UPWARD);
    self.Suspend();
    in_flow = std::fegetround();
  });
  flow.Resume(&here_);
  EXPECT_EQ(std::fegetround(), FE_TONEAREST);
  TestThread other;
  int in_other = -1;
  other.Run([&](Carrier* carrier) {
    std::fesetround(FE_DOWNWARD);
    flow.Resume(carrier);
    in_other = std::fegetround();
  });
  EXPECT_EQ(in_flow, FE_UPWARD);
  EXPECT_EQ(in_other, FE_DOWNWARD);
}

TEST_F(ContextTest, ErrnoFollowsTheFlowAndIsLeftAloneInTheThread) {
  int in_flow = -1;
  Flow flow([&](Flow& self) {
    ThisThreadErrno() = ENOTTY;
    self.Suspend();
    in_flow = ThisThreadErrno();
  });
  ThisThreadErrno() = EAGAIN;
  flow.Resume(&here_);
  EXPECT_EQ(ThisThreadErrno(), EAGAIN);
  TestThread other;
  int in_other = -1;
  other.Run([&](Carrier* carrier) {
    ThisThreadErrno() = EINTR;
    flow.Resume(carrier);
    in_other = ThisThreadErrno();
  });
  EXPECT_EQ(in_flow, ENOTTY);
  EXPECT_EQ(in_other, EINTR);
  EXPECT_EQ(ThisThreadErrno(), EAGAIN);
}

std::string CurrentMessage() {
  try {
    std::rethrow_exception(std::current_exception());
  } catch (const std::exception& error) {
    return error.what();
  }
}

TEST_F(ContextTest, AFlowSuspendedInACatchBlockKeepsItsExceptionToItself) {
  std::string before, after, rethrown;
  bool clean_at_end = false;
  Flow flow([&](Flow& self) {
    try {
      try {
        throw std::runtime_error("of the flow");
      } catch (const std::exception&) {
        before = CurrentMessage();
        self.Suspend();
        after = CurrentMessage();
        throw;
      }
    } catch (const std::exception& error) {
      rethrown = error.what();
    }
    clean_at_end = std::current_exception() == nullptr;
  });
  flow.Resume(&here_);
  EXPECT_EQ(std::current_exception(), nullptr);
  TestThread other;
  std::string in_other;
  other.Run([&](Carrier* carrier) {
    try {
      throw std::logic_error("of the thread");
    } catch (const std::exception&) {
      flow.Resume(carrier);
      in_other = CurrentMessage();
    }
  });
  EXPECT_TRUE(flow.done());
  EXPECT_EQ(before, "of the flow");
  EXPECT_EQ(after, "of the flow");
  EXPECT_EQ(rethrown, "of the flow");
  EXPECT_EQ(in_other, "of the thread");
  EXPECT_TRUE(clean_at_end);
  EXPECT_EQ(std::current_exception(), nullptr);
}

TEST_F(ContextTest, FlowsInTheirCatchBlocksTakeTurns) {
  constexpr int kFlows = 5;
  std::vector<std::string> wrong;
  std::vector<std::unique_ptr<Flow>> flows;
  for (int i = 0; i < kFlows; ++i) {
    flows.push_back(std::make_unique<Flow>([&wrong, i](Flow& self) {
      for (int round = 0; round < 20; ++round) {
        const std::string outer = std::to_string(i) + "." + std::to_string(round);
        try {
          throw std::runtime_error(outer);
        } catch (const std::exception& error) {
          self.Suspend();
          if (CurrentMessage() != outer || error.what() != outer) wrong.push_back(outer);
          try {
            throw std::logic_error("inner of " + outer);
          } catch (const std::exception& inner) {
            self.Suspend();
            if (CurrentMessage() != "inner of " + outer || inner.what() != "inner of " + outer) wrong.push_back(outer);
          }
          if (CurrentMessage() != outer) wrong.push_back(outer);
        }
        if (std::current_exception() != nullptr) wrong.push_back(outer);
        if (round % 2 == 0) self.Suspend();
      }
    }));
  }
  TestThread threads[2];
  for (int turn = 0; !flows.back()->done() || !flows.front()->done(); ++turn) {
    for (auto& flow : flows) {
      if (!flow->done()) threads[turn++ % 2].Resume(*flow);
    }
  }
  EXPECT_EQ(wrong, std::vector<std::string>());
}

struct SuspendInDestructor {
  Flow* flow;
  int* before;
  int* after;
  ~SuspendInDestructor() {
    *before = std::uncaught_exceptions();
    flow->Suspend();
    *after = std::uncaught_exceptions();
  }
};

TEST_F(ContextTest, AFlowSuspendedWhileUnwindingGoesOnUnwindingOnAnotherThread) {
  int before = -1, after = -1;
  std::string caught;
  Flow flow([&](Flow& self) {
    try {
      SuspendInDestructor suspend{&self, &before, &after};
      throw std::runtime_error("unwinding");
    } catch (const std::exception& error) {
      caught = error.what();
    }
  });
  flow.Resume(&here_);
  EXPECT_EQ(std::uncaught_exceptions(), 0);
  EXPECT_EQ(before, 1);
  TestThread other;
  int in_other = -1;
  other.Run([&](Carrier* carrier) {
    flow.Resume(carrier);
    in_other = std::uncaught_exceptions();
  });
  EXPECT_EQ(after, 1);
  EXPECT_EQ(caught, "unwinding");
  EXPECT_EQ(in_other, 0);
}

TEST_F(ContextTest, AFlowStartedFromACatchBlockHasNoException) {
  bool clean = false;
  Flow flow([&](Flow&) {
    clean = std::current_exception() == nullptr && std::uncaught_exceptions() == 0;
    try {
      throw std::runtime_error("a passing one");
    } catch (const std::exception&) {
    }
  });
  try {
    throw std::logic_error("of the spawner");
  } catch (const std::exception&) {
    flow.Resume(&here_);
    EXPECT_EQ(CurrentMessage(), "of the spawner");
  }
  EXPECT_TRUE(clean);
}

TEST_F(ContextTest, AFlowMovesBetweenTwoThreadsAndKeepsErrnoAndExceptions) {
  constexpr int kMoves = 2000;
  int wrong = 0;
  Flow flow([&](Flow& self) {
    for (int i = 0; i < kMoves; ++i) {
      ThisThreadErrno() = i;
      try {
        throw i;
      } catch (int value) {
        self.Suspend();
        if (value != i || ThisThreadErrno() != i || std::current_exception() == nullptr) ++wrong;
      }
      if (std::current_exception() != nullptr) ++wrong;
    }
  });
  TestThread threads[2];
  for (int i = 0; !flow.done(); ++i) threads[i % 2].Resume(flow);
  EXPECT_EQ(wrong, 0);
}

WEFT_NOINLINE int CountFrames(int depth) {
  if (depth > 0) {
    const int frames = CountFrames(depth - 1);
    base::OpaqueBarrier();  // No tail call.
    return frames;
  }
  std::array<void*, 100> frames;
  const int count = backtrace(frames.data(), frames.size());
  // The last frame must be the call in the entry trampoline.
  const auto last = reinterpret_cast<std::uintptr_t>(frames[static_cast<std::size_t>(count) - 1]);
  const auto start = reinterpret_cast<std::uintptr_t>(&weft_context_start);
  return last > start && last < start + 64 ? count : -count;
}

TEST_F(ContextTest, ABacktraceEndsAtTheEntry) {
  int shallow = 0, deep = 0;
  Flow flow([&](Flow& self) {
    shallow = CountFrames(0);
    self.Suspend();
    deep = CountFrames(20);
  });
  flow.Resume(&here_);
  TestThread other;
  other.Resume(flow);
  EXPECT_GT(shallow, 3);
  EXPECT_LT(shallow, 20);
  EXPECT_GT(deep, 20);
  EXPECT_LT(deep, 50);
}

#if !WEFT_ASAN && !WEFT_TSAN
// Walks saved frame pointers, as profilers do (this file is compiled with them).
TEST_F(ContextTest, AChainOfFramePointersEnds) {
  int frames = -1;
  Flow flow([&](Flow& self) {
    auto* frame = static_cast<std::uintptr_t*>(__builtin_frame_address(0));
    const auto low = reinterpret_cast<std::uintptr_t>(self.stack_low());
    const auto high = reinterpret_cast<std::uintptr_t>(self.stack_high());
    for (frames = 0; frame != nullptr; ++frames) {
      const auto at = reinterpret_cast<std::uintptr_t>(frame);
      if (at < low || at >= high || frames > 100) {
        frames = -1;
        return;
      }
      frame = reinterpret_cast<std::uintptr_t*>(*frame);
    }
  });
  flow.Resume(&here_);
  EXPECT_GT(frames, 0);
}
#endif

TEST_F(ContextTest, ASuspendedFlowHasItsStackPointerInItsStack) {
  Flow flow([](Flow& self) { self.Suspend(); });
  flow.Resume(&here_);
  const auto* sp = static_cast<const char*>(flow.context()->saved_stack_pointer());
  EXPECT_GT(sp, flow.stack_low());
  EXPECT_LT(sp, flow.stack_high());
  flow.Resume(&here_);
}

TEST_F(ContextDeathTest, AnEntryThatReturnsIsReported) {
  EXPECT_DEATH(
      {
        Context context;
        std::vector<char> stack(64 * 1024);
        char* top = reinterpret_cast<char*>(reinterpret_cast<std::uintptr_t>(stack.data() + stack.size()) & ~15UL);
        MakeContext(&context, top, 60 * 1024, [](ThreadState*) {});
        SwitchContext(&here_.own, &context, &here_);
      },
      "entry function returned");
}

TEST_F(ContextDeathTest, SwitchingToAnEndedFlowIsReported) {
  EXPECT_DEATH(
      {
        Flow flow([](Flow&) {});
        flow.Resume(&here_);
        flow.Resume(&here_);
      },
      "a flow that had ended was switched to");
}

TEST_F(ContextDeathTest, AFlowThatEndsInACatchBlockIsReported) {
  EXPECT_DEATH(
      {
        Flow flow([](Flow& self) {
          try {
            throw 1;
          } catch (int) {
            LeaveContext(self.context(), &self.carrier()->own, self.carrier());
          }
        });
        flow.Resume(&here_);
      },
      "the flow ends while it handles an exception");
}

}  // namespace
}  // namespace weft::context
