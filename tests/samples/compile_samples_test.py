#!/usr/bin/env python3
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""That compile_samples.py finds samples, and says which does not compile:  compile_samples_test.py <compiler>"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

SCRIPT = pathlib.Path(__file__).with_name("compile_samples.py")
COMPILER = sys.argv.pop(1)


class CompileSamples(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.write("include/weft/weft.h", "namespace weft {}\n#include <chrono>\n")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        if path.suffix == ".h" and not name.startswith(("include", "tests")):
            self.write(f"include/weft/{name}", text)

    def run_script(self, *options):
        done = subprocess.run([sys.executable, "-B", str(SCRIPT), f"--root={self.root}", *options, "--", COMPILER, "-std=c++20",
                               f"-I{self.root}/include"], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout + done.stderr

    def test_what_compiles_passes(self):
        self.write("sync/a.h", "// A.\n// Sample:\n//   int a = Given();\n//   if (a > 0) ...\n//\n//   no code here\n")
        self.write("tests/samples/given/sync/a.h", "int Given();\n")
        self.write("README.md", "<!-- given: int b; -->\n```cpp\nint main() {\n  b = 1;\n}\n```\n")
        status, said = self.run_script()
        self.assertEqual(status, 0, said)
        self.assertIn("2 samples: compiled", said)

    def test_a_sample_of_a_header_that_does_not_compile_is_named(self):
        self.write("sync/a.h", "// A.\n// Sample:\n//   int a = 1;\n//   b = a;\n")
        status, said = self.run_script()
        self.assertEqual(status, 1, said)
        self.assertRegex(said, r"sync/a[.]h:4:\d+: error: .b. was not declared|sync/a[.]h:4:\d+: error: use of undeclared")

    def test_a_sample_of_a_document_that_does_not_compile_is_named(self):
        self.write("docs/a.md", "Text\n\n```cpp\nint a = nothing;\n```\n")
        status, said = self.run_script()
        self.assertEqual(status, 1, said)
        self.assertIn("docs/a.md:4:", said)

    def test_what_a_shared_library_hides_is_named(self):
        self.write("sync/a.h", "namespace weft { void Shown(); void Hidden(); }\n// Sample:\n//   Shown();\n")
        code = '__attribute__((visibility("%s"))) void %s() {}'
        source = "namespace weft { " + code % ("default", "Shown") + code % ("hidden", "Hidden") + " }\n"
        library = self.root / "libone.so"
        subprocess.run([COMPILER, "-x", "c++", "-", "-shared", "-fPIC", "-o", library], input=source, text=True, check=True)
        self.assertEqual(self.run_script(f"--links-with={library}")[0], 0)
        self.write("README.md", "```cpp\nweft::Hidden();\n```\n")
        status, said = self.run_script(f"--links-with={library}")
        self.assertEqual(status, 1, said)
        self.assertIn("_ZN4weft6HiddenEv: no library shows it", said)

    def test_a_part_of_a_program_of_the_tutorial_is_left_to_its_own_test(self):
        self.write("docs/tutorial/a.md", "```cpp\n// many.cc goes on\nint a = nothing;\n```\n```cpp\nint b = 1;\n```\n")
        status, said = self.run_script()
        self.assertEqual(status, 0, said)
        self.assertIn("1 samples: compiled", said)
        self.write("docs/a.md", "```cpp\n// many.cc\nint a = nothing;\n```\n")
        status, said = self.run_script()
        self.assertEqual(status, 1, said)

    def test_a_sample_that_is_not_marked_is_an_offence(self):
        self.write("sync/a.h", "// A.\n//\n//   Call(1);\n")
        status, said = self.run_script()
        self.assertNotEqual(status, 0, said)
        self.assertIn("sync/a.h:3: looks like a sample", said)


unittest.main()
