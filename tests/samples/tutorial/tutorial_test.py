#!/usr/bin/env python3
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""The programs of docs/tutorial.

  tutorial_test.py --extract <docs/tutorial> <folder>    writes their files, a CMakeLists.txt among them
  tutorial_test.py --list <docs/tutorial>                what it would write, and how many lines
  tutorial_test.py <docs/tutorial> <folder of programs>  runs them: they print what the chapters say

A fenced block whose first line is `// x.cc` or `# CMakeLists.txt` is that file, or, with `goes on` behind the name, its
next part. A block below the line `<!-- output of x -->` is what x prints; a number of milliseconds may differ.
"""

import pathlib
import re
import signal
import subprocess
import sys
import unittest

BLOCK = re.compile(r"(?:^<!-- output of (?P<output>\w+)[^\n]*-->\n)?^```(?P<kind>\w+)\n(?P<text>.*?)^```$", re.MULTILINE | re.DOTALL)
FILE = re.compile(r"(?://|#) (?P<name>\w+\.(?:cc|h|txt))(?P<more> goes on)?\n")
SECONDS = 60  # only a hang takes so long


def blocks(folder):
    for chapter in sorted(pathlib.Path(folder).glob("*.md")):
        for block in BLOCK.finditer(chapter.read_text()):
            yield chapter, block


def files(folder):
    """The text of each file, by its name."""
    found = {}
    for chapter, block in blocks(folder):
        first = FILE.match(block["text"])
        if first is None:
            continue
        name = first["name"]
        if (name in found) != bool(first["more"]):
            raise SystemExit(f"{chapter}: a block of {name} " + ("goes on, but nothing" if first["more"] else "begins, but one") +
                             " stands before it")
        found[name] = found[name] + "\n" + block["text"][first.end():] if first["more"] else block["text"]
    if "CMakeLists.txt" not in found:
        raise SystemExit(f"{folder}: no block is a CMakeLists.txt")
    return found


def outputs(folder):
    return {block["output"]: block["text"] for _, block in blocks(folder) if block["output"]}


def extract(folder, target):
    target = pathlib.Path(target)
    target.mkdir(parents=True, exist_ok=True)
    for name, text in files(folder).items():
        path = target / name
        if not path.exists() or path.read_text() != text:  # What has not changed is not compiled again.
            path.write_text(text)


def without_times(text):
    return re.sub(r"\d+ ms\b", "N ms", text)


class Tutorial(unittest.TestCase):
    chapters, programs = None, None

    def run_program(self, name, *arguments):
        done = subprocess.run([self.programs / name, *arguments], capture_output=True, text=True, timeout=SECONDS, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def test_programs_print_what_the_chapters_say(self):
        said = outputs(self.chapters)
        del said["shop_client"]
        self.assertEqual(sorted(said), ["hello", "in_time", "many", "together"])
        for name, text in said.items():
            with self.subTest(name):
                self.assertEqual(without_times(self.run_program(name)), without_times(text))

    def test_the_client_is_served_and_the_server_stops_cleanly(self):
        said = outputs(self.chapters)["shop_client"]
        with subprocess.Popen([self.programs / "shop_server", "127.0.0.1:0"], stdout=subprocess.PIPE, text=True) as server:
            try:
                address = re.fullmatch(r"open at (127\.0\.0\.1:\d+)\n", server.stdout.readline())[1]
                for _ in range(20):  # A machine that is busy may answer too late.
                    heard = self.run_program("shop_client", address)
                    if heard == said:
                        break
                self.assertEqual(heard, said)
                server.send_signal(signal.SIGTERM)
                self.assertEqual(server.stdout.read(), "closed\n")
                self.assertEqual(server.wait(SECONDS), 0)
            finally:
                server.kill()

    def test_the_tests_of_the_last_chapter_pass(self):
        self.assertIn("[  PASSED  ]", self.run_program("shop_test"))


if __name__ == "__main__":
    if sys.argv[1] == "--extract":
        extract(sys.argv[2], sys.argv[3])
    elif sys.argv[1] == "--list":
        for file, content in files(sys.argv[2]).items():
            print(file, len(content.splitlines()))
    else:
        Tutorial.chapters, Tutorial.programs = sys.argv[1], pathlib.Path(sys.argv[2])
        unittest.main(argv=sys.argv[:1])
