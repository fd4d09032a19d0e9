# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""Each invariant's label that is cited is defined once: python3 invariant_labels_test.py <source tree>

The comment of a file or of a class defines labels, in lines like "//   IW1  A fiber published ..." or
"//   V1-V3  Of the slots ...".  Comments, messages, mutants and documents cite them: "(IW1)".  A reader finds the one
definition by a search for the label."""

import collections
import pathlib
import re
import sys
import unittest

ROOT = pathlib.Path(sys.argv.pop(1)) if len(sys.argv) > 1 else pathlib.Path(__file__).resolve().parent.parent
DEFINITION = re.compile(r"//\s+([A-Z]{1,4}|[A-Z]\d[A-Z])(\d{1,2})(?:-\1(\d{1,2}))?(?:\s{2,}|(?<=\d\d)\s)\S")
LABEL = re.compile(r'(?<![\w"$/.+-])((?:[A-Z]{1,4}|[A-Z]\d[A-Z])\d{1,2})(?![\w"+])')
# Caches, threads of an example, a memory model, a protocol, an SVG path, signals.
NO_LABELS = {"L1", "L2", "L3", "T1", "T2", "RC11", "RESP2", "L0", "L8", "USR1", "USR2"}


def head_comment(text):
    """The lines before the first one that is neither a comment nor empty."""
    for line in text.splitlines():
        if line.strip() and not line.startswith("//"):
            return
        yield line


def definitions(text):
    for line in text.splitlines():
        if found := DEFINITION.match(line.lstrip()):
            prefix, first, last = found.groups()
            for number in range(int(first), int(last or first) + 1):
                yield f"{prefix}{number}"


def prose_of_cpp(text):
    """Comments and string literals."""
    return "\n".join(found[0] for found in re.finditer(r'//[^\n]*|"(?:\\.|[^"\\\n])*"', text))


def citations(name, text):
    if name.endswith((".h", ".cc")):
        text = prose_of_cpp(text)
    elif name.endswith(".txt"):
        text = re.sub(r"^== \S+", "", text, flags=re.MULTILINE)  # A mutant's own number.
    return set(LABEL.findall(text)) - NO_LABELS


def offences(files):
    """Of a dictionary from names to texts."""
    defined = collections.defaultdict(list)
    for name, text in files.items():
        if name.endswith((".h", ".cc")):
            for label in definitions(text):
                defined[label].append(name)
    found = [f"{label} is defined more than once: {', '.join(places)}"
             for label, places in defined.items() if len(places) > 1]
    for name, text in files.items():
        found += [f"{name}: {label} is defined nowhere" for label in citations(name, text) if label not in defined]
    return sorted(found)


def source_files():
    texts = {}
    # Not build/: other tests make and remove folders there.
    folders = [path for path in sorted(ROOT.iterdir()) if path.is_dir() and not path.name.startswith(("build", "."))]
    for path in [path for folder in folders for path in sorted(folder.rglob("*"))] + sorted(ROOT.glob("*.md")):
        name = path.relative_to(ROOT).as_posix()
        if not path.is_file():
            continue
        if path.suffix in (".h", ".cc", ".patch", ".md") or name.startswith("tests/mutants/"):
            texts[name] = path.read_text()
    return texts


class InvariantLabels(unittest.TestCase):
    def test_each_that_is_cited_is_defined_once(self):
        files = source_files()
        self.assertGreater(sum(1 for text in files.values() for _ in definitions(text)), 200)
        self.assertEqual(offences(files), [])

    def test_what_is_defined_nowhere_is_found_in_comments_messages_mutants_and_documents(self):
        head = "// Copyright.\n//\n// Invariants\n//   AB1  one.\n//   AB2-AB3  two.\n#include <a>\n"
        self.assertEqual(offences({"x.h": head + "f();  // AB1, (AB3)\nint AB9;\n"}), [])
        self.assertEqual(offences({"x.h": head + "f();  // AB4\n"}), ["x.h: AB4 is defined nowhere"])
        self.assertEqual(offences({"x.h": head + "//   H2S11  three.\n"}), [])
        self.assertEqual(offences({"x.h": head + "f();  // H2S12\n"}), ["x.h: H2S12 is defined nowhere"])
        self.assertEqual(offences({"x.h": head + 'Check("it is (AB5)");\n'}), ["x.h: AB5 is defined nowhere"])
        self.assertEqual(offences({"x.h": head, "a.txt": "== M7 no fence (AB6)\n"}), ["a.txt: AB6 is defined nowhere"])
        self.assertEqual(offences({"x.h": head, "a.md": "see AB7; an L3 domain\n"}), ["a.md: AB7 is defined nowhere"])

    def test_a_second_definition_is_found_and_no_comment_behind_code_defines(self):
        head = "//   AB1  one.\n"
        self.assertEqual(offences({"x.h": head, "y.cc": head}), ["AB1 is defined more than once: x.h, y.cc"])
        self.assertEqual(offences({"x.h": "int i;\n  " + head, "y.cc": head}),
                         ["AB1 is defined more than once: x.h, y.cc"])
        self.assertEqual(offences({"x.h": "int i;  " + head}), ["x.h: AB1 is defined nowhere"])


class LockOrder(unittest.TestCase):
    """base/thread/spin_lock.h lists every SpinLock of the libraries, as nobody may hold two of them."""

    LOCK = re.compile(r"^\s*(?:\w+(?:\([^)]*\))?\s+)*base::SpinLock \w+;", re.MULTILINE)

    def test_each_lock_is_listed(self):
        folders = ("numa", "context", "scheduling_group", "timer", "sync", "fiber", "io", "interop")
        listed = "\n".join(head_comment((ROOT / "base/thread/spin_lock.h").read_text()))
        owners = [path for folder in folders for path in (ROOT / folder).rglob("*.[hc]*")
                  if self.LOCK.search(path.read_text())]
        self.assertGreater(len(owners), 15)
        self.assertEqual([path.name for path in owners if path.name not in listed], [])


if __name__ == "__main__":
    unittest.main()
