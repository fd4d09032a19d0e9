#!/usr/bin/env python3
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""Builds the site:  build.py <source tree> <folder>   tools/reference.sh calls it

Into <folder>/input go the public headers, with Doxygen's comments (header_comments.py), and the documents, as Doxygen's
pages (pages.py); the site goes into <folder>/html. Fails if Doxygen warns, a public name has no comment, or a link of
the site leads nowhere. The lines of Doxygen's warnings are those of <folder>/input."""

import html.parser
import os
import pathlib
import re
import shutil
import subprocess
import sys
import urllib.parse

import header_comments
import pages

TRPC_FOLDERS = ("fiber/fiber", "fiber/testing")
# The tree of pages: what is below the first page, and what is below these.
CHAPTERS = ["docs/install.md", "docs/tutorial/README.md", "docs/concepts.md", "docs/how-to/README.md", "docs/pitfalls.md",
            "docs/api.md"]


def public_headers(root):
    """As tests/headers/public_headers_test.py has it."""
    layers = re.search(r"^set\(WEFT_LAYERS ([^)]*)\)", (root / "CMakeLists.txt").read_text(), re.MULTILINE)[1].split()
    return sorted(path for folder in (*layers, *TRPC_FOLDERS, ".") for path in (root / folder).glob("*.h"))


def names_without_comment(root):
    """And how many public names there are."""
    without, names = [], 0
    for path in public_headers(root):
        found, _, _ = header_comments.documented(path.read_text().splitlines())
        names += len(found)
        without += [f"{path.relative_to(root)}:{one.first + 1}: no comment: {one.words[:80]}" for one, text in found if not text]
    return without, names


def documents(root):
    return sorted(path.relative_to(root).as_posix() for path in [
        *root.glob("*.md"), *(root / "docs").rglob("*.md"), root / "bench/README.md"])


def below(path, all_pages):
    """The pages below one: of README.md those of its folder."""
    folder, _, name = path.rpartition("/")
    if name != "README.md" or path == "bench/README.md":
        return []
    if path == "README.md":
        rest = [one for one in all_pages if one != path and one not in CHAPTERS and (
            one.count("/") == 0 or one.startswith("docs/") and one.count("/") == 1 or one.endswith("/README.md"))]
        return [one for one in CHAPTERS if one in all_pages] + rest
    return [one for one in all_pages if one.startswith(folder + "/") and one != path]


def prepare(root, folder):
    """Writes what Doxygen reads, and returns the pictures of the pages."""
    shutil.rmtree(folder / "input", ignore_errors=True)
    for path in public_headers(root):
        to = folder / "input/weft" / path.relative_to(root)
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(header_comments.for_doxygen(path.read_text()))
    all_pages = documents(root)
    for path in all_pages:
        to = folder / "input/pages" / path.replace("/", "_")
        to.parent.mkdir(parents=True, exist_ok=True)
        to.write_text(pages.page((root / path).read_text(), path, all_pages, below(path, all_pages)))
    return sorted([*(root / "docs").glob("*.svg"), *(root / "docs").glob("*.png")])


def run_doxygen(root, folder, pictures):
    """Its warnings."""
    version = re.findall(r"#define WEFT_VERSION_\w+ (\d+)", (root / "version.h").read_text())[:3]
    shutil.rmtree(folder / "html", ignore_errors=True)
    environment = dict(os.environ, WEFT_REFERENCE=str(folder), WEFT_DOXYGEN=str(root / "docs/reference"),
                       WEFT_RELEASE=".".join(version), WEFT_PICTURES=" ".join(map(str, pictures)))
    done = subprocess.run(["doxygen", str(root / "docs/reference/Doxyfile")], cwd=folder / "input", env=environment,
                          capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise SystemExit(done.stderr + f"doxygen ended with {done.returncode}")
    return [line for line in done.stderr.splitlines() if line.strip()]


class Page(html.parser.HTMLParser):
    """The anchors of a page, and where its links go."""

    def __init__(self):
        super().__init__()
        self.anchors, self.links = set(), set()

    def handle_starttag(self, tag, attrs):
        for name, value in attrs:
            if name == "id" or name == "name" and tag == "a":
                self.anchors.add(value)
            elif name in ("href", "src") and value:
                self.links.add(value)


def bad_links(folder):
    found = {}
    for path in folder.glob("*.html"):
        found[path.name] = Page()
        found[path.name].feed(path.read_text(encoding="utf-8"))
    bad = []
    for name, page in sorted(found.items()):
        for link in sorted(page.links):
            if re.match(r"[a-z]+:", link):
                continue
            target, _, anchor = urllib.parse.unquote(link).partition("#")
            target = target or name
            if not (folder / target).exists() or anchor and target in found and anchor not in found[target].anchors:
                bad.append(f"{name}: {link}")
    return bad


def main(root, folder):
    folder.mkdir(parents=True, exist_ok=True)
    bad, names = names_without_comment(root)
    bad = bad or run_doxygen(root, folder, prepare(root, folder)) or bad_links(folder / "html")
    for line in bad:
        print(line, file=sys.stderr)
    if bad:
        raise SystemExit(f"reference: {len(bad)} warnings")
    print(f"reference: {folder}/html/index.html; {names} public names")


if __name__ == "__main__":
    main(pathlib.Path(sys.argv[1]).resolve(), pathlib.Path(sys.argv[2]).resolve())
