// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Weft's side of the hooks (hook/fiber_calls.h).

#include "weft/interop/hook.h"

#include <netdb.h>
#include <pthread.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "weft/base/deadline.h"
#include "weft/base/fiber_clock.h"
#include "weft/fiber/fiber_local.h"
#include "weft/interop/hook/attach.h"
#include "weft/interop/hook/fiber_calls.h"
#include "weft/io/fiber_blocking.h"
#include "weft/io/io_result.h"
#include "weft/io/wait_fd.h"
#include "weft/scheduling_group/fiber/fiber_entity.h"
#include "weft/scheduling_group/worker/current_worker.h"
#include "weft/scheduling_group/worker/time_slice.h"
#include "weft/sync/wait/wait_queue.h"

// Last: errno follows a fiber.
#include "weft/context/switch_safe_errno.h"

namespace weft {
namespace {

using hook::FiberCalls;
using hook::HookLibrary;
using scheduling_group::FiberEntity;
using scheduling_group::WorkerBase;
using synchronization::Interruptible;
using synchronization::WaitResult;

// Of a fiber: what its innermost HookBlockingCalls says.
enum Choice : std::uint8_t { kAsAllFibers, kHooked, kNotHooked };

// relaxed, all: switches, which order nothing.
constinit std::atomic<bool> all_fibers{false};
constinit std::atomic<bool> some_fiber_has_chosen{false};
// Set before main() or by dlopen(). nullptr again in the child of a fork() by a fiber of a FiberLoop.
constinit std::atomic<const HookLibrary*> library{nullptr};

// Never destroyed: fibers may use it while the process exits.
FiberLocal<std::uint8_t>& ChoiceOfFiber() {
  static auto* const choice = new FiberLocal<std::uint8_t>;
  return *choice;
}

bool IsHooked(const FiberEntity* fiber) noexcept {
  // A fiber without locals has chosen nothing; the check keeps it from getting a table for them.
  if (some_fiber_has_chosen.load(std::memory_order_relaxed) && fiber->fiber_local_slots() != nullptr) {
    const std::uint8_t choice = *ChoiceOfFiber();
    if (choice != kAsAllFibers) return choice == kHooked;
  }
  return all_fibers.load(std::memory_order_relaxed);
}

// The calling fiber, if its calls are hooked.
bool MayParkNow() noexcept {
  const WorkerBase* const worker = scheduling_group::CurrentWorker();
  if (worker == nullptr || worker->must_not_switch) return false;
  if (library.load(std::memory_order_relaxed) == nullptr) return false;
  const FiberEntity* const fiber = worker->current;
  return fiber != nullptr && fiber->state().Load() == scheduling_group::FiberPhase::kRunning && IsHooked(fiber);
}

bool MayPark() noexcept {
  if (!MayParkNow()) return false;
  scheduling_group::YieldIfSliceIsOver();
  return true;
}

std::int64_t Now() noexcept { return FiberClock::now().time_since_epoch().count(); }

Deadline DeadlineAt(std::int64_t when) noexcept {
  return Deadline(std::chrono::steady_clock::time_point(std::chrono::nanoseconds(when)));
}

int WaitForFd(int fd, short events, std::int64_t deadline) noexcept {
  return io::WaitFd(fd, events, DeadlineAt(deadline)).error.value();
}

int SleepUntil(std::int64_t deadline) noexcept {
  const WaitResult how = synchronization::SleepUntil(DeadlineAt(deadline), Interruptible::kResult);
  return how == WaitResult::kInterrupted ? ECANCELED : 0;
}

void CallElsewhere(void (*call)(void* argument), void* argument) noexcept {
  io::RunBlocking(io::ProcessBlockingPool(), [call, argument] { call(argument); });
}

struct FreeAddresses {
  void operator()(addrinfo* list) const noexcept { ::freeaddrinfo(list); }
};

struct Resolved {
  int code = 0;
  int error = 0;
  std::unique_ptr<addrinfo, FreeAddresses> addresses;
};

// What getaddrinfo() is asked; the call may outlive its caller.
struct Question {
  std::optional<std::string> node;
  std::optional<std::string> service;
  std::optional<addrinfo> hints;

  Resolved Ask() const {
    Resolved answer;
    addrinfo* found = nullptr;
    answer.code = ::getaddrinfo(node ? node->c_str() : nullptr, service ? service->c_str() : nullptr,
                                hints ? &*hints : nullptr, &found);
    answer.error = errno;
    if (answer.code == 0) answer.addresses.reset(found);
    return answer;
  }
};

int Resolve(const char* node, const char* service, const addrinfo* hints, addrinfo** found) noexcept {
  Question question;
  if (node != nullptr) question.node = node;
  if (service != nullptr) question.service = service;
  if (hints != nullptr) question.hints = *hints;
  std::optional<Resolved> answer;
  const WaitResult how = io::RunBlocking(
      io::ProcessBlockingPool(), [question = std::move(question)] { return question.Ask(); }, &answer,
      Interruptible::kResult, Deadline::None());
  if (how != WaitResult::kNotified) {
    errno = ECANCELED;
    return EAI_SYSTEM;
  }
  errno = answer->error;
  if (answer->code == 0) *found = answer->addresses.release();
  return answer->code;
}

void ForgetFd(int fd) noexcept { io::ForgetFd(fd); }

constexpr FiberCalls kFiberCalls = {
    .may_park = &MayPark,
    .now = &Now,
    .wait_fd = &WaitForFd,
    .sleep_until = &SleepUntil,
    .call_elsewhere = &CallElsewhere,
    .resolve = &Resolve,
    .forget_fd = &ForgetFd,
};

// In a child: a fiber of the runtime is none there. One of a loop still is, but the loop's reactor is the parent's.
void DetachForkedFiber() {
  if (scheduling_group::CurrentFiber() != nullptr) library.store(nullptr, std::memory_order_relaxed);
}

}  // namespace

namespace hook {

void AttachTo(AttachFunction attach) noexcept {
  if (attach == nullptr) return;
  library.store(attach(&kFiberCalls), std::memory_order_relaxed);
  ::pthread_atfork(nullptr, nullptr, &DetachForkedFiber);
  const char* const asked = std::getenv("WEFT_HOOK");
  if (asked != nullptr && *asked != '\0' && std::string_view(asked) != "0") HookBlockingCallsOfAllFibers(true);
}

}  // namespace hook

HookBlockingCalls::HookBlockingCalls(bool hooked)
    : outer_(std::exchange(*ChoiceOfFiber(), hooked ? kHooked : kNotHooked)) {
  some_fiber_has_chosen.store(true, std::memory_order_relaxed);  // The fiber itself sees it.
}

HookBlockingCalls::~HookBlockingCalls() { *ChoiceOfFiber() = outer_; }

void HookBlockingCallsOfAllFibers(bool hooked) noexcept { all_fibers.store(hooked, std::memory_order_relaxed); }

bool CanHookBlockingCalls() noexcept { return library.load(std::memory_order_relaxed) != nullptr; }

bool BlockingCallsAreHooked() noexcept { return MayParkNow(); }

std::vector<HookedCallCount> GetHookedCallCounts() {
  const HookLibrary* const hooks = library.load(std::memory_order_relaxed);
  if (hooks == nullptr) return {};
  std::vector<hook::CallCount> counts(hooks->counts(nullptr, 0));
  hooks->counts(counts.data(), counts.size());
  std::vector<HookedCallCount> named;
  named.reserve(counts.size());
  for (const hook::CallCount& count : counts) named.push_back({count.name, count.calls, count.waits});
  return named;
}

}  // namespace weft
