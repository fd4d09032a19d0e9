#!/usr/bin/python3
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""Prometheus' own parsers read the pages of metrics:  metrics_parser_test.py <program of metrics_test.cc>"""

import math
import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client import parser as prometheus

PROGRAM = sys.argv.pop(1)


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
        self.assertEqual(accepted, {"one": 3, 'two\n"\\': 0})
        self.assertEqual(families["own"].documentation, 'Of the program: "quoted" \\ and\nin two lines.')
        self.assertEqual(families["own"].samples[0].value, 1e20)
        limits = {s.labels["is"]: s.value for s in families["own_limits_seconds"].samples}
        self.assertEqual(limits["inf"], math.inf)
        self.assertTrue(math.isnan(limits["nan"]))
        self.assertEqual(families["own_limits_seconds"].unit, "seconds")
        self.assertEqual({s.labels["group"] for s in families["weft_fibers_begun"].samples}, {"0", "1"})
        self.assertGreaterEqual(sum(s.value for s in families["weft_fibers_begun"].samples), 10)

    def test_histograms_are_whole(self):
        samples = self.read("openmetrics")["weft_ready_wait_seconds"].samples
        for group in ("0", "1"):
            of_group = [s for s in samples if s.labels["group"] == group]
            buckets = [(float(s.labels["le"]), s.value) for s in of_group if s.name.endswith("_bucket")]
            self.assertEqual(buckets, sorted(buckets))
            self.assertEqual([count for _, count in buckets], sorted(count for _, count in buckets))
            (count,) = [s.value for s in of_group if s.name.endswith("_count")]
            self.assertEqual(buckets[-1], (math.inf, count))


if __name__ == "__main__":
    unittest.main()
