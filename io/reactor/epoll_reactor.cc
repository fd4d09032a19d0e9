// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0

#include "weft/io/reactor/epoll_reactor.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <ctime>
#include <mutex>
#include <utility>

#include "weft/base/fiber_clock.h"
#include "weft/base/report/check.h"
#include "weft/io/io_result.h"
#include "weft/scheduling_group/events/recorder.h"
#include "weft/scheduling_group/fiber/read_section.h"
#include "weft/scheduling_group/group/group_registry.h"
#include "weft/scheduling_group/group/loop_groups.h"
#include "weft/scheduling_group/watch/watchdog.h"
#include "weft/sync/wait/wait_queue.h"

namespace weft::io {

using scheduling_group::SchedulingGroup;

std::unique_ptr<EpollEngine> EpollEngine::Make(std::error_code* error) {
  const int epoll = ::epoll_create1(EPOLL_CLOEXEC);
  const int interrupter = epoll < 0 ? -1 : ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  epoll_event event{.events = EPOLLIN | EPOLLET, .data = {.ptr = nullptr}};
  if (interrupter < 0 || ::epoll_ctl(epoll, EPOLL_CTL_ADD, interrupter, &event) != 0) {
    *error = ErrnoCode(errno);
    if (interrupter >= 0) ::close(interrupter);
    if (epoll >= 0) ::close(epoll);
    return nullptr;
  }
  return std::unique_ptr<EpollEngine>(new EpollEngine(epoll, interrupter));
}

EpollEngine::~EpollEngine() {
  ::close(interrupter_);
  ::close(epoll_);
}

std::error_code EpollEngine::Add(int fd, std::uint32_t events, void* tag) {
  epoll_event event{.events = events, .data = {.ptr = tag}};
  return ::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event) == 0 ? std::error_code() : ErrnoCode(errno);
}

std::error_code EpollEngine::Modify(int fd, std::uint32_t events, void* tag) {
  epoll_event event{.events = events, .data = {.ptr = tag}};
  return ::epoll_ctl(epoll_, EPOLL_CTL_MOD, fd, &event) == 0 ? std::error_code() : ErrnoCode(errno);
}

void EpollEngine::Remove(int fd) noexcept { (void)::epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr); }

std::size_t EpollEngine::Wait(bool block) {
  const int found = ::epoll_wait(epoll_, events_.data(), static_cast<int>(kBatch), block ? -1 : 0);
  if (found >= 0) return static_cast<std::size_t>(found);
  WEFT_CHECK(errno == EINTR, "EpollEngine: epoll_wait fails with error ", errno,
             ": was its descriptor closed by somebody else?");
  return 0;
}

// Not epoll_pwait2(): Linux has it since 5.11, filters of system calls may kill who calls it, and ThreadSanitizer does
// not know it. A wait that ends at its time is one call all the same.
std::size_t EpollEngine::WaitUntil(std::chrono::steady_clock::time_point until) {
  const auto now = std::chrono::steady_clock::now();
  const auto left = until > now ? until - now : std::chrono::nanoseconds(0);
  const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(left);
  const timespec time_out{.tv_sec = seconds.count(), .tv_nsec = (left - seconds).count()};
  pollfd epoll{.fd = epoll_, .events = POLLIN, .revents = 0};
  const int result = ::ppoll(&epoll, 1, &time_out, nullptr);
  WEFT_CHECK(result >= 0 || errno == EINTR, "EpollEngine: ppoll fails with error ", errno);
  return result > 0 ? Wait(/*block=*/false) : 0;
}

void EpollEngine::AwaitEvents() noexcept {
  pollfd epoll{.fd = epoll_, .events = POLLIN, .revents = 0};
  if (::poll(&epoll, 1, -1) < 0) WEFT_CHECK(errno == EINTR, "EpollEngine: poll fails with error ", errno);
}

bool EpollEngine::HasEvents() noexcept {
  pollfd epoll{.fd = epoll_, .events = POLLIN, .revents = 0};
  return ::poll(&epoll, 1, 0) > 0;
}

