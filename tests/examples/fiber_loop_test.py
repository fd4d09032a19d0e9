# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""The programs of examples/fiber_loop: python3 fiber_loop_test.py <program> [<unittest arguments>]

Those in a foreign loop do the same in each; those after Tarantool, folly and Polyphony print the steps of the
descriptions that they follow."""

import pathlib
import subprocess
import sys
import unittest

PROGRAM = pathlib.Path(sys.argv.pop(1))

TARANTOOL = """\
fiber-1 starts fiber-2
fiber-2 starts fiber-3
fiber-3 yields
fiber-2 goes on, and yields
fiber-1 goes on, wakes fiber-2 and fiber-3, and yields
the scheduler runs who is ready
fiber-2 is woken
fiber-3 is woken
fiber-1 ends
fiber-2 joins fiber-1
fiber-1 runs, and ends: its waiter is woken
fiber-3 was queued after fiber-1, before fiber-2 was woken
fiber-2 goes on: fiber-1 is gone
put one
put two
got one
got two
put three
closed
got three
the channel is empty and closed
fiber-1 sleeps for an hour
fiber-2 cancels fiber-1, and joins it
fiber-1 is cancelled, cleans up, and ends
fiber-2 goes on: fiber-1 is gone
fiber-3 begins, and is cancelled already
fiber-2 ends
"""

POLYPHONY = """\
another fiber runs while the first one waits
  (the connection is closed)
in time: an answer
  (the connection is closed)
moves on with a value: none
  (the connection is closed)
moves on without one
  (the connection is closed)
an answer
  (the connection is closed)
fails: the time is over
  (the connection is closed)
the outer block moves on
works without a limit, and sets one
  (the connection is closed)
it is cancelled
"""

FOLLY_IN_ORDER = """\
the eager task runs before both
task 1 calls
task 2 runs while task 1 waits
task 1 has the response to request 1
a task that another thread has added
the main context has counted to 200000
"""


def run():
    return subprocess.run([PROGRAM], stdout=subprocess.PIPE, text=True, timeout=60, check=True).stdout


class InForeignLoop(unittest.TestCase):
    def test_all_wait_in_the_loop_and_all_go_on(self):
        lines = run().splitlines()
        self.assertEqual(lines[-1], "done")
        for name in ("one", "two", "three"):
            self.assertLess(lines.index(f"{name} waits"), lines.index(f"{name} has an answer for {name}"))
        answers = [line for line in lines if " has an answer " in line]
        self.assertEqual([line.split()[0] for line in answers], ["one", "two", "three"])
        self.assertIn("the sleeper has slept", lines)
        self.assertIn("a task from another thread", lines)
        self.assertEqual(len(lines), 9)


class AsDescribed(unittest.TestCase):
    def test_tarantools_steps(self):
        self.assertEqual(run(), TARANTOOL)

    def test_polyphonys_time_outs(self):
        self.assertEqual(run(), POLYPHONY)

    def test_follys_steps(self):
        lines = run().splitlines()
        wanted = FOLLY_IN_ORDER.splitlines()
        self.assertEqual([line for line in lines if line in wanted], wanted)
        self.assertIn("the eager task goes on behind them", lines)
        self.assertIn("finally, in the main context: response to request 2", lines)
        self.assertIn("finally, with an exception: yes", lines)


if __name__ == "__main__":
    unittest.main()
