# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""tools/changed_tests.py: which tests run again.  On a build folder that holds shell scripts for programs."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools/changed_tests.py"
sys.path.insert(0, str(TOOL.parent))
import changed_tests  # noqa: E402  pylint: disable=wrong-import-position


class ChangedTestsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.build = pathlib.Path(folder.name) / "build"
        self.input = self.build / "input"
        (self.build / "bin").mkdir(parents=True)
        self.input.write_text("1")
        self.environment = dict(os.environ, XDG_CACHE_HOME=str(pathlib.Path(folder.name) / "cache"))
        for name in ("a", "b"):
            self.program(name, "exit 0")
        self.write_tests()

    def program(self, name, text):
        path = self.build / "bin" / name
        path.write_text(f"#!/bin/sh\n# {name}\n{text}\n")
        path.chmod(0o755)

    def write_tests(self, properties="A 1"):
        programs = self.build / "bin"
        (self.build / "CTestTestfile.cmake").write_text(f"""
add_test(a "{programs}/a" "{self.input}")
set_tests_properties(a PROPERTIES LABELS x ENVIRONMENT "{properties.replace(' ', '=')}")
add_test(b "{programs}/b")
add_test(folder "{programs}/a" "--build={self.build}")
add_test(foreign /bin/true)
add_test(says_it "{programs}/a" "--build={self.build}")
set_tests_properties(says_it PROPERTIES ENVIRONMENT "WEFT_TEST_READS=tools:*.cmake")
""")

    def runs(self, *options):
        """The tests that ran, and the exit status."""
        done = subprocess.run([sys.executable, "-B", TOOL, self.build, *options], check=False, env=self.environment,
                              stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        ran = {line.split()[3] for line in done.stdout.splitlines() if " Test " in line and "..." in line}
        return ran, done.returncode

    def test_what_has_passed_runs_when_something_of_it_changes(self):
        always = {"folder", "foreign"}
        self.assertEqual(self.runs(), ({"a", "b", "says_it"} | always, 0))
        self.assertEqual(self.runs(), (always, 0))
        self.program("b", "exit 0 # changed")
        self.assertEqual(self.runs(), ({"b"} | always, 0))
        self.input.write_text("2")
        self.assertEqual(self.runs(), ({"a"} | always, 0))
        self.write_tests("A 2")
        self.assertEqual(self.runs(), ({"a"} | always, 0))

    def test_what_a_test_says_that_it_reads_counts(self):
        keys = changed_tests.Keys(str(self.build))
        test = {"name": "x", "command": ["/bin/sh", f"--root={self.build}"], "properties": []}
        self.assertIsNone(keys.key(test))
        test["properties"] = [{"name": "ENVIRONMENT", "value": ["A=1", "WEFT_TEST_READS=folder:*.h"]}]
        read = self.build / "read.h"

        def key(text):
            read.write_text(text)
            keys.hashes.clear()
            with mock.patch.object(changed_tests, "files_below", return_value=[str(read)]) as files_below:
                made = keys.key(test)
            files_below.assert_called_once_with(["folder", "*.h"])
            return made

        self.assertEqual(key("1"), key("1"))
        self.assertNotEqual(key("1"), key("2"))

    def test_what_has_failed_runs_again(self):
        self.program("b", "exit 1")
        for _ in range(2):
            ran, status = self.runs("-E", "f|says")
            self.assertIn("b", ran)
            self.assertNotEqual(status, 0)

    def test_filters_choose(self):
        self.assertEqual(self.runs("--label-regex", "x"), ({"a"}, 0))
        self.assertEqual(self.runs("--label-regex", "x"), (set(), 0))
        self.assertEqual(self.runs("--label-exclude", "x", "-E", "fo|says"), ({"b"}, 0))


if __name__ == "__main__":
    unittest.main()
