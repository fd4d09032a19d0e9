#!/usr/bin/env python3
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""Runs CTest, without the tests that have passed before and of which nothing has changed since:

    tools/changed_tests.py <build folder> <options of ctest>...

A test is left out if its program, the files in its command line, its environment and the scripts and flag files of the
tree are what they were when it passed. A program of static libraries holds only those objects that it uses, so a change
of one source changes few programs. A test that has a folder in its command line (it reads the tree, or what is built),
or no program of the build folder, always runs, unless weft_test_reads() (cmake/WeftLayer.cmake) says what else it
reads. The exit status is ctest's.
"""

import hashlib
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import xml.etree.ElementTree

from pass_record import PassRecord, files_below, key_of

ROOT = pathlib.Path(__file__).resolve().parent.parent


def listed(build, options):
    said = subprocess.run(["ctest", "--test-dir", build, "--show-only=json-v1", *options], check=True, capture_output=True,
                          text=True).stdout
    return json.loads(said)["tests"]


READS = "WEFT_TEST_READS="


def what_it_reads(test):
    """Paths and patterns of git, of weft_test_reads(); None: it was not called."""
    for entry in (p["value"] for p in test["properties"] if p["name"] == "ENVIRONMENT"):
        for variable in entry:
            if variable.startswith(READS):
                return variable.removeprefix(READS).split(":")
    return None


class Keys:
    def __init__(self, build):
        self.built = os.path.realpath(build) + "/"
        self.hashes = {}
        # What tests read besides their programs; and the machine, of which some ask.
        scripts = [name for name in files_below(["tests", "bench", "conf"]) if name.endswith((".py", ".sh", ".flags", ".lua"))]
        self.common = [f"{os.cpu_count()} {os.uname().release}"] + [self.hash(str(ROOT / name)) for name in scripts]

    def hash(self, path):
        path = os.path.realpath(path)
        if path not in self.hashes:
            self.hashes[path] = hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()
        return self.hashes[path]

    def key(self, test):
        """None: it always runs."""
        command = test.get("command", [])
        files = [found for found in (word if os.path.isfile(word) else shutil.which(word) for word in command) if found]
        reads = what_it_reads(test)
        if reads is not None:
            files += files_below(reads)
        elif any(os.path.isdir(word.rpartition("=")[2]) for word in command):
            return None
        elif not any(os.path.realpath(file).startswith(self.built) for file in files):
            return None
        known = [test["name"], json.dumps(test["properties"], sort_keys=True), *command, *files]
        known = [word.replace(str(ROOT), "") for word in known]
        return key_of(self.common + known + [self.hash(file) for file in files])


FILTERS = ("-R", "-E", "-L", "-LE", "--tests-regex", "--exclude-regex", "--label-regex", "--label-exclude")


def without_filters(options):
    """CTest would count a choice by numbers among what the filters leave."""
    kept = []
    words = iter(options)
    for word in words:
        if word in FILTERS:
            next(words)
        else:
            kept.append(word)
    return kept


def outcomes(report):
    """By name, whether a test has passed, of a report in JUnit's form."""
    cases = xml.etree.ElementTree.parse(report).getroot().iter("testcase")
    return {case.get("name"): case.get("status") == "run" and case.find("failure") is None for case in cases}


def main():
    build, *options = sys.argv[1:]
    os.chdir(ROOT)
    record, keys = PassRecord("tests"), Keys(build)
    wanted = {test["name"]: keys.key(test) for test in listed(build, [o for o in options if o != "--output-on-failure"])}
    to_run = [name for name, key in wanted.items() if key is None or not record.has(key)]
    print(f"changed_tests.py: {len(to_run)} of {len(wanted)} tests to run: the others passed before, and nothing of them "
          "has changed", flush=True)
    if not to_run:
        print("100% tests passed, 0 tests failed out of 0")
        return 0
    numbers = {test["name"]: number for number, test in enumerate(listed(build, []), 1)}
    with tempfile.TemporaryDirectory() as folder:
        choice, report = os.path.join(folder, "choice"), os.path.join(folder, "report.xml")
        first, *others = [str(numbers[name]) for name in to_run]
        pathlib.Path(choice).write_text(",".join([first, first, "1", *others]) + "\n")
        done = subprocess.run(["ctest", "--test-dir", build, *without_filters(options), "--tests-information", choice,
                               "--output-junit", report], check=False)
        ran = outcomes(report) if os.path.exists(report) else {}
    for name, passed in ran.items():
        if passed and wanted[name]:
            record.add(wanted[name])
    left_out = [name for name in to_run if name not in ran]
    if left_out:
        print(f"changed_tests.py: ctest did not run {', '.join(left_out)}")
        return done.returncode or 1
    return done.returncode


if __name__ == "__main__":
    sys.exit(main())
