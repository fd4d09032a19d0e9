#!/usr/bin/env python3
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""How what is shared grows with the workers: the scheduler's own counts of the workloads, by operation.

    bench/count/scaling.py > tables.md        # the tables of bench/SCALING.md, which says what they can tell

Each row is one process of build/bench/workload --counts: workers in groups of at most eight (--group_size). Nothing is
timed: the counts are scheduling_group/counters.h's. More workers than CPUs are no mistake here, but see SCALING.md.

Exit status: 0, 1 if a workload failed, 2 for a wrong command line.
"""

import argparse
import pathlib
import re
import sys

from callgrind import Failure, run_process

HERE = pathlib.Path(__file__).resolve().parent
WORKERS = (1, 2, 4, 8, 16, 64)

# Workload: (what is counted as one operation, how many at scale 1 (by the scale), scale).
WORKLOADS = {
    "spawn": ("fiber", lambda scale: 1_000_000 * scale, 0.2),
    "spawn_ext": ("fiber", lambda scale: 500_000 * scale, 0.2),
    "skynet": ("leaf", lambda scale: 100_000 * scale, 1),
    "yield": ("yield", lambda scale: round(1_000 * scale)**2, 0.5),
    "pingpong": ("hand-over", lambda scale: 1_000_000 * scale, 0.1),
    "mutex_yield": ("lock", lambda scale: 80_000 * scale, 0.5),
}

# Cache lines that go from one core to another at each event: from the code, and from above.
#   visit    RunQueue's tail_ (the pushes) and head_ (the pop)
#   fiber    a quarter of a line of slots (16 bytes each), the entity's line, the two lines at the top of its stack
#   take     a ring's or deque's head or top, its tail or bottom, a line of slots; and the fiber's three
#   wake     IdleWorkers' line, the parker's word, the bed; the kernel's own are not counted
#   steal    as take, and the line of stolen_out; from another group
LINES = {"queue_visits": 2, "queue_fibers": 3.25, "peer_takes": 6, "wakes": 3}
LINES_PER_STEAL = 7

# ns for a line to go from core to core, median: https://github.com/nviennot/core-to-core-latency (README.md).
MACHINES = {
    "Xeon 8375C": {"inside": 51, "across": 108},
    "EPYC 7R13": {"inside": 23, "across": 197},  # inside: one group of eight cores that share a cache
}


def parse_counts(text):
    """{name: count} of the line that `workload --counts` prints."""
    line = re.search(r"^# counts: (.*)$", text, re.MULTILINE)
    if line is None:
        raise Failure("the workload printed no counts")
    return {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", line[1])}


def lines_moved(per_operation):
    """(lines within a group, lines between groups) of one operation, at most: as if each event found them elsewhere."""
    return (sum(per_operation[event] * lines for event, lines in LINES.items()),
            per_operation["stolen"] * LINES_PER_STEAL)


def run(build, workload, workers, group_size, policy):
    _, operations_at, scale = WORKLOADS[workload]
    groups = -(-workers // group_size)
    out, _ = run_process([build / "bench/workload", f"--workload={workload}", "--isolate=false", "--rounds=1", "--counts",
                          f"--workers={workers}", f"--groups={groups}", f"--scale={scale:g}", "--limit_factor=5",
                          f"--fiber_scheduling_name={policy}"], timeout=300)
    operations = operations_at(scale)
    return {name: count / operations for name, count in parse_counts(out).items()}


def number(value):
    return "0" if value == 0 else f"{value:.2g}" if value < 100 else f"{value:.0f}"


COLUMNS = ("switches", "queue_visits", "queue_fibers", "peer_takes", "spins", "sleeps", "wakes", "steal_attempts", "stolen")


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parents[1] / "build/release", help="the build folder")
    parser.add_argument("--workloads", default=",".join(WORKLOADS), help="separated by commas")
    parser.add_argument("--workers", default=",".join(map(str, WORKERS)), help="separated by commas")
    parser.add_argument("--policies", default="v1,v2", help="separated by commas")
    parser.add_argument("--group_size", type=int, default=8, help="workers in a group, at most")
    options = parser.parse_args(arguments)
    workloads = options.workloads.split(",")
    if unknown := [name for name in workloads if name not in WORKLOADS]:
        parser.error(f"there is no {', '.join(unknown)}; there are {', '.join(WORKLOADS)}")
    failed = []
    for workload in workloads:
        print(f"\n**{workload}**, by {WORKLOADS[workload][0]}:\n")
        print("| policy | workers | " + " | ".join(COLUMNS).replace("_", " ") + " | lines in the group | lines between |"
              + " | ".join(f" {name}, ns" for name in MACHINES) + " |")
        print("|" + "---|" * (len(COLUMNS) + 4 + len(MACHINES)))
        for policy in options.policies.split(","):
            for workers in map(int, options.workers.split(",")):
                try:
                    counts = run(options.build.resolve(), workload, workers, options.group_size, policy)
                except Failure as failure:
                    failed.append(str(failure))
                    continue
                inside, between = lines_moved(counts)
                costs = [inside * machine["inside"] + between * machine["across"] for machine in MACHINES.values()]
                cells = [*(counts[name] for name in COLUMNS), inside, between, *costs]
                print(f"| {policy} | {workers} | {' | '.join(map(number, cells))} |", flush=True)
    if failed:
        print("\n".join(failed), file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
