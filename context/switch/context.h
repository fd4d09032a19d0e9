// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Context: a suspended flow of execution, and the switch from one to another.
//
// The jump itself is Boost.Context's (callee-saved registers, FP control words, stack pointer). Around it a switch
// keeps what belongs to the flow but lives in the thread: errno, and the two words in which the C++ runtime keeps the
// exceptions being thrown and handled (__cxa_get_globals); on aarch64 also FPCR, which Boost's jump leaves alone there.
// __errno_location() and __cxa_get_globals() are declared const: compilers would reuse their result after a switch to
// another thread. So the addresses are taken once per thread (InitThreadState) and travel with the thread as a
// ThreadState*.
//
//     thread T1: SwitchContext(&a, &b, &t1)                   a is suspended; T1 goes on in b
//     thread T2: SwitchContext(&c, &a, &t2)                   T2 goes on in a: the first call returns, on T2, with &t2
//
// Invariants
//   CX1  A Context is entered by one thread at a time, and only after the switch out of it is complete: the flow that
//        is switched to publishes it, not the one that left. The arriving side writes the saved stack pointer.
//   CX2  At the moment of a jump the thread's exception words are zero. A flow that has exceptions in flight (suspended
//        inside a catch block, or in a destructor run by unwinding) keeps them on its own stack and restores them when
//        it returns. So the usual switch only checks two words, and a new flow starts with none.
//   CX3  After a switch only the returned ThreadState may be used; the one passed in may belong to another thread by
//        now. The same goes for every address of a thread_local taken before it: see WEFT_TLS_ACCESSOR in
//        base/thread/cpu.h.
//   CX4  No lock is held over a switch, and no C++ exception leaves an entry function (it never returns either).
//
// Who may call: any thread that has called InitThreadState() and InitThreadContext(); MakeContext() any thread at all.
// Cost of what is added to the jump: bench/context/context_benchmark.cc, BM_Ring beside BM_BareRing.
//
// An unwinder ends at the entry trampoline, where the return address is undefined and the frame pointer zero. (Boost's
// own has no unwind information: a debugger runs past the stack's end.)
//
// Rejected: boost::context::fiber (allocates, and unwinds suspended stacks by an exception that `catch (...)` eats);
// saving the words unconditionally (two loads and two stores more for what is nearly always zero).
#ifndef WEFT_CONTEXT_SWITCH_CONTEXT_H_
#define WEFT_CONTEXT_SWITCH_CONTEXT_H_

#include <cstddef>
#include <cstdint>

#include "weft/base/thread/cpu.h"
#include "weft/context/switch/sanitizer.h"

namespace weft::context {

class Context;

// How the processor rounds, traps and treats denormal numbers (fesetround() and the like), without the exception flags.
struct FloatingPointControl {
  std::uint32_t vector = 0;  // MXCSR, or FPCR.
  std::uint16_t x87 = 0;
};

// What libc and libstdc++ keep per thread. Must outlive the thread's switches; a worker derives from it.
struct ThreadState {
  int* errno_location = nullptr;
  void* eh_globals = nullptr;
  Context* leaving =
      nullptr;  // The flow just left: from before a jump until its stack pointer has been stored after it.
  FloatingPointControl floating_point;  // What a new flow starts with.
};

// std::uncaught_exceptions() of the running flow: not 0 while its stack is unwound. `here`: the thread it runs on.
inline unsigned UncaughtExceptions(const ThreadState& here) noexcept {
  // The Itanium C++ ABI's __cxa_eh_globals: a pointer, then the count.
  return *reinterpret_cast<const unsigned*>(static_cast<const char*>(here.eh_globals) + sizeof(void*));
}

// Fills `state` for the calling thread. Ends the program with one line if the thread runs with a shadow stack (CET),
// which a switch of stacks would violate.
void InitThreadState(ThreadState* state);

// errno of the thread that the caller runs on at this moment. A function that reads errno on both sides of a switch
// must use this, or include switch_safe_errno.h, which says why.
int& ThisThreadErrno();

// errno is at the end of a scope as it was at the begin. For what a flow does for others before it leaves: system calls
// that the kernel may refuse, lines in the log, hooks. Nothing in the scope switches.
class KeepErrno {
 public:
  explicit KeepErrno(int* errno_of_thread) noexcept : errno_(errno_of_thread), saved_(*errno_of_thread) {}
  ~KeepErrno() { *errno_ = saved_; }
  KeepErrno(const KeepErrno&) = delete;
  KeepErrno& operator=(const KeepErrno&) = delete;

 private:
  int* const errno_;
  const int saved_;
};

// A new flow calls this first: the jump keeps what each flow has set, but a new flow would inherit it from the flow
// left for it, or from the last user of its stack. 2 ns; writes only what differs.
void BeginFloatingPoint(const ThreadState& here) noexcept;

// The flow's start: `here` is the thread it runs on. Never returns: it ends in LeaveContext().
using ContextEntry = void (*)(ThreadState* here);

// Trivially copyable; 8 bytes without sanitizers. A suspended Context may be copied, but only one copy may be used.
class Context {
 public:
  Context() = default;

  // The saved stack pointer, for debuggers and dumps: only meaningful while suspended.
  const void* saved_stack_pointer() const { return sp_; }
  // Where in a Context it lies.
  static constexpr std::size_t SavedStackPointerOffset() { return offsetof(Context, sp_); }

 private:
  friend void InitThreadContext(Context* context);
  friend void MakeContext(Context* context, void* stack_top, std::size_t stack_size, ContextEntry entry);
  friend void DestroyContext(Context* context);
  friend struct ContextAccess;

  void* sp_ = nullptr;
#if WEFT_ASAN
  const void* stack_low_ = nullptr;
  std::size_t stack_size_ = 0;
  void* fake_stack_ = nullptr;
#endif
#if WEFT_TSAN
  void* tsan_fiber_ = nullptr;
  bool owns_tsan_fiber_ = false;
#endif
};

// Makes the calling thread's own stack a flow that can be left and come back to.
void InitThreadContext(Context* context);

// A flow that will start in `entry` on the stack [stack_top - stack_size, stack_top) when first switched to.
// `stack_top` is aligned to 16. Touches only the stack's top 128 bytes.
void MakeContext(Context* context, void* stack_top, std::size_t stack_size, ContextEntry entry);

// Gives back what a Context holds besides its stack (TSan's handle). The flow is not running and will not run again.
void DestroyContext(Context* context);

// Suspends the running flow as `from` and resumes `to`. Returns when some flow switches to `from`, on whichever thread,
// with that thread's ThreadState; errno and the exception state are `from`'s again. `from` and `to` differ.
// Happens-before: the flow switched to sees what was done before the switch (same thread).
ThreadState* SwitchContext(Context* from, Context* to, ThreadState* here) noexcept;

// The last switch of an ending flow. Once `to` runs, from's stack may be reused; *from must stay writable until then.
[[noreturn]] void LeaveContext(Context* from, Context* to, ThreadState* here) noexcept;

// Tell Valgrind of stacks, so that it does not take a switch for an enormous frame. Compiled in where Valgrind's header
// is installed. Outside of Valgrind a call costs a few instructions, once for each mapped stack. Unmapped stacks stay
// registered: no stack pointer will be in them.
bool RunsOnValgrind() noexcept;
void TellValgrindOfStack(const void* low, const void* high) noexcept;  // [low, high): one stack

}  // namespace weft::context

#endif  // WEFT_CONTEXT_SWITCH_CONTEXT_H_
