// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// LoopDescriptor: the descriptor of a FiberLoop, an epoll set that is readable while one of these is:
//
//   eventfd    somebody has ended the loop's wait (LoopGroup::event_fd), or the loop has left work behind
//   timerfd    a timer is due
//   poller     what fibers of the loop wait for outside of the process is ready
//
// The eventfd is the group's and is never closed: a waker may write to it late. The set is the loop's, so
// that its end takes it out of other epoll sets.
//
// Invariants
//   LDR1  The loop empties the eventfd when it begins, so that a write that comes late costs one look in vain. Where
//        it then looks at nothing it writes again at the end: Wake() may have written.
//
// The loop's thread.
#ifndef WEFT_FIBER_LOOP_LOOP_DESCRIPTOR_H_
#define WEFT_FIBER_LOOP_LOOP_DESCRIPTOR_H_

#include <chrono>
#include <system_error>

#include "weft/scheduling_group/group/loop_groups.h"

namespace weft::fiber::detail {

class LoopDescriptor {
 public:
  using TimePoint = std::chrono::steady_clock::time_point;

  explicit LoopDescriptor(scheduling_group::LoopGroup* group) : group_(group) {}
  ~LoopDescriptor();
  LoopDescriptor(const LoopDescriptor&) = delete;
  LoopDescriptor& operator=(const LoopDescriptor&) = delete;

  // If it is not open; readable then.
  std::error_code Open();
  bool IsOpen() const noexcept { return set_ >= 0; }
  int Get() const noexcept { return set_; }

  // These do nothing while it is not open.
  void MarkReadable() noexcept;
  // True: it was marked.
  [[nodiscard]] bool Clear() noexcept;
  // Readable from then on; max(): no more.
  void ReadableAt(TimePoint when) noexcept;
  // False: the system refuses to watch it, or it is not open.
  bool Watch(int poller) noexcept;

 private:
  std::error_code TryOpen();
  void Close() noexcept;

  scheduling_group::LoopGroup* const group_;
  int set_ = -1;
  int timer_ = -1;
  int poller_ = -1;                        // that is in the set
  TimePoint timer_at_ = TimePoint::max();  // that the timerfd is set to
};

}  // namespace weft::fiber::detail

#endif  // WEFT_FIBER_LOOP_LOOP_DESCRIPTOR_H_