void EpollEngine::Interrupt() noexcept {
  const std::uint64_t one = 1;
  const ssize_t written = ::write(interrupter_, &one, sizeof(one));
  WEFT_CHECK(written == sizeof(one), "EpollEngine: an idle worker cannot be woken: error ", errno,
             ": was a descriptor closed by somebody else?");
}

EpollReactor* EpollReactor::OfCurrentGroup(std::error_code* error) {
  SchedulingGroup* group = scheduling_group::CurrentGroup();
  WEFT_CHECK(group != nullptr, "EpollReactor::OfCurrentGroup: the caller is not a fiber");
  if (auto* poller = group->reactor()) [[likely]] {
    return static_cast<EpollReactor*>(poller);
  }
  static std::mutex mutex;
  std::lock_guard guard(mutex);
  if (auto* poller = group->reactor()) return static_cast<EpollReactor*>(poller);
  std::unique_ptr<EpollEngine> engine = EpollEngine::Make(error);
  std::unique_ptr<EpollReactor> reactor;
  if (engine != nullptr) reactor.reset(new EpollReactor(group, std::move(engine)));
  if (reactor == nullptr || !scheduling_group::Watchdog::Get().AddTimer(reactor.get(), &reactor->watchdog_, error)) {
    // EPERM from epoll_ctl() means that the descriptor is a file, from accept() that a firewall took the connection.
    if (*error == std::errc::operation_not_permitted) *error = std::make_error_code(std::errc::function_not_supported);
    return nullptr;
  }
  EpollReactor* made = reactor.get();
  WEFT_CHECK(group->SetReactor(std::move(reactor)), "EpollReactor: the group has another poller");
  return made;
}

EpollReactor::EpollReactor(SchedulingGroup* group, std::unique_ptr<EpollEngine> engine)
    : group_(group), engine_(std::move(engine)), forks_(scheduling_group::LoopGroups::Forks()) {}

bool EpollReactor::IsTheParents() const noexcept { return scheduling_group::LoopGroups::Forks() != forks_; }

EpollReactor::~EpollReactor() {
  if (watchdog_ >= 0) scheduling_group::Watchdog::Get().timers().Remove(watchdog_);
}

std::error_code EpollReactor::Add(int fd, std::uint32_t events, EventHandler* handler) {
  if (const std::error_code error = engine_->Add(fd, events, handler)) return error;
  if (lease_.Registered([this] { return SomebodySleeps(); })) StartWatchdog(kNoPollerFor);
  return {};
}

void EpollReactor::Remove(int fd) noexcept {
  if (IsTheParents()) return;  // RE4
  engine_->Remove(fd);
  lease_.Unregistered();
}

namespace {

// RG1, RG3.
bool Serves(const EpollReactor* reactor) {
  if (reactor == nullptr || reactor->is_left()) return false;
  const SchedulingGroup* const own = scheduling_group::CurrentGroup();
  return reactor->group() == own || (own != nullptr && !own->of_loop() && !reactor->group()->of_loop());
}

}  // namespace

std::error_code Registration::Set(int fd, std::uint32_t events, EventHandler* handler) {
  std::error_code error;
  EpollReactor* former = reactor_.load(std::memory_order_relaxed);
  EpollReactor* reactor = Serves(former) ? former : EpollReactor::OfCurrentGroup(&error);
  if (reactor == nullptr) return error;
  if (reactor == former) {
    error = former->engine_->Modify(fd, events, handler);
    if (!error) return error;
    former->lease_.Unregistered();  // RG2: close(2) has removed it.
    reactor_.store(former = nullptr, std::memory_order_relaxed);
    // Any other error: the number belongs to something that cannot be waited for, or to nothing.
    if (error != std::errc::no_such_file_or_directory) return error;
    reactor = EpollReactor::OfCurrentGroup(&error);
    if (reactor == nullptr) return error;
  }
  if ((error = reactor->Add(fd, events, handler))) return error;
  if (former != nullptr && former != reactor) former->Remove(fd);
  reactor_.store(reactor, std::memory_order_relaxed);
  return {};
}

