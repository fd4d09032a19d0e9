# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""A program that takes Weft's flags, from outside: python3 flags_program_test.py <flags_program> <version>"""

import re
import subprocess
import sys
import tempfile
import unittest

VERSION = sys.argv.pop(2)
PROGRAM = sys.argv.pop(1)


def run(*arguments):
    return subprocess.run([PROGRAM, *arguments], capture_output=True, text=True, timeout=60, check=False)


class Help(unittest.TestCase):
    def test_helpshort_lists_the_runtimes_flags_by_group(self):
        result = run("--helpshort")
        self.assertEqual(result.returncode, 1, result.stderr)
        groups = re.split(r"\n  Flags of Weft: (.*):\n", result.stdout)
        self.assertIn("-act (", groups[0])  # The program's own come first.
        names = groups[1::2]
        self.assertEqual(len(names), len(set(names)))
        self.assertGreater(len(names), 3)
        listed = []
        for text in groups[2::2]:
            flags = re.findall(r"^    -(\w+) \(", text, re.MULTILINE)
            self.assertGreater(len(flags), 0)
            listed += flags
        self.assertEqual(len(listed), len(set(listed)), "a flag is in two groups")
        # All that --help knows.
        every = re.findall(r"^    -(fiber_\w+) \(", run("--help").stdout, re.MULTILINE)
        self.assertGreater(len(every), 20)
        self.assertEqual(sorted(listed), sorted(every))

    def test_version_says_that_of_weft(self):
        result = run("--version")
        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn(f"\nWeft {VERSION}\n", result.stdout)

    def test_other_runs_say_nothing_of_it(self):
        self.assertEqual(run("--nohelpshort", "--noversion").stdout, "")


class BadFlags(unittest.TestCase):
    def refused(self, *arguments):
        result = run(*arguments)
        self.assertEqual(result.returncode, 2, result)
        self.assertEqual(result.stderr.count("\n"), 1, result.stderr)
        return result.stderr

    def test_a_value_out_of_range_is_one_line(self):
        self.assertIn("--fiber_stack_size=7: must be in ", self.refused("--fiber_stack_size=7"))

    def test_more_groups_than_there_can_be_is_one_line(self):
        line = self.refused("--fiber_concurrency_hint=1025", "--fiber_scheduling_group_size=1")
        self.assertRegex(
            line,
            r"^StartRuntime: 1025 scheduling groups are too many, at most 1024: ask for fewer workers "
            r"\(--fiber_concurrency_hint, --fiber_groups\) or larger groups \(--fiber_scheduling_group_size\)\n$",
        )

    def test_named_groups_that_do_not_fit_are_one_line(self):
        line = self.refused("--fiber_topology=core:4 pu:1", "--fiber_groups=latency:6,batch:2")
        self.assertTrue(
            line.startswith("StartRuntime: the scheduling groups cannot be planned: "
                            "--fiber_groups=latency:6,batch:2: 8 workers for 4 CPUs: "), line)
        self.assertIn("batch is there twice", self.refused("--fiber_groups=batch:1,batch:2"))

    def test_a_typo_in_a_flag_file_is_one_line_with_its_number(self):
        with tempfile.NamedTemporaryFile("w", suffix=".flags") as file:
            file.write("# one\n--fiber_stak_size=65536\n")
            file.flush()
            self.assertIn(f"{file.name}:2: unknown flag --fiber_stak_size", self.refused("--flagfile=" + file.name))


class Messages(unittest.TestCase):
    """glog is not initialised here, as in many programs."""

    NOISE = "Logging before InitGoogleLogging"

    def test_a_quiet_run_says_nothing(self):
        result = run()
        self.assertEqual((result.returncode, result.stdout, result.stderr), (0, "", ""))

    def test_a_warning_is_a_line_without_a_word_on_logging(self):
        result = run("--act=leave", "--fiber_terminate_timeout_ms=1")
        self.assertEqual(result.returncode, 3, result)
        self.assertIn("(unnamed)", result.stderr)
        self.assertNotIn(self.NOISE, result.stderr)
        for line in result.stderr.splitlines():
            self.assertRegex(line, r"^[WE]\d{8} ")

    def test_misuse_is_a_line_without_a_word_on_logging_and_without_an_expression(self):
        result = run("--act=misuse")
        self.assertLess(result.returncode, 0, result)  # A signal.
        self.assertIn("TerminateRuntime: called in a fiber", result.stderr)
        self.assertNotIn(self.NOISE, result.stderr)
        self.assertNotIn("Check failed", result.stderr)
        self.assertNotRegex(result.stderr, "nullptr|==")


if __name__ == "__main__":
    unittest.main()
