#!/usr/bin/python3
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""Prometheus' own parsers read the pages of metrics:  metrics_parser_test.py <program of metrics_test.cc>"""

import math
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import unittest

from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client import parser as prometheus

PROGRAM = sys.argv.pop(1)
DOCS = pathlib.Path(__file__).resolve().parents[2] / "docs"


class Pages(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        with tempfile.TemporaryDirectory() as folder:
            subprocess.run([PROGRAM, "--gtest_filter=*ThePages"], check=True, stdout=subprocess.DEVNULL,
                           env={**os.environ, "WEFT_METRICS_PAGES": folder})
            cls.pages = {name: (pathlib.Path(folder) / name).read_text() for name in ("prometheus", "openmetrics")}

    def read(self, name):
        parser = {"prometheus": prometheus, "openmetrics": openmetrics}[name]
        return {family.name: family for family in parser.text_string_to_metric_families(self.pages[name])}

    def test_both_formats_say_the_same(self):
        old, new = self.read("prometheus"), self.read("openmetrics")
        self.assertEqual(old.keys(), new.keys())
        for name, family in new.items():
            with self.subTest(family=name):
                self.assertEqual((old[name].type, old[name].documentation), (family.type, family.documentation))
                self.assertEqual([(s.name, s.labels) for s in old[name].samples], [(s.name, s.labels) for s in family.samples])
                self.assertTrue(family.documentation)

    def test_values_and_labels_come_back(self):
        families = self.read("openmetrics")
        accepted = {s.labels["server"]: s.value for s in families["weft_server_accepted"].samples}
        self.assertEqual(accepted, {"one": 30, 'two\n"\\': 0})
        refused = {s.labels["cause"]: s.value for s in families["weft_server_refused"].samples if s.labels["server"] == "one"}
        self.assertEqual(refused, {"host_limit": 1, "not_admitted": 2, "not_started": 3, "stopped": 4})
        self.assertEqual(families["own"].documentation, 'Of the program: "quoted" \\ and\nin two lines.')
        self.assertEqual(families["own"].samples[0].value, 1e20)
        limits = {s.labels["is"]: s.value for s in families["own_limits_seconds"].samples}
        self.assertEqual(limits["inf"], math.inf)
        self.assertTrue(math.isnan(limits["nan"]))
        self.assertEqual(families["own_limits_seconds"].unit, "seconds")
        self.assertEqual({s.labels["group"] for s in families["weft_fibers_begun"].samples}, {"0", "1"})
        self.assertGreaterEqual(sum(s.value for s in families["weft_fibers_begun"].samples), 10)

    def test_histograms_are_whole(self):
        families = self.read("openmetrics")
        for name, groups in (("weft_ready_wait_seconds", ("0", "1")), ("weft_timer_lateness_seconds", ("0", "1")),
                             ("weft_long_slice_seconds", (None,))):
            self.assertEqual((families[name].type, families[name].unit), ("histogram", "seconds"))
            for group in groups:
                of_group = [s for s in families[name].samples if s.labels.get("group") == group]
                buckets = [(float(s.labels["le"]), s.value) for s in of_group if s.name.endswith("_bucket")]
                self.assertEqual(buckets, sorted(buckets))
                self.assertEqual([count for _, count in buckets], sorted(count for _, count in buckets))
                (count,) = [s.value for s in of_group if s.name.endswith("_count")]
                self.assertEqual(buckets[-1], (math.inf, count))

    def test_the_page_of_docs_lists_all_and_no_others(self):
        # The first word in code of each row of a table.
        listed = re.findall(r"(?m)^\| `(weft_\w+)`", (DOCS / "metrics.md").read_text())
        self.assertEqual(len(listed), len(set(listed)))
        self.assertEqual(set(listed), {name for name in self.read("openmetrics") if name.startswith("weft_")})


if __name__ == "__main__":
    unittest.main()
