#!/usr/bin/env python3
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""What one operation costs, counted: instructions, atomic read-modify-writes, full fences, system calls.

    bench/count/count.py                                  # a table for bench/results/operations.md; builds nothing
    bench/count/count.py --operations pingpong --functions 12   # and which functions the instructions are in
    bench/count/count.py --check --policies v1            # what CTest runs: exit status 1 if a bound is exceeded

Counts do not depend on how fast or busy the machine is, with these exceptions: with two workers, which of them runs
what; and what is done by the clock: beside busy neighbours an operation of one worker took 377 to 444 instructions. That
only adds. So a bound is exceeded if three counts in a row exceed it. callgrind.py says how instructions and atomics are counted, strace
counts system calls, of the program at full speed. operations.py has the operations and the bounds.

With two workers, work is counted and the search for it is not: what Worker::NextFiber() does is left out (an idle
worker spins for as long as the clock says, which is no cost of an operation), and the clock is slowed down as much as
callgrind slows the program down (slow_clock.cc), for batches are adapted to the time that fibers take.

Exit status: 0; 1: a bound is exceeded, or a program failed; 2: wrong command line; 77: something needed is missing.
"""

import argparse
import pathlib
import re
import shutil
import sys
import tempfile

import callgrind
from operations import (ATOMICS_SLACK, FOUND, INSTRUCTIONS_SLACK, MOST_SYSTEM_CALLS, OPERATIONS, POLICIES, SLOWER_BY,
                        WORKERS)

SKIPPED = 77  # The exit status by which ctest knows a skipped test.
HERE = pathlib.Path(__file__).resolve().parent
SEARCH = f"{callgrind.NAMESPACE}Worker::NextFiber()"


class Counts:
    def __init__(self, instructions, rmw, fences, system_calls, functions):
        self.instructions, self.rmw, self.fences = instructions, rmw, fences
        self.system_calls, self.functions = system_calls, functions


def parse_strace(text):
    """{system call: times}, of strace -c -U name,calls."""
    rows = re.findall(r"^(\w+)\s+(\d+)$", text, re.MULTILINE)
    return {name: int(times) for name, times in rows if name != "total"}


def system_calls(command):
    """How many system calls all threads of a process make."""
    with tempfile.TemporaryDirectory(prefix="weft-count-") as folder:
        out = pathlib.Path(folder) / "strace.out"
        callgrind.run_process(["strace", "--follow-forks", "--summary-only", "--summary-columns=name,calls",
                               f"--output={out}", *command], timeout=300)
        return sum(parse_strace(out.read_text(encoding="utf-8")).values())


def system_calls_of_each(operation, command, short, long):
    """A busy machine makes workers wait for each other and sleep, which only adds calls: so the least of ten."""
    shorts, longs = [], []
    while True:
        shorts.append(system_calls(command(short)))
        longs.append(system_calls(command(long)))
        calls = (min(longs) - min(shorts)) / (operation.operations(long) - operation.operations(short))
        if not operation.steady or calls <= operation.system_calls + MOST_SYSTEM_CALLS or len(longs) == 10:
            return calls


def count(operation, build, workers, policy):
    def command(length):
        return operation.command(build, length, workers, policy)

    how = {"not_counted": (*callgrind.SAMPLER, SEARCH)}
    if workers > 1 and not operation.timed:
        how["environment"] = {"LD_PRELOAD": str(build / "bench/count/libweft_slow_clock.so"),
                              "WEFT_SLOW_CLOCK": str(SLOWER_BY)}
    cost = callgrind.cost(command, operation.short, operation.long, operation.operations, **how)
    short, long = operation.short * operation.longer, operation.long * operation.longer
    result = Counts(cost.instructions, cost.rmw, cost.fences,
                    system_calls_of_each(operation, command, short, long), cost.functions)
    if operation.beyond:
        inner = count(OPERATIONS[operation.beyond], build, workers, policy)
        result.instructions -= inner.instructions
        result.rmw -= inner.rmw
        result.fences -= inner.fences
        result.system_calls -= inner.system_calls
        result.functions = {name: own - inner.functions.get(name, 0) for name, own in result.functions.items()}
    return result


def number(value):
    """Three digits of what is above 1, and what is not distinct from nothing as 0."""
    if abs(value) < 0.0005:
        return "0"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.3g}"


def exceeded(found, counts, steady, workers=1, system_calls=0):
    """What is above its bound, in words; `found` as in FOUND."""
    problems = []

    def judge(what, value, bound):
        if value > bound:
            problems.append(f"{value:.4g} {what}, at most {bound:.4g} are allowed")

    judge("instructions", counts.instructions, found[0] * INSTRUCTIONS_SLACK[workers])
    judge("read-modify-writes", counts.rmw, found[1] + ATOMICS_SLACK[workers])
    judge("full fences", counts.fences, found[2] + ATOMICS_SLACK[workers])
    if steady:
        judge("system calls", counts.system_calls, system_calls + MOST_SYSTEM_CALLS)
    return problems


def count_again(count_once, problems_of, most=3):
    """The first counts without a problem, or the last; and their problems."""
    for _ in range(most):
        counts = count_once()
        problems = problems_of(counts)
        if not problems:
            break
    return counts, problems


def missing(build):
    """Why nothing can be counted, or None."""
    for tool in ("valgrind", "objdump", "strace"):
        if shutil.which(tool) is None:
            return f"{tool} is not installed (tools/install_dependencies.sh does it)"
    for program in ("bench/workload", "bin/weft_operations", "bin/weft_bare_switch", "bench/count/libweft_slow_clock.so"):
        if not (build / program).exists():
            return f"{build / program} has not been built (the target weft_counted builds all that is needed)"
    try:
        callgrind.run_process(["strace", "--summary-only", "--output=/dev/null", "true"], timeout=20)
    except callgrind.Failure as failure:
        return f"strace may not trace here: {failure}"
    return None


def parse_command_line(arguments):
    def names(of):
        def parse(text):
            wanted = text.split(",")
            if wrong := [name for name in wanted if name not in of]:
                raise argparse.ArgumentTypeError(f"there is no {', '.join(wrong)}; there are {', '.join(of)}")
            return wanted
        return parse

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parents[1] / "build/release", help="the build folder")
    parser.add_argument("--operations", type=names(OPERATIONS), default=list(OPERATIONS), help="separated by commas")
    parser.add_argument("--policies", type=names(POLICIES), default=list(POLICIES), help="separated by commas")
    parser.add_argument("--workers", type=names([str(n) for n in WORKERS]), default=[str(n) for n in WORKERS],
                        help="separated by commas")
    parser.add_argument("--functions", type=int, default=0, help="show so many functions of each operation")
    parser.add_argument("--found", action="store_true", help="print the lines of FOUND in operations.py")
    parser.add_argument("--check", action="store_true", help="only what has a bound; exit status 1 if it is exceeded")
    options = parser.parse_args(arguments)
    options.build = options.build.resolve()
    options.workers = [int(workers) for workers in options.workers]
    return options


def wanted(options):
    """(operation, workers, policy) of each count."""
    for key in options.operations:
        operation = OPERATIONS[key]
        if operation.floor:
            if not options.check:
                yield operation, 1, POLICIES[0]
            continue
        for workers in options.workers:
            for policy in options.policies:
                if not options.check or (key, workers, policy) in FOUND:
                    yield operation, workers, policy


def main(arguments):
    options = parse_command_line(arguments)
    if why := missing(options.build):
        print(why)
        return SKIPPED
    if not options.found:
        print("| operation | workers | policy | instructions | read-modify-writes | full fences | system calls |\n"
              "|---|---|---|---|---|---|---|")
    failed, by_function = [], []
    for operation, workers, policy in wanted(options):
        def problems_of(counts):
            return exceeded(FOUND[operation.key, workers, policy], counts, operation.steady, workers,
                            operation.system_calls) if options.check else []

        try:
            counts, problems = count_again(lambda: count(operation, options.build, workers, policy), problems_of)
        except callgrind.Failure as failure:
            failed.append(str(failure))
            continue
        where = ("", "") if operation.floor else (workers, policy)
        figures = (counts.instructions, counts.rmw, counts.fences, counts.system_calls)
        if options.found:
            print(f'    ("{operation.key}", {workers}, "{policy}"): '
                  f"({counts.instructions:.0f}, {counts.rmw:.2f}, {max(counts.fences, 0):.2f}),", flush=True)
        else:
            print(f"| {operation.label} | {where[0]} | {where[1]} | {' | '.join(map(number, figures))} |", flush=True)
        by_function.append((f"{operation.label}, {workers} workers, {policy}", counts.functions))
        failed += [f"{operation.key}, {workers} worker(s), {policy}: {problem}" for problem in problems]
    for title, functions in by_function if options.functions else []:
        print(f"\n{title}:\n")
        for name, own in sorted(functions.items(), key=lambda item: -item[1])[:options.functions]:
            print(f"    {own:8.1f}  {name[:100]}")
    if failed:
        print("\n".join(failed), file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
