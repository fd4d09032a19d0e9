# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""Applies the mutants of tests/mutants/*.txt one by one and says which die.  See tools/mutants.sh.

A list holds entries of this form, and comments (#) between them:

    == 41 WaitForRoom() reads the epoch after the last look
    file: scheduling_group/scheduling_group.cc
    targets: scheduling_group_start_gate
    run: scheduling_group_start_gate --gtest_filter=StartGate.*
    --- from
    the exact lines of the file, which must occur once
    --- to
    what replaces them
    == end

`targets` are targets of CMake; `run` is a shell command, which finds the programs that were built by their names, and
which must succeed as long as nothing is broken.
"""

import argparse
import dataclasses
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TREE = ROOT / "build" / "mutants" / "tree"
BUILD = ROOT / "build" / "mutants" / "build"
RUN_LIMIT = 60  # Seconds.  Tests of mutants take a few.


@dataclasses.dataclass
class Mutant:
    where: str
    title: str
    file: str = ""
    targets: tuple = ()
    run: str = ""
    before: str = ""
    after: str = ""


class BadList(Exception):
    pass


def parse(path, text):
    mutants = []
    mutant = None
    part = None  # None: the fields, else "before" or "after".
    for number, line in enumerate(text.splitlines(keepends=True), 1):
        where = f"{path}:{number}"
        bare = line.rstrip("\n")
        if mutant is None:
            if bare.startswith("== "):
                mutant = Mutant(where, bare[3:].strip())
            elif bare and not bare.startswith("#"):
                raise BadList(f"{where}: expected '== <id> <title>', found: {bare}")
        elif bare == "--- from" and part is None:
            part = "before"
        elif bare == "--- to" and part == "before":
            part = "after"
        elif bare == "== end" and part == "after":
            if not (mutant.file and mutant.targets and mutant.run and mutant.before):
                raise BadList(f"{mutant.where}: an entry needs file, targets, run and the lines after '--- from'")
            mutants.append(mutant)
            mutant = part = None
        elif part is not None:
            setattr(mutant, part, getattr(mutant, part) + line)
        else:
            key, colon, value = bare.partition(":")
            if not colon or key not in ("file", "targets", "run"):
                raise BadList(f"{where}: expected file:, targets: or run:, found: {bare}")
            setattr(mutant, key, tuple(value.split()) if key == "targets" else value.strip())
    if mutant is not None:
        raise BadList(f"{mutant.where}: the entry has no '== end'")
    return mutants


def read_lists(folder):
    mutants = []
    for path in sorted(folder.glob("*.txt")):
        mutants += parse(path.relative_to(ROOT), path.read_text())
    return mutants


def apply(mutant, text):
    """The text with the mutant in it."""
    found = text.count(mutant.before)
    if found != 1:
        raise BadList(f"{mutant.where}: the lines after '--- from' occur {found} times in {mutant.file}, not once")
    return text.replace(mutant.before, mutant.after)


def git(*arguments):
    return subprocess.run(("git", "-C", str(ROOT)) + arguments, check=True, capture_output=True, text=True).stdout


def changed_files():
    base = git("rev-list", "-1", "--before=1 day ago", "HEAD").strip()
    files = git("diff", "--name-only", base or "4b825dc642cb6eb9a060e54bf8d69288fbee4904")  # Else: all, from nothing.
    return set(files.split("\n"))


def copy_tree():
    """The files that git knows, as they are in the work tree; unchanged ones keep their time, so that little is built."""
    for name in git("ls-files", "-z").split("\0"):
        source = ROOT / name
        if not name or not source.is_file():
            continue
        target = TREE / name
        if target.is_file() and target.read_bytes() == source.read_bytes():
            continue
        target.parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(source, target)


def configure():
    subprocess.run(
        ["cmake", "--preset", "release", "-B", str(BUILD), "-DWEFT_BUILD_EXAMPLES=OFF"],
        cwd=TREE, check=True, stdout=subprocess.DEVNULL)


def build(mutant):
    command = ["cmake", "--build", str(BUILD), "--parallel", os.environ.get("JOBS", str(os.cpu_count())), "--target"]
    environment = {**os.environ, "CCACHE_BASEDIR": str(TREE), "CCACHE_NOHASHDIR": "1"}
    return subprocess.run(command + list(mutant.targets), env=environment, capture_output=True, text=True)


def run(mutant):
    """None if the test passes, else what became of it."""
    environment = {**os.environ, "PATH": f"{BUILD / 'bin'}:{os.environ['PATH']}"}
    process = subprocess.Popen(mutant.run, shell=True, cwd=BUILD, env=environment, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL, start_new_session=True)
    try:
        status = process.wait(RUN_LIMIT)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        return "the test hangs"
    return None if status == 0 else f"the test fails (status {status})"


def verdict(mutant):
    """What killed the mutant; None: nothing did."""
    path = TREE / mutant.file
    original = path.read_text()
    path.write_text(apply(mutant, original))
    try:
        if build(mutant).returncode != 0:
            return "it does not compile"
        return run(mutant)
    finally:
        path.write_text(original)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("words", nargs="*")
    parser.add_argument("--changed", action="store_true")
    parser.add_argument("--seconds", type=float, default=float("inf"))
    parser.add_argument("--list", action="store_true")
    options = parser.parse_args()
    started = time.monotonic()

    mutants = read_lists(ROOT / "tests" / "mutants")
    for mutant in mutants:
        apply(mutant, (ROOT / mutant.file).read_text())  # Each list fits the code, whatever is run.
    if options.words:
        mutants = [m for m in mutants if any(word in f"{m.where} {m.file} {m.title}" for word in options.words)]
    if options.changed:
        files = changed_files()
        mutants = [m for m in mutants if m.file in files]
    if options.seconds < float("inf"):
        random.Random(git("rev-parse", "HEAD")).shuffle(mutants)
    if options.list:
        for mutant in mutants:
            print(f"{mutant.where}: {mutant.title} ({mutant.file})")
        return 0
    if not mutants:
        print("mutants: none to try")
        return 0

    copy_tree()
    configure()
    dead = 0
    failures = []
    sound = {}  # What the test of a mutant says as long as nothing is broken.
    for mutant in mutants:
        if time.monotonic() - started > options.seconds:
            break
        key = (mutant.targets, mutant.run)
        if key not in sound:
            built = build(mutant)
            sound[key] = run(mutant) if built.returncode == 0 else f"does not build\n{built.stdout[-2000:]}"
        if sound[key] is not None:
            failures.append(f"{mutant.where}: {mutant.title}: without the mutant {sound[key]}")
            print(failures[-1], flush=True)
            continue
        killed = verdict(mutant)
        if killed is None:
            failures.append(f"{mutant.where}: {mutant.title}: SURVIVED")
            print(failures[-1], flush=True)
        else:
            dead += 1
            print(f"{mutant.where}: {mutant.title}: dead, {killed}", flush=True)
    not_tried = len(mutants) - dead - len(failures)
    print(f"mutants: {dead} dead, {len(failures)} not" + (f", {not_tried} not tried" if not_tried else ""))
    return 1 if failures else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BadList as error:
        sys.exit(str(error))
