# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""What is compared: the runtimes, the workloads, the rows of the tables and the targets."""

from dataclasses import dataclass
from typing import Optional

WEFT = ("weft_v1", "weft_v2")
BOOST = ("boost_shared_work", "boost_work_stealing")

# In the order in which they run, again and again.
RUNTIMES = {
    "weft_v1": "Weft v1",
    "weft_v2": "Weft v2",
    "go": "Go",
    "boost_shared_work": "Boost.Fiber shared_work",
    "boost_work_stealing": "Boost.Fiber work_stealing",
    "one_tbb": "oneTBB",
    "tokio": "tokio",
    "std_thread": "std::thread",
}


@dataclass(frozen=True)
class Workload:
    """One process of a runtime: so many rounds of a workload of bench/workload/README.md."""

    name: str
    runtimes: tuple
    rounds: int = 3
    timeout: int = 120  # Seconds, for the process.


# "switch" is counted by callgrind and not timed (compare.py, count_switches()).
SWITCH = "switch"

WORKLOADS = [
    Workload("spawn", (*WEFT, "go", *BOOST, "one_tbb", "tokio", "std_thread")),
    Workload("spawn_ext", (*WEFT, "go", "one_tbb", "tokio")),
    Workload("skynet", (*WEFT, "go", *BOOST, "one_tbb", "tokio")),
    Workload("skynet_1m", (*WEFT, "go", *BOOST, "one_tbb", "tokio"), rounds=2),
    Workload("yield", (*WEFT, "go", *BOOST, "tokio", "std_thread")),
    Workload("pingpong", (*WEFT, "go", *BOOST, "tokio", "std_thread")),
    Workload("pingpong_semaphore", (*WEFT,)),
    Workload("pingpong_cv", (*WEFT, "go", *BOOST, "std_thread")),
    Workload("mutex", (*WEFT, "go", *BOOST, "tokio", "std_thread")),
    Workload("mutex_yield", (*WEFT, "go", *BOOST, "tokio", "std_thread")),
    Workload("chan", (*WEFT, "go", *BOOST, "tokio", "std_thread")),
    Workload("select", (*WEFT, "go", "tokio")),
    Workload("task", (*WEFT, "go", "tokio")),
    Workload("async", WEFT),
    Workload("scope", (*WEFT, "go", "tokio")),
    Workload("cancel", (*WEFT, "go", "tokio")),
    Workload("wake_beside_threads", WEFT, rounds=1),
    Workload("wake_beside_busy_thread", WEFT),
    Workload("wake", ("go", "tokio"), rounds=1),
    Workload("wake_park", ("go", "tokio"), rounds=1),
    Workload("timers", (*WEFT, "go", "tokio")),
    Workload("timers_stall", (*WEFT, "go"), rounds=1),
    Workload("sleepers", (*WEFT, "go", *BOOST, "tokio"), rounds=5),
    Workload("trickle", (*WEFT, "go", "tokio"), rounds=1),
    Workload("idle", (*WEFT, "go", *BOOST, "tokio"), rounds=1),
    Workload("memory", (*WEFT, "go", *BOOST, "tokio"), rounds=1),
    Workload("memory_1m", (*WEFT, "go", *BOOST, "tokio"), rounds=1, timeout=240),
    Workload(SWITCH, WEFT),
]


@dataclass(frozen=True)
class Source:
    workload: str
    figure: str


@dataclass(frozen=True)
class Row:
    """One figure of each runtime. Lower is better."""

    key: str
    label: str
    unit: str
    source: Source
    # Which of a process's rounds count: the "median", the "first" (cold), or the median of those after the second
    # ("warm": in the first one fibers end while others are still to begin, so the second makes the missing stacks).
    rounds: str = "median"
    # Where Weft's figure is taken from instead, and one that its process measures for a peer beside it.
    weft_source: Optional[Source] = None
    beside: Optional[tuple] = None  # (runtime, Source)
    # In the plot of throughput: millions of operations a second are this divided by the figure.
    millions_per_second: Optional[float] = None
    # In the plot of latencies.
    latency: bool = False


def _time_each(key, label, workload, figure):
    return Row(key, label, "ns", Source(workload, figure), millions_per_second=1e3)


