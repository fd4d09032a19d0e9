// Copyright 2026 The Weft Authors.
// SPDX-License-Identifier: Apache-2.0
//
// What may be asked of a new fiber: Fiber::Attributes, under a name that both Fiber and StartFiberDetached can use.
// FiberNotStarted: the exception that says that it is refused (fiber.h has the rule).
// Sample:
//   bool started = StartFiberDetached({.scheduling_group_local = true, .name = "acceptor"}, [] { ... });
#ifndef WEFT_FIBER_FIBER_ATTRIBUTES_H_
#define WEFT_FIBER_FIBER_ATTRIBUTES_H_

#include <cstddef>
#include <cstdint>
#include <limits>
#include <stdexcept>
#include <string>
#include <string_view>

namespace weft {

class FiberExecutionContext;

// Who goes on first when a fiber is started: its starter, or the new fiber.
enum class Launch {
  // Queue the new fiber; the caller goes on.
  Post,
  // Run the new fiber at once on the caller's worker; the caller is queued.  Where that cannot be (the caller is no
  // fiber, or the new fiber is for another group) it is Post.
  Dispatch,
};

namespace fiber {
using weft::Launch;  // docs/from_trpc.md
}  // namespace fiber

// The group of the calling fiber; for a plain thread one group of its NUMA node after the other. Where groups have
// names (--fiber_groups), of those with the first name.
inline constexpr std::size_t kNearestSchedulingGroup = std::numeric_limits<std::size_t>::max() - 1;

// Any group: one after the other, whoever calls. Where groups have names, of those with the name of the caller's.
inline constexpr std::size_t kUnspecifiedSchedulingGroup = std::numeric_limits<std::size_t>::max();

// What may be asked of a new fiber; all of it is optional: `{.name = "acceptor"}`.
struct FiberAttributes {
  // Whether the new fiber is queued, or runs at once.
  Launch launch_policy = Launch::Post;

  // The group the fiber starts in: an index below GetSchedulingGroupCount(), one of the two constants above, or
  // SchedulingGroupNamed("batch") (runtime.h).
  // Another group may steal it, unless it is local. One started in an index follows no fiber to that one's group
  // (docs/topology.md).
  std::size_t scheduling_group = kNearestSchedulingGroup;

  // The context of the start procedure, referenced until the fiber's end. nullptr: the spawner's (execution_context.h).
  FiberExecutionContext* execution_context = nullptr;

  // The fiber never leaves its group.
  bool scheduling_group_local = false;

  // For tRPC-Cpp's sake. Nothing depends on it: idle workers poll (io/reactor/poller_lease.h), not fibers.
  bool is_fiber_reactor = false;

  // What dumps and messages call the fiber.  Copied.
  std::string name = {};

  // Bytes of stack, 16 KiB to 1 GiB, rounded up to a power of two; 0: --fiber_stack_size. Untouched ones use no memory.
  std::size_t stack_size = 0;

  // Bytes of guard below the stack, 4 KiB to 16 MiB, rounded up to a power of two; 0: --fiber_stack_guard_size.
  std::size_t stack_guard_size = 0;

  // Refuse the start while the runtime is overloaded (fiber_limiter.h). If any group will do, one that is not is taken.
  bool refuse_if_overloaded = false;

  // 0 to 7, for a scheduling policy of your own, which may read it (docs/how-to/run-urgent-fibers-first.md). Weft's
  // policies ignore it. Fibers that the fiber starts do not inherit it.
  unsigned priority = 0;
};

// Why a fiber was not started.
enum class StartRefusal : std::uint8_t {
  kNone,        // It was.
  kNoRuntime,   // the runtime has ended or is going down (or a test refuses starts: RefuseFiberStarts)
  kOverloaded,  // so the runtime is, and the attributes say refuse_if_overloaded (fiber_limiter.h)
  kQueueFull,   // too many fibers are queued, and have been for --fiber_start_timeout_ms
  kNoMemory,    // no memory for its stack or its start
};

// A fiber was not started, and its function has not run.
class FiberNotStarted : public std::runtime_error {
 public:
  // `name`: of the fiber, or of what has started it; may be empty.
  FiberNotStarted(std::string_view name, StartRefusal why);
  ~FiberNotStarted() override;

  // Of the fiber, or of what has started it; may be empty.
  const std::string& Name() const noexcept { return name_; }
  // What it was refused for.
  StartRefusal Why() const noexcept { return why_; }

 private:
  std::string name_;
  StartRefusal why_;
};

}  // namespace weft

#endif  // WEFT_FIBER_FIBER_ATTRIBUTES_H_
