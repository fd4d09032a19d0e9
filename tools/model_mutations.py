#!/usr/bin/env python3
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""Builds and runs the mutations of the models, each of which must end in a violation:

    tools/model_mutations.py [--build <folder>] [--skip-unchanged <n>] [<word>...]

    --build <folder>      where Weft is configured (build/release)
    --skip-unchanged <n> not those that were found before and of which nothing has changed since, save one of n, another
                         one with each commit
    <word>                only mutations whose name contains it: cancel, idle_loop.no_fence

A mutation is a file tests/model/mutations/<model>/<name>.patch: mutate.cmake has its format. It changes one file of the
tree. Only those sources of the model's program are compiled anew that the compiler has seen include this file; the
other objects are those of the sound program. So all models are built first.

A line `found by: <test>` in a patch is the test that finds it: the others need not run. Environment: JOBS.
The exit status is 0 if all mutations that ran were found.
"""

import argparse
import concurrent.futures
import dataclasses
import functools
import json
import os
import pathlib
import re
import shlex
import shutil
import subprocess
import sys
import time

from pass_record import PassRecord, has_its_turn, head, key_of

ROOT = pathlib.Path(__file__).resolve().parent.parent
MUTATE = ROOT / "tests" / "model" / "mutate.cmake"
FOUND = "model: violation"


class CannotRun(Exception):
    pass


@dataclasses.dataclass
class Model:
    name: str
    target: str
    mutations: pathlib.Path
    timeout: int
    objects: dict = dataclasses.field(default_factory=dict)  # By path: what compiles it, and the files it is made of.
    link: str = ""


@dataclasses.dataclass
class Compilation:
    words: list
    source: str
    files: set = dataclasses.field(default_factory=set)


def run(command, **options):
    return subprocess.run(command, check=False, capture_output=True, text=True, **options)


def demand(command, **options):
    done = run(command, **options)
    if done.returncode != 0:
        raise CannotRun(f"{shlex.join(map(str, command))}\n{done.stdout}{done.stderr}")
    return done.stdout


def read_models(path):
    models = []
    for line in path.read_text().splitlines():
        name, target, mutations, timeout = line.split("|")
        models.append(Model(name, target, pathlib.Path(mutations), int(timeout)))
    return models


@functools.cache
def real_path(path):
    return os.path.realpath(path)


@functools.cache
def version(compiler):
    return demand([compiler, "--version"])


def read_dependencies(build, objects):
    """By object: the files that it is made of, as Ninja knows them from the compiler."""
    dependencies = {}
    files = set()
    for line in demand(["ninja", "-t", "deps", *objects], cwd=build).splitlines():
        if line.startswith(" "):
            files.add(real_path(os.path.join(build, line.strip())))
        elif line:
            files = dependencies[line.partition(":")[0]] = set()
    return dependencies


def launcher(build):
    """What CMake puts before the compiler (ccache); it does not stand in compile_commands.json."""
    found = re.search(r"^CMAKE_CXX_COMPILER_LAUNCHER:\w+=(.+)$", (build / "CMakeCache.txt").read_text(), re.MULTILINE)
    return found[1].split(";") if found else []


def describe(build, models):
    """How each model's program is made."""
    by_target = {model.target: model for model in models}
    for unit in json.loads((build / "compile_commands.json").read_text()):
        words = shlex.split(unit["command"])
        path = words[words.index("-o") + 1]
        folder = re.search(r"CMakeFiles/(\w+)[.]dir/", path)
        if folder and folder[1] in by_target:
            by_target[folder[1]].objects[path] = Compilation(words, real_path(unit["file"]))
    objects = {path: unit for model in models for path, unit in model.objects.items()}
    for path, files in read_dependencies(build, objects).items():
        objects[path].files = files
    for model in models:
        model.link = demand(["ninja", "-t", "commands", f"bin/{model.target}"], cwd=build).splitlines()[-1]


