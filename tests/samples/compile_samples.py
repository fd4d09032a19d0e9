#!/usr/bin/env python3
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""Compiles the samples in headers and in documents:  compile_samples.py --root=<tree> [--list] [--skip=<word>]... <compiler> <options>...

What is a sample
  in a document  (README.md, docs/*.md ...): each block that is fenced as ```cpp.
  in a header    the lines of a comment below the line "// Sample:" that are indented by at least three blanks; it ends
                 at the first line that is not, and at a line without text.

How it is compiled
  A sample that has an `int main` or that begins with a declaration (class, struct, template, void f(...) {, TEST ...) is
  compiled as it stands, in a namespace of its own; any other as the body of a member function, which may return what it
  likes. `using namespace weft` and the literals of <chrono> are in force. An ellipsis in place of a statement (`...` on
  a line of its own, `{ ... }`, `if (x) ...`) is an empty one. All samples are compiled in one go (-fsyntax-only), with
  the line numbers of the files that they stand in.

What a sample uses but does not declare
  in a document  stands before the fence, where readers do not see it:   <!-- given: struct Row {}; Row Fetch(); -->
                 on one line or on several. #include lines may be there, too.
  in a header    stands in tests/samples/given/<the header's path>, all samples of the header share it.
  A block of a document that is no code to be compiled is fenced as ```c++, or as anything else but ```cpp.
  A block of docs/tutorial whose first line is `// x.cc` is a part of a program: samples.tutorial compiles and runs it.

It is an error if the head of a header has a line that looks like one of a sample but is below no "// Sample:".
"""

import argparse
import pathlib
import re
import subprocess
import sys
import tempfile

LAYERS = ("base", "numa", "context", "scheduling_group", "timer", "sync", "fiber", "io", "net", "observe", "interop")
BEGINS_A_DECLARATION = re.compile(r"(class|struct|template|namespace|TEST|int main|((const|WEFT_\w+) )?[\w:]+(<[\w:]*>)?[&*]? \w+\(.*\) \{ *(//.*)?$)")
PART_OF_A_PROGRAM = re.compile(r"// \w+\.(cc|h)( goes on)?")
ELLIPSIS = re.compile(r"(^\s*|[{};)] )\.\.\.(?=\s*($|\}|//))")


class Sample:
    def __init__(self, path, line, given, lines):
        self.path, self.line, self.given, self.lines = path, line, given, lines


def samples_of_header(root, path):
    given_file = root / "tests/samples/given" / path.relative_to(root)
    given = given_file.read_text().splitlines() if given_file.exists() else []
    # The file's head is only the licence.
    given = [line for line in given if not line.startswith("//")]
    lines = path.read_text().splitlines()
    found = []
    i = 0
    while i < len(lines):
        i += 1
        if not re.fullmatch(r"\s*// Sample:", lines[i - 1]):
            continue
        begin, body = i, []
        while i < len(lines) and re.match(r"\s*//   ", lines[i]):
            body.append(re.sub(r"^\s*//", "", lines[i]))
            i += 1
        if not any(line.strip() for line in body):
            raise SystemExit(f"{path}:{begin}: no sample below the line")
        found.append(Sample(path, begin + 1, given, body))
    return found


def samples_of_document(path):
    found = []
    given, lines = [], path.read_text().splitlines()
    i = 0
    while i < len(lines):
        if lines[i].startswith("<!-- given:"):
            text = lines[i][len("<!-- given:"):]
            while "-->" not in text:
                i += 1
                text += "\n" + lines[i]
            given = text.split("-->")[0].splitlines()
        elif lines[i].startswith("```"):
            compiled, begin = lines[i].strip() == "```cpp", i + 1
            i += 1
            while not lines[i].startswith("```"):
                i += 1
            if compiled and not (path.parent.name == "tutorial" and PART_OF_A_PROGRAM.fullmatch(lines[begin])):
                found.append(Sample(path, begin + 1, given, lines[begin:i]))
            given = []
        i += 1
    return found


def unmarked_in_header(path):
    """Blocks in the head comment that end in `;` and are under no "Sample:"."""
    offences, marked = [], False
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if not line.startswith("//"):
            if line.startswith("#include"):
                break
            continue
        if line == "// Sample:":
            marked = True
        elif not re.match(r"//   ", line):
            marked = False
        elif not marked and re.match(r"// {3,}(.*[\w>]\(.*\)|\}+\)?|.*> \w+);( +//.*)?$", line):
            offences.append(f"{path}:{number}: looks like a sample, but there is no line \"// Sample:\" above it")
    return offences


def translation_unit(samples, headers):
    includes, body = [f"#include {header}" for header in headers], []
    for number, sample in enumerate(samples):
        def part(lines, first):
            kept = [f'#line {first} "{sample.path}"']
            for line in lines:
                if line.strip().startswith("#include"):
                    includes.append(line.strip())
                    line = ""
                kept.append(ELLIPSIS.sub(r"\1;", line))
            return kept

        given = [line for line in sample.given]
        first = next(line for line in sample.lines if line.strip() and not line.strip().startswith(("#", "//")))
        alone = any(re.match(r"\s*int main\(", line) for line in sample.lines) or BEGINS_A_DECLARATION.match(first.strip())
        body += [f"namespace sample_{number} {{", "using namespace weft;", "using namespace std::chrono_literals;"]
        body += part(given, 1)
        body += [] if alone else ["struct Somewhere { auto Sample() {"]
        body += part(sample.lines, sample.line)
        body += [] if alone else ["} };"]
        body += [f"}}  // namespace sample_{number}"]
    return "\n".join(dict.fromkeys(includes)) + "\n" + "\n".join(body) + "\n"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--root", type=pathlib.Path, required=True)
    parser.add_argument("--skip", action="append", default=[], help="no headers whose path has this in it")
    parser.add_argument("--list", action="store_true", help="only say where samples are")
    parser.add_argument("command", nargs=argparse.REMAINDER)
    arguments = parser.parse_args()
    root = arguments.root.resolve()

    samples, offences, headers = [], [], ['"weft/weft.h"']
    for layer in LAYERS:
        for path in sorted((root / layer).rglob("*.h")):
            if any(word in str(path.relative_to(root)) for word in arguments.skip):
                continue
            of_header = samples_of_header(root, path)
            offences += unmarked_in_header(path)
            if of_header:
                samples += of_header
                headers.append(f'"weft/{path.relative_to(root)}"')
    for path in sorted([*root.glob("*.md"), *root.glob("docs/**/*.md"), *root.glob("bench/**/*.md"), *root.glob("examples/**/*.md")]):
        samples += samples_of_document(path)
    if offences:
        raise SystemExit("\n".join(offences))
    if not samples:
        raise SystemExit("no samples found")
    for sample in samples:
        print(f"{sample.path.relative_to(root)}:{sample.line}", flush=True)
    if arguments.list:
        return 0

    with tempfile.TemporaryDirectory() as folder:
        source = pathlib.Path(folder) / "samples.cc"
        source.write_text(translation_unit(samples, headers))
        command = [argument for argument in arguments.command if argument != "--"]
        done = subprocess.run([*command, "-fsyntax-only", str(source)], check=False)
    print(f"{len(samples)} samples: {'compiled' if done.returncode == 0 else 'do not compile'}")
    return 1 if done.returncode else 0


sys.exit(main())
