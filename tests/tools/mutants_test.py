# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""tools/mutants.py reads its lists, refuses what it cannot read, and the lists in the tree fit the code."""

import pathlib
import sys
import unittest

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

    def test_the_lists_in_the_tree_fit_the_code(self):
        found = mutants.read_lists(ROOT / "tests" / "mutants")
        self.assertTrue(found)
        for mutant in found:
            mutants.apply(mutant, (ROOT / mutant.file).read_text())


if __name__ == "__main__":
    unittest.main()
