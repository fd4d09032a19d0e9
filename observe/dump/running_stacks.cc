// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/observe/dump/running_stacks.h"

#include <signal.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>

#include "weft/base/report/build_mode.h"
#include "weft/base/thread/exit.h"
#include "weft/context/stack/stack_registry.h"
#include "weft/observe/dump/own_signals.h"
#include "weft/scheduling_group/fiber/fiber_entity.h"
#include "weft/scheduling_group/watch/watchdog.h"
#include "weft/scheduling_group/worker/current_worker.h"

namespace weft::observe {
namespace {

using scheduling_group::FiberEntity;

constexpr int kSignal = SIGURG;

// The states of the word, in its lowest bits; above, the number of the thread that is asked.
enum : std::uint64_t { kFree = 0, kAsked = 1, kCopying = 2, kCopied = 3, kStates = 4 };

constexpr std::uint64_t WordOf(int thread, std::uint64_t state) {
  return static_cast<std::uint64_t>(thread) * kStates + state;
}

constinit std::atomic<std::uint64_t> word{kFree};
constinit std::atomic<bool> lock{false};  // A dump asks.

// RNS1. fiber_id 0: the thread does not stand on a fiber's stack.
struct Buffer {
  std::uint64_t fiber_id;
  std::uint64_t low;
  std::uint64_t pc;
  std::size_t size;  // in words
  std::array<std::uint64_t, 32> registers;
  std::array<std::uint64_t, RunningStacks::kMostStack / sizeof(std::uint64_t)> words;
};
constinit Buffer buffer{};

// AnswerFor(), of the first one.
constinit std::atomic<pid_t> dying_thread{0};
constinit const void* death = nullptr;

#if defined(__x86_64__)
// In DWARF's order.
constexpr std::array kRegisters{REG_RAX, REG_RDX, REG_RCX, REG_RBX, REG_RSI, REG_RDI, REG_RBP, REG_RSP,
                                REG_R8,  REG_R9,  REG_R10, REG_R11, REG_R12, REG_R13, REG_R14, REG_R15};
constexpr std::size_t kRegisterCount = kRegisters.size();

void CopyRegisters(const ucontext_t& context) {
  for (std::size_t i = 0; i < kRegisterCount; ++i) {
    buffer.registers[i] = static_cast<std::uint64_t>(context.uc_mcontext.gregs[kRegisters[i]]);
  }
  buffer.low = static_cast<std::uint64_t>(context.uc_mcontext.gregs[REG_RSP]);
  buffer.pc = static_cast<std::uint64_t>(context.uc_mcontext.gregs[REG_RIP]);
}
#elif defined(__aarch64__)
constexpr std::size_t kRegisterCount = 32;  // x0 to x30, sp

void CopyRegisters(const ucontext_t& context) {
  for (std::size_t i = 0; i < 31; ++i) buffer.registers[i] = context.uc_mcontext.regs[i];
  buffer.registers[31] = buffer.low = context.uc_mcontext.sp;
  buffer.pc = context.uc_mcontext.pc;
}
#endif

// By words that AddressSanitizer does not judge, and that do not become a memcpy(), which it would.
__attribute__((no_sanitize("address"))) void CopyWords(const volatile std::uint64_t* from, std::size_t size) {
  for (std::size_t i = 0; i < size; ++i) buffer.words[i] = from[i];
}

// Of the fiber on whose stack the thread stands. Async-signal-safe.
void CopyStack() {
  buffer.fiber_id = 0;
  const FiberEntity* const fiber = scheduling_group::CurrentFiber();
  if (fiber == nullptr || !fiber->has_stack()) return;
  const auto* low = reinterpret_cast<const char*>(buffer.low);
  const auto* const top = static_cast<const char*>(fiber->stack_top());
  context::StackBounds bounds;
  // It may be about to leave the fiber or to enter it, or be in a handler with a stack of its own.
  if (!context::FindStack(low, &bounds) || low >= top || top > bounds.high) return;
  low = std::max(low, static_cast<const char*>(bounds.low));  // An overflow: it stands in the guard.
  buffer.low = reinterpret_cast<std::uint64_t>(low);
  buffer.size = std::min(static_cast<std::size_t>(top - low), RunningStacks::kMostStack) / sizeof(std::uint64_t);
  CopyWords(reinterpret_cast<const volatile std::uint64_t*>(low), buffer.size);
  buffer.fiber_id = fiber->id();
}

void OnSignal(int /*signal*/, siginfo_t* /*info*/, void* machine_context) {
  const int saved_errno = errno;
  const pid_t self = ::gettid();
  std::uint64_t expected = WordOf(self, kAsked);  // RNS4
  // acquire: the buffer, as its last reader left it. Pairs with the release in Ask().
  if (word.compare_exchange_strong(expected, WordOf(self, kCopying), std::memory_order_acquire,
                                   std::memory_order_relaxed)) {
    // relaxed: it is this thread's own.
    const bool dies = dying_thread.load(std::memory_order_relaxed) == self && death != nullptr;
    CopyRegisters(*static_cast<const ucontext_t*>(dies ? death : machine_context));
    CopyStack();
    // release: the buffer. Pairs with the acquire in Ask().
    word.store(WordOf(self, kCopied), std::memory_order_release);
  }
  errno = saved_errno;
}

// "": the handler is there.
std::string InstallHandler() {
  if (WEFT_TSAN) return "ThreadSanitizer delays signals";
  struct sigaction found = {};
  ::sigaction(kSignal, nullptr, &found);
  if ((found.sa_flags & SA_SIGINFO) != 0 && found.sa_sigaction == &OnSignal) return "";
  // Who ignores it does not notice.
  if ((found.sa_flags & SA_SIGINFO) != 0 || (found.sa_handler != SIG_DFL && found.sa_handler != SIG_IGN)) {
    return "this program uses SIGURG itself";
  }
  base::PinThisLibrary();  // The handler is never removed.
  struct sigaction action = {};
  action.sa_sigaction = &OnSignal;
  action.sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK;
  ::sigemptyset(&action.sa_mask);
  AddOwnSignal(kSignal, action);
  return ::sigaction(kSignal, &action, nullptr) == 0 ? "" : "SIGURG cannot be handled";
}

// Calls done() until it says true. False: the time is up.
template <class Done>
bool WaitUntil(std::chrono::steady_clock::time_point until, Done done) {
  while (!done()) {
    if (std::chrono::steady_clock::now() >= until) return false;
    constexpr timespec kPause{.tv_sec = 0, .tv_nsec = 20'000};
    ::nanosleep(&kPause, nullptr);
  }
  return true;
}

// acquire: what the last holder did. Pairs with the release in ~Unlock().
bool TryLock() { return !lock.exchange(true, std::memory_order_acquire); }
struct Unlock {  // At its end: a copy may find no memory.
  ~Unlock() { lock.store(false, std::memory_order_release); }
};

}  // namespace

void RunningStacks::AnswerFor(const void* machine_context) noexcept {
  pid_t none = 0;
  // relaxed: what follows is read by this thread's own signal handler.
  if (dying_thread.compare_exchange_strong(none, ::gettid(), std::memory_order_relaxed)) death = machine_context;
}

RunningStacks::RunningStacks(bool wanted) : why_not_(wanted ? InstallHandler() : "not asked for") {}

const StackCopy* RunningStacks::Copy(const FiberEntity* fiber, std::uint64_t id) {
  if (!why_not_.empty() || left_ <= std::chrono::nanoseconds(0)) return nullptr;
  const TimePoint begin = std::chrono::steady_clock::now();
  const TimePoint until = begin + std::min<std::chrono::nanoseconds>(left_, kMostWait);
  bool copied = false;
  if (WaitUntil(until, &TryLock)) {
    const Unlock at_end;
    const pid_t thread = scheduling_group::Watchdog::Get().ThreadOf(fiber);
    copied = thread != 0 && Ask(thread, until) && Take(id);
  }
  left_ -= std::chrono::steady_clock::now() - begin;
  return copied ? &copy_ : nullptr;
}

// True: the buffer is ours. (The holder of the lock.)
bool RunningStacks::Ask(int thread, TimePoint until) {
  std::uint64_t found = word.load(std::memory_order_relaxed);  // The exchange has the order.
  if (found % kStates == kCopying) return false;
  // release: what we have read of the buffer comes before. Pairs with the acquire in OnSignal().
  if (!word.compare_exchange_strong(found, WordOf(thread, kAsked), std::memory_order_release)) return false;
  if (::tgkill(::getpid(), thread, kSignal) == 0) {
    // acquire: the buffer. Pairs with the release in OnSignal().
    const auto is_copied = [&] { return word.load(std::memory_order_acquire) == WordOf(thread, kCopied); };
    if (WaitUntil(until, is_copied)) return true;
  }
  std::uint64_t asked = WordOf(thread, kAsked);
  // acquire, if it fails: as above.
  if (word.compare_exchange_strong(asked, kFree, std::memory_order_relaxed, std::memory_order_acquire)) return false;
  return asked == WordOf(thread, kCopied);
}

bool RunningStacks::Take(std::uint64_t id) {
  if (buffer.fiber_id != id || id == 0) return false;
  words_.assign(buffer.words.begin(), buffer.words.begin() + static_cast<std::ptrdiff_t>(buffer.size));
  registers_.assign(buffer.registers.begin(), buffer.registers.begin() + kRegisterCount);
  copy_ = {.low = buffer.low, .words = words_, .registers = registers_, .pc = buffer.pc};
  return true;
}

}  // namespace weft::observe
