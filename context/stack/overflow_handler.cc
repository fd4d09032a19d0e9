// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/context/stack/overflow_handler.h"

#include <execinfo.h>
#include <pthread.h>
#include <sys/mman.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <cstdint>
#include <mutex>
#include <string_view>

#include "weft/base/report/build_mode.h"
#include "weft/base/report/check.h"
#include "weft/base/report/log.h"
#include "weft/base/thread/atomic.h"
#include "weft/context/stack/stack_memory.h"
#include "weft/context/stack/stack_registry.h"

namespace weft::context {
namespace {

// Former actions of one signal, in the order found. Those below `count` never change: the handler may read them.
struct FormerActions {
  static constexpr std::size_t kMost = 8;
  std::array<struct sigaction, kMost> actions{};
  std::array<base::Atomic<bool>, kMost> spent{};  // OH2
  base::Atomic<std::size_t> count{0};
};
constinit FormerActions g_former_segv;  // Static constructors may start the runtime.
constinit FormerActions g_former_bus;

// Of the fault that this thread is handling (OH1). A former handler that calls ours does so from a frame below ours. A
// handler left by siglongjmp() leaves these values behind; the next fault is not part of that one.
struct Handling {
  const siginfo_t* info = nullptr;
  const void* frame = nullptr;
  std::size_t passed_on = 0;
};
constinit thread_local Handling tls_handling;

constinit base::Atomic<DescribeRunningFiber> g_describe{nullptr};

// A line put together without stdio.
class SafeLine {
 public:
  SafeLine& Add(std::string_view text) {
    for (const char c : text) {
      if (length_ < text_.size()) text_[length_++] = c;
    }
    return *this;
  }
  SafeLine& AddDecimal(std::uint64_t value) { return AddNumber(value, 10); }
  SafeLine& AddAddress(const void* address) {
    return Add("0x").AddNumber(reinterpret_cast<std::uintptr_t>(address), 16);
  }
  void Write() const {
    // A failure cannot be reported.
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text_.data(), length_);
  }

 private:
  SafeLine& AddNumber(std::uint64_t value, unsigned base) {
    std::array<char, 20> digits;  // 2^64 in decimal.
    std::size_t first = digits.size();
    do {
      digits[--first] = "0123456789abcdef"[value % base];
      value /= base;
    } while (value != 0);
    return Add(std::string_view(digits.data() + first, digits.size() - first));
  }

