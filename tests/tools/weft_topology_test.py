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
            "stealing: in a node at 1 of 16 idle searches, across nodes never\n"
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
        self.assertIn("across nodes at each idle search\npinning: each worker to its CPU\n", result.stdout)

    def test_nodes_of_a_socket_steal_by_their_distance(self):
        result = run("--fiber_topology=pack:2 numa:2 core:4 pu:1")
        self.assertIn("across nodes at 1 of 32 idle searches, across sockets never\n", result.stdout)
        self.assertNotIn("note: ", result.stdout)

    def test_nodes_that_are_islands_are_named(self):
        result = run("--fiber_topology=pack:2 numa:1 core:4 pu:1")
        self.assertIn("across nodes never\n", result.stdout)
        self.assertIn("\nnote: the workers are 2 islands of 4, on NUMA nodes of different sockets, ", result.stdout)

    def test_named_groups_have_their_names(self):
        result = run("--fiber_topology=numa:1 core:8 pu:1", "--fiber_groups=latency:5,batch:2@6,7,log:1:shares=batch")
        self.assertIn(
            "plan: 3 groups, 8 workers\n"
            "group 0 (latency): 5 workers, node 0, CPUs 0-4\n"
            "group 1 (batch): 2 workers, node 0, CPUs 6,7; steals from 2\n"
            "group 2 (log): 1 worker, node 0, CPUs 5; steals from 1\n",
            result.stdout,
            result.stderr,
        )

    def test_this_machine_has_a_plan_for_the_cpus_of_the_process(self):
        result = run()
        self.assertEqual(result.returncode, 0, result.stderr)
        cpus = len(os.sched_getaffinity(0))
        self.assertRegex(result.stdout, rf"\bcores?, {cpus} CPUs?\b")

    def refused(self, exit_code, expected, *arguments):
        result = run(*arguments)
        self.assertIn(expected, result.stderr)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        self.assertEqual(result.returncode, exit_code, arguments)

    def test_flags_that_cannot_be_are_one_line_and_exit_code_2(self):
        for flag, expected in (
            ("--fiber_topology=nonsense", "--fiber_topology=nonsense: must be"),
            ("--fiber_scheduling_group_size=65", "--fiber_scheduling_group_size=65: must be"),
            ("--fiber_numa_aware=perhaps", "--fiber_numa_aware=perhaps: must be"),
            ("--fiber_groups=a:0", "--fiber_groups=a:0: must be"),
            ("--fiber_groups=a:4000", "--fiber_groups=a:4000: 4000 workers for "),
            ("stray", "unknown argument stray"),
        ):
            self.refused(2, expected, flag)

    def test_a_flag_file_with_an_unknown_flag_is_one_line_and_exit_code_2(self):
        with tempfile.NamedTemporaryFile("w", suffix=".flags") as file:
            file.write("--fiber_worker_cuont=3\n")
            file.flush()
            self.refused(2, f"{file.name}:1: ", "--flagfile=" + file.name)

    def test_a_picture_that_cannot_be_written_is_one_line_and_exit_code_1(self):
        self.refused(1, "cannot write /no/such/folder/x.svg", "--svg=/no/such/folder/x.svg")


