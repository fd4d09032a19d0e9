#!/usr/bin/env python3
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""Runs the workloads on Weft and on its peers, in turn, and writes what came out.

Each run goes through the workloads, and for each workload through all runtimes, one process after the other: what the
machine does besides hits them alike, so that ratios within a run hold where figures of different days do not. rows.py
says what is run and which targets are set, figures.py what is made of the output, report.py how it is shown.

The programs must have been built: bench/compare/run.sh does all of it. Written to --out: report.md, results.json (all
rounds of all runs; --render shows them anew), throughput.svg and latency.svg with their gnuplot sources.

Exit status: 0, 1 if a workload of Weft failed, 2 for a wrong command line. Peers may fail, which the report tells; a
missed target is a result and no failure.
"""

import argparse
import datetime
import json
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import time

sys.path.append(str(pathlib.Path(__file__).resolve().parents[1] / "count"))

import callgrind
import report
from callgrind import Failure, run_process
from figures import Results, parse_output
from rows import BASE_WORKERS, OTHER_WORKERS, ROWS, RUNTIMES, SWITCH, TARGETS, WEFT, WORKLOADS

# Seconds. A slower peer is measured in the first run only, unless a target compares with it.
PATIENCE = 15
SKIPPED = 77  # The exit status by which ctest knows a skipped test.
HERE = pathlib.Path(__file__).resolve().parent


class Programs:
    """Where each runtime's program is, and how it is called."""

    def __init__(self, build):
        self.weft = build / "bench/workload"
        self.bare_switch = build / "bin/weft_bare_switch"
        peers = build / "bench/workload_peers"
        self._programs = {
            "weft_v1": ([self.weft, "--fiber_scheduling_name=v1"], "target weft_workload"),
            "weft_v2": ([self.weft, "--fiber_scheduling_name=v2"], "target weft_workload"),
            "go": ([build / "bench/compare/workload_go"], "golang-go"),
            "one_tbb": ([build / "bin/weft_workload_one_tbb"], "libtbb-dev"),
            "tokio": ([build / "bench/compare/tokio/release/workload_tokio"], "cargo, rustc, librust-tokio-dev"),
        }
        for name in ("boost_shared_work", "boost_work_stealing", "std_thread"):
            self._programs[name] = ([peers, f"--runtime={name}"], "libboost-fiber1.81-dev")

    def missing(self, runtime):
        """Why the runtime cannot be measured, or None."""
        command, needs = self._programs[runtime]
        if command[0].exists():
            return None
        return f"{RUNTIMES[runtime]}: {command[0]} has not been built (it needs {needs}; bench/compare/run.sh does it)"

    def command(self, runtime):
        return [str(word) for word in self._programs[runtime][0]]


def count_switches(programs, runtime, scale):
    """{figure: [instructions of one switch]}: the difference of two lengths of a workload: start and end cancel.

    One worker. pingpong: two hand-offs for each round trip, each a Set(), a Wait() that parks and a Reset().
    yield: as many fibers as yields each; the starts of the further fibers count in, which is less than two percent.
    Without what measures the waits of fibers by the clock, which callgrind has happen too often (callgrind.py).
    """
    def instructions(workload, short, long, operations):
        def command(scale_by):
            return [*programs.command(runtime), f"--workload={workload}", "--isolate=false", "--rounds=1", "--workers=1",
                    f"--scale={scale * scale_by:g}", "--limit_factor=5"]
        return [callgrind.cost(command, short, long, operations).instructions]

    return {
        "event": instructions("pingpong", 0.02, 0.06, lambda by: 2 * round(500_000 * scale * by)),
        "yield": instructions("yield", 0.2, 0.6, lambda by: round(1_000 * scale * by)**2),
        "bare": [callgrind.cost(lambda n: [programs.bare_switch, str(n)], 100_000, 300_000).instructions],
    }


def measure(programs, runtime, workload, workers, options):
    if workload.name == SWITCH:
        return count_switches(programs, runtime, options.scale)
    rounds = options.rounds or workload.rounds
    if workload.name == "sleepers":
        rounds = max(rounds, 3)  # Cold and warm.
    out, _ = run_process([*programs.command(runtime), f"--workload={workload.name}", f"--workers={workers}",
                          f"--rounds={rounds}", f"--scale={options.scale:g}"], workload.timeout)
    return parse_output(out)


