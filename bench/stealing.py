#!/usr/bin/env python3
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""What stealing between groups costs and brings: the workloads by groups and workers, stealing on against off.

    cmake --preset release && ninja -C build/release weft_workload
    bench/stealing.py > table.md              # --runs=5 --scale=0.2 --workloads=spawn,mutex --shapes=2x1,8x8

A cell is CPU time by operation, stealing on / off, and the ratio of the two: medians of --runs processes of each, by
turns. `pairs_1`, `pairs` and `pairs_256` are 1, 16 and 256 pairs that hand off to each other, all begun in one group:
their own figure, not shortened. Of the others it is the process's CPU time, with the start of the runtime. A ratio above
1.1 is bold. Wall time says little where the workers are more than the CPUs.

Exit status: 0, 1 if a workload failed, 2 for a wrong command line.
"""

import argparse
import os
import pathlib
import re
import statistics
import subprocess
import sys

HERE = pathlib.Path(__file__).resolve().parent
# Workload: its operations at scale 1, or the figure that it prints itself.
WORKLOADS = {"spawn": 1_000_000, "pingpong": 500_000, "mutex": 64 * 20_000, "chan": 2_000_000, "requests": 200_000,
             "pairs_1": "one_group_cpu_ns", "pairs": "one_group_cpu_ns", "pairs_256": "one_group_cpu_ns"}
SHAPES = "2x1,2x2,2x8,8x1,8x8,64x1"  # groups x workers in each
MODES = {"on": (), "off": ("--fiber_work_stealing_ratio=0",)}


class Failure(Exception):
    pass


def run_once(program, workload, groups, each, scale, mode):
    """ns of CPU time by operation."""
    operations = WORKLOADS[workload]
    if isinstance(operations, str):
        scale = 1
    command = [program, f"--workload={workload}", f"--groups={groups}", f"--workers={groups * each}", "--rounds=1",
               f"--scale={scale:g}", "--limit_factor=20", *MODES[mode]]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as process:
        text = process.stdout.read()
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode != 0:
        raise Failure(f"{' '.join(map(str, command))}: exit status {process.returncode}\n{text}")
    if isinstance(operations, str):
        return float(re.search(rf"^{workload} {operations} (\S+) ns", text, re.MULTILINE)[1])
    return (used.ru_utime + used.ru_stime) * 1e9 / (operations * scale)


def cell(runs):
    on, off = (statistics.median(runs[mode]) for mode in MODES)
    ratio = f"{on / off:.2f}"
    return f"{on:.0f} / {off:.0f}: " + (f"**{ratio}**" if on > 1.1 * off else ratio)


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parent / "build/release", help="the build folder")
    parser.add_argument("--workloads", default=",".join(WORKLOADS), help="separated by commas")
    parser.add_argument("--shapes", default=SHAPES, help="groups x workers in each, separated by commas")
    parser.add_argument("--runs", type=int, default=5, help="of each cell and mode")
    parser.add_argument("--scale", type=float, default=0.2, help="of the workloads without pairs")
    options = parser.parse_args(arguments)
    workloads = options.workloads.split(",")
    if unknown := [name for name in workloads if name not in WORKLOADS]:
        parser.error(f"there is no {', '.join(unknown)}; there are {', '.join(WORKLOADS)}")
    shapes = [tuple(map(int, shape.split("x"))) for shape in options.shapes.split(",")]
    program = options.build.resolve() / "bench/workload"
    failed = []
    print("| groups x workers | " + " | ".join(workloads) + " |\n|" + "---|" * (1 + len(workloads)))
    for groups, each in shapes:
        cells = []
        for workload in workloads:
            runs = {mode: [] for mode in MODES}
            try:
                for i in range(options.runs):
                    for mode in sorted(MODES, reverse=i % 2 == 0):
                        runs[mode].append(run_once(program, workload, groups, each, options.scale, mode))
                cells.append(cell(runs))
            except Failure as failure:
                failed.append(str(failure))
                cells.append("failed")
        print(f"| {groups} x {each} | " + " | ".join(cells) + " |", flush=True)
    if failed:
        print("\n".join(failed), file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