class Mutation:
    def __init__(self, build, launcher_words, model, patch):
        self.build = build
        self.launcher = launcher_words
        self.model = model
        self.patch = patch
        self.name = f"{model.name}.mutation.{patch.stem}"
        text = patch.read_text()
        self.file = re.search(r"^file: +(\S+)$", text, re.MULTILINE)[1]
        found_by = re.search(r"^found by: +(.*\S)$", text, re.MULTILINE)
        self.found_by = found_by[1] if found_by else "*"
        self.scratch = build / "mutations" / model.target / patch.stem
        # The model's own copy, where patches for all of it apply.
        copies = list(build.glob(f"tests/*/{model.target}.include/weft/{self.file}"))
        self.sound = copies[0] if copies else ROOT / self.file

    def key(self):
        """Of all that decides what comes out: the patch, the file that it changes, and the sound program.

        Not of each header: most of a header that all models include is in none of them, or the same in the object. (A
        mutation that says more than the sound program may have another meaning then; a run without the record tells.)
        """
        parts = [self.patch.read_bytes(), MUTATE.read_bytes(), pathlib.Path(__file__).read_bytes(), file_bytes(self.sound)]
        for path, object_file in sorted(self.model.objects.items()):
            parts += [path, shlex.join(object_file.words), version(object_file.words[0]), file_bytes(self.build / path)]
            parts += sorted(object_file.files)
        parts += [file_bytes(self.build / word) for word in shlex.split(self.model.link) if word.endswith("libweft_model.a")]
        here = str(ROOT).encode()
        return key_of((part.encode() if isinstance(part, str) else part).replace(here, b"") for part in parts)

    def compile(self):
        """The paths of the objects that take the place of the sound ones."""
        copy = self.scratch / "include" / "weft" / self.file
        copy.parent.mkdir(parents=True, exist_ok=True)
        demand(["cmake", f"-DHEADER={self.sound}", f"-DOUT={copy}", f"-DPATCHES={self.patch}", "-P", str(MUTATE)])
        sound = real_path(self.sound)
        replaced = {}
        for path, unit in self.model.objects.items():
            if sound not in unit.files and sound != unit.source:
                continue
            words = unit.words[:]
            source = words.index("-c") + 1
            if unit.source == sound:
                words[source] = str(copy)
            # Two sources of a model may have one name, in different folders.
            replaced[path] = str(self.scratch / f"{len(replaced)}-{os.path.basename(path)}")
            words[words.index("-o") + 1] = replaced[path]
            words.insert(1, f"-I{self.scratch / 'include'}")
            # A mutation may drop a lock, of which clang would warn, or the only use of a function.
            words += ["-O1", "-Wno-unused"] + (["-Wno-thread-safety"] if "clang" in words[0] else [])
            demand(self.launcher + words, cwd=self.build)
        if not replaced:
            raise CannotRun(f"{self.patch}: no source of {self.model.target} includes {self.file}")
        return replaced

    def run(self):
        """None if it is found, else what is wrong."""
        try:
            link = self.model.link
            program = self.scratch / self.model.target
            for path, mutated in self.compile().items():
                link = link.replace(f" {path} ", f" {mutated} ")
            link = link.replace(f"-o bin/{self.model.target} ", f"-o {program} ")
            demand(["sh", "-c", link], cwd=self.build)
            try:
                done = run([str(program), "--gtest_fail_fast", f"--gtest_filter={self.found_by}"], errors="replace",
                           timeout=self.model.timeout)
            except subprocess.TimeoutExpired:
                return f"has not ended after {self.model.timeout} s"
            said = done.stdout + done.stderr
            return None if FOUND in said else f"NOT FOUND (exit status {done.returncode})\n{said[-3000:]}"
        except CannotRun as error:
            return f"cannot be built\n{error}"
        finally:
            shutil.rmtree(self.scratch, ignore_errors=True)


FILES = {}


def file_bytes(path):
    if path not in FILES:
        FILES[path] = pathlib.Path(path).read_bytes()
    return FILES[path]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--build", default=str(ROOT / "build" / "release"))
    parser.add_argument("--skip-unchanged", type=int, metavar="n")
    # For its test: other models than those that CMake has listed, which are built.
    parser.add_argument("--list", type=pathlib.Path)
    parser.add_argument("words", nargs="*")
    options = parser.parse_args()
    build = pathlib.Path(options.build).resolve()
    jobs = int(os.environ.get("JOBS") or os.cpu_count())

    if not options.list:
        demand(["cmake", "--build", str(build), "--parallel", str(jobs), "--target", "weft_model_programs"])
    models = read_models(options.list or build / "model_mutations.list")
    describe(build, models)
    launched_by = launcher(build)
    mutations = [Mutation(build, launched_by, model, patch)
                 for model in models for patch in sorted(model.mutations.glob("*.patch"))]
    mutations = [m for m in mutations if not options.words or any(word in m.name for word in options.words)]
    if not mutations:
        sys.exit("model_mutations.py: there is no such mutation")
    total = len(mutations)
    record = PassRecord("mutations")
    keys = {m.name: m.key() for m in mutations}
    if options.skip_unchanged is not None:
        commit = head()
        mutations = [m for m in mutations if not record.has(keys[m.name]) or
                     has_its_turn(m.name, options.skip_unchanged, commit)]
        print(f"model_mutations.py: {len(mutations)} of {total} to run: the others were found before, and nothing of "
              "what they are made of has changed", flush=True)

    failed = []
    done = 0

    def attempt(mutation):
        started = time.monotonic()
        return mutation, mutation.run(), time.monotonic() - started

    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for future in concurrent.futures.as_completed([pool.submit(attempt, m) for m in mutations]):
            mutation, wrong, seconds = future.result()
            done += 1
            print(f"{done}/{len(mutations)} {mutation.name}: {'found' if wrong is None else wrong} ({seconds:.1f} s)",
                  flush=True)
            if wrong is None:
                record.add(keys[mutation.name])
            else:
                failed.append(mutation.name)
    print(f"mutations of models: {len(mutations) - len(failed)} found, {len(failed)} not")
    for name in failed:
        print(f"  {name}")
    return 1 if failed else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except CannotRun as error:
        sys.exit(f"model_mutations.py: {error}")
