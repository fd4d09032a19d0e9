#!/usr/bin/env python3
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""Runs clang-tidy over files, but not over those that it has found clean before:  clang_tidy.py <clang-tidy> <build> <file>...

For tools/lint.sh. A file is clean as long as nothing has changed that clang-tidy sees: its version, the checks, the
command of the file, and the text that the preprocessor makes of it, with macros and comments. Not the numbers of lines,
and no line that is a comment without NOLINT: no check looks at these. The hash of all that stands in a folder of the
user's cache then. Preprocessing takes a fifth of a second, so the files of which the text was made stand there, too:
while none of them has changed, nothing is preprocessed.

Environment: JOBS (default: the CPUs), WEFT_LINT_CACHE (the folder; empty: looks at each file).
"""

import concurrent.futures
import functools
import hashlib
import json
import os
import pathlib
import re
import shlex
import subprocess
import sys

from pass_record import PassRecord, key_of


def preprocessing_commands(build):
    """By path: the folder and the words of the command that preprocesses the file."""
    commands = {}
    for unit in json.loads((build / 'compile_commands.json').read_text()):
        words = shlex.split(unit['command'])
        if os.path.basename(words[0]) == 'ccache':
            del words[0]
        output = words.index('-o')
        del words[output:output + 2]
        path = os.path.realpath(os.path.join(unit['directory'], unit['file']))
        commands[path] = (unit['directory'], words + ['-E', '-CC', '-dD'])
    return commands


MARKER = re.compile(rb'(?m)^# \d+ "(.*?)".*\n')
NOT_SEEN = re.compile(rb'(?m)^[ \t]*(//(?!.*NOLINT).*)?\n')


@functools.cache
def hash_of(path):
    return hashlib.sha256(pathlib.Path(path).read_bytes()).hexdigest()


class Linter:
    def __init__(self, clang_tidy, build, cache):
        self.clang_tidy = clang_tidy
        self.build = build
        self.record = PassRecord('lint', cache)
        self.commands = preprocessing_commands(build)
        self.checkout = os.getcwd()
        self.made_of = {}  # By file, what key() has seen.
        version = subprocess.run([clang_tidy, '--version'], check=True, capture_output=True).stdout
        self.common = version + pathlib.Path('.clang-tidy').read_bytes()

    def key(self, file):
        """None: the file has no command, or does not compile; clang-tidy says so."""
        if os.path.realpath(file) not in self.commands:
            return None
        folder, words = self.commands[os.path.realpath(file)]
        text = subprocess.run(words, cwd=folder, check=False, capture_output=True)
        if text.returncode != 0:
            return None
        # The built-in ones are no files: "<command line>".
        self.made_of[file] = sorted({os.path.realpath(os.path.join(folder, os.fsdecode(name)))
                                     for name in MARKER.findall(text.stdout) if not name.startswith(b'<')})
        seen = NOT_SEEN.sub(b'', MARKER.sub(b'', text.stdout))
        return self.key_of_parts(file, '\n'.join(self.made_of[file]).encode(), seen)

    def key_of_parts(self, file, *parts):
        words = shlex.join(self.commands[os.path.realpath(file)][1])
        return key_of(part.replace(self.checkout.encode(), b'') for part in (self.common, words.encode(), *parts))

    def list_of_files(self, file):
        """Where the names of the files stand that `file` was made of, when it was clean."""
        if self.record.folder is None or os.path.realpath(file) not in self.commands:
            return None
        return self.record.folder / ('files-' + self.key_of_parts(file))

    def key_of_files(self, file, names):
        """None: one of them is not there any more."""
        try:
            return self.key_of_parts(file, *(f'{name} {hash_of(name)}'.encode() for name in names))
        except OSError:
            return None

    def is_as_before(self, file):
        stored = self.list_of_files(file)
        if stored is None or not stored.exists():
            return False
        names = stored.read_text().replace('CHECKOUT', self.checkout).splitlines()
        key = self.key_of_files(file, names)
        return key is not None and self.record.has(key)

    def is_clean(self, file, key):
        self.record.add(key)
        names, stored = self.made_of[file], self.list_of_files(file)
        if stored is not None and (key := self.key_of_files(file, names)):
            stored.write_text('\n'.join(names).replace(self.checkout, 'CHECKOUT'))
            self.record.add(key)

    def lint(self, file):
        """The findings of `file`, None if there are none."""
        if self.is_as_before(file):
            return None
        key = self.key(file)
        if key and self.record.has(key):
            self.is_clean(file, key)
            return None
        done = subprocess.run([self.clang_tidy, '-p', str(self.build), '--quiet', file], check=False,
                              capture_output=True, text=True)
        # On stderr it counts the warnings of system headers that it does not show.
        said = [line for line in done.stderr.splitlines() if 'warnings generated' not in line]
        if done.returncode != 0 or done.stdout:
            return done.stdout + '\n'.join(said)
        if key:
            self.is_clean(file, key)
        return None


def main():
    clang_tidy, build, *files = sys.argv[1:]
    linter = Linter(clang_tidy, pathlib.Path(build), os.environ.get('WEFT_LINT_CACHE'))
    failed = False
    jobs = int(os.environ.get('JOBS') or os.cpu_count())
    with concurrent.futures.ThreadPoolExecutor(jobs) as pool:
        for findings in pool.map(linter.lint, files):
            if findings is not None:
                print(findings, flush=True)
                failed = True
    return 1 if failed else 0


if __name__ == '__main__':
    sys.exit(main())
