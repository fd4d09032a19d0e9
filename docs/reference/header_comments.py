#!/usr/bin/env python3
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""Turns the comments of a public header into Doxygen's:  filter.py <header>   prints the header with them

The sources keep their plain `//`, and clang-format's indentation tells what is a declaration. Documentation becomes
  * the comment directly above a declaration. In a run of declarations without an empty line in it, it also counts for
    those below that have none of their own;
  * the comment behind a declaration, on the line on which it begins or ends;
  * the head comment: of the file, and of what it names at the start of a line ("FiberMutex: ...") that has no comment
    of its own.
What the language says needs none: copies and moves, deleted or not; destructors; operators of pointers, iterators and
comparisons; what co_await calls; member types that the standard library names. Nor does an inline definition further
down. Private parts and internal namespaces are left out: their lines are empty."""

import re
import sys

import comment_text

PREFIX = r"(?:template ?<.*> ?)?(?:requires.*? )?(?:inline )?"
SCOPE = re.compile(PREFIX + r"(namespace|class|struct|union|enum)\b")
ATTRIBUTES = r"(?:alignas\([^)]*\)\s*|\[\[[^]]*\]\]\s*|WEFT_\w+(?:\([^)]*\))?\s*)*"
NAME = re.compile(r"(?:namespace|class|struct|union|enum class|enum struct|enum)\s+" + ATTRIBUTES + r"([\w:]+)")
INTERNAL = re.compile(r"(?:.*::)?(?:detail|\w+_(?:internal|detail)|synchronization|timer|numa|context|)")
SPECIALISATION = r"template ?<.*> ?(?:class|struct) (?:std|boost)::"
# Among them forward declarations, and other names for what is documented where it is.
NO_DECLARATION = re.compile(r"static_assert|friend (?:class|struct)|(?:inline )?namespace|using namespace|extern template"
                            r"|using [\w:]+;|(?:template ?<.*?> ?)?(?:class|struct|enum class|enum) \w+(?: : [\w:]+)?;|"
                            + SPECIALISATION)
# It has braces of its own, in the middle of a declaration.
REQUIRES_EXPRESSION = re.compile(r"(?:^\s*|requires )requires\([\w:&*, ]+\) \{$")

STANDARD_TYPE = re.compile(r"using (?:value_type|iterator_category|iterator_concept|difference_type|pointer|reference"
                           r"|size_type|element_type|promise_type|iterator|const_iterator) =")
STANDARD_OPERATOR = re.compile(r"operator(?:\*|->|\[\]|\+\+|--|[-+]=?|[=!]=|<=>|<=?|>=?) ?\(")
AWAITER = re.compile(r"\bawait_(?:ready|suspend|resume)\(|operator co_await\(")


HIDE = "@private"  # instead of a text: Doxygen leaves the declaration out


class Scope:
    """What is between braces: `indent` is that of the line that opens them."""

    def __init__(self, indent, kind, name, public):
        self.indent, self.kind, self.name, self.public = indent, kind, name, public
        self.seen = public and kind != "class"  # now: a class begins with its private part
        self.outside = False  # itself is not seen


class Declaration:
    """A statement of a scope that users see, on the lines first..last, counted from 0."""

    def __init__(self, first, words, scope):
        self.first, self.words, self.scope = first, words, scope
        self.above, self.behind = [], []
        self.source = self  # whose comment `above` is: its own, or that of a declaration before it

    def is_special(self):
        """Copies, moves or destroys."""
        name = self.scope.name.rpartition("::")[2]
        return re.search(rf"(?:\b{name}|operator=)\((?:const )?{name}(?:<\w+>)? ?(?:&&?)?\s?\w*\)|^(?:virtual )?~{name}\(",
                         self.words)


def code_of(line):
    """Without strings and comments."""
    return re.sub(r"\s*//.*", "", re.sub(r'"(?:\\.|[^"\\])*"|\'(?:\\.|[^\'\\])\'', '""', line))


def behind(line):
    found = re.search(r"//(.*)", re.sub(r'"(?:\\.|[^"\\])*"', lambda match: "_" * len(match[0]), line))
    text = line[found.start(1):].strip() if found else "NOLINT"
    return [] if text.startswith("NOLINT") else [text]


def above(comment):
    """The text of comment lines; without what precedes a "--- Section ---"."""
    text = [line[1:] if line.startswith(" ") else line for line in comment if not line.lstrip().startswith("NOLINT")]
    sections = [at for at, line in enumerate(text) if re.fullmatch(r"--- .* ---", line)]
    return text[sections[-1] + 1:] if sections else text


def end_of(lines, first, in_enum):
    """The line on which the statement that begins on `first` ends, or opens its braces."""
    parentheses = braces = 0
    in_requires = False
    for at in range(first, len(lines)):
        code = code_of(lines[at])
        following = lines[at + 1].strip() if at + 1 < len(lines) else ""
        parentheses += code.count("(") - code.count(")")
        braces += code.count("{") - code.count("}")
        if in_requires or REQUIRES_EXPRESSION.search(code):
            in_requires = braces > 0
        elif not in_enum and following.startswith("{") and not code.endswith("{"):
            pass
        elif parentheses == 0 and (code.endswith((";", "{", "}")) or in_enum and (code.endswith(",") or not following
                                                                                or following[0] in "}/")):
            return at
    return len(lines) - 1


def read(lines):
    """(the declarations that users see, in order, with their comments; the numbers of the lines that they do not see)"""
    found, hidden, scopes = [], set(), [Scope(-1, "namespace", "weft", True)]
    comment, run = [], None  # the comment lines directly above; the declaration above, if there is no empty line between
    at = 0
    while at < len(lines):
        text, indent, scope = lines[at].strip(), len(lines[at]) - len(lines[at].lstrip()), scopes[-1]
        first, at = at, at + 1
        if text.startswith("//"):
            comment, run = comment + [text[2:]], None
        elif not text or text.startswith("}") and indent == scope.indent:
            if text:
                scopes.pop()
                if scope.outside:
                    hidden.add(first)
            comment, run = [], None
        elif access := re.fullmatch(r"(public|protected|private):", code_of(text)):
            scope.seen = scope.public and access[1] == "public"
            comment, run = [], None
        else:
            if text.startswith("#"):
                last = next(line for line in range(first, len(lines)) if not lines[line].endswith("\\"))
                words, behind_it = text.removesuffix("\\").strip(), []
            else:
                last = end_of(lines, first, scope.kind == "enum")
                words = re.sub(r"\s+", " ", " ".join(code_of(line) for line in lines[first:last + 1])).strip()
                behind_it = behind(lines[first]) or behind(lines[last])
            one = Declaration(first, words, scope)
            one.behind = behind_it
            if comment:
                one.above = above(comment)
            elif run is not None:
                one.above, one.source = run.above, run.source
            comment, run, at = [], one if one.above else None, last + 1
            if words.endswith("{") and (kind := SCOPE.match(words)):
                name = NAME.search(re.sub(r"^template ?<.*?> (?=class|struct|union|requires)", "", words))
                inner = Scope(indent, kind[1], name[1] if name else "", scope.seen)
                inner.outside = not scope.seen or bool(re.match(SPECIALISATION, words))
                if inner.outside or kind[1] == "namespace" and INTERNAL.fullmatch(inner.name):
                    inner.public = inner.seen = False
                scopes.append(inner)
                run = None
            elif words.endswith("{"):
                at = next(line for line in range(at, len(lines)) if lines[line].startswith(" " * indent + "}")) + 1
            if not scope.seen or re.match(SPECIALISATION, words):
                hidden.update(range(first, at))
            elif words.startswith("#"):
                if re.match(r"#\s*define \w+", words) and not words.endswith("_H_"):
                    found.append(one)
                else:
                    run = None
            elif not NO_DECLARATION.match(words):
                found.append(one)
    return found, hidden


def by_the_language(one):
    """The text of what needs no comment, or none."""
    special = one.is_special()
    if AWAITER.search(one.words):
        return ["For co_await."]
    if one.above and one.source is one or one.behind and not special:
        return []
    if one.words.endswith("= delete;"):
        return ["Deleted."]
    if special and (one.words.endswith("= default;") or not one.above or not one.source.is_special()):
        return [HIDE if "~" in special[0] else "Moves." if "&&" in special[0] else "Copies."]
    if STANDARD_OPERATOR.search(one.words):
        return ["As for pointers, iterators and comparisons in the standard library."]
    return ["As the standard library names it."] if STANDARD_TYPE.match(one.words) else []


def documented(lines):
    """Of a header: pairs of a declaration and its text, which is empty if it has none; of whom the head comment is, or
    nothing; and the lines that users do not see."""
    begin = next((at for at, line in enumerate(lines) if not line.startswith("//")), 0)
    head = [line[3:] for line in lines[3:begin]]
    named, owner = comment_text.named_by(head), ""
    pairs, names = [], set()
    found, hidden = read(lines)
    for one in found:
        in_class, name = one.scope.kind in ("class", "struct"), comment_text.declared_name(one.words)
        text = one.above + one.behind
        if one.above and one.behind and one.source is not one:
            text = one.behind
        elif one.above and one.behind and one.words.endswith(("{", "}")) and one.behind[0][0].isupper():
            text = one.above  # A sentence behind a body is about the code.
        if in_class:
            text = by_the_language(one) or text
        elif not text and name in named:
            text = named[name] if owner else head
            owner = owner or name
        elif not text and one.words.endswith(("{", "}")) and (name in names or re.search(r"\w::\w+\(", one.words)):
            continue  # declared, and documented, further up
        if one.words.endswith(";"):
            names.add(name)
        pairs.append((one, text))
    return pairs, owner, hidden


def for_doxygen(text):
    """The header with Doxygen's comments."""
    lines = text.splitlines()
    pairs, owner, hidden = documented(lines)
    texts = {one.first: found if found == [HIDE] else comment_text.doxygen(found) for one, found in pairs if found}
    begin = next(at for at, line in enumerate(lines) if not line.startswith("//"))
    head = [line[3:] for line in lines[3:begin]]
    out = ["/// @file", *("/// " + line for line in comment_text.doxygen(comment_text.summary(head) if owner else head))]
    for at, line in enumerate(lines[begin:], begin):
        out += ["/// " + one for one in texts.get(at, [])]
        out.append("" if at in hidden else line)
    return "\n".join(out) + "\n"


if __name__ == "__main__":
    with open(sys.argv[1], encoding="utf-8") as file:
        print(for_doxygen(file.read()), end="")
