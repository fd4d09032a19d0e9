# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""Tests of what is made of the programs' output (figures.py), and of the tables of rows.py."""

import unittest

from figures import Results, Spread, parse_output, spread, value_of_rounds
from rows import BOOST, ROWS, RUNTIMES, SAME, TARGETS, WEFT, WORKLOADS, Target

BY_KEY = {row.key: row for row in ROWS}


def results_of(*processes):
    results = Results()
    for run, runtime, workers, workload, figures in processes:
        results.add(run, runtime, workers, workload, figures)
    return results


def both(run, weft_value, go_value):
    return ((run, "weft_v1", 2, "spawn", {"ns_per_fiber": [weft_value]}),
            (run, "go", 2, "spawn", {"ns_per_fiber": [go_value]}))


class Output(unittest.TestCase):
    def test_every_round_of_every_figure_is_read(self):
        text = ("# chan: a remark\n"
                "chan ns_per_item 30.2 ns workers=2 groups=1 best=30.2 median=31 rounds=2 each=31,30.2 runtime=weft\n"
                "chan ns_per_item_channel 1e+03 ns workers=2 groups=1 best=1e+03 rounds=1 each=1e+03 runtime=go\n")
        self.assertEqual(parse_output(text), {"ns_per_item": [31.0, 30.2], "ns_per_item_channel": [1000.0]})

    def test_a_line_of_another_form_is_refused(self):
        with self.assertRaisesRegex(ValueError, "spawn ns_per_fiber 3"):
            parse_output("spawn ns_per_fiber 3\n")

    def test_the_first_round_is_cold_and_those_after_the_second_are_warm(self):
        each = [300.0, 200.0, 120.0, 110.0, 130.0]
        self.assertEqual(value_of_rounds(each, "first"), 300)
        self.assertEqual(value_of_rounds(each, "warm"), 120)
        self.assertEqual(value_of_rounds(each, "median"), 130)

    def test_two_rounds_have_no_warm_figure(self):
        with self.assertRaises(ValueError):
            value_of_rounds([300.0, 200.0], "warm")


class Ratios(unittest.TestCase):
    def test_a_ratio_is_taken_within_a_run_before_the_median(self):
        # The machine is ten times slower in run 1: medians of all would give 55 / 20.
        results = results_of(*both(0, 10, 20), *both(1, 100, 200), *both(2, 30, 20))
        found, met = results.judge(Target("spawn", 0.5, "go"), "weft_v1", 2, BY_KEY)
        self.assertEqual(found, Spread(0.5, 0.5, 1.5, 3))
        self.assertTrue(met)
        self.assertFalse(results.judge(Target("spawn", 0.49, "go"), "weft_v1", 2, BY_KEY)[1])

    def test_a_run_in_which_the_peer_failed_is_left_out(self):
        results = results_of(*both(0, 10, 20), (1, "weft_v1", 2, "spawn", {"ns_per_fiber": [10]}))
        self.assertEqual(results.judge(Target("spawn", 1, "go"), "weft_v1", 2, BY_KEY)[0].runs, 1)

    def test_without_figures_there_is_no_verdict(self):
        self.assertEqual(results_of().judge(Target("spawn", 1, "go"), "weft_v1", 2, BY_KEY), (None, None))
        self.assertIsNone(spread([]))

    def test_a_figure_alone_is_bounded_by_its_median(self):
        results = results_of(*((run, "weft_v2", 2, "idle", {"cpu_ms_per_s": [value]})
                               for run, value in enumerate((0.01, 0.09, 0.5))))
        self.assertEqual(results.judge(Target("idle", 0.1), "weft_v2", 2, BY_KEY), (Spread(0.09, 0.01, 0.5, 3), True))

    def test_a_wake_is_compared_with_the_thread_in_the_same_process(self):
        results = results_of((0, "weft_v1", 2, "wake_beside_threads", {"started_p50_us": [3], "thread_p50_us": [6]}),
                             (0, "weft_v2", 2, "wake_beside_threads", {"started_p50_us": [3], "thread_p50_us": [2]}))
        target = Target("wake_p50", 1.1, "std_thread")
        self.assertEqual(results.judge(target, "weft_v1", 2, BY_KEY)[0].median, 0.5)
        self.assertEqual(results.judge(target, "weft_v2", 2, BY_KEY)[0].median, 1.5)

    def test_a_row_can_be_compared_with_another_row_of_the_peer(self):
        results = results_of((0, "weft_v1", 2, "chan", {"ns_per_item": [90], "ns_per_item_channel": [1]}),
                             (0, "go", 2, "chan", {"ns_per_item": [1], "ns_per_item_channel": [30]}))
        self.assertEqual(results.judge(Target("chan_cv", 3, "go", peer_row="chan"), "weft_v1", 2, BY_KEY)[0].median, 3)

    def test_other_numbers_of_workers_are_compared_with_two(self):
        results = results_of((0, "weft_v1", 2, "yield", {"ns_per_yield": [40]}),
                             (0, "weft_v1", 8, "yield", {"ns_per_yield": [80]}))
        self.assertEqual(results.to_base("weft_v1", 8, BY_KEY["yield"]).median, 2)

    def test_results_survive_the_file(self):
        results = results_of((0, "go", 2, "spawn", {"ns_per_fiber": [10, 20]}))
        self.assertEqual(Results.from_json(results.to_json()).rounds, results.rounds)


class Tables(unittest.TestCase):
    def test_every_row_has_a_workload_that_weft_runs(self):
        of_weft = {workload.name for workload in WORKLOADS if set(WEFT) <= set(workload.runtimes)}
        for row in ROWS:
            self.assertIn((row.weft_source or row.source).workload, of_weft, row.key)

    def test_every_target_names_a_row_and_a_peer_that_runs_it(self):
        runtimes = {workload.name: workload.runtimes for workload in WORKLOADS}
        for target in TARGETS:
            row = BY_KEY[target.peer_row or target.row]
            if target.peer is None or target.peer == SAME or (row.beside and row.beside[0] == target.peer):
                continue
            self.assertIn(target.peer, runtimes[row.source.workload], target.row)

    def test_every_runtime_is_known(self):
        for workload in WORKLOADS:
            self.assertLessEqual(set(workload.runtimes), set(RUNTIMES), workload.name)
        self.assertLessEqual(set(BOOST), set(RUNTIMES))


if __name__ == "__main__":
    unittest.main()
