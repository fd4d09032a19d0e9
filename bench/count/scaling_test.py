#!/usr/bin/env python3
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""What weft_scaling counts.

    scaling_test.py <build folder>
"""

import pathlib
import sys
import unittest

import scaling

BUILD = None
EXCHANGE = 64  # fibers that a thread's cache takes from EntityPool, or gives back, at a time


def count(workload, workers, groups, policy="v1"):
    return scaling.run_once(BUILD, workload, workers, groups, policy)


class Counts(unittest.TestCase):
    def test_a_thread_that_only_starts_fibers_takes_the_pools_lock_for_each_64(self):
        # So does the worker on which they end. The rest: the chunks, and the caches' first fills.
        locks = count("spawn_ext", workers=1, groups=1)["pool_locks"]
        self.assertGreater(locks, 1.9 / EXCHANGE)
        self.assertLess(locks, 2.1 / EXCHANGE)

    def test_fibers_that_end_on_another_group_take_it_twice_for_each_64(self):
        locks = count("spawn_across_all", workers=4, groups=2)["pool_locks"]
        self.assertGreater(locks, 1.5 / EXCHANGE)
        self.assertLess(locks, 2.2 / EXCHANGE)

    def test_a_worker_on_which_fibers_begin_and_end_by_turns_hardly_takes_it(self):
        # A tree that is run depth first: some tens of its 100,000 leaves are alive at a time.
        self.assertLess(count("skynet", workers=2, groups=1, policy="v2")["pool_locks"], 0.2 / EXCHANGE)

    def test_each_workload_of_all_groups_does_something_in_each_of_two(self):
        for workload in ("spawn_all", "spawn_across_all", "spawn_ext_all", "yield_all", "pingpong_all"):
            counts = count(workload, workers=4, groups=2)
            self.assertGreater(counts["switches"], 0, workload)

    def test_every_workload_is_counted(self):
        for workload in scaling.WORKLOADS:
            self.assertGreater(count(workload, workers=1, groups=1)["switches"], 0, workload)


if __name__ == "__main__":
    BUILD = pathlib.Path(sys.argv.pop(1)).resolve()
    unittest.main()
