# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""tools/model_mutations.py tells a mutation that a model finds from one that it does not.  model_mutations_test.py <build>"""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
import model_mutations  # noqa: E402  pylint: disable=wrong-import-position

BUILD = pathlib.Path()
FILE = "base/thread/spin_lock.h"


class ModelMutationsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.patches = self.folder / "patches"
        self.patches.mkdir()
        (self.folder / "list").write_text(f"base.spin_lock_model|base_spin_lock_model|{self.patches}|60\n")

    def patch(self, name, before, after, file=FILE):
        (self.patches / f"{name}.patch").write_text(f"file: {file}\n- {before}\n+ {after}\n")

    def run_tool(self, *options):
        """The exit status; self.said is what it said."""
        environment = dict(os.environ, XDG_CACHE_HOME=str(self.folder / "cache"))
        done = subprocess.run([sys.executable, "-B", ROOT / "tools/model_mutations.py", "--build", BUILD,
                               "--list", self.folder / "list", *options],
                              check=False, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
        self.said = done.stdout
        return done.returncode

    def a_patch_of_the_tree(self):
        return next((ROOT / "tests/model/mutations/spin_lock").glob("*.patch"))

    def test_what_is_found_is_left_out_the_next_time(self):
        patch = self.a_patch_of_the_tree()
        (self.patches / patch.name).write_text(patch.read_text())
        self.assertEqual(self.run_tool(), 0, self.said)
        self.assertIn("1 found, 0 not", self.said)
        self.assertEqual(self.run_tool("--skip-unchanged", "0"), 0, self.said)
        self.assertIn("0 of 1 to run", self.said)
        self.assertEqual(self.run_tool("--skip-unchanged", "1"), 0, self.said)
        self.assertIn("1 of 1 to run", self.said)
        (self.patches / patch.name).write_text("A remark.\n" + patch.read_text())
        self.assertEqual(self.run_tool("--skip-unchanged", "0"), 0, self.said)
        self.assertIn("1 of 1 to run", self.said)

    def test_a_header_counts_by_what_it_makes_of_the_objects(self):
        header, sound, object_file, library = (self.folder / name for name in ("h.h", "a.h", "a.o", "libweft_model.a"))
        for file in (header, sound, object_file, library):
            file.write_text("1")
        self.patch("one", "1", "2", "a.h")
        model = model_mutations.Model("m", "m", self.patches, 60)
        model.objects["a.o"] = model_mutations.Compilation(["g++", "-c", "a.cc"], "a.cc", {str(header), str(sound)})
        model.link = "g++ a.o libweft_model.a"
        mutation = model_mutations.Mutation(self.folder, [], model, self.patches / "one.patch")
        mutation.sound = sound

        def key_with(file):
            file.write_text(file.read_text() + " // x")
            model_mutations.FILES.clear()
            return mutation.key()

        key = mutation.key()
        self.assertEqual(key_with(header), key)
        for file in (sound, object_file, library, self.patches / "one.patch"):
            key, former = key_with(file), key
            self.assertNotEqual(key, former, file)

    def test_what_breaks_nothing_is_not_found(self):
        self.patch("harmless", "#ifndef WEFT_BASE_THREAD_SPIN_LOCK_H_", "#ifndef WEFT_BASE_THREAD_SPIN_LOCK_H_")
        self.assertEqual(self.run_tool(), 1, self.said)
        self.assertIn("NOT FOUND", self.said)
        self.assertEqual(self.run_tool("--skip-unchanged", "0"), 1, self.said)

    def test_a_patch_that_does_not_fit_is_an_error(self):
        self.patch("stale", "text that is not there", "")
        self.assertEqual(self.run_tool(), 1, self.said)
        self.assertIn("text that is not there", self.said)

    def test_a_file_that_the_model_does_not_include_is_an_error(self):
        self.patch("elsewhere", "#ifndef WEFT_BASE_DEADLINE_H_", "#ifndef WEFT_BASE_DEADLINE_H_", "base/deadline.h")
        self.assertEqual(self.run_tool(), 1, self.said)
        self.assertIn("no source of base_spin_lock_model includes base/deadline.h", self.said)


if __name__ == "__main__":
    BUILD = pathlib.Path(sys.argv.pop(1))
    unittest.main()
