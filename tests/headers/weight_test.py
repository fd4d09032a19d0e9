# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""What including Weft costs a program: python3 weight_test.py <compiler> <arguments>...

Lines after the preprocessor stand for the time of compilation, which depends on what else the machine does."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

COMPILE = sys.argv[1:]
del sys.argv[1:]


def run(text, *arguments):
    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "x.cc"
        source.write_text(text)
        result = pathlib.Path(folder) / "result"
        subprocess.run([*COMPILE, *arguments, "-o", result, source], check=True)
        return result.read_bytes()


def lines(header):
    return run(f"#include {header}\n", "-E", "-P").count(b"\n")


def included(header):
    """The headers of Weft: -MM leaves out the system's."""
    return {name for name in run(f"#include {header}\n", "-MM").split() if name.endswith(b".h")}


def initialisers(text):
    return b".init_array" in run(text, "-c")


class Weight(unittest.TestCase):
    def test_fiber_h_costs_little_more_than_thread(self):
        # 34,307 and 35,000 lines with libstdc++ 12.
        self.assertLess(lines('"weft/fiber/fiber.h"'), 1.25 * lines("<thread>"))

    def test_fiber_h_leaves_out_streams_calendars_and_functional(self):
        named = run('#include "weft/fiber/fiber.h"\n', "-M").split()
        self.assertTrue(any(name.endswith(b"/atomic") for name in named))
        for heavy in (b"/sstream", b"/iostream", b"/chrono", b"/functional", b"/memory"):
            self.assertEqual([name for name in named if name.endswith(heavy)], [])

    def test_weft_h_includes_few_headers(self):
        self.assertLess(len(included('"weft/weft.h"')), 104)  # 100, of which 16 are for scopes, tasks and Select(), and 4 for buffers
        self.assertLess(len(included('"weft/fiber/fiber.h"')), 30)

    def test_no_static_initialiser_in_each_file(self):
        self.assertTrue(initialisers("struct A { A(); }; A a;"))
        self.assertFalse(initialisers('#include "weft/weft.h"\n'))


if __name__ == "__main__":
    unittest.main()
