# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""weft_topology from outside: python3 weft_topology_test.py <weft_topology>"""

import os
import re
import subprocess
import sys
import tempfile
import unittest
import xml.dom.minidom

TOOL = sys.argv.pop(1)


def run(*arguments):
    return subprocess.run([TOOL, *arguments], capture_output=True, text=True, timeout=60, check=False)


class Text(unittest.TestCase):
    def test_the_plan_of_a_known_machine(self):
        result = run("--fiber_topology=pack:1 numa:1 l3:2 core:8 pu:2(indexes=2*16:1*2)")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertEqual(
            result.stdout,
            "machine: 1 package, 1 node, 2 L3 domains, 16 cores, 32 CPUs\n"
            "node 0: CPUs 0-31; L3 domains {0-7,16-23} {8-15,24-31}; distances 0=10\n"
            "plan: 4 groups, 32 workers\n"
            "group 0: 8 workers, node 0, CPUs 0-3,16-19; steals from 1-3\n"
            "group 1: 8 workers, node 0, CPUs 4-7,20-23; steals from 0 3 2\n"
            "group 2: 8 workers, node 0, CPUs 8-11,24-27; steals from 3 0 1\n"
            "group 3: 8 workers, node 0, CPUs 12-15,28-31; steals from 2 1 0\n"
            "stealing: in a node at 1 of 16 idle looks, across nodes never\n"
            "pinning: each worker to the CPUs of its group\n",
        )

    def test_flags_of_the_runtime_are_obeyed(self):
        result = run(
            "--fiber_topology=numa:2 core:8 pu:1",
            "--fiber_worker_accessible_cpus=6-9",
            "--fiber_worker_disallow_cpu_migration",
            "--fiber_cross_numa_work_stealing_ratio=1",
        )
        self.assertIn("group 0: 2 workers, node 0, CPUs 6,7; at distance 20 from 1\n", result.stdout)
        self.assertIn("across nodes at each idle look\npinning: each worker to its CPU\n", result.stdout)

    def test_this_machine_has_a_plan_for_the_cpus_of_the_process(self):
        result = run()
        self.assertEqual(result.returncode, 0, result.stderr)
        cpus = len(os.sched_getaffinity(0))
        self.assertRegex(result.stdout, rf"\bcores?, {cpus} CPUs?\b")

    def test_refusals_are_one_line(self):
        for arguments, expected in (
            (["--fiber_topology=nonsense"], "--fiber_topology=nonsense: must be"),
            (["--fiber_scheduling_group_size=65"], "--fiber_scheduling_group_size=65: must be"),
            (["--fiber_numa_aware=perhaps"], "--fiber_numa_aware=perhaps: must be"),
            (["stray"], "unknown argument stray"),
            (["--svg=/no/such/folder/x.svg"], "cannot write /no/such/folder/x.svg"),
        ):
            result = run(*arguments)
            self.assertEqual(result.returncode, 1)
            self.assertIn(expected, result.stderr)
            self.assertEqual(result.stderr.count("\n"), 1, result.stderr)


class Picture(unittest.TestCase):
    def draw(self, *arguments):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "plan.svg")
            result = run(*arguments, "--svg=" + path)
            self.assertEqual(result.returncode, 0, result.stderr)
            return result.stdout, xml.dom.minidom.parse(path)

    def check(self, cpus, arguments):
        """Well-formed, a cell for each CPU in the colour of its group, within the picture."""
        text, document = self.draw(*arguments)
        group_of = {}
        for group, ids in re.findall(r"^group (\d+): .*?, CPUs ([\d,-]+)", text, re.MULTILINE):
            for part in ids.split(","):
                first, _, last = part.partition("-")
                for cpu in range(int(first), int(last or first) + 1):
                    group_of[cpu] = int(group)
        cells = [r for r in document.getElementsByTagName("rect") if r.getAttribute("class") == "cpu"]
        drawn = {int(c.getAttribute("data-cpu")): int(c.getAttribute("data-group")) for c in cells}
        self.assertEqual(len(cells), cpus)
        self.assertEqual(drawn, {cpu: group_of.get(cpu, -1) for cpu in drawn})
        self.assertEqual(len(drawn), cpus)
        colours = {}
        for cell in cells:
            if cell.getAttribute("data-group") != "-1":
                colours.setdefault(cell.getAttribute("data-group"), set()).add(cell.getAttribute("fill"))
        self.assertTrue(all(len(fills) == 1 for fills in colours.values()))
        width = float(document.documentElement.getAttribute("width"))
        height = float(document.documentElement.getAttribute("height"))
        for cell in cells:
            self.assertLess(float(cell.getAttribute("x")) + float(cell.getAttribute("width")), width)
            self.assertLess(float(cell.getAttribute("y")) + float(cell.getAttribute("height")), height)
        return document

    @staticmethod
    def arrows(document, kind):
        return [p for p in document.getElementsByTagName("path") if p.getAttribute("class") == kind]

    def test_two_sockets(self):
        document = self.check(
            384,
            ["--fiber_topology=pack:2 numa:1 l3:12 core:8 pu:2(indexes=2*192:1*2)",
             "--fiber_cross_numa_work_stealing_ratio=64"],
        )
        # The two groups of each L3 domain rob each other first; one more arrow is in the legend.
        self.assertEqual(len(self.arrows(document, "near")), 24 + 1)
        self.assertEqual(len(self.arrows(document, "far")), 1 + 1)
        self.assertEqual(len(self.arrows(document, "off")), 0)

    def test_fewer_workers_than_cpus(self):
        document = self.check(64, ["--fiber_topology=numa:2 l3:2 core:8 pu:2", "--fiber_concurrency_hint=12"])
        tooltips = [t.firstChild.data for t in document.getElementsByTagName("title")]
        self.assertEqual(sum("no worker" in t for t in tooltips), 52)

    def test_more_workers_than_cpus_and_a_title_that_must_be_escaped(self):
        document = self.check(
            2, ["--fiber_topology=core:2 pu:1", "--fiber_concurrency_hint=7", '--title=<a & "b">']
        )
        texts = [t.firstChild.data for t in document.getElementsByTagName("text")]
        self.assertIn('<a & "b">', texts)

    def test_stealing_that_is_off_has_no_arrows(self):
        document = self.check(
            16, ["--fiber_topology=numa:1 core:16 pu:1", "--fiber_work_stealing_ratio=0"]
        )
        self.assertEqual(len(self.arrows(document, "near")), 1)  # The legend, which says "never".


if __name__ == "__main__":
    unittest.main()
