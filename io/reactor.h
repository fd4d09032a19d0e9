// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// Internal: not promised to users.
//
// Reactor: what the fibers of a scheduling group wait for outside of the process. One per group, made when one of its
// fibers waits for a descriptor for the first time, and the group's for ever.
//
//     descriptors (io/fd_slot.h, io/wait_fd.h)
//        |  Registration                         any thread
//        v
//     EpollEngine
//        |  Wait                                 the worker that polls (io/poller_lease.h)
//        v
//     EventHandler::OnEvents  ->  waiters are claimed  ->  WakeAll: one wake-up pass for all
//
// Invariants
//   RE1  Nobody is blocked in the engine while his group has fibers that he could run: a worker waits there only after
//        it has announced its sleep and found nothing (IW1), and who claims it interrupts it.
//   RE2  An idle process makes no wake-ups: the wait has no time-out. Time-outs are the timers' (timer/).
//   RE3  Input and output do not starve behind fibers that are ready: a worker that is never idle polls each 20 us
//        (SchedulingGroup::kPollEvery). Nor the reverse: who is woken queues behind those that are ready.
//   RE4  A forked child leaves an engine alone that it has from its parent: epoll's registrations are
//        shared with the parent. So a child may close its copies of descriptors, as destructors do at exit(). If it
//        may have a runtime its groups make engines of their own (RT6 in fiber/retired_groups.h).
#ifndef WEFT_IO_REACTOR_H_
#define WEFT_IO_REACTOR_H_

#include <atomic>
#include <chrono>
#include <cstdint>
#include <memory>
#include <system_error>

#include "weft/io/epoll_engine.h"
#include "weft/io/event_handler.h"
#include "weft/io/poll_watchdog.h"
#include "weft/io/poller_lease.h"
#include "weft/io/registration.h"
#include "weft/scheduling_group/idle_poller.h"
#include "weft/scheduling_group/scheduling_group.h"

namespace weft::io {

class Reactor final : public scheduling_group::IdlePoller, private PollWatchdog::Client {
 public:
  // How long nobody may poll while a worker sleeps; the watchdog looks less often while the poll is visited.
  static constexpr std::chrono::microseconds kNoPollerFor{100};
  static constexpr std::chrono::microseconds kNoPollerForAtMost{400};

  // A fiber. That of its worker's group; nullptr, and *error says why: the system refuses what a reactor needs. Never
  // operation_not_permitted, which says something else elsewhere: a filter's refusal is function_not_supported.
  static Reactor* OfCurrentGroup(std::error_code* error);
  ~Reactor() override;

  // Statistics.
  struct Counts {
    std::uint64_t waits = 0;           // workers that went to sleep in the poll
    std::uint64_t polls = 0;           // polls that did not wait
    std::uint64_t events = 0;          // reported in all
    std::uint64_t watchdog_wakes = 0;  // sleepers woken because nobody polled
    std::uint32_t descriptors = 0;     // registered just now
  };
  Counts counts() const noexcept;
  scheduling_group::SchedulingGroup* group() const noexcept { return group_; }
  // The runtime has stopped the group's workers, maybe for ever: who waits must not rely on it. (A group and its
  // poller are used again by the next runtime that has one of this number.) Any thread.
  bool is_left() const noexcept { return group_->stopping(); }

  // --- By the workers: idle_poller.h ---
  void TryPoll() override;
  void PollIfDue(std::chrono::steady_clock::time_point now) override;
  [[nodiscard]] bool TryEnter() override;
  void Wait() override;
  void LeaveAfterDispatch() override;
  int descriptor() const noexcept override { return engine_->descriptor(); }
  void Interrupt() override;

 private:
  friend class Registration;

  Reactor(scheduling_group::SchedulingGroup* group, std::unique_ptr<EpollEngine> engine);

  [[nodiscard]] std::error_code Add(int fd, std::uint32_t events, EventHandler* handler);
  void Remove(int fd) noexcept;

  // The process was forked since it was made (RE4).
  bool IsTheParents() const noexcept;
  bool SomebodySleeps() const { return !group_->idle_workers().sleepers().Empty(); }
  void Leave();
  void OnWatchdog() override;
  void StartWatchdog(std::chrono::nanoseconds after);

  scheduling_group::SchedulingGroup* const group_;
  const std::unique_ptr<EpollEngine> engine_;
  const unsigned forks_;  // that had made this process when it was made
  int watchdog_ = -1;
  std::chrono::microseconds watchdog_after_{kNoPollerFor};  // the watchdog's own
  PollerLease lease_;
  std::size_t found_ = 0;  // the holder's
  std::atomic<std::chrono::steady_clock::rep> polled_at_{0};

  // relaxed, written by the holder; statistics.
  std::atomic<std::uint64_t> waits_{0};
  std::atomic<std::uint64_t> polls_{0};
  std::atomic<std::uint64_t> events_{0};
  std::atomic<std::uint64_t> watchdog_wakes_{0};
};

}  // namespace weft::io

#endif  // WEFT_IO_REACTOR_H_
