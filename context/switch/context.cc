// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/context/switch/context.h"

#include <cxxabi.h>
#include <pthread.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <boost/context/detail/fcontext.hpp>
#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "weft/base/report/check.h"

#ifdef WEFT_HAVE_VALGRIND  // By CMakeLists.txt.
#include <valgrind/valgrind.h>
#endif

// noipa: the compiler must not look through a switch (no clones, no "preserves these registers", no folded results).
#if defined(__clang__)
#define WEFT_SWITCH __attribute__((noinline)) WEFT_NO_SANITIZE
#else
#define WEFT_SWITCH __attribute__((noipa)) WEFT_NO_SANITIZE
#endif

// On x86-64 the switch is written in assembler to keep calls and returns paired. jump_fcontext() ends in an indirect
// jump: when it is *called*, the processor's return predictor mispredicts every return of the resumed flow (29 ns a
// switch in BM_BareRing, 6 in BM_Ring of bench/context/context_benchmark.cc). Here it is jumped to, with a return
// address pushed by hand. Sanitizers need their calls right around the jump and take the C++ path.
#if defined(__x86_64__) && !WEFT_ASAN && !WEFT_TSAN
#define WEFT_ASSEMBLER_SWITCH 1
#else
#define WEFT_ASSEMBLER_SWITCH 0
#endif

extern "C" {
// The first instructions of every flow. make_fcontext() starts them with the transfer in the first two argument
// registers and the stack pointer at (or, on x86-64, one word below) the address given to it, where MakeContext() has
// left the entry. weft_context_main is called, not jumped to: its return address then lies in here, where the unwind
// information says that there is no caller.
void weft_context_start(boost::context::detail::transfer_t) __attribute__((visibility("hidden")));
[[noreturn]] void weft_context_main(void* left_sp, weft::context::ThreadState* here, weft::context::ContextEntry entry)
    __attribute__((visibility("hidden"), used));
#if WEFT_ASSEMBLER_SWITCH
// SwitchContext() for a flow without exceptions in flight (CX2).
weft::context::ThreadState* weft_switch_context(weft::context::Context* from, weft::context::Context* to,
                                                weft::context::ThreadState* here) __attribute__((visibility("hidden")));
#endif
}

#if defined(__x86_64__)
asm(R"(
  .pushsection .text.weft_context_start,"ax",@progbits
  .globl weft_context_start
  .hidden weft_context_start
  .hidden weft_context_main
  .type weft_context_start, @function
  .p2align 4
weft_context_start:
  .cfi_startproc
  .cfi_undefined rip
  endbr64
  xorl %ebp, %ebp
  movq 8(%rsp), %rdx
  addq $8, %rsp
  .cfi_adjust_cfa_offset -8
  call weft_context_main
  ud2
  .cfi_endproc
  .size weft_context_start, .-weft_context_start
  .popsection
)");
#elif defined(__aarch64__)
asm(R"(
  .pushsection .text.weft_context_start,"ax",@progbits
  .globl weft_context_start
  .hidden weft_context_start
  .hidden weft_context_main
  .type weft_context_start, %function
  .p2align 4
weft_context_start:
  .cfi_startproc
  .cfi_undefined x30
  hint #34
  mov x29, xzr
  mov x30, xzr
  ldr x2, [sp]
  bl weft_context_main
  brk #1
  .cfi_endproc
  .size weft_context_start, .-weft_context_start
  .popsection
)");
#else
#error "weft: context switching is written for x86-64 and aarch64"
#endif

#if WEFT_ASSEMBLER_SWITCH
// rdi = from, rsi = to, rdx = here. jump_fcontext(rdi = stack pointer to enter, rsi = data) comes back to the pushed
// address with rax = the stack pointer of the flow left and rdx = data. ContextAccess checks the field offsets.
asm(R"(
  .pushsection .text.weft_switch_context,"ax",@progbits
  .globl weft_switch_context
  .hidden weft_switch_context
  .type weft_switch_context, @function
  .p2align 5
weft_switch_context:
  .cfi_startproc
  endbr64
  movq (%rdx), %rax
  movl (%rax), %eax
  pushq %rax
  .cfi_adjust_cfa_offset 8
  movq %rdi, 16(%rdx)
  movq (%rsi), %rdi
  movq %rdx, %rsi
  leaq 1f(%rip), %rax
  pushq %rax
  .cfi_adjust_cfa_offset 8
  jmp jump_fcontext@PLT
  .cfi_adjust_cfa_offset -8
  nop
1:
  endbr64
  movq 16(%rdx), %rcx
  movq %rax, (%rcx)
  movq (%rdx), %rsi
  popq %rax
  .cfi_adjust_cfa_offset -8
  movl %eax, (%rsi)
  movq %rdx, %rax
  ret
  .cfi_endproc
  .size weft_switch_context, .-weft_switch_context
  .popsection
)");
#endif

