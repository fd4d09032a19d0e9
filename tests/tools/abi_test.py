#!/usr/bin/env python3
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""tools/abi.py on small libraries: what is a change of the ABI, and what is none.

abi_test.py <source tree>; exit status 77 where it cannot run
"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
LIBRARY = """
namespace weft {
struct Point { int x; int y; virtual void Move(int by); inline void Inlined() { ++x; } };
void Point::Move(int by) { x += by; }
int Sum(Point* point) { point->Inlined(); return point->x + point->y; }
}
"""


class Abi(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.file = self.folder / "library.abi"

    def abi(self, source, *arguments):
        """Status and words of abi.py for a library of this source."""
        library = self.folder / "library.so"
        subprocess.run(
            ["g++", "-g", "-shared", "-fPIC", "-Wl,-soname,liblibrary.so.1", "-x", "c++", "-", "-o", library],
            input=source, text=True, check=True,
        )
        done = subprocess.run([ROOT / "tools/abi.py", *arguments, library, self.file], capture_output=True, text=True)
        if done.returncode == 77:
            print(done.stderr)
            sys.exit(77)
        return done.returncode, done.stdout + done.stderr

    def test_what_breaks_programs_is_a_change_and_what_does_not_is_none(self):
        self.assertEqual(self.abi(LIBRARY, "--write"), (0, ""))
        self.assertEqual(self.abi(LIBRARY)[0], 0)
        self.assertEqual(self.abi(LIBRARY + "int New() { return 1; }")[0], 0)
        self.assertEqual(self.abi(LIBRARY.replace("Inlined", "InlinedToo"))[0], 0)
        for what, source in {
            "a size": LIBRARY.replace("int y;", "int y; int z;"),
            "an order": LIBRARY.replace("int x; int y;", "int y; int x;"),
            "a virtual function": LIBRARY.replace("virtual", "virtual void First() {} virtual"),
            "a parameter": LIBRARY.replace("int by", "long by"),
            "a name": LIBRARY.replace("Sum", "Total"),
        }.items():
            with self.subTest(what):
                status, said = self.abi(source)
                self.assertEqual(status, 1, said)
                self.assertIn("tools/abi.py --write", said)


if __name__ == "__main__":
    unittest.main()