def _wake(key, label, figure, workload, own):
    return Row(key, label, "us", Source(workload, figure), weft_source=Source("wake_beside_threads", f"{own}_{figure}"),
               beside=("std_thread", Source("wake_beside_threads", f"thread_{figure}")), latency=True)


def _wake_busy(key, label, figure, own):
    """All three of them in Weft's process: no peer has this workload."""
    workload = "wake_beside_busy_thread"
    return Row(key, label, "us", Source(workload, f"{own}_{figure}"),
               beside=("std_thread", Source(workload, f"thread_{figure}")), latency=True)


def _sleepers(key, label, unit, figure, rounds):
    return Row(key, label, unit, Source("sleepers", figure), rounds=rounds, latency=unit == "us")


ROWS = [
    _time_each("spawn", "spawn", "spawn", "ns_per_fiber"),
    _time_each("spawn_ext", "spawn from threads", "spawn_ext", "ns_per_fiber"),
    Row("skynet", "skynet, 100,000 leaves", "ms", Source("skynet", "ms"), millions_per_second=111.111),
    Row("skynet_1m", "skynet, 1,000,000 leaves", "ms", Source("skynet_1m", "ms_1m"), millions_per_second=1111.111),
    _time_each("yield", "yield", "yield", "ns_per_yield"),
    _time_each("pingpong", "ping-pong, event", "pingpong", "ns_per_roundtrip"),
    # A peer's figure is that of the row above: its cheapest blocking primitive.
    Row("pingpong_semaphore", "ping-pong, semaphore", "ns", Source("pingpong", "ns_per_roundtrip"),
        weft_source=Source("pingpong_semaphore", "ns_per_roundtrip_semaphore"), millions_per_second=1e3),
    _time_each("pingpong_cv", "ping-pong, mutex and cv", "pingpong_cv", "ns_per_roundtrip_cv"),
    _time_each("mutex", "mutex, 64 fibers", "mutex", "ns_per_lock"),
    _time_each("mutex_yield", "mutex held over a yield", "mutex_yield", "ns_per_lock"),
    _time_each("chan", "channel", "chan", "ns_per_item_channel"),
    _time_each("chan_cv", "mutex and two cvs", "chan", "ns_per_item"),
    _time_each("select_rendezvous", "select of two channels without slots", "select", "ns_per_item_rendezvous"),
    _time_each("select", "select of two channels", "select", "ns_per_item_selected"),
    _time_each("task", "task with a result", "task", "ns_per_task"),
    _time_each("task_alone", "task with a result, one by one", "task", "ns_per_task_alone"),
    # A peer's figures are those of the rows above.
    *(Row(f"async{alone}", f"Async and its Future{label}", "ns", Source("task", f"ns_per_task{alone}"),
          weft_source=Source("async", f"ns_per_task{alone}"), millions_per_second=1e3)
      for alone, label in (("", ""), ("_alone", ", one by one"))),
    _time_each("scope", "spawn in a scope", "scope", "ns_per_child"),
    _time_each("scope_detached", "spawn, by turns with it", "scope", "ns_per_detached"),
    _time_each("cancel", "cancel one waiting fiber", "cancel", "ns_per_cancel"),
    _time_each("cancel_100", "cancel 100 waiting fibers, each", "cancel", "ns_per_cancel_of_100"),
    _wake("wake_p50", "start to run, p50", "p50_us", "wake", "started"),
    _wake("wake_p99", "start to run, p99", "p99_us", "wake", "started"),
    _wake("wake_park_p50", "wake to run, p50", "p50_us", "wake_park", "parked"),
    _wake("wake_park_p99", "wake to run, p99", "p99_us", "wake_park", "parked"),
    *(_wake_busy(f"{own}_busy_{figure}", f"{label} beside a busy thread, {figure}", f"{figure}_us", own)
      for own, label in (("started", "start to run"), ("parked", "wake to run")) for figure in ("p50", "p99", "p999")),
    _time_each("timer_set", "set a timer", "timers", "ns_set"),
    Row("timer_set_cold", "set a timer, cold", "ns", Source("timers", "ns_set"), rounds="first",
        millions_per_second=1e3),
    Row("timer_stall", "set a timer, cold, 1 in 10,000", "us", Source("timers_stall", "stall_p9999_us"), latency=True),
    _time_each("timer_cancel", "cancel a timer", "timers", "ns_cancel"),
    _sleepers("sleepers_cold", "sleepers, cold", "ms", "ms", "first"),
    _sleepers("sleepers_warm", "sleepers, warm", "ms", "ms", "warm"),
    _sleepers("late_p50_cold", "lateness p50, cold", "us", "late_p50_us", "first"),
    _sleepers("late_p99_cold", "lateness p99, cold", "us", "late_p99_us", "first"),
    _sleepers("late_p50_warm", "lateness p50, warm", "us", "late_p50_us", "warm"),
    _sleepers("late_p99_warm", "lateness p99, warm", "us", "late_p99_us", "warm"),
    Row("trickle", "trickle, CPU time", "ms/s", Source("trickle", "cpu_ms_per_s")),
    Row("idle", "idle, CPU time", "ms/s", Source("idle", "cpu_ms_per_s")),
    Row("memory", "memory, 100,000 parked", "bytes", Source("memory", "bytes_per_fiber_with_page_tables")),
    Row("memory_1m", "memory, 1,000,000 parked", "bytes", Source("memory_1m", "bytes_per_fiber_with_page_tables_1m")),
    Row("switch_event", "switch by an event", "instructions", Source(SWITCH, "event")),
    Row("switch_yield", "switch by a yield", "instructions", Source(SWITCH, "yield")),
    Row("switch_bare", "switch of Boost.Context alone", "instructions", Source(SWITCH, "bare")),
]