namespace weft::context {

namespace fcontext = boost::context::detail;

// The Itanium C++ ABI's __cxa_eh_globals, which <cxxabi.h> leaves incomplete.
struct ExceptionWords {
  void* caught;
  unsigned int uncaught;
};

// The only way into a Context's fields for the functions below.
struct ContextAccess {
#if WEFT_ASSEMBLER_SWITCH
  static_assert(offsetof(ThreadState, errno_location) == 0 && offsetof(ThreadState, leaving) == 16);
  static_assert(offsetof(Context, sp_) == 0);
#endif
  WEFT_ALWAYS_INLINE static void* StackPointer(const Context* context) { return context->sp_; }
  WEFT_ALWAYS_INLINE static void SetStackPointer(Context* context, void* sp) { context->sp_ = sp; }

  // SAN1 in sanitizer.h. `comes_back` false: LeaveContext().
  WEFT_ALWAYS_INLINE static void TellLeave([[maybe_unused]] Context* from, [[maybe_unused]] Context* to,
                                           [[maybe_unused]] bool comes_back) {
#if WEFT_ASAN
    AsanLeave(comes_back ? &from->fake_stack_ : nullptr, to->stack_low_, to->stack_size_);
#endif
#if WEFT_TSAN
    TsanLeave(to->tsan_fiber_);
#endif
  }
  WEFT_ALWAYS_INLINE static void TellArrive([[maybe_unused]] Context* arrived) {
#if WEFT_ASAN
    AsanArrive(arrived->fake_stack_);
#endif
  }
};

namespace {

// The ABI's header declares it const; out of line and opaque it is evaluated each time.
WEFT_TLS_ACCESSOR void* ExceptionGlobals() {
  base::OpaqueBarrier();
  return abi::__cxa_get_globals();
}

WEFT_ALWAYS_INLINE ExceptionWords* WordsOf(ThreadState* here) { return static_cast<ExceptionWords*>(here->eh_globals); }

WEFT_ALWAYS_INLINE bool HasExceptions(const ExceptionWords* words) {
  return (reinterpret_cast<std::uintptr_t>(words->caught) | words->uncaught) != 0;
}

#if defined(__x86_64__)
constexpr std::uint32_t kMxcsrFlags = 0x3f;  // Sticky exception flags.

FloatingPointControl ReadFloatingPointControl() noexcept {
  FloatingPointControl control;
  asm volatile("stmxcsr %0" : "=m"(control.vector));
  asm volatile("fnstcw %0" : "=m"(control.x87));
  control.vector &= ~kMxcsrFlags;
  return control;
}

void WriteFloatingPointControl(const FloatingPointControl& control) noexcept {
  asm volatile("ldmxcsr %0" : : "m"(control.vector));
  asm volatile("fldcw %0" : : "m"(control.x87));
}
#else
FloatingPointControl ReadFloatingPointControl() noexcept {
  std::uint64_t fpcr;
  asm volatile("mrs %0, fpcr" : "=r"(fpcr));
  return {.vector = static_cast<std::uint32_t>(fpcr)};
}

void WriteFloatingPointControl(const FloatingPointControl& control) noexcept {
  asm volatile("msr fpcr, %0" : : "r"(static_cast<std::uint64_t>(control.vector)));
}
#endif

// x86-64's jump keeps the control words. That of aarch64 keeps d8 to d15 and leaves FPCR alone. A write may stop the
// pipeline, so it is left out where it changes nothing.
struct KeptFloatingPoint {
#if !defined(__x86_64__)
  FloatingPointControl control = ReadFloatingPointControl();
  WEFT_ALWAYS_INLINE void Restore() const noexcept {
    if (WEFT_UNLIKELY(ReadFloatingPointControl().vector != control.vector)) WriteFloatingPointControl(control);
  }
#else
  WEFT_ALWAYS_INLINE void Restore() const noexcept {}
#endif
};

// The switch of a flow without exceptions: CX1, errno, and what the jump leaves out.
#if WEFT_ASSEMBLER_SWITCH
WEFT_ALWAYS_INLINE ThreadState* Jump(Context* from, Context* to, ThreadState* here) {
  return weft_switch_context(from, to, here);
}
#else
WEFT_ALWAYS_INLINE ThreadState* Jump(Context* from, Context* to, ThreadState* here) {
  const int saved_errno = *here->errno_location;
  const KeptFloatingPoint floating_point;
  here->leaving = from;
  ContextAccess::TellLeave(from, to, /*comes_back=*/true);
  const fcontext::transfer_t arrival = fcontext::jump_fcontext(ContextAccess::StackPointer(to), here);
  ContextAccess::TellArrive(from);
  auto* there = static_cast<ThreadState*>(arrival.data);
  ContextAccess::SetStackPointer(there->leaving, arrival.fctx);
  *there->errno_location = saved_errno;
  floating_point.Restore();
  return there;
}
#endif

// CX2. Separate from SwitchContext(), so that the usual path keeps no words over the jump.
WEFT_COLD WEFT_SWITCH ThreadState* SwitchWithExceptions(Context* from, Context* to, ThreadState* here) {
  const ExceptionWords saved = *WordsOf(here);
  *WordsOf(here) = ExceptionWords{};
  ThreadState* there = Jump(from, to, here);
  *WordsOf(there) = saved;
  return there;
}

// Reports in one line now what would be a control-protection fault at the first switch.
void CheckNoShadowStack() {
#if defined(__x86_64__)
  constexpr int kArchShstkStatus = 0x5005;     // ARCH_SHSTK_STATUS in <asm/prctl.h> of Linux 6.6 and later
  constexpr std::uint64_t kShadowStackOn = 1;  // ARCH_SHSTK_SHSTK
  std::uint64_t features = 0;
  if (syscall(SYS_arch_prctl, kArchShstkStatus, &features) != 0) return;  // A kernel without shadow stacks.
  WEFT_CHECK((features & kShadowStackOn) == 0,
             "this thread runs with a CET shadow stack, which fibers do not support: "
             "start the program with GLIBC_TUNABLES=glibc.cpu.x86_shstk=off");
#endif
}

}  // namespace

void BeginFloatingPoint(const ThreadState& here) noexcept {
  const FloatingPointControl now = ReadFloatingPointControl();
  if (WEFT_LIKELY(now.vector == here.floating_point.vector && now.x87 == here.floating_point.x87)) return;
  WriteFloatingPointControl(here.floating_point);
}

WEFT_TLS_ACCESSOR int& ThisThreadErrno() {
  base::OpaqueBarrier();
  return errno;
}

void InitThreadState(ThreadState* state) {
  CheckNoShadowStack();
  state->errno_location = &ThisThreadErrno();
  state->eh_globals = ExceptionGlobals();
  state->leaving = nullptr;
  state->floating_point = ReadFloatingPointControl();
}

void InitThreadContext(Context* context) {
  *context = Context();
  if (WEFT_ASAN || RunsOnValgrind()) {
    pthread_attr_t attributes;
    void* low = nullptr;
    std::size_t size = 0;
    WEFT_CHECK(pthread_getattr_np(pthread_self(), &attributes) == 0, "InitThreadContext: no stack bounds");
    pthread_attr_getstack(&attributes, &low, &size);
    pthread_attr_destroy(&attributes);
    TellValgrindOfStack(low, static_cast<char*>(low) + size);
#if WEFT_ASAN
    context->stack_low_ = low;
    context->stack_size_ = size;
#endif
  }
#if WEFT_TSAN
  context->tsan_fiber_ = TsanCurrent();
#endif
}

void MakeContext(Context* context, void* stack_top, std::size_t stack_size, ContextEntry entry) {
  WEFT_DCHECK(reinterpret_cast<std::uintptr_t>(stack_top) % 16 == 0, "MakeContext: unaligned stack");
  *context = Context();
  auto** start = static_cast<void**>(stack_top) - 2;  // Two words: keeps the alignment of 16.
  start[0] = reinterpret_cast<void*>(entry);
  start[1] = nullptr;
  context->sp_ = fcontext::make_fcontext(start, stack_size - 2 * sizeof(void*), weft_context_start);
#if WEFT_ASAN
  context->stack_low_ = static_cast<char*>(stack_top) - stack_size;
  context->stack_size_ = stack_size;
#endif
#if WEFT_TSAN
  context->tsan_fiber_ = TsanCreate();
  context->owns_tsan_fiber_ = true;
#endif
}

void DestroyContext([[maybe_unused]] Context* context) {
#if WEFT_TSAN
  if (context->owns_tsan_fiber_) TsanDestroy(context->tsan_fiber_);
  context->owns_tsan_fiber_ = false;
#endif
}

WEFT_SWITCH ThreadState* SwitchContext(Context* from, Context* to, ThreadState* here) noexcept {
  if (WEFT_UNLIKELY(HasExceptions(WordsOf(here)))) return SwitchWithExceptions(from, to, here);
  return Jump(from, to, here);
}

WEFT_SWITCH void LeaveContext(Context* from, Context* to, ThreadState* here) noexcept {
  WEFT_CHECK(!HasExceptions(WordsOf(here)), "LeaveContext: the flow ends while it handles an exception");
  here->leaving = from;
  ContextAccess::TellLeave(from, to, /*comes_back=*/false);
  fcontext::jump_fcontext(ContextAccess::StackPointer(to), here);
  WEFT_FATAL("LeaveContext: a flow that had ended was switched to");
}

#ifdef WEFT_HAVE_VALGRIND
bool RunsOnValgrind() noexcept { return RUNNING_ON_VALGRIND != 0; }
void TellValgrindOfStack(const void* low, const void* high) noexcept {
  static_cast<void>(VALGRIND_STACK_REGISTER(low, high));
}
#else
bool RunsOnValgrind() noexcept { return false; }
void TellValgrindOfStack(const void* /*low*/, const void* /*high*/) noexcept {}
#endif

}  // namespace weft::context

// Called by weft_context_start only. The first thing done in every flow: what SwitchContext() does after its jump.
WEFT_NO_SANITIZE void weft_context_main(void* left_sp, weft::context::ThreadState* here,
                                        weft::context::ContextEntry entry) {
  weft::context::AsanArrive(nullptr);
  weft::context::ContextAccess::SetStackPointer(here->leaving, left_sp);
  entry(here);
  WEFT_FATAL("a context's entry function returned");
}