bool Registration::Remove(int fd) noexcept {
  EpollReactor* const reactor = reactor_.exchange(nullptr, std::memory_order_relaxed);
  if (reactor != nullptr) reactor->Remove(fd);
  return reactor != nullptr;
}

bool Registration::is_served() const noexcept { return Serves(reactor_.load(std::memory_order_relaxed)); }

EpollReactor::Counts EpollReactor::counts() const noexcept {
  return {.waits = waits_.load(std::memory_order_relaxed),
          .polls = polls_.load(std::memory_order_relaxed),
          .events = events_.load(std::memory_order_relaxed),
          .watchdog_wakes = watchdog_wakes_.load(std::memory_order_relaxed),
          .descriptors = lease_.waited_for()};
}

void EpollReactor::TryPoll() {
  if (!lease_.TryEnter()) return;
  found_ = engine_->Wait(/*block=*/false);
  polls_.store(polls_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  LeaveAfterDispatch();
}

void EpollReactor::PollIfDue(std::chrono::steady_clock::time_point now) {
  // relaxed: a heuristic.
  const auto polled_at = polled_at_.load(std::memory_order_relaxed);
  const auto now_ticks = now.time_since_epoch().count();
  if (std::chrono::steady_clock::duration(now_ticks - polled_at) < SchedulingGroup::kPollEvery) return;
  polled_at_.store(now_ticks, std::memory_order_relaxed);
  TryPoll();
}

bool EpollReactor::TryEnter() { return lease_.TryEnter(); }

void EpollReactor::Wait() {
  waits_.store(waits_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  find_later_ = base::HasTestTime();
  if (find_later_) {
    engine_->AwaitEvents();
  } else {
    found_ = engine_->Wait(/*block=*/true);
  }
}

void EpollReactor::WaitUntil(std::chrono::steady_clock::time_point until) {
  waits_.store(waits_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  found_ = engine_->WaitUntil(until);
}

bool EpollReactor::HasEvents() { return lease_.waited_for() != 0 && !IsTheParents() && engine_->HasEvents(); }

void EpollReactor::LeaveAfterDispatch() {
  if (std::exchange(find_later_, false)) found_ = engine_->Wait(/*block=*/false);
  synchronization::WaitList claimed;
  for (std::size_t i = 0; i < found_; ++i) {
    const EpollEngine::Event event = engine_->event(i);
    if (event.tag != nullptr) static_cast<EventHandler*>(event.tag)->OnEvents(event.events, &claimed);
  }
  if (found_ != 0) {
    events_.store(events_.load(std::memory_order_relaxed) + found_, std::memory_order_relaxed);
    scheduling_group::Recorder::Note(scheduling_group::EventKind::kPolled, found_, 0);
  }
  found_ = 0;
  if (lease_.Leave([this] { return SomebodySleeps(); })) StartWatchdog(kNoPollerFor);
  if (!claimed.empty()) synchronization::WakeAll(&claimed);
}

void EpollReactor::Interrupt() {
  if (IsTheParents()) return;  // RE4
  engine_->Interrupt();
}

void EpollReactor::StartWatchdog(std::chrono::nanoseconds after) {
  scheduling_group::WatchTimers::Start(watchdog_, after);
}

void EpollReactor::OnTimer() {
  switch (lease_.OnWatchdog([this] { return SomebodySleeps(); })) {
    case PollerLease::WatchdogResult::kOff:
      watchdog_after_ = kNoPollerFor;
      return;
    case PollerLease::WatchdogResult::kGoOn:
      watchdog_after_ = std::min(watchdog_after_ * 2, kNoPollerForAtMost);
      break;
    case PollerLease::WatchdogResult::kWakeAndGoOn:
      watchdog_after_ = kNoPollerFor;
      watchdog_wakes_.fetch_add(1, std::memory_order_relaxed);
      const scheduling_group::ReadSection section;  // The group is closed after its runtime has ended.
      if (!group_->stopping()) group_->WakeToPoll();
      break;
  }
  StartWatchdog(watchdog_after_);
}

}  // namespace weft::io
