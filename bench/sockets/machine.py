# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""The machine as the kernel describes it, the plan as weft_topology prints it, and whether the two agree."""

import dataclasses
import os
import pathlib
import re


def cpu_list(text):
    """[0, 1, 2, 5] of "0-2,5"."""
    cpus = []
    for part in filter(None, text.strip().split(",")):
        first, _, last = part.partition("-")
        cpus += range(int(first), int(last or first) + 1)
    return cpus


@dataclasses.dataclass
class Node:
    cpus: list  # those that this process may use
    packages: set
    distances: dict  # by node


@dataclasses.dataclass
class Group:
    workers: int
    node: int
    cpus: list
    neighbours: list  # (group, distance), in order; 10: of the same node


def read_nodes(system="/sys/devices/system", allowed=None):
    """{number: Node}, of nodes with CPUs that this process may use."""
    system = pathlib.Path(system)
    allowed = set(os.sched_getaffinity(0) if allowed is None else allowed)
    folder = system / "node"
    if not folder.is_dir():  # A kernel without NUMA.
        return {0: Node(sorted(allowed), {0}, {0: 10})}
    numbers = cpu_list((folder / "online").read_text())
    nodes = {}
    for number in numbers:
        cpus = [cpu for cpu in cpu_list((folder / f"node{number}/cpulist").read_text()) if cpu in allowed]
        distances = (folder / f"node{number}/distance").read_text().split()
        packages = {int((system / f"cpu/cpu{cpu}/topology/physical_package_id").read_text()) for cpu in cpus}
        if cpus:
            nodes[number] = Node(cpus, packages, dict(zip(numbers, map(int, distances))))
    return nodes


def read_plan(text):
    """[Group] of weft_topology's output."""
    groups = []
    for workers, node, cpus, rest in re.findall(
            r"^group \d+: (\d+) workers?(?:, node (\d+))?, CPUs ([\d,-]+)(.*)$", text, re.MULTILINE):
        neighbours = []
        for part in rest.split(";")[1:]:
            words = part.split()
            distance = 10 if words[0] == "steals" else int(words[2])
            for word in words[words.index("from") + 1:]:
                neighbours += [(group, distance) for group in cpu_list(word)]
        groups.append(Group(int(workers), int(node or -1), cpu_list(cpus), neighbours))
    return groups


def allowed_by_thread(process, name="FiberWorker_"):
    """[[CPU]] that each thread with such a name may run on, as the kernel says."""
    lists = []
    for task in pathlib.Path(f"/proc/{process}/task").iterdir():
        try:
            if (task / "comm").read_text().startswith(name):
                lists.append(cpu_list(re.search(r"^Cpus_allowed_list:\s*(\S+)", (task / "status").read_text(), re.M)[1]))
        except OSError:  # It has ended.
            continue
    return sorted(lists)


def expected_masks(groups, pinned):
    """The same by the plan of a process that uses all CPUs."""
    return sorted([cpu] if pinned else group.cpus for group in groups for cpu in group.cpus)


def expected_rates(nodes, ratio=16):
    """{searches of each attempt} across nodes, by default: by distance within a socket, never (0) across."""
    return {ratio * here.distances[other] // 10 if here.packages & there.packages else 0
            for number, here in nodes.items() for other, there in nodes.items() if number != other}


def check_plan(text, nodes):
    """[(what, offence or "")]"""
    groups = read_plan(text)
    on_nodes = [f"group {g} of node {group.node} has CPU {cpu}" for g, group in enumerate(groups) for cpu in group.cpus
                if cpu not in nodes[group.node].cpus]
    missing = sorted({cpu for node in nodes.values() for cpu in node.cpus} - {cpu for group in groups for cpu in group.cpus})
    distances, order = [], []
    for g, group in enumerate(groups):
        kernels = [nodes[group.node].distances[groups[other].node] for other, _ in group.neighbours]
        distances += [f"group {g} to {other}: {planned}, not {kernel}"
                      for (other, planned), kernel in zip(group.neighbours, kernels) if planned != kernel]
        if kernels != sorted(kernels):
            order.append(f"group {g}")
    said = re.search(r"across nodes (.*)$", text, re.MULTILINE)
    numbers = {int(number) for number in re.findall(r"1 of (\d+)", said[1])} if said else set()
    rates = expected_rates(nodes) - {0}
    wanted = {min(rates), max(rates)} if rates else set()
    return [
        ("each group's CPUs are on its node", "; ".join(on_nodes)),
        ("each CPU has a worker, unless a quota leaves fewer", "" if "quota" in text else ",".join(map(str, missing))),
        ("distances are the kernel's", "; ".join(distances)),
        ("groups steal from the nearest first", "; ".join(order)),
        ("rates across nodes are by distance within a socket, and never across",
         "" if numbers == wanted else f"{sorted(numbers)}, not {sorted(wanted)}"),
    ]
