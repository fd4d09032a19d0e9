# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""Each check that release builds make says in words what is wrong: python3 messages_test.py <source tree>

A WEFT_CHECK() without a message would show its condition, which tells users of variables that they do not have."""

import pathlib
import re
import sys
import unittest

from layers import sources

ROOT = pathlib.Path(sys.argv.pop(1))


def arguments_of(text, begin):
    """How many arguments the call has whose first one begins at text[begin], behind the parenthesis."""
    depth, count, i = 0, 1, begin
    while depth >= 0:
        literal = re.match(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])*\'', text[i:])
        if literal:
            i += literal.end()
            continue
        depth += text[i] in "([{"
        depth -= text[i] in ")]}"
        count += text[i] == "," and depth == 0
        i += 1
    return count


def checks_without_message(text):
    code = re.sub(r"//[^\n]*", "", text)
    return [code[c.start():c.start() + 60] for c in re.finditer(r"\bWEFT_CHECK\(", code)
            if arguments_of(code, c.end()) == 1]


class Messages(unittest.TestCase):
    def test_each_check_has_one(self):
        checks = 0
        for path in sources(ROOT):
            if path.name == "check.h":
                continue
            text = path.read_text()
            checks += text.count("WEFT_CHECK(")
            self.assertEqual(checks_without_message(text), [], path)
        self.assertGreater(checks, 50)

    def test_a_check_without_one_is_found(self):
        good = 'WEFT_CHECK(a(b, c) && d[e, f], "why, ", g);\nWEFT_CHECK(x == \',\', "(");'
        self.assertEqual(checks_without_message(good), [])
        self.assertEqual(checks_without_message('WEFT_CHECK(a(b, ")"));'), ['WEFT_CHECK(a(b, ")"));'])


if __name__ == "__main__":
    unittest.main()
