# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""The documents, from Markdown as GitHub reads it to what Doxygen makes pages of, for build.py."""

import html
import os.path
import re

from comment_text import escaped, label


def address(path):
    return "index.html" if path == "README.md" else label(path) + ".html"


def slug(heading):
    """The anchor that GitHub gives to a heading."""
    return re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-")


def inline(text, path, pages):
    """A line's text: code, links and pictures become HTML; the rest stays Markdown."""
    kept = []

    def keep(markup):
        kept.append(markup)
        return f"\x01{len(kept) - 1}\x02"

    def as_code(match):
        return keep("<code>" + escaped(match[2].strip()) + "</code>")

    def link(match):
        target, _, anchor = match[2].partition("#")
        if re.match(r"[a-z]+:", match[2]):
            return keep(f'<a href="{match[2]}">') + match[1] + keep("</a>")
        name = os.path.normpath(os.path.join(os.path.dirname(path), target)) if target else path
        if name in pages:
            anchor = f"#{label(name)}_{anchor}" if anchor else ""
            return keep(f'<a href="{address(name)}{anchor}">') + match[1] + keep("</a>")
        return match[1] if match[1] == name else match[1] + keep(f" (<code>{escaped(name)}</code>)")

    text = re.sub(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", as_code, text)
    text = re.sub(r"!\[([^\]]*)\]\(([^)\s]+)\)",
                  lambda match: keep(f'<img src="{os.path.basename(match[2])}" alt="{html.escape(match[1])}"/>'), text)
    text = re.sub(r"\[([^\]]+)\]\(([^)\s]+)\)", link, text)
    text = re.sub(r"\*\*(.+?)\*\*", lambda match: keep("<b>") + match[1] + keep("</b>"), text)
    text = re.sub(r"(?<![\w*])\*([^\s*][^*]*?)\*(?![\w*])", lambda match: keep("<i>") + match[1] + keep("</i>"), text)
    text = escaped(text)
    while "\x01" in text:
        text = re.sub("\x01(\\d+)\x02", lambda match: kept[int(match[1])], text)
    return text


def table(rows, path, pages):
    cells = [[cell.strip().replace("\\|", "|") for cell in re.split(r"(?<!\\)\|", row.strip().removeprefix("|").removesuffix("|"))]
             for row in rows]
    out = ['<table class="doc">']
    for at, row in enumerate(cells):
        if at != 1 and (at != 0 or any(row)):
            kind = "th" if at == 0 else "td"
            out.append("<tr>" + "".join(f"<{kind}>{inline(cell, path, pages)}</{kind}>" for cell in row) + "</tr>")
    return ["", *out, "</table>", ""]


def code(lines, language=""):
    return ["", "@code{.cpp}" if language in ("cpp", "c++") else "@code{.txt}", *lines, "@endcode", ""]


def heading(match, path, first, shift, used):
    """The first is the page's title. A page may have the same heading twice: only the first has an anchor."""
    plain = escaped(re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", match[2]).replace("`", "").replace("**", ""))
    if first:
        return [f"# {plain} {{#{'mainpage' if path == 'README.md' else label(path)}}}", ""]
    anchor = f"{label(path)}_{slug(match[2])}"
    if anchor in used:
        return ["", f"<b>{plain}</b>", ""]
    used.add(anchor)
    return ["", f"{'#' * max(1, len(match[1]) - shift)} {plain} {{#{anchor}}}", ""]


def is_open(text):
    """A link, or code between backticks, goes on on the next line."""
    return text.count("`") % 2 or re.search(r"\[[^\]]*$|\]\([^)]*$", re.sub(r"`[^`]*`", "", text))


def end_of_block(lines, at, prefix):
    """Behind the lines that begin so, and the empty ones between them."""
    end = at
    while end < len(lines) and (lines[end].startswith(prefix) or not lines[end].strip()):
        end += 1
    while not lines[end - 1].strip():
        end -= 1
    return end


def page(text, path, pages, children):
    """The page of the document `path`, with the pages below it."""
    text = re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL)
    one_title = len(re.findall(r"^# ", re.sub(r"^```.*?^```", "", text, flags=re.MULTILINE | re.DOTALL), re.MULTILINE)) == 1
    lines, out, at = text.splitlines(), [], 0
    anchors, has_title, in_list = set(), False, False
    while at < len(lines):
        line, end = lines[at], at + 1
        following = lines[end] if end < len(lines) else ""
        if fence := re.fullmatch(r"( *)(```+)\s*(\w[\w+-]*)?\s*", line):
            end = next(i for i in range(end, len(lines)) if lines[i].strip() == fence[2])
            out += code([one.removeprefix(fence[1]) for one in lines[at + 1:end]], fence[3])
            end += 1
        elif match := re.match(r"(#+) +(.+?)\s*$", line):
            out += heading(match, path, not has_title, one_title, anchors)
            has_title, in_list = True, False
        elif line.lstrip().startswith("|") and re.match(r"\s*\|[-:| ]+\|?\s*$", following):
            while end < len(lines) and lines[end].lstrip().startswith("|"):
                end += 1
            out += table(lines[at:end], path, pages)
        elif line.startswith("    ") and not in_list and (at == 0 or not lines[at - 1].strip()):
            end = end_of_block(lines, at, "    ")
            out += code([one[4:] for one in lines[at:end]])
        else:
            item = re.match(r"\s*(?:[*+-]|\d+\.) +", line)
            in_list = bool(item) or in_list and (not line.strip() or line.startswith(" "))
            margin = item[0] if item else re.match(r"\s*", line)[0]
            body = line[len(margin):]
            while end < len(lines) and lines[end].strip() and is_open(body):
                body += " " + lines[end].strip()
                end += 1
            out.append(margin + inline(body, path, pages))
        at = end
    out += ["", *(f"- @subpage {label(child)}" for child in children), ""]
    return "\n".join(out) + "\n"
