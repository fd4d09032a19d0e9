// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// EpollReactor: waits for the descriptors of a group's fibers. A group gets it at the first wait, and keeps it.
//
//     descriptors (io/reactor/fd_slot.h, io/wait_fd.h)
//        |  Registration                         any thread
//        v
//     EpollEngine
//        |  Wait                                 the worker that polls: the holder of the lease (poller_lease.h)
//        v
//     EventHandler::OnEvents  ->  waiters are claimed  ->  WakeAll: one wake-up pass for all
//
// Invariants
//   RE1  No worker is blocked in the engine while its group has fibers that it could run. A worker waits there only
//        after it has announced its sleep and found nothing (IW1), and a thread that claims it interrupts it.
//   RE2  An idle process makes no wake-ups: the wait has no time-out, unless the worker keeps timers (kept_timers.h).
//   RE3  Input and output do not starve behind ready fibers: a worker that is never idle polls every 20 us
//        (SchedulingGroup::kPollEvery). Nor the reverse: a fiber that is woken queues behind the ready ones.
//   RE4  A forked child never touches its parent's engine, since it shares epoll's registrations with the parent. So it
//        may close its copies of descriptors, as destructors do at exit(). If it may start a runtime, its groups make
//        engines of their own (RT6 in fiber/runtime/runtime_instance.h).
// Rejected: io_uring, see docs/decisions/015.
#ifndef WEFT_IO_REACTOR_EPOLL_REACTOR_H_
#define WEFT_IO_REACTOR_EPOLL_REACTOR_H_

#include <sys/epoll.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <system_error>

#include "weft/io/reactor/poller_lease.h"
#include "weft/io/reactor/registration.h"
#include "weft/scheduling_group/group/scheduling_group.h"
#include "weft/scheduling_group/idle/reactor.h"
#include "weft/scheduling_group/watch/watch_timers.h"

namespace weft::io {

// Asks the kernel which descriptors are ready. Events are bits of epoll(7): EPOLLIN and the like; EPOLLET and
// EPOLLONESHOT say how often they are reported. Add, Modify, Remove, Interrupt: any thread. Wait, event: the holder of
// the lease. Interrupt() writes to an eventfd that is registered edge-triggered and never read, so each write is
// reported once.
class EpollEngine {
 public:
  struct Event {
    void* tag;
    std::uint32_t events;
  };

  // nullptr: the system refuses it, and *error says why.
  static std::unique_ptr<EpollEngine> Make(std::error_code* error);
  EpollEngine(const EpollEngine&) = delete;
  EpollEngine& operator=(const EpollEngine&) = delete;
  ~EpollEngine();

  // file_exists: it was added before, and not removed.
  [[nodiscard]] std::error_code Add(int fd, std::uint32_t events, void* tag);
  // no_such_file_or_directory: it was not added, or has been closed since.
  [[nodiscard]] std::error_code Modify(int fd, std::uint32_t events, void* tag);
  void Remove(int fd) noexcept;
  int descriptor() const noexcept { return epoll_; }

  // Returns the number of events, which may be 0; they stay until the next Wait(). block: waits until there is one, or
  // Interrupt() has been called since the last Wait() that blocked; may return spuriously.
  std::size_t Wait(bool block);
  // As the latter, but until that time at most.
  std::size_t WaitUntil(std::chrono::steady_clock::time_point until);
  // As long as a Wait() that blocks, but finds nothing: the events are left for the next Wait(). Any thread.
  void AwaitEvents() noexcept;
  // Whether there are any. Any thread.
  bool HasEvents() noexcept;
  Event event(std::size_t i) const { return {events_[i].data.ptr, events_[i].events}; }

  void Interrupt() noexcept;

 private:
  // At most so many at a time. The kernel goes round, so the next Wait() gets the others.
  static constexpr std::size_t kBatch = 256;

  EpollEngine(int epoll, int interrupter) : epoll_(epoll), interrupter_(interrupter) {}

  const int epoll_;
  const int interrupter_;
  std::array<epoll_event, kBatch> events_;
};

class EpollReactor final : public scheduling_group::Reactor, private scheduling_group::WatchTimers::Client {
 public:
  // How long a worker may sleep while none polls; the watchdog checks less often while workers poll.
  static constexpr std::chrono::microseconds kNoPollerFor{100};
  static constexpr std::chrono::microseconds kNoPollerForAtMost{400};

  // A fiber. The reactor of its worker's group. nullptr: the system refuses what it needs, and *error says why. A
  // filter's operation_not_permitted, which means something else for a descriptor, becomes function_not_supported.
  static EpollReactor* OfCurrentGroup(std::error_code* error);
  ~EpollReactor() override;

  using Counts = scheduling_group::ReactorCounts;
  Counts counts() const noexcept override;
  scheduling_group::SchedulingGroup* group() const noexcept { return group_; }
  // Any thread. The runtime has stopped the group's workers, perhaps for ever, so waiters must not rely on it.
  bool is_left() const noexcept { return group_->stopping(); }

  // --- By the workers: reactor.h ---
  void TryPoll() override;
  void PollIfDue(std::chrono::steady_clock::time_point now) override;
  [[nodiscard]] bool TryEnter() override;
  void Wait() override;
  void WaitUntil(std::chrono::steady_clock::time_point until) override;
  void LeaveAfterDispatch() override;
  int descriptor() const noexcept override { return engine_->descriptor(); }
  bool HasEvents() override;
  void Interrupt() override;

 private:
  friend class Registration;

  EpollReactor(scheduling_group::SchedulingGroup* group, std::unique_ptr<EpollEngine> engine);

  [[nodiscard]] std::error_code Add(int fd, std::uint32_t events, EventHandler* handler);
  void Remove(int fd) noexcept;

  // Whether a parent process made it (RE4).
  bool IsTheParents() const noexcept;
  bool SomebodySleeps() const { return !group_->idle_workers().sleepers().Empty(); }
  void OnTimer() override;
  void StartWatchdog(std::chrono::nanoseconds after);

  scheduling_group::SchedulingGroup* const group_;
  const std::unique_ptr<EpollEngine> engine_;
  const unsigned forks_;  // the forks that had made this process when it was made
  int watchdog_ = -1;
  std::chrono::microseconds watchdog_after_{kNoPollerFor};  // used by the watchdog only
  PollerLease lease_;
  // Used by the lease's holder only, both.
  std::size_t found_ = 0;
  bool find_later_ = false;  // under a test clock
  std::atomic<std::chrono::steady_clock::rep> polled_at_{0};

  // The holder writes them. relaxed: statistics.
  std::atomic<std::uint64_t> waits_{0};
  std::atomic<std::uint64_t> polls_{0};
  std::atomic<std::uint64_t> events_{0};
  std::atomic<std::uint64_t> watchdog_wakes_{0};
};

}  // namespace weft::io

#endif  // WEFT_IO_REACTOR_EPOLL_REACTOR_H_
