# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""Every public name has a comment, and the reference shows it: python3 reference_test.py <source tree>

docs/reference/header_comments.py says which comment belongs to what. Doxygen itself runs in tools/reference.sh."""

import pathlib
import sys
import tempfile
import unittest

ROOT = pathlib.Path(sys.argv.pop(1)).resolve()
sys.path.insert(0, str(ROOT / "docs/reference"))

import build
import header_comments
import pages

HEAD = "// Copyright 2026 The Weft Authors.\n// SPDX-License-Identifier: Apache-2.0\n//\n"


def texts(code):
    """{the beginning of a declaration: its comment} of a header with this code."""
    found, _, _ = header_comments.documented((HEAD + code).splitlines())
    return {one.words: " ".join(text) for one, text in found}


def in_class(members):
    return texts("// Head.\n\nnamespace weft {\n\n// Of A.\nclass A {\n public:\n" + members + "\n};\n\n}  // namespace weft\n")


class Reference(unittest.TestCase):
    def test_every_public_name_has_a_comment(self):
        without, names = build.names_without_comment(ROOT)
        self.assertGreater(names, 1500)
        self.assertEqual(without, [])

    def test_a_comment_belongs_to_the_declarations_below_it(self):
        found = in_class("  // One.\n  void F();\n  int G() const {\n    return 1;  // No.\n  }\n\n  void H();\n")
        self.assertEqual(found["void F();"], "One.")
        self.assertEqual(found["int G() const {"], "One.")
        self.assertEqual(found["void H();"], "")

    def test_a_comment_behind_counts_before_that_of_the_run(self):
        found = in_class("  // One.\n  int a = 0;\n  int b = 0;  // two\n  int c = 0;\n  std::string d = \"//\";  // \"x\"\n")
        self.assertEqual(list(found.values()), ["Of A.", "One.", "two", "One.", "\"x\""])
        self.assertEqual(in_class("  int a = 0;  // one\n  int b = 0;\n")["int b = 0;"], "")

    def test_what_the_language_says_needs_no_comment(self):
        found = in_class("  // Of none.\n  A() = default;\n  A(A&& other) noexcept;\n  A(const A&) = delete;\n  ~A();\n"
                         "  bool operator==(const A&) const;\n  using value_type = int;\n  bool operator()() const;\n")
        self.assertEqual(found["A() = default;"], "Of none.")
        self.assertEqual([text for words, text in found.items() if text in ("Of none.", "")],
                         ["Of none.", "Of none."])
        self.assertEqual(found["bool operator()() const;"], "Of none.")
        self.assertEqual(in_class("  A();\n  explicit operator bool() const;\n")["explicit operator bool() const;"], "")
        found = in_class("  // Aborts.\n  ~A();\n  A(A&& other) noexcept;\n")
        self.assertEqual(found["A(A&& other) noexcept;"], "Aborts.")

    def test_private_parts_and_internal_namespaces_are_no_ones_business(self):
        found = texts("// Head.\nnamespace weft {\nnamespace detail {\nint a;\n}\nnamespace x_internal {\nclass B {\n public:\n"
                      "  int b;\n};\n}\nclass C;\n// Of D.\nclass D {\n  int d;\n\n public:\n  // E.\n  struct E {\n    int e;  // e\n  };\n"
                      "\n private:\n  int f;\n};\n}\ntemplate <>\nclass std::hash<int> {\n public:\n  int g;\n};\n")
        self.assertEqual(list(found.values()), ["Of D.", "E.", "e"])

    def test_the_head_comment_is_that_of_the_class_it_names(self):
        head = "// A, B: what they are.\n//\n// More.\n"
        found = texts(head + "namespace weft {\n\nclass A {\n};\n\nclass B {\n};\n\nclass C {\n};\n}\n")
        self.assertEqual(found, {"class A {": "A, B: what they are.  More.", "class B {": "A, B: what they are.", "class C {": ""})

    def test_a_requires_expression_does_not_end_a_declaration(self):
        found = in_class("  // One.\n  template <class T>\n  requires requires(T& t) {\n    t.F();\n  }\n  void F(T t);\n\n  // Two.\n"
                         "  auto G() const requires requires(M& m) { m.H(); }\n  { return 1; }\n\n  void H();\n")
        self.assertEqual(list(found.values()), ["Of A.", "One.", "Two.", ""])

    def test_sections_and_notes_to_tools_are_left_out(self):
        found = in_class("  // --- Time ---\n\n  // NOLINTBEGIN(x)\n  // One.\n  int a;\n\n  // --- Space ---\n  // Two.\n  int b;  // NOLINT\n")
        self.assertEqual(list(found.values()), ["Of A.", "One.", "Two."])

    def test_text_is_escaped_and_tables_become_lists(self):
        out = header_comments.for_doxygen(HEAD + "// A<T>: `a<b>` & --flag.\n// Who may call: any.\n//\n//   F()  one\n//        two\n// Sample:\n"
                                          "//   A<int> a;\n#ifndef X\nnamespace weft {\ntemplate <class T>\nclass A {};\n}\n#endif\n")
        for line in ("/// A&lt;T&gt;: `a<b>` &amp; \\--flag.", "/// @par Who may call", "/// - <b>F()</b>: one", "///    two",
                     "/// @code{.cpp}", "/// A<int> a;"):
            self.assertIn(line, out.splitlines())

    def test_documents_that_a_comment_names_become_links(self):
        out = header_comments.for_doxygen(HEAD + "// A: see docs/how-to/fan-out.md.\n#ifndef X\nclass A {};\n#endif\n")
        self.assertIn('<a href="page_docs_how_to_fan_out.html">docs/how-to/fan-out.md</a>.', out)

    def test_links_of_pages_lead_to_pages(self):
        text = ("# One `Two`\n\n[x](b.md#c-d) [y](#e) [z](../f.cc) `[p](q)`\n\n## E\n\n| a | b |\n|---|---|\n"
                "| `c` | [d](../README.md) |\n")
        found = pages.page(text, "docs/a.md", ["docs/a.md", "docs/b.md", "README.md"], ["docs/b.md"])
        for part in ("# One Two {#page_docs_a}", '<a href="page_docs_b.html#page_docs_b_c-d">x</a>', '<a href="page_docs_a.html#page_docs_a_e">y</a>',
                     "z (<code>f.cc</code>)", "<code>[p](q)</code>", "# E {#page_docs_a_e}", "<tr><th>a</th><th>b</th></tr>",
                     '<td><code>c</code></td><td><a href="index.html">d</a></td>', "@subpage page_docs_b"):
            self.assertIn(part, found)

    def test_links_of_the_site_that_lead_nowhere_are_found(self):
        with tempfile.TemporaryDirectory() as name:
            folder = pathlib.Path(name)
            (folder / "a.html").write_text('<a id="x"></a><a href="b.html#y">1</a><a href="#x">2</a><a href="#z">3</a><img src="c.svg"/>')
            (folder / "b.html").write_text('<h1 id="y"></h1><a href="https://a.b/c">4</a>')
            self.assertEqual(build.bad_links(folder), ["a.html: #z", "a.html: c.svg"])


if __name__ == "__main__":
    unittest.main()
