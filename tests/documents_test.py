# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""What the documents point at is there: python3 documents_test.py <source tree>

Relative links of all .md files lead to a file, and to a heading in it. docs/ways.md leads through the code by lines
"`<file>` `<function>`, ...: ...": the files are there, the functions are in them, and a way is as short as its heading
promises: "## <title> (at most <n> files)"."""

import os
import pathlib
import re
import sys
import tempfile
import unittest
import unittest.mock

ROOT = pathlib.Path(sys.argv.pop(1))


def without_code(text):
    """Fenced blocks and code between backticks have no links."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL)
    return re.sub(r"`[^`\n]*`", "", text)


def anchors(text):
    headings = re.findall(r"^#+ +(.+?) *$", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


def documents(root):
    """Not what is in build/: other tests make folders there, and take them away meanwhile."""
    for folder, folders, files in os.walk(root):
        folders[:] = sorted(set(folders) - {"build", ".git"})
        yield from (pathlib.Path(folder) / name for name in sorted(files) if name.endswith(".md"))


def bad_links(root):
    found = []
    for path in documents(root):
        for link in re.findall(r"\]\(([^)\s]+)\)", without_code(path.read_text())):
            if re.match(r"[a-z]+:", link):
                continue
            name, _, anchor = link.partition("#")
            target = (path.parent / name).resolve() if name else path
            if not target.exists() or (anchor and target.suffix == ".md" and anchor not in anchors(target.read_text())):
                found.append(f"{path.relative_to(root)}: {link}")
    return found


def bad_ways(root, text):
    """The offences of a text like docs/ways.md, and how many ways it has."""
    found, ways = [], re.split(r"^## ", text, flags=re.MULTILINE)[1:]
    for way in ways:
        title = way.splitlines()[0]
        files = set()
        for line in re.findall(r"^(?:\d+\.|\*) (`.*)$", way, re.MULTILINE):
            names = re.findall(r"`([^`]+)`", line.partition(": ")[0])
            files.add(names[0])
            path = root / names[0]
            if not path.is_file():
                found.append(f"{title}: {names[0]} is not there")
                continue
            code = path.read_text()
            found += [f"{title}: {names[0]} has no {function}" for function in names[1:]
                      if not re.search(rf"\b{re.escape(function.rpartition('::')[2].rstrip('()'))}\b", code)]
        limit = re.search(r"\(at most (\d+) files\)", title)
        if limit is None:
            found.append(f"{title}: no limit")
        elif not 0 < len(files) <= int(limit[1]):
            found.append(f"{title}: {len(files)} files")
    return found, len(ways)


class Documents(unittest.TestCase):
    def test_links_lead_somewhere(self):
        self.assertEqual(bad_links(ROOT), [])

    def test_the_ways_are_there(self):
        found, ways = bad_ways(ROOT, (ROOT / "docs/ways.md").read_text())
        self.assertEqual(found, [])
        self.assertEqual(ways, 5)

    def test_a_build_folder_that_goes_away_meanwhile_is_not_entered(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "build" / "prefix").mkdir(parents=True)
            (root / "a.md").write_text("[x](b.md)\n")
            with unittest.mock.patch("os.scandir", wraps=os.scandir) as entered:
                self.assertEqual(bad_links(root), ["a.md: b.md"])
            self.assertEqual([call.args[0] for call in entered.call_args_list if "build" in str(call.args[0])], [])

    def test_what_is_wrong_is_found(self):
        with tempfile.TemporaryDirectory() as folder:
            root = pathlib.Path(folder)
            (root / "a.md").write_text("# One `Two`\n[x](b.md) [y](#one-two) [z](#three) `[p](q)` [w](https://a.b)\n")
            self.assertEqual(bad_links(root), ["a.md: b.md", "a.md: #three"])
            (root / "b.md").write_text("# Three\n[y](a.md#one-two) [z](a.md#three)\n")
            self.assertEqual(bad_links(root), ["a.md: #three", "b.md: a.md#three"])
            (root / "f.cc").write_text("void Go() {}\n")
            self.assertEqual(bad_ways(root, "# W\n\n## A (at most 1 files)\n\n1. `f.cc` `Go`: it goes\n"), ([], 1))
            self.assertEqual(bad_ways(root, "## A (at most 1 files)\n1. `f.cc` `C::Gone()`: x\n2. `g.cc`: y\n")[0],
                             ["A (at most 1 files): f.cc has no C::Gone()", "A (at most 1 files): g.cc is not there",
                              "A (at most 1 files): 2 files"])
            self.assertEqual(bad_ways(root, "## A\n1. `f.cc`: x\n")[0], ["A: no limit"])


if __name__ == "__main__":
    unittest.main()
