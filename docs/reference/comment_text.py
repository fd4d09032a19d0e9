# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""The text of a comment in Doxygen's markup, for header_comments.py."""

import re

LABEL = re.compile(r"([A-Z][a-z]+(?: [a-z]+){0,3}): +(?=\S)")
DRAWING = re.compile(r"-->|<--|---|^\s*[|^+]|\S {3,}\S.*\S {3,}\S")  # arrows, lines, three columns
ROW = re.compile(r" {2,}(\S(?:.*?\S)?) {2,}(\S.*)")


def named_by(head):
    """{name: its lines} for the lines of a head comment that begin with names and a colon: "Future, Promise: ..."."""
    found, names = {}, []
    for line in head:
        match = re.match(r"([A-Z]\w*(?:<.*?>)?(?:\(\))?(?:, [A-Z]\w*(?:<.*?>)?(?:\(\))?)*): ", line)
        if match:
            names = re.findall(r"[A-Z]\w*", re.sub(r"<.*?>", "", match[1]))
            for name in names:
                found.setdefault(name, [])
        elif not line or line.startswith(" ") or LABEL.match(line) or line == "Sample:":
            names = []
        for name in names:
            found[name].append(line)
    return found


def summary(head):
    """The first sentences of a head comment: to the first empty line or label."""
    for at, line in enumerate(head):
        if at and (not line or line.startswith(" ") or line == "Sample:" or LABEL.match(line)):
            return head[:at]
    return head


def declared_name(words):
    words = re.sub(r"^template ?<.*?> ?(?=[\w\[])", "", words)
    attributes = r"(?:\[\[.*?\]\] |alignas\(.*?\) |WEFT_\w+(?:\(.*?\))? )*"
    match = re.search(r"\b(?:class|struct|union|enum(?: class| struct)?) " + attributes + r"(\w+)", words)
    match = match or re.search(r"(\w+) ?\(", words)
    return match[1] if match else ""


def label(document):
    """Of its page."""
    return "page_" + re.sub(r"\W", "_", document.removesuffix(".md"))


def escaped(text):
    """Plain text; what stands between backticks is code."""
    parts = re.split(r"(`[^`]*`)", text)
    for at in range(0, len(parts), 2):
        part = re.sub(r"([\\@#%*])", r"\\\1", parts[at])
        part = part.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")
        part = re.sub(r"(?<!\w)::", r"\::", part)
        part = re.sub(r"(?<!\w)_", r"\\_", part)
        part = re.sub(r"-(?=-)", r"\\-", part) if "--" in part else part
        parts[at] = part
    return re.sub(r"^(\d+)\.(?= |$)", r"\1\\.", "".join(parts))


def with_links(lines):
    """Documents that are named become links."""
    in_code = False
    for line in lines:
        in_code = line.startswith("@code") or in_code and line != "@endcode"
        if not in_code:
            line = re.sub(r"\bdocs/[\w/-]+\.md\b", lambda name: f'<a href="{label(name[0])}.html">{name[0]}</a>', line)
        yield line


def is_indented(text, at):
    """Also an empty line in the middle of indented ones."""
    following = text[at + 1] if at + 1 < len(text) else ""
    return text[at].startswith("  ") or not text[at].strip() and following.startswith("  ")


def doxygen(text):
    """The lines of a comment in Doxygen's markup."""
    out, at = [], 0
    while at < len(text):
        line, end = text[at], at + 1
        before = text[at - 1].rstrip() if at else ""
        if line.strip() == "Sample:":
            while end < len(text) and text[end].startswith("  "):
                end += 1
            out += ["", "@code{.cpp}", *(one[2:] for one in text[at + 1:end]), "@endcode", ""]
        elif line.startswith("  "):
            while end < len(text) and is_indented(text, end):
                end += 1
            out += indented(text[at:end])
        elif out and (not before or before[-1] in ".):!?") and (named := LABEL.match(line)):
            rest = escaped(line[named.end():])
            begins_with_a_word = re.match(r"[a-z]+[ ,:]", rest)
            out += ["", f"@par {named[1]}", rest[0].upper() + rest[1:] if begins_with_a_word else rest]
        else:
            out.append(escaped(line.strip()))
        at = end
    return list(with_links(out))


def indented(lines):
    """A drawing, a table of several columns: as it stands. Steps, words with their meaning, or just items: a list."""
    margin = min(len(one) - len(one.lstrip()) for one in lines if one.strip())
    rows = [one for one in lines if re.match(r" {%d}\S" % margin, one)]
    if any(DRAWING.search(one) for one in lines):
        return ["", "@code{.txt}", *(one[margin:] for one in lines), "@endcode", ""]
    out = [""]
    for one in lines:
        text = one.strip()
        step, row = re.match(r"(\d+\. +)(.*)", text), ROW.match(one)
        if one not in rows:
            out.append("   " + escaped(text) if text else "")
        elif step:
            out.append(step[1] + escaped(step[2]))
        elif row:
            out.append(f"- <b>{escaped(row[1])}</b>: {escaped(row[2])}")
        else:
            out.append("- " + escaped(re.sub(r"^[-*] +", "", text)))
    return out + [""]