  std::array<char, 512> text_;
  std::size_t length_ = 0;
};

// Not strlen(): the stack overflow may have overwritten the name.
std::string_view BoundedName(const char* name) {
  constexpr std::size_t kMaxName = 128;
  std::size_t length = 0;
  while (length < kMaxName && name[length] != '\0') ++length;
  return {name, length};
}

const void* StackPointerOf(const void* machine_context) {
  const auto* context = static_cast<const ucontext_t*>(machine_context);
#if defined(__x86_64__)
  return reinterpret_cast<const void*>(context->uc_mcontext.gregs[REG_RSP]);
#elif defined(__aarch64__)
  return reinterpret_cast<const void*>(context->uc_mcontext.sp);
#else
  static_cast<void>(context);
  return nullptr;
#endif
}

void AddFiber(SafeLine* line, bool known, const OverflowInfo& info) {
  if (!known) {
    line->Add("a fiber");
    return;
  }
  line->Add("fiber ").Add(*info.name != '\0' ? BoundedName(info.name) : base::kUnnamedFiber);
  line->Add(" (id ").AddDecimal(info.id).Add(")");
}

void AddStack(SafeLine* line, const StackBounds& bounds, const void* fault_address) {
  line->Add(", stack size ").AddDecimal(static_cast<std::uint64_t>(bounds.high - bounds.low)).Add(" bytes, stack [");
  line->AddAddress(bounds.low).Add(", ").AddAddress(bounds.high).Add("), fault at ").AddAddress(fault_address);
}

// A sanitizer's handler is there without the program's doing, and says nothing of fibers.
constexpr bool kHandlersAreOfTheProgram = WEFT_ASAN == 0 && WEFT_TSAN == 0;

bool IsOnGuard(const void* address) {
  StackBounds guarded;
  return FindStack(address, &guarded) && address < guarded.low;
}

void Report(const siginfo_t& fault, const void* machine_context) {
  const void* const address = fault.si_addr;
  const void* const stack_pointer = StackPointerOf(machine_context);
  OverflowInfo info;
  info.fault_address = address;
  StackBounds guarded;
  const bool on_guard = FindStack(address, &guarded) && address < guarded.low;
  if (on_guard) {
    info.stack_low = guarded.low;
    info.stack_high = guarded.high;
  }
  // acquire: pairs with the release in SetDescribeRunningFiber(), for what the hook looks at.
  const DescribeRunningFiber describe = g_describe.load(std::memory_order_acquire);
  const bool known = describe != nullptr && describe(&info);
  // The fiber's own stack: a frame that is too large may have moved the stack pointer out of it.
  StackBounds own;
  const bool has_own = known && info.stack_top != nullptr
                           ? FindStack(static_cast<const char*>(info.stack_top) - 1, &own)
                           : FindStack(stack_pointer, &own);
  if (!on_guard && !has_own) return;  // Not in a fiber.

  SafeLine line;
  line.Add("weft: ");
  if (on_guard && (!has_own || own.low == guarded.low)) {
    line.Add("stack overflow in ");
    AddFiber(&line, known, info);
    AddStack(&line, guarded, address);
  } else {
    line.Add("segmentation fault in ");
    AddFiber(&line, known, info);
    AddStack(&line, own, address);
    // A wild pointer, or a frame so large that it has jumped over its own guard.
    if (on_guard) line.Add(", on the guard of another fiber's stack");
    if (stack_pointer < own.low || stack_pointer >= own.high) {
      line.Add(", stack pointer outside of the stack at ").AddAddress(stack_pointer);
    }
  }
  line.Add("\n").Write();
  if (!on_guard) return;

  std::array<void*, 64> frames;
  backtrace_symbols_fd(frames.data(), backtrace(frames.data(), frames.size()), STDERR_FILENO);
}

FormerActions& FormerActionsOf(int signal) { return signal == SIGSEGV ? g_former_segv : g_former_bus; }

// `passed_on`: how many of them have had this fault already.
struct sigaction FormerAction(int signal, std::size_t passed_on) {
  FormerActions& all = FormerActionsOf(signal);
  // acquire: the entries. Pairs with the release in AddFormerAction().
  const std::size_t count = all.count.load(std::memory_order_acquire);
  struct sigaction former = {};
  former.sa_handler = SIG_DFL;
  if (passed_on >= count) return former;
  const std::size_t index = count - 1 - passed_on;
  // relaxed: it carries nothing; of two threads one takes it.
  const bool once = (static_cast<unsigned>(all.actions[index].sa_flags) & static_cast<unsigned>(SA_RESETHAND)) != 0;
  if (once && all.spent[index].exchange(true, std::memory_order_relaxed)) return former;
  return all.actions[index];
}

bool IsFunction(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 || (action.sa_handler != SIG_DFL && action.sa_handler != SIG_IGN);
}

// With the signals blocked that the kernel would have blocked for it. It may not come back.
void CallFormerHandler(const struct sigaction& former, int signal, siginfo_t* info, void* machine_context) {
  const sigset_t& interrupted = static_cast<const ucontext_t*>(machine_context)->uc_sigmask;
  pthread_sigmask(SIG_BLOCK, &former.sa_mask, nullptr);  // The kernel puts the old mask back when we return.
  if ((former.sa_flags & SA_NODEFER) != 0 && sigismember(&former.sa_mask, signal) == 0 &&
      sigismember(&interrupted, signal) == 0) {
    sigset_t only;
    sigemptyset(&only);
    sigaddset(&only, signal);
    pthread_sigmask(SIG_UNBLOCK, &only, nullptr);
  }
  if ((former.sa_flags & SA_SIGINFO) != 0) {
    former.sa_sigaction(signal, info, machine_context);
  } else {
    former.sa_handler(signal);
  }
}

void TakeFormerAction(int signal, std::size_t passed_on, siginfo_t* info, void* machine_context) {
  const struct sigaction former = FormerAction(signal, passed_on);
  if (IsFunction(former)) return CallFormerHandler(former, signal, info, machine_context);
  const bool sent = info->si_code <= 0;  // By kill() and the like, not by a fault.
  if (kHandlersAreOfTheProgram && !sent && !IsOnGuard(info->si_addr)) Report(*info, machine_context);
  if (sent && former.sa_handler == SIG_IGN) return;
  base::CallFatalErrorHook(/*abort_follows=*/false, machine_context);
  // We return, and the fault is repeated; a signal that was sent is sent once more.
  struct sigaction default_action = {};
  default_action.sa_handler = SIG_DFL;
  sigaction(signal, &default_action, nullptr);
  if (sent) raise(signal);
}

void OnFault(int signal, siginfo_t* info, void* machine_context) {
  const int saved_errno = errno;
  const void* const frame = __builtin_frame_address(0);
  const Handling outer = tls_handling;
  const bool passed_on_to_us = outer.info == info && frame < outer.frame;
  const bool first = !passed_on_to_us && info->si_code > 0;
  if (first && (!kHandlersAreOfTheProgram || IsOnGuard(info->si_addr))) Report(*info, machine_context);
  errno = saved_errno;
  const std::size_t passed_on = passed_on_to_us ? outer.passed_on + 1 : 0;
  tls_handling = {.info = info, .frame = frame, .passed_on = passed_on};
  TakeFormerAction(signal, passed_on, info, machine_context);
  tls_handling = outer;
}

bool IsOurs(const struct sigaction& action) {
  return (action.sa_flags & SA_SIGINFO) != 0 && action.sa_sigaction == OnFault;
}

bool AreTheSame(const struct sigaction& a, const struct sigaction& b) {
  for (int signal = 1; signal < NSIG; ++signal) {
    if (sigismember(&a.sa_mask, signal) != sigismember(&b.sa_mask, signal)) return false;
  }
  return a.sa_flags == b.sa_flags &&
         ((a.sa_flags & SA_SIGINFO) != 0 ? a.sa_sigaction == b.sa_sigaction : a.sa_handler == b.sa_handler);
}

// By one thread at a time. False: there are too many others.
bool AddFormerAction(FormerActions* all, const struct sigaction& former) {
  const std::size_t count = all->count.load(std::memory_order_relaxed);  // Only we write it.
  if (count != 0 && AreTheSame(all->actions[count - 1], former)) {
    all->spent[count - 1].store(false, std::memory_order_relaxed);  // As in FormerAction().
    return true;
  }
  if (count == FormerActions::kMost) return false;
  all->actions[count] = former;
  // release: the entry. Pairs with the acquire in TakeFormerAction().
  all->count.store(count + 1, std::memory_order_release);
  return true;
}

void PutInFront(int signal) {
  struct sigaction found = {};
  if (sigaction(signal, nullptr, &found) != 0 || IsOurs(found)) return;
  if (!AddFormerAction(&FormerActionsOf(signal), found)) {
    WEFT_LOG_EVERY_SECOND(WARNING, "overflow handler: it has been replaced ", FormerActions::kMost,
                          " times, and is left out now: stack overflows are not reported any more");
    return;
  }
  struct sigaction action = {};
  action.sa_sigaction = OnFault;
  action.sa_flags = SA_SIGINFO | SA_ONSTACK | (found.sa_flags & SA_RESTART);
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
}

std::mutex& InstallMutex() {
  static auto* const mutex = new std::mutex;  // Never destroyed: workers go on while the process ends.
  return *mutex;
}
constinit base::Atomic<bool> g_installed{false};
constinit base::Atomic<std::int64_t> g_looked_at_ms{0};

}  // namespace

