# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""tools/pass_record.py: what has passed is left out as long as nothing of it has changed, but for its turn."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools/pass_record.py"
sys.path.insert(0, str(TOOL.parent))
sys.dont_write_bytecode = True
import pass_record  # noqa: E402


class PassRecordTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.tree = pathlib.Path(folder.name) / "tree"
        (self.tree / "layer").mkdir(parents=True)
        (self.tree / "layer/a.cc").write_text("a")
        (self.tree / "other.cc").write_text("b")
        self.environment = dict(os.environ, XDG_CACHE_HOME=str(pathlib.Path(folder.name) / "cache"))
        self.git("init", "--quiet")

    def git(self, *arguments):
        subprocess.run(["git", *arguments], cwd=self.tree, check=True, env=self.environment)

    def call(self, *arguments):
        return subprocess.run([sys.executable, "-B", TOOL, *arguments], cwd=self.tree, check=False,
                              env=self.environment).returncode

    def has_passed(self):
        return self.call("has", "guest", "0", "layer") == 0

    def test_what_has_not_passed_runs(self):
        self.assertFalse(self.has_passed())
        self.call("add", "other", "layer")
        self.assertFalse(self.has_passed())

    def test_what_has_passed_runs_again_when_an_input_changes(self):
        self.call("add", "guest", "layer")
        self.assertTrue(self.has_passed())
        (self.tree / "other.cc").write_text("c")
        self.assertTrue(self.has_passed())
        (self.tree / "layer/a.cc").write_text("c")
        self.assertFalse(self.has_passed())
        (self.tree / "layer/a.cc").write_text("a")
        self.assertTrue(self.has_passed())
        (self.tree / "layer/new.h").write_text("")
        self.assertFalse(self.has_passed())

    def test_an_input_may_be_a_pattern_or_a_text(self):
        inputs = [":(glob)**/a.*", "=#include <a.h>"]
        self.call("add", "bare", *inputs)
        (self.tree / "other.cc").write_text("c")
        self.assertEqual(self.call("has", "bare", "0", *inputs), 0)
        self.assertEqual(self.call("has", "bare", "0", inputs[0], "=#include <b.h>"), 1)
        (self.tree / "layer/a.cc").write_text("c")
        self.assertEqual(self.call("has", "bare", "0", *inputs), 1)

    def test_each_has_its_turn(self):
        commits = [f"commit {n}" for n in range(200)]
        turns = [c for c in commits if pass_record.has_its_turn("guest", 10, c)]
        self.assertTrue(5 <= len(turns) <= 50, len(turns))
        self.assertNotEqual(turns, [c for c in commits if pass_record.has_its_turn("other", 10, c)])
        self.assertTrue(all(pass_record.has_its_turn("guest", 1, c) for c in commits))
        self.assertFalse(any(pass_record.has_its_turn("guest", 0, c) for c in commits))

    def test_where_one_part_ends_counts(self):
        self.assertNotEqual(pass_record.key_of(["ab", "c"]), pass_record.key_of(["a", "bc"]))


if __name__ == "__main__":
    unittest.main()