def first_line(command):
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=20, check=True).stdout.splitlines()[0]
    except (OSError, subprocess.SubprocessError, IndexError):
        return ""


def describe(options, started, build):
    """What a reader must know to judge the figures."""
    cpu = next((line.split(":")[1].strip() for line in pathlib.Path("/proc/cpuinfo").read_text().splitlines()
                if line.startswith("model name")), platform.machine())
    commit = first_line(["git", "-C", str(HERE), "describe", "--always", "--dirty"])
    cache = (build / "CMakeCache.txt").read_text() if (build / "CMakeCache.txt").exists() else ""
    compiler = re.search(r"^CMAKE_CXX_COMPILER:\w+=(.*)$", cache, re.MULTILINE)
    asked = [["go", "version"], ["/usr/bin/rustc", "--version"], *([[compiler[1], "--version"]] if compiler else [])]
    tools = [first_line(command) for command in asked]
    minutes = (datetime.datetime.now() - started).seconds // 60
    return [
        f"{started:%Y-%m-%d %H:%M}, {options.runs} runs in {minutes} minutes" +
        (f"; scale {options.scale:g}: shortened, NOT comparable" if options.scale != 1 else ""),
        f"{os.cpu_count()} CPUs, {cpu}, Linux {platform.release()}; load average at the end "
        f"{os.getloadavg()[1]:.1f} (5 minutes)",
        "; ".join(tool for tool in [f"Weft {commit}", *tools] if tool),
        f"`{' '.join(['bench/compare/run.sh', *options.command_line])}`",
    ]


def is_wanted(runtime, workload):
    """Whether the targets need every run of it."""
    return runtime in WEFT or any(row.source.workload == workload.name and target.peer == runtime
                                  for row in ROWS for target in TARGETS if row.key in (target.row, target.peer_row))


def run_all(options, programs, runtimes, other_workers, notes, save):
    """(Results, whether Weft did all it should). What is not in the results is added to `notes`."""
    results, weft_is_well, done_with = Results(), True, set()
    for run in range(options.runs):
        for workload in WORKLOADS:
            if workload.name not in options.workloads or (workload.name == SWITCH and run > 0):
                continue  # Instructions do not vary from run to run.
            began = time.monotonic()
            for runtime in (name for name in runtimes if name in workload.runtimes):
                several = runtime in WEFT and workload.name != SWITCH
                for workers in [options.workers, *(other_workers if several else ())]:
                    if (runtime, workload.name) in done_with:
                        continue
                    what = f"{workload.name} on {RUNTIMES[runtime]} at {workers} workers, run {run + 1}"
                    started = time.monotonic()
                    try:
                        figures = measure(programs, runtime, workload, workers, options)
                        results.add(run, runtime, workers, workload.name, figures)
                        took = time.monotonic() - started
                        if took > PATIENCE and not is_wanted(runtime, workload) and run + 1 < options.runs:
                            done_with.add((runtime, workload.name))
                            notes.append(f"{what}: took {took:.0f} s and was not repeated")
                    except (Failure, OSError, ValueError) as problem:
                        notes.append(f"{what}: {problem}")
                        print(f"FAILED {notes[-1]}", file=sys.stderr, flush=True)
                        if runtime in WEFT:
                            weft_is_well = False
                        else:
                            done_with.add((runtime, workload.name))  # It would take its time limit in every run.
            print(f"run {run + 1}/{options.runs} {workload.name}: {time.monotonic() - began:.1f} s", flush=True)
        save(results)  # After each run: the next one may be interrupted.
    return results, weft_is_well


def write_report(results, about, out):
    (out / "report.md").write_text(report.render(results, about, out))
    print(f"wrote {out}/report.md")


