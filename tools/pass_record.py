# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""What has passed before, by content: an entry is a hash of all that a check looks at.

The record lies in the user's cache folder (XDG_CACHE_HOME/weft-<name>), not in the tree: a machine that has none runs
all, and another checkout of the same sources finds what this one has passed.

As a command, for scripts:

    pass_record.py has <name> <n> <input>...   exit status 0: <name> has passed with these inputs, and is not the one of
                                               n names that runs all the same (which one changes from commit to commit)
    pass_record.py add <name> <input>...       it has passed

An input is a file or folder of the tree, a pattern of git's for them, or =<text>: this text.
"""

import hashlib
import os
import pathlib
import subprocess
import sys


class PassRecord:
    def __init__(self, name, folder=None):
        """`folder`: instead of the cache's; empty: nothing is remembered."""
        if folder is None:
            cache = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
            folder = os.path.join(cache, f"weft-{name}")
        self.folder = pathlib.Path(folder) if folder else None

    def has(self, key):
        if self.folder is None or not (self.folder / key).exists():
            return False
        (self.folder / key).touch()  # What is old may be deleted by its time.
        return True

    def add(self, key):
        if self.folder is not None:
            self.folder.mkdir(parents=True, exist_ok=True)
            (self.folder / key).touch()


def key_of(parts):
    """Of strings and bytes."""
    total = hashlib.sha256()
    for part in parts:
        data = part.encode() if isinstance(part, str) else part
        total.update(len(data).to_bytes(8, "little"))
        total.update(data)
    return total.hexdigest()


def head():
    """The commit that is checked out; outside of a repository nothing."""
    said = subprocess.run(["git", "rev-parse", "HEAD"], check=False, capture_output=True, text=True)
    return said.stdout.strip()


def has_its_turn(name, rotation, commit):
    """One of `rotation` names, another one with each commit."""
    return rotation > 0 and int(key_of([commit, name])[:8], 16) % rotation == 0


def files_below(paths):
    """Those that git knows, or would: not what is built."""
    listed = subprocess.run(["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *paths],
                            check=True, capture_output=True, text=True).stdout
    return sorted({name for name in listed.split("\0") if name and os.path.isfile(name)})


def key_of_inputs(name, inputs):
    parts = [name] + [text for text in inputs if text.startswith("=")]
    for file in files_below([path for path in inputs if not path.startswith("=")]):
        parts += [file, pathlib.Path(file).read_bytes()]
    return key_of(parts)


def main():
    what, name, *rest = sys.argv[1:]
    record = PassRecord("passed")
    if what == "add":
        record.add(key_of_inputs(name, rest))
        return 0
    rotation, *inputs = rest
    return 0 if record.has(key_of_inputs(name, inputs)) and not has_its_turn(name, int(rotation), head()) else 1


if __name__ == "__main__":
    sys.exit(main())
