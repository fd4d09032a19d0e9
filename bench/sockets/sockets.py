# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""The report of bench/sockets.sh, which says what it is for.  Exit status: 0, 1 if a check or a workload failed."""

import argparse
import os
import pathlib
import platform
import re
import shutil
import statistics
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "count")]
import machine  # noqa: E402
import scaling  # noqa: E402
from callgrind import Failure, run_process  # noqa: E402

# Workload: the figure that is shown.
WORKLOADS = {"spawn": "ns_per_fiber", "spawn_ext": "ns_per_fiber", "skynet": "ms", "yield": "ns_per_yield",
             "pingpong": "ns_per_roundtrip", "mutex_yield": "ns_per_lock"}
# Of tests/guest: those that any machine with several nodes passes. They ask the kernel where threads and pages are.
PROCESS_CHECKS = (
    "GuestTopology.HasTheNodesCpusAndDistancesThatTheKernelSays",
    "GuestStealOrder.ReachesOnlyNodesOfTheSocketByDefaultByTheDistanceThatTheKernelSays",
    "GuestMemory.StacksAndFibersOfEachGroupAreOnItsNode",
    "GuestMemory.QueuesAndWorkersOfEachGroupAreOnItsNode",
    "GuestMemory.SlotsOfDescriptorsAreOnTheirGroupsNodeThoughOthersGiveThemBack",
    "GuestMemory.TimersOfEachGroupAreOnItsNode",
)
HIDDEN_BY_ONE_NODE = """This machine has one NUMA node that this process may use. So this report cannot show: whether memory is on its group's
node, the order and the rates of stealing across nodes, and what several nodes cost. What it shows is that the script
works, the plan, and the workloads on the one node.
"""
ABOUT_WORKLOADS = """As many workers as the nodes have CPUs, medians. The model's columns are what the cache lines of one operation (of
skynet: a leaf) would cost on two machines whose latencies are known (bench/results/scaling.md). They stand beside the
growth from one node to several.
"""


def table(header, rows):
    lines = [header, ["---"] * len(header), *rows]
    return "\n".join("| " + " | ".join(map(str, cells)) + " |" for cells in lines) + "\n"


def verdicts(checks):
    return table(["check", "verdict"], [[what, f"**failed**: {offence}" if offence else "kept"] for what, offence in checks])


