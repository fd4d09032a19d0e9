# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""Applies the mutants of tests/mutants/*.txt one by one and says which die.  See tools/mutants.sh.

A list holds entries of this form, and comments (#) between them:

    == 41 WaitForCapacity() reads the epoch after the last check
    file: scheduling_group/group/scheduling_group.cc
    targets: scheduling_group_start_gate
    run: scheduling_group_start_gate --gtest_filter=StartGate.*
    --- from
    the exact lines of the file, which must occur once
    --- to
    what replaces them
    == end

`targets` are targets of CMake; `run` is a shell command, in which the name of a target stands for its program, and which
must succeed as long as nothing is broken.
"""

import argparse
import dataclasses
import math
import os
import pathlib
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
TREE = ROOT / "build" / "mutants" / "tree"
# As in a work tree: ccache knows the same relative paths.
BUILD = TREE / "build" / "release"
RUN_LIMIT = 60  # Seconds.  Tests of mutants take a few: less for one that is known to.
# What a test expects is asked for again: where threads race, a mutant is not seen in each run, and a test that is right
# may fail on a busy machine.
RUNS = 3


@dataclasses.dataclass
class Mutant:
    where: str
    title: str
    file: str = ""
    targets: tuple = ()
    run: str = ""
    before: str = ""
    after: str = ""

    def what(self):
        """All but where it stands."""
        return (self.title, self.file, self.targets, self.run, self.before, self.after)


class BadList(Exception):
    pass


class Refused(Exception):
    """A warning refuses the mutant: no test tells."""


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


def changed(mutants):
    """Those that are new, or whose file is, by the commits of the last day before HEAD or the work tree; and a remark.

    A shallow clone may end before that day does.  Then all have changed: too many mutants are better than none.
    """
    day_before = int(git("show", "-s", "--format=%ct", "HEAD")) - 24 * 60 * 60
    base = git("rev-list", "-1", f"--before={day_before}", "HEAD").strip()
    if not base:
        return mutants, "the history is shorter than a day: all count as changed"
    files = set(git("diff", "--name-only", base).split("\n"))
    lists = git("ls-tree", "-r", "--name-only", base, "tests/mutants").split()
    try:
        before = [mutant.what() for path in lists for mutant in parse(path, git("show", f"{base}:{path}"))]
    except BadList:  # Whose format was another.
        before = []
    chosen = [m for m in mutants if m.file in files or m.what() not in before]
    return chosen, f"{len(chosen)} of {len(mutants)} are new since {base[:12]}, or their files have changed"


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


def environment():
    return {**os.environ, "CCACHE_BASEDIR": str(TREE), "CCACHE_NOHASHDIR": "1"}


def configure():
    # No mutant changes what CMake reads, so CMake need not check it for each.
    subprocess.run(
        ["cmake", "--preset", "release", "-DWEFT_BUILD_EXAMPLES=ON", "-DCMAKE_SUPPRESS_REGENERATION=ON"],
        cwd=TREE, env=environment(), check=True, stdout=subprocess.DEVNULL)


def build(mutant):
    command = ["cmake", "--build", str(BUILD), "--parallel", os.environ.get("JOBS", str(os.cpu_count())), "--target"]
    return subprocess.run(command + list(mutant.targets), env=environment(), capture_output=True, text=True)


def command_of(mutant):
    """With the paths of the programs: a death test starts its own again."""
    names = "|".join(re.escape(target) for target in mutant.targets)
    return re.sub(rf"(?<![^\s;&|(])({names})(?![^\s;&|)])", lambda name: str(BUILD / "bin" / name[0]), mutant.run)


def run(mutant, limit=RUN_LIMIT, output=subprocess.DEVNULL):
    """None if the test passes, else what became of it."""
    # The first failure is enough: after it a test may hang.
    environment = {**os.environ, "GTEST_FAIL_FAST": "1", "GTEST_BREAK_ON_FAILURE": "1"}
    command = f"ulimit -c 0; {command_of(mutant)}"
    process = subprocess.Popen(command, shell=True, cwd=BUILD, env=environment, stdout=output,
                               stderr=subprocess.DEVNULL, start_new_session=True)
    status = None
    try:
        for _ in range(math.ceil(limit)):  # Only seconds in which this process runs, too.
            try:
                status = process.wait(1)
                break
            except subprocess.TimeoutExpired:
                pass
    finally:
        try:
            os.killpg(process.pid, signal.SIGKILL)  # Also what the test has started.
        except ProcessLookupError:
            pass
        process.wait()
    if status is None:
        return "the test hangs"
    return None if status == 0 else f"the test fails (status {status})"


def first_of_runs(wanted, mutant, *arguments, **how):
    """What run() says, the first time that wanted() holds of it, or the last time."""
    for _ in range(RUNS):
        said = run(mutant, *arguments, **how)
        if wanted(said):
            break
    return said


def verdict(mutant, limit):
    """What killed the mutant; None: nothing did."""
    path = TREE / mutant.file
    original = path.read_text()
    path.write_text(apply(mutant, original))
    try:
        built = build(mutant)
        if built.returncode != 0:
            errors = [line for line in built.stdout.splitlines() if " error: " in line]
            if errors and all("[-Werror" in line for line in errors):
                raise Refused(errors[0])
            return "it does not compile"
        return first_of_runs(lambda said: said is not None, mutant, limit)
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
        mutants, remark = changed(mutants)
        print(f"mutants: {remark}", flush=True)
    # Together what is built and run alike.
    files = sorted({m.file for m in mutants})
    if options.seconds < float("inf"):
        random.Random(git("rev-parse", "HEAD")).shuffle(files)
    mutants.sort(key=lambda m: (files.index(m.file), m.targets, m.run))
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
    limits = {}  # How long it may take.
    skips = {}  # Whether some of it is left out on this machine.
    for mutant in mutants:
        mutant_started = time.monotonic()
        if mutant_started - started > options.seconds:
            break
        key = (mutant.targets, mutant.run)
        if key not in sound:
            built = build(mutant)
            run_started = time.monotonic()
            with tempfile.TemporaryFile() as output:
                sound[key] = f"does not build\n{built.stdout[-2000:]}"
                if built.returncode == 0:
                    sound[key] = first_of_runs(lambda said: said is None, mutant, output=output)
                output.seek(0)
                skips[key] = b"[  SKIPPED ]" in output.read()
            limits[key] = min(RUN_LIMIT, 20 + 10 * (time.monotonic() - run_started))
        if sound[key] is not None:
            killed = None
            said = f"WITHOUT THE MUTANT {sound[key]}"
        else:
            try:
                killed = verdict(mutant, limits[key])
                said = f"dead, {killed}" if killed else "SURVIVED"
            except Refused as warning:
                killed = None
                said = f"NO TEST TELLS, for a warning refuses it: {warning}"
            if said == "SURVIVED" and skips[key]:
                said = "not tried, for tests are skipped on this machine"
        line = f"{mutant.where}: {mutant.title}: {said}"
        print(f"{line} ({time.monotonic() - mutant_started:.0f} s)", flush=True)
        if killed:
            dead += 1
        elif not said.startswith("not tried"):
            failures.append(line)
    not_tried = len(mutants) - dead - len(failures)
    print(f"mutants: {dead} dead, {len(failures)} not" + (f", {not_tried} not tried" if not_tried else ""))
    for line in failures:
        print(f"  {line}")
    return 1 if failures else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except BadList as error:
        sys.exit(str(error))