@dataclass(frozen=True)
class Target:
    """Of a row, for some policies of Weft: at most `bound` times the peer in the same run, or `bound`."""

    row: str
    bound: float
    peer: Optional[str] = None
    policies: tuple = WEFT
    # The peer's own row, if it differs.
    peer_row: Optional[str] = None


# As a peer: the policy itself, in another row.
SAME = "same"

TARGETS = [
    Target("spawn", 0.45, "go"),
    Target("spawn_ext", 0.45, "go"),
    Target("skynet", 0.5, "go", ("weft_v1",)),
    Target("skynet", 0.2, "go", ("weft_v2",)),
    Target("skynet_1m", 0.5, "go", ("weft_v1",)),
    Target("skynet_1m", 0.2, "go", ("weft_v2",)),
    Target("yield", 0.4, "go", ("weft_v1",)),
    Target("yield", 0.5, "boost_work_stealing", ("weft_v2",)),
    Target("pingpong", 0.35, "go"),
    Target("pingpong_semaphore", 0.35, "go"),
    Target("pingpong_cv", 0.6, "go"),
    Target("mutex", 0.6, "go"),
    Target("mutex", 1.0, "std_thread"),
    Target("mutex_yield", 0.6, "go"),
    Target("chan", 0.5, "go"),
    Target("chan_cv", 3.0, "go", peer_row="chan"),
    Target("select_rendezvous", 1.5, "go"),
    Target("select", 1.5, "go"),
    Target("scope", 1.5, SAME, peer_row="scope_detached"),
    Target("wake_p50", 1.1, "std_thread"),
    Target("wake_p99", 1.5, "std_thread"),
    Target("wake_park_p50", 1.1, "std_thread"),
    Target("wake_park_p99", 1.5, "std_thread"),
    *(Target(f"{own}_busy_{figure}", bound, "std_thread")
      for own in ("started", "parked") for figure, bound in (("p50", 1.1), ("p99", 1.5), ("p999", 1.5))),
    Target("timer_set", 0.25, "go"),
    Target("timer_set_cold", 0.35, "go"),
    Target("timer_stall", 100),
    Target("timer_cancel", 0.4, "go"),
    Target("sleepers_cold", 1.0, "go"),
    Target("sleepers_warm", 150),
    Target("late_p50_cold", 2000),
    Target("late_p99_cold", 0.6, "go"),
    Target("late_p50_warm", 2000),
    Target("late_p99_warm", 0.6, "go"),
    Target("trickle", 0.5, "go"),
    Target("idle", 0.1),
    Target("memory", 4600),
    Target("memory_1m", 4600),
    Target("switch_event", 4.0, SAME, peer_row="switch_bare"),
    Target("switch_yield", 4.0, SAME, peer_row="switch_bare"),
]

# No row may be worse, at other numbers of workers, than this times its figure at two.
BASE_WORKERS = 2
OTHER_WORKERS = (1, 8)
WORKERS_BOUND = 2.5