def points_of(path):
    """Some of the points of an arrow: M and L with a point, Q with two."""
    numbers = re.findall(r"[MLQ]|-?[\d.]+", path)
    points, at, i = [], None, 0
    while i < len(numbers):
        command = numbers[i]
        count = {"M": 1, "L": 1, "Q": 2}[command]
        ends = [(float(numbers[i + 1 + 2 * k]), float(numbers[i + 2 + 2 * k])) for k in range(count)]
        i += 1 + 2 * count
        if command != "M":
            control = ends[0] if command == "Q" else ((at[0] + ends[-1][0]) / 2, (at[1] + ends[-1][1]) / 2)
            steps = 400
            for step in range(steps + 1):
                t = step / steps
                points.append(tuple((1 - t) ** 2 * at[k] + 2 * t * (1 - t) * control[k] + t * t * ends[-1][k]
                                    for k in (0, 1)))
        at = ends[-1]
    return points


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
        # The two groups of each L3 domain steal from each other first; one more arrow is in the legend.
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

    def test_a_node_with_memory_only_is_drawn(self):
        document = self.check(
            16, ["--fiber_topology=[numa(memory=1GB indexes=1,2,0)] pack:2 [numa(memory=1GB)] l3:2 core:2 pu:2"]
        )
        texts = [t.firstChild.data for t in document.getElementsByTagName("text")]
        self.assertIn("node 0: memory only", texts)
        rects = document.getElementsByTagName("rect")
        strips = [r for r in rects if r.getAttribute("class") == "memory"]
        self.assertEqual([s.getAttribute("data-node") for s in strips], ["0"])
        # Below all cells, beside no package more than beside the other.
        lowest = max(float(r.getAttribute("y")) for r in rects if r.getAttribute("class") == "cpu")
        self.assertGreater(float(strips[0].getAttribute("y")), lowest)

    def test_a_node_with_memory_only_beside_one_package_is_drawn_in_it(self):
        document = self.check(8, ["--fiber_topology=pack:2 [numa(memory=1GB)] [numa(memory=1GB)] core:4 pu:1"])
        strips = [r for r in document.getElementsByTagName("rect") if r.getAttribute("class") == "memory"]
        self.assertEqual(sorted(s.getAttribute("data-node") for s in strips), ["1", "3"])
        self.assertNotEqual(strips[0].getAttribute("x"), strips[1].getAttribute("x"))

    def test_arrows_do_not_strike_through_labels(self):
        for arguments in (
            ["--fiber_topology=pack:2 numa:4 l3:3 core:8 pu:2(indexes=2*192:1*2)", "--fiber_concurrency_hint=100"],
            ["--fiber_topology=pack:2 numa:1 l3:1 core:56 pu:2", "--fiber_cross_numa_work_stealing_ratio=64"],
            ["--fiber_topology=pack:2 numa:1 l3:12 core:8 pu:2", "--fiber_cross_numa_work_stealing_ratio=64"],
            ["--fiber_topology=pack:4 numa:2 l3:2 core:8 pu:1", "--fiber_cross_numa_work_stealing_ratio=64"],
            ["--fiber_topology=numa:6 core:8 pu:1", "--fiber_cross_numa_work_stealing_ratio=1"],
        ):
            _, document = self.draw(*arguments)
            arrows = self.arrows(document, "near") + self.arrows(document, "far") + self.arrows(document, "off")
            texts = [t for t in document.getElementsByTagName("text") if t.getAttribute("class").startswith("box")]
            self.assertGreater(len(arrows), 1)
            self.assertGreater(len(texts), 1)
            for text in texts:
                # About where its letters are, without ascenders and descenders.
                left, baseline = float(text.getAttribute("x")), float(text.getAttribute("y"))
                right = left + 5.5 * len(text.firstChild.data)
                for arrow in arrows:
                    hits = [p for p in points_of(arrow.getAttribute("d"))
                            if left <= p[0] <= right and baseline - 7 <= p[1] <= baseline]
                    self.assertEqual(hits[:1], [], (arguments, text.firstChild.data, arrow.getAttribute("d")))

    def test_labels_are_above_arrows(self):
        """Where an arrow must cross a name, the name covers it."""
        _, document = self.draw("--fiber_topology=numa:2 l3:8 core:1 pu:1", "--fiber_scheduling_group_size=1")
        order = [e for e in document.documentElement.childNodes if e.nodeType == e.ELEMENT_NODE]
        labels = [i for i, e in enumerate(order) if e.tagName == "text" and e.getAttribute("class").startswith("box")]
        arrows = [i for i, e in enumerate(order) if e.tagName == "path"]
        in_legend = 2
        self.assertGreater(min(labels), arrows[-1 - in_legend])
        style = document.getElementsByTagName("style")[0].firstChild.data
        self.assertRegex(style, r"\.box \{[^}]*paint-order: stroke;")

    def test_named_groups_have_their_names(self):
        _, document = self.draw("--fiber_topology=numa:1 core:8 pu:1", "--fiber_groups=latency:6,batch:2")
        bands = [t.firstChild.data for t in document.getElementsByTagName("text") if t.getAttribute("class") == "band"]
        self.assertEqual(bands, ["latency 0", "1"], "a narrow band has the number only")
        _, other = self.draw("--fiber_topology=numa:1 core:8 pu:1", f"--fiber_groups={'x' * 60}:6,batch:2")
        bands = [t.firstChild.data for t in other.getElementsByTagName("text") if t.getAttribute("class") == "band"]
        self.assertEqual(bands, ["0", "1"], "so has one whose name is longer than the band")
        self.assertIn("CPU 7: group 1 (batch), worker 1", document.toxml())

    def test_stealing_that_is_off_has_no_arrows(self):
        document = self.check(
            16, ["--fiber_topology=numa:1 core:16 pu:1", "--fiber_work_stealing_ratio=0"]
        )
        self.assertEqual(len(self.arrows(document, "near")), 1)  # The legend, which says "never".


if __name__ == "__main__":
    unittest.main()
