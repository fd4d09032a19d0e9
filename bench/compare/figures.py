# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""What the programs printed, and what the tables say of it: pure functions, tested by compare_test.py."""

import re
from dataclasses import dataclass
from statistics import median

from rows import BASE_WORKERS, SAME, WEFT, Row, Source, Target

# <row> <figure> <value> <unit> workers=<n> ... each=<v,v,..> runtime=<name>: bench/workload/harness.h.
_LINE = re.compile(r"^\S+ (?P<figure>\S+) \S+ \S+ workers=(?P<workers>\d+) .*\beach=(?P<each>\S+) runtime=\S+$")


def parse_output(text):
    """{figure: [value of each round]} of one process's output. A line that is none is an error, but for remarks."""
    figures = {}
    for line in text.splitlines():
        if not line.strip() or line.startswith("#"):
            continue
        match = _LINE.match(line)
        if match is None:
            raise ValueError(f"not a line of a workload program: {line!r}")
        figures[match["figure"]] = [float(value) for value in match["each"].split(",")]
    return figures


def value_of_rounds(each, which):
    """One value for a process: see Row.rounds."""
    if which == "median":
        return median(each)
    if which == "first":
        return each[0]
    if which == "warm":
        if len(each) < 3:
            raise ValueError("a warm figure needs a third round")
        return median(each[2:])
    raise ValueError(f"no such choice of rounds: {which}")


@dataclass(frozen=True)
class Spread:
    """Over the runs: the figure to quote, and how far the runs lie apart."""

    median: float
    least: float
    most: float
    runs: int


def spread(values):
    return Spread(median(values), min(values), max(values), len(values)) if values else None


class Results:
    """Rounds of all processes. A run that failed has no entry, and ratios leave it out."""

    def __init__(self):
        self.rounds = {}  # (run, runtime, workers, workload) -> {figure: [values]}

    def add(self, run, runtime, workers, workload, figures):
        self.rounds.setdefault((run, runtime, workers, workload), {}).update(figures)

    def runs(self):
        return sorted({run for run, _, _, _ in self.rounds})

    def value(self, run, runtime, workers, source: Source, which):
        each = self.rounds.get((run, runtime, workers, source.workload), {}).get(source.figure)
        return None if each is None else value_of_rounds(each, which)

    def row_value(self, run, runtime, workers, row: Row, process=None):
        """The figure of `runtime`. A peer that Weft measures beside itself is taken from the process of `process`."""
        if row.beside is not None and runtime == row.beside[0]:
            return self.value(run, process or WEFT[0], workers, row.beside[1], row.rounds)
        source = row.weft_source if row.weft_source is not None and runtime in WEFT else row.source
        return self.value(run, runtime, workers, source, row.rounds)

    def spread_of(self, runtime, workers, row):
        values = [self.row_value(run, runtime, workers, row) for run in self.runs()]
        return spread([value for value in values if value is not None])

    def ratio(self, runtime, workers, row, peer, peer_workers, peer_row):
        """Spread of runtime / peer, each taken within one run. A peer at zero would be a ratio without bound."""
        ratios = []
        for run in self.runs():
            own = self.row_value(run, runtime, workers, row)
            other = self.row_value(run, peer, peer_workers, peer_row, process=runtime)
            if own is not None and other is not None and other > 0:
                ratios.append(own / other)
        return spread(ratios)

    def judge(self, target: Target, policy, workers, rows):
        """(spread of what the target bounds, whether its median is within the bound); (None, None): not measured."""
        row = rows[target.row]
        if target.peer is None:
            found = self.spread_of(policy, workers, row)
        else:
            peer_row = rows[target.peer_row or target.row]
            peer = policy if target.peer == SAME else target.peer
            found = self.ratio(policy, workers, row, peer, workers, peer_row)
        return (None, None) if found is None else (found, found.median <= target.bound)

    def to_base(self, policy, workers, row):
        """Spread of a figure to the same at BASE_WORKERS."""
        return self.ratio(policy, workers, row, policy, BASE_WORKERS, row)

    def to_json(self):
        return [[*key, figures] for key, figures in self.rounds.items()]

    @staticmethod
    def from_json(data):
        results = Results()
        for run, runtime, workers, workload, figures in data:
            results.add(run, runtime, workers, workload, figures)
        return results
