#!/usr/bin/env python3
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""How what is shared grows with the workers: the scheduler's own counts of the workloads, by operation.

    bench/count/scaling.py > tables.md            # the tables of bench/results/scaling-tables.md
    bench/count/scaling.py --pool >> tables.md    # EntityPool's locks, by groups and workers in each

Each row is the median of some processes of weft_scaling: workers in groups of at most eight (--group_size). Nothing is
timed: the counts are scheduling_group/group/counters.h's and counted_entity_pool.h's. More workers than CPUs are no mistake
here, but see bench/results/scaling.md, which says what the tables can tell.

Exit status: 0, 1 if a workload failed, 2 for a wrong command line.
"""

import argparse
import pathlib
import re
import statistics
import sys

from callgrind import Failure, run_process

HERE = pathlib.Path(__file__).resolve().parent
WORKERS = (1, 2, 4, 8, 16, 64, 128, 512)

# Workload: (its operation, how many by the scale, or the name of their count, scale).
WORKLOADS = {
    "spawn": ("fiber", lambda scale: 1_000_000 * scale, 0.2),
    "spawn_all": ("fiber", "begun", 1),
    "spawn_across_all": ("fiber", "begun", 1),
    "spawn_ext": ("fiber", lambda scale: 500_000 * scale, 0.2),
    "spawn_ext_all": ("fiber", "begun", 1),
    "skynet": ("leaf", lambda scale: 100_000 * scale, 1),
    "yield": ("yield", lambda scale: round(1_000 * scale)**2, 0.5),
    "yield_all": ("yield", "switches", 1),
    "pingpong": ("hand-off", lambda scale: 1_000_000 * scale, 0.1),
    "pingpong_all": ("hand-off", "switches", 1),
    "mutex_yield": ("lock", lambda scale: 80_000 * scale, 0.5),
}

# Cache lines that move from one core to another at each event: from the code, and from above.
#   visit    RunQueue's tail_ (the pushes) and head_ (the pop)
#   fiber    a quarter of a line of slots (16 bytes each), the entity's line, the two lines at the top of its stack
#   take     a ring's or deque's head or top, its tail or bottom, a line of slots; and the fiber's three
#   wake     IdleWorkers' line, the parker's word, the slot; the kernel's own are not counted
#   steal    as take, and the line of stolen_out; from another group
#   pool     EntityPool's lock with the heads of its lists, nine lines of a pack of 64 pointers; of all groups of a node
LINES = {"queue_visits": 2, "queue_fibers": 3.25, "peer_takes": 6, "wakes": 3}
LINES_PER_STEAL = 7
LINES_PER_POOL_LOCK = 10
# Extra lines when several threads push one fiber after the other into a queue: its tail_, and three quarters of a line
# of slots.
LINES_OF_PUSHES = {"spawn_ext": 1.75, "spawn_ext_all": 1.75}

# ns for a line to go from core to core, median: https://github.com/nviennot/core-to-core-latency (README.md). inside:
# among the cores of a group, here one group of eight cores that share a cache; node: elsewhere in the socket; across:
# between the sockets.
MACHINES = {
    "Xeon 8375C": {"inside": 51, "node": 51, "across": 108},
    "EPYC 7R13": {"inside": 23, "node": 107, "across": 197},
}


def parse_counts(text):
    """{name: count} of the line that weft_scaling prints."""
    line = re.search(r"^# counts: (.*)$", text, re.MULTILINE)
    if line is None:
        raise Failure("the workload printed no counts")
    return {name: int(value) for name, value in re.findall(r"(\w+)=(\d+)", line[1])}


def lines_moved(counts, workload=""):
    """{where: lines} of one operation, at most: as if each event found them elsewhere."""
    return {"inside": sum(counts[event] * lines for event, lines in LINES.items())
                      + LINES_OF_PUSHES.get(workload, 0),
            "node": counts["pool_locks"] * LINES_PER_POOL_LOCK,
            "across": counts["stolen"] * LINES_PER_STEAL}


def groups_of(workers, group_size):
    return -(-workers // group_size)


def medians(runs):
    """{name: median}, each by itself."""
    return {name: statistics.median(run[name] for run in runs) for name in runs[0]}


def per_operation(counts, operations):
    if operations == 0:
        raise Failure("the workload did nothing while it was counted")
    return {name: count / operations for name, count in counts.items()}


def run_once(build, workload, workers, groups, policy):
    """{name: count of one operation}"""
    _, operations, scale = WORKLOADS[workload]
    out, _ = run_process([build / "bin/weft_scaling", f"--workload={workload}", "--isolate=false", "--rounds=1",
                          f"--workers={workers}", f"--groups={groups}", f"--scale={scale:g}", "--limit_factor=5",
                          f"--fiber_scheduling_name={policy}"], timeout=300)
    counts = parse_counts(out)
    return per_operation(counts, operations(scale) if callable(operations) else counts[operations])


def number(value):
    return "0" if value == 0 else f"{value:.2g}" if value < 99.5 else f"{value:.0f}"


COLUMNS = ("switches", "queue_visits", "queue_fibers", "peer_takes", "spins", "sleeps", "wakes", "steal_attempts", "stolen",
           "pool_locks")
PLACES = ("inside", "node", "across")


def table_of(workload, options, failed):
    print(f"\n**{workload}**, by {WORKLOADS[workload][0]} (`{options.command} --workloads={workload}`):\n")
    print("| policy | workers | groups | " + " | ".join(COLUMNS).replace("_", " ") + " | lines in the group | in the node |"
          " between groups | " + " | ".join(f"{name}, ns" for name in MACHINES) + " |")
    print("|" + "---|" * (len(COLUMNS) + 6 + len(MACHINES)))
    for policy in options.policies:
        for workers in options.workers:
            groups = groups_of(workers, options.group_size)
            try:
                counts = medians([run_once(options.build, workload, workers, groups, policy)
                                  for _ in range(options.runs)])
            except Failure as failure:
                failed.append(str(failure))
                continue
            lines = lines_moved(counts, workload)
            costs = [sum(lines[place] * machine[place] for place in PLACES) for machine in MACHINES.values()]
            cells = [*(counts[name] for name in COLUMNS), *(lines[place] for place in PLACES), *costs]
            print(f"| {policy} | {workers} | {groups} | {' | '.join(map(number, cells))} |", flush=True)


POOL_GROUPS = (1, 2, 4, 8, 16, 32, 64)
POOL_WORKERS = (2, 4, 8, 16)


def pool_tables(workloads, options, failed):
    for workload, who in (("spawn_all", "fibers"), ("spawn_across_all", "fibers of another group"),
                          ("spawn_ext_all", "threads")):
        if workload not in workloads:
            continue
        print(f"\n**EntityPool's locks**, by fiber that {who} start, {' / '.join(options.policies)} (`{options.command}`):\n")
        print("| groups | " + " | ".join(f"{workers} workers in each" for workers in POOL_WORKERS)
              + " | found it held, at most |")
        print("|" + "---|" * (2 + len(POOL_WORKERS)))
        for groups in options.groups:
            cells, held = [], 0
            for workers in POOL_WORKERS:
                try:
                    found = [medians([run_once(options.build, workload, groups * workers, groups, policy)
                                      for _ in range(options.runs)]) for policy in options.policies]
                except Failure as failure:
                    failed.append(str(failure))
                    cells.append("failed")
                    continue
                cells.append(" / ".join(number(counts["pool_locks"]) for counts in found))
                held = max(held, *(counts["pool_waits"] / counts["pool_locks"] for counts in found))
            print(f"| {groups} | {' | '.join(cells)} | {number(100 * held)} % |", flush=True)


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parents[1] / "build/release", help="the build folder")
    parser.add_argument("--workloads", default=",".join(WORKLOADS), help="separated by commas")
    parser.add_argument("--workers", default=",".join(map(str, WORKERS)), help="separated by commas")
    parser.add_argument("--policies", default="v1,v2", help="separated by commas")
    parser.add_argument("--group_size", type=int, default=8, help="workers in a group, at most")
    parser.add_argument("--runs", type=int, default=5, help="of each row, for the median")
    parser.add_argument("--pool", action="store_true", help="EntityPool's locks only, for many sizes and numbers of groups")
    parser.add_argument("--groups", default=",".join(map(str, POOL_GROUPS)), help="with --pool: separated by commas")
    options = parser.parse_args(arguments)
    workloads = options.workloads.split(",")
    if unknown := [name for name in workloads if name not in WORKLOADS]:
        parser.error(f"there is no {', '.join(unknown)}; there are {', '.join(WORKLOADS)}")
    options.build = options.build.resolve()
    options.policies = options.policies.split(",")
    options.groups = [int(groups) for groups in options.groups.split(",")]
    options.workers = [int(workers) for workers in options.workers.split(",")]
    # What the tables say that made them.
    kept = [word for word in arguments if not word.startswith(("--workloads", "--build"))]
    options.command = " ".join(["bench/count/scaling.py", *kept])
    failed = []
    if options.pool:
        pool_tables(workloads, options, failed)
    else:
        for workload in workloads:
            table_of(workload, options, failed)
    if failed:
        print("\n".join(failed), file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