def parse_command_line(arguments):
    parser = argparse.ArgumentParser(description=__doc__.split("\n\n")[0])
    names = [workload.name for workload in WORKLOADS]

    def some_of(known):
        def parse(text):
            wrong = [name for name in text.split(",") if name not in known]
            if wrong:
                raise argparse.ArgumentTypeError(f"no such name: {', '.join(wrong)}; there are {', '.join(known)}")
            return text.split(",")
        return parse

    def at_least_one(text):
        if int(text) < 1:
            raise argparse.ArgumentTypeError(f"{text}: expected 1 or more")
        return int(text)

    parser.add_argument("--runs", type=at_least_one, default=5, help="how often all of it (default: %(default)s)")
    parser.add_argument("--workers", type=at_least_one, default=BASE_WORKERS,
                        help="of each runtime (default: %(default)s)")
    parser.add_argument("--workloads", type=some_of(names), default=[],
                        help=f"some of {','.join(names)} (default: all)")
    parser.add_argument("--runtimes", type=some_of(list(RUNTIMES)), default=list(RUNTIMES),
                        help=f"some of {','.join(RUNTIMES)} (default: all)")
    parser.add_argument("--out", type=pathlib.Path, help="folder for what is written (default: <build>/compare)")
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parents[1] / "build/release",
                        help="the build folder (default: %(default)s)")
    parser.add_argument("--only-workers", action="store_true",
                        help="leave out Weft at the other numbers of workers: no table of them")
    parser.add_argument("--rounds", type=int, default=0, help="in each process (default: as suits the workload)")
    parser.add_argument("--scale", type=float, default=1.0, help="part of the work: figures hold at 1 only")
    parser.add_argument("--render", type=pathlib.Path, metavar="RESULTS", help="run nothing: show a results.json anew")
    parser.add_argument("--smoke", action="store_true",
                        help="one tiny run; exit status 77 if a runtime is not there, 1 if any row has no figure")
    options = parser.parse_args(arguments)
    options.command_line = arguments
    options.build = options.build.resolve()
    options.out = (options.out or options.build / "compare").resolve()
    if options.smoke:
        options.runs, options.scale, options.rounds = 1, 0.002, 1
        options.only_workers = True
    # callgrind takes a second for each of its processes: in a smoke test only when asked for.
    options.workloads = options.workloads or [name for name in names if name != SWITCH or not options.smoke]
    return options


def smoke_failures(results, options, runtimes):
    """Workloads that should have given figures and did not."""
    measured = {(runtime, workload) for _, runtime, _, workload in results.rounds}
    return [f"{workload.name} on {runtime} gave no figure" for workload in WORKLOADS for runtime in runtimes
            if runtime in workload.runtimes and workload.name in options.workloads
            and (runtime, workload.name) not in measured]


def main(arguments):
    options = parse_command_line(arguments)
    options.out.mkdir(parents=True, exist_ok=True)
    if options.render:
        data = json.loads(options.render.read_text())
        write_report(Results.from_json(data["rounds"]), data["about"], options.out)
        return 0

    programs = Programs(options.build)
    missing = {runtime: why for runtime in options.runtimes if (why := programs.missing(runtime))}
    if SWITCH in options.workloads and shutil.which("valgrind") is None:
        missing[SWITCH] = "switch: valgrind is not installed (bench/compare/run.sh does it)"
        options.workloads.remove(SWITCH)
    if missing and (options.smoke or not set(WEFT).isdisjoint(missing)):
        print("\n".join(missing.values()))
        return SKIPPED if options.smoke else 1
    runtimes = [runtime for runtime in options.runtimes if runtime not in missing]
    weft_workers = {options.workers} if options.only_workers else {options.workers, BASE_WORKERS, *OTHER_WORKERS}

    started = datetime.datetime.now()
    notes = list(missing.values())

    def about():
        others = sorted(weft_workers - {BASE_WORKERS}) if len(weft_workers) > 1 else []
        return {"workers": options.workers, "other_workers": others, "notes": notes,
                "lines": describe(options, started, options.build)}

    def save(results):
        (options.out / "results.json").write_text(json.dumps({"about": about(), "rounds": results.to_json()}))

    results, weft_is_well = run_all(options, programs, runtimes, sorted(weft_workers - {options.workers}), notes, save)
    write_report(results, about(), options.out)
    for target, policy, found, met in report.judge_all(results, options.workers):
        if found is not None and options.scale == 1:
            print(f"{'met   ' if met else 'MISSED'} {RUNTIMES[policy]} {target.row}: {report.number(found.median)} "
                  f"({report.target_text(target)})")
    failures = smoke_failures(results, options, runtimes) if options.smoke else []
    if failures:
        print("\n".join(failures), file=sys.stderr)
    return 0 if weft_is_well and not failures else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
