#!/usr/bin/env python3
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""Whole programs in docs/how-to whose pages say what they print.

  programs_test.py --extract <docs/how-to> <folder>    writes them, <x>.cc each, and lists the names
  programs_test.py <docs/how-to> <folder of programs>  runs them

A program is the block fenced as ```cpp before the line `<!-- output of x -->`; the block below that line is what it prints.
"""

import pathlib
import re
import subprocess
import sys
import unittest

PROGRAM = re.compile(
    r"^```cpp\n(?P<code>[^`]*)^```\n\s*^<!-- output of (?P<name>\w+) -->\n^```text\n(?P<output>.*?)^```$", re.MULTILINE | re.DOTALL)
SECONDS = 60  # only a hang takes so long


def programs(folder):
    found = {}
    for page in sorted(pathlib.Path(folder).glob("*.md")):
        text = page.read_text()
        matches = list(PROGRAM.finditer(text))
        if len(matches) != text.count("<!-- output of"):
            raise SystemExit(f"{page}: an output does not stand right behind its program")
        for match in matches:
            if match["name"] in found:
                raise SystemExit(f"{page}: there is another program {match['name']}")
            found[match["name"]] = match
    if not found:
        raise SystemExit(f"{folder}: no page says what its program prints")
    return found


def extract(folder, target):
    target = pathlib.Path(target)
    target.mkdir(parents=True, exist_ok=True)
    for name, match in programs(folder).items():
        path = target / f"{name}.cc"
        if not path.exists() or path.read_text() != match["code"]:  # What has not changed is not compiled again.
            path.write_text(match["code"])
        print(name)


class Programs(unittest.TestCase):
    pages, folder = None, None

    def test_print_what_their_pages_say(self):
        for name, match in programs(self.pages).items():
            with self.subTest(name):
                done = subprocess.run([self.folder / f"samples_{name}"], capture_output=True, text=True, timeout=SECONDS, check=False)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertEqual(done.stdout, match["output"])


if __name__ == "__main__":
    if sys.argv[1] == "--extract":
        extract(sys.argv[2], sys.argv[3])
    else:
        Programs.pages, Programs.folder = sys.argv[1], pathlib.Path(sys.argv[2])
        unittest.main(argv=sys.argv[:1])
