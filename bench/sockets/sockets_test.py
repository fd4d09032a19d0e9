# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""machine.py reads what the kernel and weft_topology say, and sees where they differ; on machines that are written down here.

    sockets_test.py [weft_topology]
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

import machine
import sockets

# Two sockets with two nodes each, of two CPUs.
DISTANCES = ((10, 12, 32, 32), (12, 10, 32, 32), (32, 32, 10, 12), (32, 32, 12, 10))
PLAN = """machine: 2 packages, 4 nodes, 4 L3 domains, 8 cores, 8 CPUs
plan: 4 groups, 8 workers
group 0: 2 workers, node 0, CPUs 0,1; at distance 12 from 1; at distance 32 from 2 3
group 1: 2 workers, node 1, CPUs 2,3; at distance 12 from 0; at distance 32 from 3 2
group 2: 2 workers, node 2, CPUs 4,5; at distance 12 from 3; at distance 32 from 0 1
group 3: 2 workers, node 3, CPUs 6,7; at distance 12 from 2; at distance 32 from 1 0
stealing: in a node at 1 of 16 idle searches, across nodes at 1 of 19 idle searches, across sockets never
"""


TOOL = sys.argv.pop(1) if len(sys.argv) > 1 else ""


def nodes_of(folder):
    system = pathlib.Path(folder)
    (system / "node").mkdir()
    (system / "node/online").write_text("0-4\n")  # Node 4 has memory only.
    for number in range(5):
        node = system / f"node/node{number}"
        node.mkdir()
        (node / "cpulist").write_text(f"{2 * number}-{2 * number + 1}\n" if number < 4 else "\n")
        row = DISTANCES[number] if number < 4 else (20,) * 4
        (node / "distance").write_text(" ".join(map(str, (*row, 20 if number < 4 else 10))) + "\n")
    for cpu in range(8):
        topology = system / f"cpu/cpu{cpu}/topology"
        topology.mkdir(parents=True)
        (topology / "physical_package_id").write_text(f"{cpu // 4}\n")
    return machine.read_nodes(folder, allowed=range(8))


class Checks(unittest.TestCase):
    def setUp(self):
        with tempfile.TemporaryDirectory() as folder:
            self.nodes = nodes_of(folder)

    def offences(self, plan):
        return [what for what, offence in machine.check_plan(plan, self.nodes) if offence]

    def test_the_kernels_nodes_are_read(self):
        self.assertEqual(sorted(self.nodes), [0, 1, 2, 3])
        self.assertEqual(self.nodes[2].cpus, [4, 5])
        self.assertEqual(self.nodes[2].packages, {1})
        self.assertEqual(self.nodes[2].distances[3], 12)

    def test_the_plan_is_read(self):
        groups = machine.read_plan(PLAN)
        self.assertEqual(len(groups), 4)
        self.assertEqual(groups[1].cpus, [2, 3])
        self.assertEqual(groups[1].neighbours, [(0, 12), (3, 32), (2, 32)])

    def test_a_plan_that_fits_has_no_offence(self):
        self.assertEqual(self.offences(PLAN), [])

    def test_each_offence_is_seen(self):
        for before, after, what in (
            ("node 0, CPUs 0,1", "node 0, CPUs 0,2", "CPUs are on its node"),
            ("node 3, CPUs 6,7", "node 3, CPUs 6", "each CPU has a worker"),
            ("at distance 12 from 1;", "at distance 13 from 1;", "distances are the kernel's"),
            ("at distance 12 from 1; at distance 32 from 2 3", "at distance 32 from 2 3; at distance 12 from 1",
             "steal from the nearest first"),
            ("1 of 19 idle", "1 of 16 idle", "rates across nodes"),
            ("across nodes at 1 of 19 idle searches, across sockets never", "across nodes never", "rates across nodes"),
        ):
            with self.subTest(what):
                self.assertIn(before, PLAN)
                found = self.offences(PLAN.replace(before, after))
                self.assertTrue(any(what in offence for offence in found), found)

    @unittest.skipIf(TOOL == "", "weft_topology is not given")
    def test_the_plan_of_the_tool_fits(self):
        # hwloc's string has all nodes equally far.
        for number, node in self.nodes.items():
            node.distances = {other: 10 if other == number else 20 for other in self.nodes}
        plan = subprocess.run([TOOL, "--fiber_topology=pack:2 numa:2 core:2 pu:1"], capture_output=True, text=True, check=True)
        self.assertEqual(len(machine.read_plan(plan.stdout)), 4)
        self.assertEqual(self.offences(plan.stdout), [])

    def test_masks_by_the_plan(self):
        groups = machine.read_plan(PLAN)
        self.assertEqual(machine.expected_masks(groups, pinned=True), [[cpu] for cpu in range(8)])
        self.assertEqual(machine.expected_masks(groups, pinned=False)[:3], [[0, 1], [0, 1], [2, 3]])

    def test_workloads_run_on_one_node_half_of_them_and_all(self):
        self.assertEqual(sockets.sets_of_nodes(self.nodes), [[0], [0, 1], [0, 1, 2, 3]])
        self.assertEqual(sockets.sets_of_nodes({5: None}), [[5]])

    def test_a_figure_is_the_median_of_its_rounds(self):
        line = "spawn ns_per_fiber 50.1 ns workers=2 groups=1 best=50.1 median=52.5 rounds=3\n"
        self.assertEqual(sockets.figure_of("# head\n" + line, "ns_per_fiber"), 52.5)
        with self.assertRaises(sockets.Failure):
            sockets.figure_of(line, "ms")


if __name__ == "__main__":
    unittest.main()
