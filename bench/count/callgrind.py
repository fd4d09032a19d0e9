# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""What a program executes for one operation: instructions, atomic read-modify-writes, full fences; by callgrind.

Each operation is counted in two lengths of the same program. The difference, by the difference in operations, is the
operation's own: start and end cancel.

callgrind is some fifty times slower than the machine, and Weft does some things by the clock. Above all it takes the
time of a fiber's wait about every 20 us (scheduling_group/watch/wait_samples.h): of one hand-off in hundreds, but under
callgrind of nearly each, which would count 60 to 200 instructions too many. So nothing is counted between the entry to
such a function and its return (SAMPLER). What is left of it is what each push pays: the countdown and the branch.

Read-modify-writes are instructions with a lock prefix, and exchanges with memory, which need none. A full fence is an
mfence, or what compilers make of one: a locked OR of 0 to the own stack. An instruction counts as often as it was
executed, which callgrind tells for each address, and objdump tells what is there.
"""

import collections
import functools
import os
import pathlib
import re
import signal
import subprocess
import tempfile

NAMESPACE = "weft::scheduling_group::"
# Each is a leaf of what is counted: it neither switches nor calls another of them (callgrind toggles counting at the
# entry and at the return, and does not count the depth).
SAMPLER = tuple(f"{NAMESPACE}{name}(*" for name in ("SchedulingGroup::StampFiber",
                                                    "SchedulingGroup::RecordReadyWait",
                                                    "SchedulingGroup::RecordStolenWait"))


class Failure(Exception):
    """A process did not do what it should; the text says which and why."""


def run_process(command, timeout, environment=None):
    """(stdout, stderr) of a process that ended well."""
    command = [str(word) for word in command]
    called = " ".join([pathlib.Path(command[0]).name, *command[1:]])
    # A process group of its own: the workload programs fork, and what hangs is the child.
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, process_group=0,
                          env={**os.environ, **(environment or {})}) as process:
        try:
            out, err = process.communicate(timeout=timeout)
        except BaseException as problem:  # Interrupted, too: nothing of ours shall stay behind.
            os.killpg(process.pid, signal.SIGKILL)
            if isinstance(problem, subprocess.TimeoutExpired):
                raise Failure(f"did not end within {timeout} s: {called}") from None
            raise
    if process.returncode != 0:
        lines = err.strip().splitlines() or ["no message"]
        reason = next((line for line in lines if line.startswith("workload ")), lines[0])
        raise Failure(f"exit status {process.returncode}, {reason}: {called}")
    return out, err


class Executed:
    """How often each instruction was executed, and how many instructions each function took itself."""

    def __init__(self):
        self.at = collections.Counter()  # (object file, address)
        self.functions = collections.Counter()

    def total(self):
        return sum(self.functions.values())

    def __sub__(self, other):
        difference = Executed()
        for mine, theirs, result in ((self.at, other.at, difference.at),
                                     (self.functions, other.functions, difference.functions)):
            result.update(mine)
            result.subtract(theirs)
        return difference


def parse(lines):
    """Executed, of callgrind's output with --dump-instr=yes --dump-line=no and nothing compressed."""
    executed = Executed()
    file, function, of_callee, positions = None, None, False, None
    for line in lines:
        if line.startswith("0x"):
            # After `calls=` comes the callee's cost, which is counted at the callee.
            if not of_callee:
                address, cost = line.split()
                executed.at[file, int(address, 16)] += int(cost)
                executed.functions[function] += int(cost)
            of_callee = False
        elif line.startswith("calls="):
            of_callee = True
        elif line.startswith("ob="):
            file = line[3:].strip()
        elif line.startswith("fn="):
            # callgrind takes a function on another fiber's stack for a recursion, and numbers it.
            function = re.sub(r"'\d+$", "", line[3:].strip())
        elif line.startswith("positions:"):
            positions = line.split()[1:]
    if positions != ["instr"]:
        raise Failure(f"callgrind's output is not of the form asked for: positions {positions}, expected ['instr']")
    return executed


def execute(command, not_counted=SAMPLER, environment=None, timeout=600):
    """Executed, of all threads of a process, without what is done inside the functions `not_counted`."""
    with tempfile.TemporaryDirectory(prefix="weft-count-") as folder:
        out = pathlib.Path(folder) / "callgrind.out"
        run_process(["valgrind", "--tool=callgrind", "--dump-instr=yes", "--dump-line=no", "--compress-pos=no",
                     "--compress-strings=no", f"--callgrind-out-file={out}",
                     *[f"--toggle-collect={function}" for function in not_counted],
                     "--collect-atstart=yes",  # After them: each of them sets it to no.
                     *command], timeout, environment)
        with out.open(encoding="utf-8", errors="replace") as lines:
            return parse(lines)


FENCE = re.compile(r"mfence\b|lock or[bwlq]?\s+\$0x0,(-?0x[0-9a-f]+)?\(%[er]sp\)")
READ_MODIFY_WRITE = re.compile(r"lock \S|xchg[bwlq]?\s[^#]*\(")


def classify(instruction):
    """"fence", "rmw" or None, of a line of objdump -d."""
    if FENCE.match(instruction):
        return "fence"
    return "rmw" if READ_MODIFY_WRITE.match(instruction) else None


@functools.lru_cache(maxsize=None)
def atomics_of(file):
    """{address: "rmw" or "fence"} of an object file."""
    out, _ = run_process(["objdump", "--disassemble", "--no-show-raw-insn", file], timeout=120)
    found = {}
    for line in out.splitlines():
        address, separator, instruction = line.partition(":\t")
        if separator and (kind := classify(instruction)):
            found[int(address, 16)] = kind
    return found


class Cost:
    """Of one operation."""

    def __init__(self, executed, operations):
        self.instructions = executed.total() / operations
        self.functions = {name: count / operations for name, count in executed.functions.most_common() if count > 0}
        self.rmw = self.fences = 0.0
        # A file that takes less than a hundredth of an instruction has no atomic that would show.
        by_file = collections.Counter()
        for (file, _), count in executed.at.items():
            by_file[file] += count
        for file, count in by_file.items():
            if count / operations < 0.01 or not file or not pathlib.Path(file).exists():
                continue
            atomics = atomics_of(file)
            for (of, address), times in executed.at.items():
                if of == file and times != 0 and (kind := atomics.get(address)) is not None:
                    if kind == "rmw":
                        self.rmw += times / operations
                    else:
                        self.fences += times / operations


def cost(command_of, short, long, operations_of=lambda length: length, **how):
    """Cost of one operation: the difference of two lengths. `command_of(length)` is the program's command line."""
    executed = execute(command_of(long), **how) - execute(command_of(short), **how)
    return Cost(executed, operations_of(long) - operations_of(short))
