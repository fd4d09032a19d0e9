// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/context/overflow_handler.h"

#include <execinfo.h>
#include <sys/mman.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cerrno>
#include <mutex>
#include <string_view>

#include "weft/base/atomic.h"
#include "weft/context/stack_memory.h"
#include "weft/context/stack_registry.h"

namespace weft::context {
namespace {

// Two signals, two former actions. Written before the handler is installed, never after.
struct sigaction g_former_segv;
struct sigaction g_former_bus;

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
    // Nothing can be done about a failure.
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

// Not strlen(): the name belongs to a fiber whose stack has just run over something.
std::string_view BoundedName(const char* name) {
  constexpr std::size_t kMaxName = 128;
  std::size_t length = 0;
  while (length < kMaxName && name[length] != '\0') ++length;
  return {name, length};
}

void Report(const void* fault_address, const StackBounds& bounds) {
  OverflowInfo info;
  info.fault_address = fault_address;
  info.stack_low = bounds.low;
  info.stack_high = bounds.high;
  SafeLine line;
  line.Add("weft: stack overflow in ");
  // acquire: pairs with the release in SetDescribeRunningFiber(), for what the hook looks at.
  const DescribeRunningFiber describe = g_describe.load(std::memory_order_acquire);
  if (describe != nullptr && describe(&info)) {
    line.Add("fiber ").Add(*info.name != '\0' ? BoundedName(info.name) : "(no name)");
    line.Add(" (id ").AddDecimal(info.id).Add(")");
  } else {
    line.Add("a fiber");
  }
  line.Add(", stack size ").AddDecimal(static_cast<std::uint64_t>(bounds.high - bounds.low)).Add(" bytes, stack [");
  line.AddAddress(bounds.low).Add(", ").AddAddress(bounds.high).Add("), fault at ").AddAddress(fault_address);
  line.Add("\n");
  line.Write();

  std::array<void*, 64> frames;
  backtrace_symbols_fd(frames.data(), backtrace(frames.data(), frames.size()), STDERR_FILENO);
}

void TakeFormerAction(int signal, siginfo_t* info, void* machine_context) {
  const struct sigaction& former = signal == SIGSEGV ? g_former_segv : g_former_bus;
  if ((former.sa_flags & SA_SIGINFO) != 0) {
    former.sa_sigaction(signal, info, machine_context);
    return;
  }
  if (former.sa_handler != SIG_DFL && former.sa_handler != SIG_IGN) {
    former.sa_handler(signal);
    return;
  }
  const bool sent = info->si_code <= 0;  // By kill() and the like, not by a fault.
  if (sent && former.sa_handler == SIG_IGN) return;
  // A fault is repeated when we return; one that was sent is sent once more.
  struct sigaction default_action = {};
  default_action.sa_handler = SIG_DFL;
  sigaction(signal, &default_action, nullptr);
  if (sent) raise(signal);
}

void OnFault(int signal, siginfo_t* info, void* machine_context) {
  const int saved_errno = errno;
  StackBounds bounds;
  if (info->si_code > 0 && FindStack(info->si_addr, &bounds) && info->si_addr < bounds.low) {
    Report(info->si_addr, bounds);
  }
  errno = saved_errno;
  TakeFormerAction(signal, info, machine_context);
}

}  // namespace

void SetDescribeRunningFiber(DescribeRunningFiber describe) {
  // release: pairs with the acquire in Report().
  g_describe.store(describe, std::memory_order_release);
}

void InstallOverflowHandler() {
  static std::once_flag once;
  std::call_once(once, [] {
    void* frame = nullptr;
    backtrace(&frame, 1);  // Loads the unwinder now: it allocates.
    struct sigaction action = {};
    action.sa_sigaction = OnFault;
    action.sa_flags = SA_SIGINFO | SA_ONSTACK;
    sigemptyset(&action.sa_mask);
    sigaction(SIGSEGV, nullptr, &g_former_segv);
    sigaction(SIGBUS, nullptr, &g_former_bus);
    sigaction(SIGSEGV, &action, nullptr);
    sigaction(SIGBUS, &action, nullptr);
  });
}

AlternateSignalStack::AlternateSignalStack() {
  // The signal frame holds all vector registers (11 KiB with AMX), the unwinder and the symbol look-up need some 10
  // KiB, a former handler, say a sanitizer's, perhaps more. Memory is only taken if it is used.
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
