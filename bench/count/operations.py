# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""Which operations are counted, and what each may cost."""

from dataclasses import dataclass

POLICIES = ("v1", "v2")
# A group of one worker has only one queue (policy_v1.h, policy_v2.h); two show what workers of larger groups do.
WORKERS = (1, 2)

# callgrind slows a program down by about this factor (yield: 2 us instead of 40 ns). See slow_clock.cc.
SLOWER_BY = 50


@dataclass(frozen=True)
class Operation:
    key: str
    label: str
    # bench/workload's name for it, with the number of operations at scale 1 (or a function of the scale); without one
    # it is an operation of weft_operations.
    short: float
    long: float
    at_scale_1: object = None
    workload: str = ""
    # At full speed, under strace, it runs so many times as long.
    longer: int = 10
    # Fibers are busy all the time: no system calls.
    steady: bool = True
    system_calls: float = 0  # that are its own, of each
    # Waits for times, so the clock must be right.
    timed: bool = False
    # Nothing of Weft is in it: neither workers nor policies.
    floor: bool = False
    # Its cost excludes that of this one, which it contains.
    beyond: str = ""

    def operations(self, length):
        if not self.workload:
            return length
        if callable(self.at_scale_1):
            return self.at_scale_1(length)
        return round(self.at_scale_1 * length)

    def command(self, build, length, workers, policy):
        if self.key == "jump":
            return [build / "bin/weft_bare_switch", str(round(length))]
        if not self.workload:
            return [build / "bin/weft_operations", f"--operation={self.key}", f"--times={round(length)}",
                    f"--workers={workers}", f"--fiber_scheduling_name={policy}"]
        return [build / "bench/workload", f"--workload={self.workload}", "--isolate=false", "--rounds=1",
                f"--workers={workers}", f"--scale={length:g}", "--limit_factor=5",
                f"--fiber_scheduling_name={policy}"]


def _workload(key, label, at_scale_1, short, long, workload="", **more):
    return Operation(key, label, short, long, at_scale_1, workload or key, **more)


OPERATIONS = {operation.key: operation for operation in (
    _workload("spawn", "start, run and end a fiber, from a fiber", 1_000_000, 0.005, 0.025),
    Operation("spawn_in_scope", "the same as a child of a scope", 5_000, 25_000),
    _workload("spawn_ext", "the same from a plain thread", 500_000, 0.02, 0.06, steady=False),
    _workload("yield", "yield", lambda scale: round(1_000 * scale)**2, 0.1, 0.3),
    _workload("pingpong", "hand off by an event (half a round trip)", 1_000_000, 0.02, 0.06),
    Operation("pingpong_in_scope", "the same by fibers of a scope, whose waits can be cancelled", 20_000, 60_000),
    _workload("pingpong_semaphore", "hand off by a semaphore (half a round trip)", 1_000_000, 0.02, 0.06),
    _workload("pingpong_cv", "round trip by mutex and condition variable", 500_000, 0.02, 0.06),
    _workload("mutex", "lock and unlock", 64 * 20_000, 0.02, 0.06),
    _workload("mutex_yield", "lock, yield, unlock: the mutex is handed off", 16 * 5_000, 0.1, 0.3),
    Operation("channel", "an item put into a channel and taken", 10_000, 40_000),
    # The timers stay, and their memory comes 16 KiB at a time, for 256 of them (timer/queue/timer_slab.h).
    Operation("timer_set", "set a timer", 2_000, 12_000, system_calls=1 / 256),
    Operation("timer_set_and_cancel", "cancel a timer", 2_000, 12_000, beyond="timer_set"),
    Operation("sleep", "sleep 1 ms (100 fibers)", 2_000, 12_000, longer=1, steady=False, timed=True),
    Operation("jump", "floor: jump of Boost.Context", 10_000, 100_000, floor=True),
    Operation("fetch_add", "floor: uncontended atomic, in a loop", 10_000, 100_000, floor=True),
    Operation("futex_wake", "floor: futex wake that wakes nobody", 10_000, 100_000, floor=True, steady=False, longer=1),
)}

# The bounds that CTest checks: (instructions, read-modify-writes, full fences) as found with g++ 12 -O3, by workers and
# policy. Lower a line when the code has become better: `count.py --found` prints it anew.
FOUND = {
    ("spawn", 1, "v1"): (454, 3.04, 0.00),
    ("spawn", 1, "v2"): (448, 3.04, 0.00),
    ("spawn_in_scope", 1, "v1"): (617, 4.21, 0.00),
    ("spawn_in_scope", 1, "v2"): (612, 4.21, 0.00),
    ("yield", 1, "v1"): (266, 2.01, 0.00),
    ("yield", 1, "v2"): (261, 2.01, 0.00),
    ("yield", 2, "v1"): (344, 1.32, 1.07),
    ("yield", 2, "v2"): (227, 1.02, 1.01),
    ("pingpong", 1, "v1"): (382, 5.00, 0.00),
    ("pingpong", 1, "v2"): (375, 5.00, 0.00),
    ("pingpong", 2, "v1"): (360, 5.78, 0.03),
    ("pingpong", 2, "v2"): (354, 5.93, 0.02),
    ("pingpong_in_scope", 1, "v1"): (416, 5.00, 1.00),
    ("pingpong_in_scope", 1, "v2"): (409, 5.00, 1.00),
    ("pingpong_semaphore", 1, "v1"): (385, 4.00, 0.00),
    ("pingpong_semaphore", 1, "v2"): (378, 4.00, 0.00),
    ("pingpong_cv", 1, "v1"): (1084, 20.00, 0.00),
    ("pingpong_cv", 1, "v2"): (1070, 20.00, 0.00),
    ("mutex", 1, "v1"): (18, 2.00, 0.00),
    ("mutex", 1, "v2"): (18, 2.00, 0.00),
    ("channel", 1, "v1"): (92, 2.06, 0.02),
    ("channel", 1, "v2"): (92, 2.06, 0.02),
    ("timer_set", 1, "v1"): (322, 1.00, 0.00),
    ("timer_set_and_cancel", 1, "v1"): (134, 1.00, 0.00),
}

# The slack above what was found, by workers: instructions as a factor, atomics as a number. With one worker the counts
# are nearly the same in each run (count.py), and one more atomic on any of these paths shows. With two, valgrind runs one thread at a
# time, for long, and the other worker takes fibers from hand-off slots more often than at full speed: before they were
# made shorter, hand-offs took 518 to 652 instructions in runs of one day. A start with two is not here: 2.3 to 4.5
# read-modify-writes, by who takes what.
INSTRUCTIONS_SLACK = {1: 1.15, 2: 1.35}
ATOMICS_SLACK = {1: 0.45, 2: 1.45}
# System calls of one steady operation. Not zero: the longer run lasts longer, and other threads wake up now and then
# (housekeeping).
MOST_SYSTEM_CALLS = 0.001
