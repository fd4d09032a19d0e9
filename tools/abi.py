#!/usr/bin/env python3
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""The ABI of libweft.so is the one that is written down in packaging/libweft.abi. Compares the two, or writes it down:

  tools/abi.py [--write] [<another library> <its file>]

The file has a line for each function and variable that a source defines (of inline functions and templates each program
has its own), and for each class and enumerator of a public header that they take or return: size, members and their
places, bases, virtual functions. A line that is new is no change: what was linked before still runs.

Not seen: what inline functions do with classes of internal headers, apart from the size of such a class in a public one.

abidw (Debian: abigail-tools) reads the classes from debug information: the library is compiled anew for that, without
optimisation (build/abi); what a source defines does not depend on it. An XML file of abidw for abidiff would have
850,000 bytes instead of 100,000, and no lines to review. The file is one of g++ 12 on Debian 12, and is compared there
only: other versions lay out or name some things otherwise. Exit status 77 elsewhere, or without abidw.
"""

import os
import pathlib
import re
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as ElementTree

from pass_record import PassRecord, key_of_inputs

ROOT = pathlib.Path(__file__).resolve().parents[1]
WHAT_TO_DO = """
abi.py: the lines above are in {file}, and {library} has them no longer: programs that are linked with it may break.
  If no version with this soname has been released, or the minor version has gone up (version.h; the soname goes with
  it), write the new ABI down by  tools/abi.py --write  and say in CHANGELOG.md that programs must be compiled again.
  Else keep the former one: leave classes as they are, keep functions that were there."""


def cannot(why):
    print(f"abi.py: {why}", file=sys.stderr)
    sys.exit(77)


def output(*command):
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        print(done.stdout, f"abi.py: {command[0]} has failed", sep="\n", file=sys.stderr)
        sys.exit(2)
    return done.stdout


def build():
    """libweft.so with debug information."""
    tree = ROOT / "build/abi"
    os.environ.update(CCACHE_BASEDIR=str(ROOT), CCACHE_NOHASHDIR="1")
    output("cmake", "--preset", "library", "-S", ROOT, "-B", tree, "-DBUILD_SHARED_LIBS=ON", "-DWEFT_BUILD_TOOLS=OFF",
           "-DCMAKE_CXX_FLAGS_RELEASE=-O0 -g -DNDEBUG")
    jobs = os.environ.get("JOBS", str(os.cpu_count()))
    output("cmake", "--build", tree, "--parallel", jobs, "--target", "weft_weft")
    return tree / "libweft.so"


def public_headers(folder):
    """Files of their names: abidw compares no more."""
    layers = re.search(r"^set\(WEFT_LAYERS (.*)\)$", (ROOT / "CMakeLists.txt").read_text(), re.MULTILINE)[1].split()
    for layer in layers:
        for header in (ROOT / layer).glob("*.h"):
            (folder / header.name).touch()
    return ["--headers-dir", folder, "--drop-private-types"]


def defined_names(library):
    """What the library shows, but for what the linker takes from any of several objects (W, V, u)."""
    lines = [line.split() for line in output("nm", "--dynamic", "--defined-only", library).splitlines()]
    return [name for _, kind, name in lines if kind not in "WVu"]


def in_bytes(bits):
    bits = int(bits or 0)
    return str(bits // 8) if bits % 8 == 0 else f"{bits // 8}+{bits % 8}"


def class_line(name, declaration):
    parts = [f"{name}: {in_bytes(declaration.get('size-in-bits'))} bytes"]
    parts += [f"base at {in_bytes(base.get('layout-offset-in-bits'))}" for base in declaration.findall("base-class")]
    for member in declaration.findall("data-member"):
        if member.get("static") != "yes":
            parts.append(f"{member.find('var-decl').get('name')} at {in_bytes(member.get('layout-offset-in-bits'))}")
    for member in declaration.findall("member-function"):
        if "vtable-offset" in member.attrib:
            parts.append(f"virtual {member.find('function-decl').get('name')} at {member.get('vtable-offset')}")
    return ", ".join(parts)


def type_lines(element, scope):
    for child in element:
        if child.tag in ("namespace-decl", "member-type", "abi-instr"):
            yield from type_lines(child, scope + ([child.get("name")] if child.tag == "namespace-decl" else []))
        elif child.tag in ("class-decl", "union-decl") and not child.get("is-declaration-only"):
            name = "::".join(scope + [child.get("name")])
            yield class_line(name, child)
            yield from type_lines(child, scope + [child.get("name")])
        elif child.tag == "enum-decl":
            name = "::".join(scope + [child.get("name")])
            yield from (f"{name}::{value.get('name')} = {value.get('value')}" for value in child.findall("enumerator"))


def describe(library, public):
    names = defined_names(library)
    wanted = "|".join(map(re.escape, names))
    with tempfile.TemporaryDirectory() as scratch:
        folder = pathlib.Path(scratch)
        (folder / "public").mkdir()
        (folder / "suppressions").write_text(
            "".join(f"[suppress_{kind}]\nsymbol_name_not_regexp = ^({wanted})$\ndrop = yes\n\n"
                    for kind in ("function", "variable"))
            + "[suppress_type]\nname_regexp = ^(std|__gnu_cxx|__cxxabiv1)::\ndrop = yes\n")
        options = public_headers(folder / "public") if public else []
        output("abidw", *options, "--suppressions", folder / "suppressions", "--exported-interfaces-only",
               "--no-show-locs", "--out-file", folder / "abi.xml", library)
        types = type_lines(ElementTree.parse(folder / "abi.xml").getroot(), [])
        types = {line for line in types if line.startswith("weft::") and "__anonymous" not in line and "<lambda" not in line}
    soname = re.search(r"\(SONAME\).*\[(.*)\]", output("readelf", "--dynamic", library))[1]
    functions = output("c++filt", *names).splitlines()
    return [soname, *sorted(types), "", *sorted(set(functions))]


def key_of_all(library):
    """Of all that the lines are made of: abidw takes half a minute. What a source has in its functions is not in them."""
    os.chdir(ROOT)
    names = "\n".join(sorted(defined_names(library)))
    inputs = ["*.h", "CMakeLists.txt", "cmake", "packaging/libweft.abi", "tools/abi.py"]
    return key_of_inputs("abi", [*inputs, f"={names}", f"={output('abidw', '--version')}"])


def main(arguments):
    write = arguments[:1] == ["--write"]
    arguments = arguments[1:] if write else arguments
    if len(arguments) not in (0, 2):
        print(__doc__, file=sys.stderr)
        return 2
    if shutil.which("abidw") is None:
        cannot("abidw is missing (Debian: abigail-tools)")
    if 'VERSION_ID="12"' not in pathlib.Path("/etc/os-release").read_text():
        cannot("this is not Debian 12")
    if output("g++", "-dumpversion").strip() != "12":
        cannot("g++ is not version 12")
    library = pathlib.Path(arguments[0]) if arguments else build()
    file = pathlib.Path(arguments[1]) if arguments else ROOT / "packaging/libweft.abi"
    record, key = PassRecord("passed"), None if arguments or write else key_of_all(library)
    if key and record.has(key):
        print(f"abi: {file.name} has passed with these headers and these names")
        return 0
    lines = describe(library, public=not arguments)
    if write:
        file.write_text("\n".join(lines) + "\n")
        return 0
    missing = [line for line in file.read_text().splitlines() if line not in set(lines)]
    if missing:
        print("\n".join(missing), WHAT_TO_DO.format(file=file.name, library=library.name), sep="\n", file=sys.stderr)
        return 1
    if key:
        record.add(key)
    print(f"abi: {len(lines) - 2} lines, none of {file.name} is missing")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