void SetDescribeRunningFiber(DescribeRunningFiber describe) {
  // release: pairs with the acquire in Report().
  g_describe.store(describe, std::memory_order_release);
}

void InstallOverflowHandler() {
  const std::lock_guard lock(InstallMutex());
  if (g_installed.load(std::memory_order_relaxed)) return;  // Written under the mutex.
  void* frame = nullptr;
  backtrace(&frame, 1);  // Loads the unwinder now: it allocates.
  PutInFront(SIGSEGV);
  PutInFront(SIGBUS);
  // relaxed: a reader takes the mutex before it acts.
  g_installed.store(true, std::memory_order_relaxed);
}

void CheckOverflowHandler() {
  if (!g_installed.load(std::memory_order_relaxed)) return;
  const std::unique_lock lock(InstallMutex(), std::try_to_lock);
  if (!lock.owns_lock()) return;  // Another thread checks.
  PutInFront(SIGSEGV);
  PutInFront(SIGBUS);
}

void CheckOverflowHandlerNowAndThen() {
  timespec time = {};
  clock_gettime(CLOCK_MONOTONIC_COARSE, &time);  // Some milliseconds late, and a third of the other one's cost.
  const std::int64_t now = std::int64_t{time.tv_sec} * 1000 + time.tv_nsec / 1'000'000;
  // relaxed, both: they carry nothing, and two threads that check at once do no harm.
  if (now - g_looked_at_ms.load(std::memory_order_relaxed) < kLookAtHandlersEvery.count()) return;
  g_looked_at_ms.store(now, std::memory_order_relaxed);
  CheckOverflowHandler();
}

AlternateSignalStack::AlternateSignalStack() {
  // The signal frame holds all vector registers (11 KiB with AMX), the unwinder and the symbol look-up need some 10
  // KiB, a former handler, say a sanitizer's, perhaps more. Untouched memory costs nothing.
  constexpr std::size_t kStackSize = 256 * 1024;
  const std::size_t guard_size = StackMemory::PageSize();
  void* mapping = mmap(nullptr, kStackSize + guard_size, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
  if (mapping == MAP_FAILED) return;
  mprotect(mapping, guard_size, PROT_NONE);
  stack_t stack = {};
  stack.ss_sp = static_cast<char*>(mapping) + guard_size;
  stack.ss_size = kStackSize;
  if (sigaltstack(&stack, &former_) != 0) {
    munmap(mapping, kStackSize + guard_size);
    return;
  }
  mapping_ = mapping;
  mapped_size_ = kStackSize + guard_size;
}

AlternateSignalStack::~AlternateSignalStack() {
  if (mapping_ == nullptr) return;
  sigaltstack(&former_, nullptr);
  munmap(mapping_, mapped_size_);
}

}  // namespace weft::context