def sets_of_nodes(nodes):
    """Of one node, half of them, and all; each a list of their numbers."""
    numbers = sorted(nodes)
    counts = sorted({1, -(-len(numbers) // 2), len(numbers)})
    return [numbers[:count] for count in counts]


def figure_of(output, figure):
    """The median of the rounds, in the line of that figure."""
    for line in output.splitlines():
        words = line.split()
        if len(words) > 3 and words[1] == figure:
            median = re.search(r"\bmedian=([\d.]+)", line)
            return float(median[1] if median else words[2])
    raise Failure(f"no figure {figure} in: {output.strip()[:200]}")


def planned_groups(build, cpus, size=0):
    text, _ = run_process([build / "bin/weft_topology", f"--fiber_worker_accessible_cpus={','.join(map(str, cpus))}",
                           f"--fiber_scheduling_group_size={size}"], timeout=60)
    return len(machine.read_plan(text))


def workers_and_groups(build, cpus):
    """As many workers as CPUs, in as many groups as the workload program will make of them."""
    groups = planned_groups(build, cpus)
    return len(cpus), planned_groups(build, cpus, -(-len(cpus) // groups))


def on_cpus(command, cpus):
    return ["taskset", "--cpu-list", ",".join(map(str, cpus)), *command]


def measure(command, workload, cpus, options):
    """The median over runs of a workload."""
    command = [*command, f"--workload={workload}", f"--workers={len(cpus)}", f"--scale={options.scale:g}"]
    return statistics.median(figure_of(run_process(on_cpus(command, cpus), timeout=900)[0], WORKLOADS[workload])
                             for _ in range(options.runs))


def binding_checks(build, nodes):
    """[(what, offence or "")]: where the threads of a process with a worker on each CPU may run."""
    cpus = sorted(cpu for node in nodes.values() for cpu in node.cpus)
    workers, count = workers_and_groups(build, cpus)
    plan, _ = run_process([build / "bin/weft_topology", f"--fiber_scheduling_group_size={-(-workers // count)}"], timeout=60)
    result = []
    for pinned in (True, False):
        wanted = machine.expected_masks(machine.read_plan(plan), pinned)
        with subprocess.Popen([build / "bench/workload", "--workload=idle", "--isolate=false", "--rounds=1",
                               f"--workers={workers}", f"--groups={count}",
                               f"--fiber_worker_disallow_cpu_migration={str(pinned).lower()}"],
                              stdout=subprocess.DEVNULL) as process:
            masks, end = [], time.monotonic() + 20
            while masks != wanted and process.poll() is None and time.monotonic() < end:
                time.sleep(0.02)
                masks = machine.allowed_by_thread(process.pid)
            process.terminate()
        what = "the kernel binds each worker to " + ("its planned CPU" if pinned else "the CPUs of its group")
        result.append((what, "" if masks == wanted else f"{masks}, not {wanted}"))
    return result


def process_checks(build):
    """[(test, offence or "")]; nothing where the program is not there."""
    program = build / "tests/guest/guest_tests"
    if not program.exists():
        program = build / "bin/guest_tests"
    if not program.exists():
        return []
    result = []
    for test in PROCESS_CHECKS:
        run = subprocess.run([program, f"--gtest_filter={test}"], capture_output=True, text=True, timeout=600, check=False)
        ran = f"[       OK ] {test}" in run.stdout
        reasons = [line for line in run.stdout.splitlines() if "Failure" in line or "Which is" in line]
        result.append((test, "" if run.returncode == 0 and ran else " ".join(reasons[:3]) or "it did not run"))
    return result


def predictions(build, workload, workers, groups):
    """[ns on each machine of the model] that the cache lines of one operation cost."""
    counts = scaling.run_once(build, workload, workers, groups, "v1")
    lines = scaling.lines_moved(counts, workload)
    return [sum(lines[place] * latency[place] for place in scaling.PLACES) for latency in scaling.MACHINES.values()]


def workload_rows(nodes, options, failed):
    """{workload: [(nodes, workers, groups, {runtime: figure}, [predicted])]}"""
    build = options.build
    runtimes = {"Weft v1": [build / "bench/workload", "--fiber_scheduling_name=v1"],
                "Weft v2": [build / "bench/workload", "--fiber_scheduling_name=v2"]}
    if (build / "bench/compare/workload_go").exists():
        runtimes["Go"] = [build / "bench/compare/workload_go"]
    rows = {}
    for numbers in sets_of_nodes(nodes):
        cpus = sorted(cpu for number in numbers for cpu in nodes[number].cpus)
        workers, groups = workers_and_groups(build, cpus)
        for workload in options.workloads:
            found, predicted = {}, []
            for name, command in runtimes.items():
                try:
                    weft = name != "Go"
                    found[name] = measure([*command, *([f"--groups={groups}"] if weft else [])], workload, cpus, options)
                except Failure as failure:
                    failed.append(str(failure))
            if (build / "bin/weft_scaling").exists() and workload in scaling.WORKLOADS:
                try:
                    predicted = predictions(build, workload, workers, groups)
                except Failure as failure:
                    failed.append(str(failure))
            rows.setdefault(workload, []).append((len(numbers), workers, groups, found, predicted))
            print(f"{workload}: {len(numbers)} nodes, {workers} workers in {groups} groups: {found}", flush=True)
    return rows


def draw(workload, rows, out):
    """A plot over the number of nodes; False without gnuplot."""
    if shutil.which("gnuplot") is None:
        return False
    runtimes = list(rows[0][3])
    data = "".join(" ".join(map(str, [nodes, *(found.get(name, "?") for name in runtimes)])) + "\n"
                   for nodes, _, _, found, _ in rows)
    (out / f"{workload}.data").write_text(data)
    lines = ", ".join(f'"{out}/{workload}.data" using 1:{column} with linespoints title "{name}"'
                      for column, name in enumerate(runtimes, 2))
    script = (f'set terminal svg size 560,300\nset output "{out}/{workload}.svg"\nset datafile missing "?"\n'
              f'set xlabel "NUMA nodes"\nset ylabel "{WORKLOADS[workload]}" noenhanced\nset yrange [0:*]\nset xtics 1\nplot {lines}\n')
    subprocess.run(["gnuplot"], input=script, text=True, check=True)
    return True


def render_workloads(rows, out):
    text = ""
    for workload, lines in rows.items():
        runtimes = list(dict.fromkeys(name for _, _, _, found, _ in lines for name in found))
        text += f"\n### {workload}, {WORKLOADS[workload]}\n\n"
        text += table(["nodes", "workers", "groups", *runtimes, *(f"model: lines, {name}, ns" for name in scaling.MACHINES)],
                      [[nodes, workers, groups, *(f"{found[name]:.4g}" if name in found else "" for name in runtimes),
                        *(f"{value:.3g}" for value in predicted or [float("nan")] * len(scaling.MACHINES))]
                       for nodes, workers, groups, found, predicted in lines])
        if draw(workload, lines, out):
            text += f"\n![{workload}]({workload}.svg)\n"
    return text


def describe():
    model = re.search(r"^model name\s*:\s*(.*)$", pathlib.Path("/proc/cpuinfo").read_text(), re.MULTILINE)
    return f"{model[1] if model else platform.machine()}, Linux {platform.release()}, load {os.getloadavg()[0]:.2f}"


def main(arguments):
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--build", type=pathlib.Path, default=HERE.parents[1] / "build/release", help="the build folder")
    parser.add_argument("--out", type=pathlib.Path, help="the folder for the report")
    parser.add_argument("--runs", type=int, default=5, help="of each row, for the median")
    parser.add_argument("--scale", type=float, default=1, help="part of the work to do")
    parser.add_argument("--workloads", default=",".join(WORKLOADS), help="separated by commas")
    options = parser.parse_args(arguments)
    options.build = options.build.resolve()
    options.workloads = options.workloads.split(",")
    if unknown := [name for name in options.workloads if name not in WORKLOADS]:
        parser.error(f"there is no {', '.join(unknown)}; there are {', '.join(WORKLOADS)}")
    out = (options.out or options.build / "sockets").resolve()
    out.mkdir(parents=True, exist_ok=True)

    failed = []
    nodes = machine.read_nodes()
    plan, _ = run_process([options.build / "bin/weft_topology"], timeout=60)
    checks = machine.check_plan(plan, nodes) + binding_checks(options.build, nodes)
    if len(nodes) > 1:
        inside = process_checks(options.build)
        checks += inside or [("threads and pages of a process", "guest_tests is not built")]
    failed += [f"{what}: {offence}" for what, offence in checks if offence]
    report = f"# Weft on {len(nodes)} NUMA node{'s' if len(nodes) > 1 else ''}\n\n{describe()}\n\n"
    report += HIDDEN_BY_ONE_NODE + "\n" if len(nodes) == 1 else ""
    report += f"## The plan\n\n```\n{plan}```\n\n## Against the kernel's answers\n\n{verdicts(checks)}\n## Workloads\n\n"
    report += ABOUT_WORKLOADS + render_workloads(workload_rows(nodes, options, failed), out)
    if failed:
        report += "\n## Failed\n\n" + "".join(f"* {line}\n" for line in failed)
    (out / "report.md").write_text(report)
    print(f"{out}/report.md")
    print("\n".join(failed), file=sys.stderr, end="\n" if failed else "")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
