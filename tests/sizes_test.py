# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""Files and functions of the library fit in the head: python3 sizes_test.py <source tree>

A file of a layer has at most 500 lines, a function at most 60. A file for which that cannot be has a line
`// Longer than 500 lines: <why>`, and a function that cannot be shorter has `// Longer than 60 lines: <why>` in it.
A decision (docs/decisions) is a page of at most 60 lines, README.md has at most 120."""

import pathlib
import re
import sys
import tempfile
import unittest

from layers import sources

ROOT = pathlib.Path(sys.argv.pop(1))
FILE_LINES = 500
FUNCTION_LINES = 60
PAGE_LINES = 60
FRONT_PAGE_LINES = 120


def functions(text):
    """(first line, last line, header) of each function body; bodies inside of it belong to it."""
    code = re.sub(r'R"\((?s:.*?)\)"', lambda m: "\n" * m[0].count("\n"), text)
    code = re.sub(r"//[^\n]*", "", code)
    code = re.sub(r"(?m)^[ \t]*#(?:\\\n|[^\n])*", lambda m: "\n" * m[0].count("\n"), code)
    code = re.sub(r'"(?:\\.|[^"\\\n])*"|\'(?:\\.|[^\'\\\n])\'', '""', code)
    header, line, open_braces = "", 1, []  # of each open brace: where its function begins, or None
    for c in code:
        if c == "{":
            inside = any(begin is not None for begin, _ in open_braces)
            words = re.sub(r"\s+", " ", header).strip()
            is_function = not inside and "(" in words and not re.search(
                r"^(template <.*> )?(inline )?(namespace|class|struct|union|enum)\b", words)
            open_braces.append((line if is_function else None, words))
            header = ""
        elif c == "}" and open_braces:
            begin, words = open_braces.pop()
            if begin is not None:
                yield begin, line, words
            header = ""
        elif c == ";":
            header = ""
        else:
            header += c
        line += c == "\n"


class Sizes(unittest.TestCase):
    def test_files_and_functions_are_short(self):
        found = 0
        for path in sources(ROOT):
            name = str(path.relative_to(ROOT))
            text = path.read_text()
            lines = text.splitlines()
            if "// Longer than 500 lines: " not in text:
                self.assertLessEqual(len(lines), FILE_LINES, name)
            for begin, end, header in functions(text):
                found += 1
                if "// Longer than 60 lines: " not in "\n".join(lines[begin - 1:end]):
                    self.assertLessEqual(end - begin + 1, FUNCTION_LINES, f"{name}:{begin}: {header}")
        self.assertGreater(found, 1000)

    def test_a_decision_is_a_page_and_the_front_page_is_short(self):
        pages = sorted((ROOT / "docs/decisions").glob("*.md"))
        self.assertGreater(len(pages), 20)
        for path in pages:
            self.assertLessEqual(len(path.read_text().splitlines()), PAGE_LINES, path.name)
        self.assertLessEqual(len((ROOT / "README.md").read_text().splitlines()), FRONT_PAGE_LINES)

    def test_functions_are_found(self):
        code = 'namespace a {\nclass B : C<int()> {\n void F() const {\n  if (x) {\n  }\n }\n};\nint g = 1\'000; // {\n' \
               'A::A(int b)\n    : b_(b) {\n}\n}\n'
        self.assertEqual([(begin, end) for begin, end, _ in functions(code)], [(3, 6), (10, 11)])

    def test_rooms_are_looked_into(self):
        with tempfile.TemporaryDirectory() as name:
            root = pathlib.Path(name)
            (root / "CMakeLists.txt").write_text("set(WEFT_LAYERS base numa)\n")
            for path in ("base/a.h", "numa/b.txt", "numa/room/c.cc"):
                (root / path).parent.mkdir(parents=True, exist_ok=True)
                (root / path).touch()
            self.assertEqual([str(path.relative_to(root)) for path in sources(root)], ["base/a.h", "numa/room/c.cc"])


if __name__ == "__main__":
    unittest.main()
