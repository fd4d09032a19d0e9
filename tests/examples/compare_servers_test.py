#!/usr/bin/env python3
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""What bench/compare_servers reads out of the load generators' reports."""

import pathlib
import sys
import unittest

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench" / "compare_servers"))

import compare  # pylint: disable=wrong-import-position

WRK = """Running 1s test @ http://127.0.0.1:8000/json
  1 threads and 50 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   412.68us    1.04ms  20.31ms   {latency}%
    Req/Sec   125.63k     9.89k  141.38k    {rate}%
  Latency Distribution
     50%  190.00us
     75%  251.00us
     90%  422.00us
     99%    1.21s 
  126551 requests in 1.00s, 17.98MB read
Requests/sec: 126550.25
Transfer/sec:     17.98MB
"""


class Wrk(unittest.TestCase):
    def test_percentiles_are_not_taken_for_the_part_within_one_deviation(self):
        for latency, rate in (("93.11", "70.00"), ("92.50", "70.00"), ("92.99", "80.50"), ("93.11", "66.99")):
            with self.subTest(latency=latency, rate=rate):
                figures = compare.figures_of_wrk(WRK.format(latency=latency, rate=rate))
                self.assertEqual(figures, compare.Figures(rate=126550.25, p50=0.19, p99=1210))


if __name__ == "__main__":
    unittest.main()
