# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""tools/mutants.py reads its lists, refuses what it cannot read, and the lists in the tree fit the code."""

import os
import pathlib
import subprocess
import sys
import tempfile
import unittest
from unittest import mock

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))
sys.dont_write_bytecode = True
import mutants  # noqa: E402

ENTRY = """# A comment.
== 7 it forgets to wake
file: a.cc
targets: one two
run: one --quick
--- from
  wake();
--- to
== end
"""


class Mutants(unittest.TestCase):
    def test_an_entry_is_read(self):
        (mutant,) = mutants.parse("list", ENTRY)
        self.assertEqual(mutant.title, "7 it forgets to wake")
        self.assertEqual(mutant.targets, ("one", "two"))
        self.assertEqual(mutant.run, "one --quick")
        self.assertEqual(mutants.apply(mutant, "a\n  wake();\nb\n"), "a\nb\n")

    def test_lines_that_are_not_there_or_there_twice_are_refused(self):
        (mutant,) = mutants.parse("list", ENTRY)
        for text in ("", "  wake();\n  wake();\n"):
            with self.assertRaisesRegex(mutants.BadList, "list:2: .* times in a.cc"):
                mutants.apply(mutant, text)

    def test_what_cannot_be_read_is_refused_with_its_line(self):
        for text, expected in (
            ("nonsense\n", "list:1"),
            (ENTRY.replace("== end\n", ""), "list:2: the entry has no '== end'"),
            (ENTRY.replace("run: one --quick\n", ""), "list:2: an entry needs"),
            (ENTRY.replace("targets:", "target:"), "list:4: expected file:"),
        ):
            with self.assertRaisesRegex(mutants.BadList, expected):
                mutants.parse("list", text)

    def test_names_of_targets_stand_for_their_programs(self):
        (mutant,) = mutants.parse("list", ENTRY.replace("run: one --quick", "run: one --filter=*one* && A=two ./one && two_a"))
        path = str(mutants.BUILD / "bin" / "one")
        self.assertEqual(mutants.command_of(mutant), f"{path} --filter=*one* && A=two ./one && two_a")

    def test_what_a_race_decides_is_asked_again(self):
        (mutant,) = mutants.parse("list", ENTRY)
        for answers, wanted, expected in (
            ([None, "it hangs"], lambda said: said is not None, "it hangs"),
            ([None] * mutants.RUNS + ["too late"], lambda said: said is not None, None),
            (["it fails", None], lambda said: said is None, None),
        ):
            with mock.patch.object(mutants, "run", side_effect=answers):
                self.assertEqual(mutants.first_of_runs(wanted, mutant), expected)

    def test_changed_are_those_of_the_last_day_and_all_in_a_shallow_clone(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            today = 2_000_000_000

            def commit(age_in_hours):
                date = f"{today - age_in_hours * 3600} +0000"
                environment = {**os.environ, "GIT_AUTHOR_DATE": date, "GIT_COMMITTER_DATE": date}
                subprocess.run(["git", "-C", folder, "add", "-A"], check=True)
                subprocess.run(["git", "-C", folder, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "x"],
                               check=True, env=environment)

            subprocess.run(["git", "init", "-q", folder], check=True)
            lists = root / "tests" / "mutants"
            lists.mkdir(parents=True)
            for file in ("a.cc", "b.cc", "c.cc"):
                (root / file).write_text("  wake();\n")
            (lists / "list.txt").write_text(ENTRY + ENTRY.replace("a.cc", "b.cc") + ENTRY.replace("a.cc", "c.cc"))
            commit(60)
            (root / "a.cc").write_text("  wake();\n// More.\n")
            commit(30)
            with mock.patch.object(mutants, "ROOT", root):
                def changed():
                    return [m.file for m in mutants.changed(mutants.read_lists(lists))[0]]

                self.assertEqual(changed(), ["a.cc"], "HEAD's own day, however long ago")
                with open(lists / "list.txt", "a", encoding="utf-8") as file:
                    file.write(ENTRY.replace("a.cc", "b.cc").replace("== 7", "== 8"))
                commit(2)
                (root / "c.cc").write_text("  wake();\n// More.\n")
                self.assertEqual(changed(), ["c.cc", "b.cc"], "the work tree, and an entry that is new")
            with tempfile.TemporaryDirectory() as shallow:
                subprocess.run(["git", "clone", "-q", "--depth=1", f"file://{folder}", shallow], check=True)
                with mock.patch.object(mutants, "ROOT", pathlib.Path(shallow)):
                    found = mutants.changed(mutants.read_lists(pathlib.Path(shallow) / "tests" / "mutants"))
                    self.assertEqual(len(found[0]), 4, found)

    def test_one_that_a_warning_refuses_is_a_failure_and_stops_no_others(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            for file in ("a.cc", "b.cc"):
                (root / file).write_text("  wake();\n")
            entries = mutants.parse("list", ENTRY + ENTRY.replace("a.cc", "b.cc"))
            broken = [False]

            def build(mutant):
                refused = mutant.file == "a.cc" and (root / "a.cc").read_text() == ""
                broken[0] = (root / "b.cc").read_text() == ""
                return mock.Mock(returncode=int(refused), stdout="a.cc:1: error: unused 'x' [-Werror=unused]\n")

            printed = []
            with mock.patch.multiple(mutants, ROOT=root, TREE=root, read_lists=lambda _: entries, copy_tree=mock.DEFAULT,
                                     configure=mock.DEFAULT, build=build,
                                     run=lambda *_, **__: "the test fails" if broken[0] else None), \
                    mock.patch("sys.argv", ["mutants.py"]), \
                    mock.patch("builtins.print", lambda *text, **_: printed.extend(text)):
                self.assertEqual(mutants.main(), 1)
            self.assertIn("mutants: 1 dead, 1 not", printed)
            self.assertTrue(any("unused 'x'" in line for line in printed), printed)

    def test_the_lists_in_the_tree_fit_the_code(self):
        found = mutants.read_lists(ROOT / "tests" / "mutants")
        self.assertTrue(found)
        for mutant in found:
            mutants.apply(mutant, (ROOT / mutant.file).read_text())


if __name__ == "__main__":
    unittest.main()
