#!/usr/bin/env python3
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""Traces and profiles as their readers see them:  trace_reader_test.py <program of flight_recorder_test.cc>

Traces: what the Trace Event Format asks of each kind of event, and what Perfetto's importer needs to draw it: slices of
a track lie inside each other, and each end of an arrow lies in a slice. Profiles: `go tool pprof`, where there is Go.
"""

import collections
import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import unittest

PROGRAM = sys.argv.pop(1)
LEVELS = ("full", "sampled")
THREADS, FIBERS = 1, 2
# Of each phase: what it must have beside ph, pid and tid.
FIELDS = {"X": {"name", "cat", "ts", "dur"}, "i": {"name", "cat", "ts", "s"}, "M": {"name", "args"},
          "s": {"name", "cat", "ts", "id"}, "f": {"name", "cat", "ts", "id", "bp"}}


def nanoseconds(microseconds):
    return round(microseconds * 1000)


class Traces(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.folder = tempfile.TemporaryDirectory()
        subprocess.run([PROGRAM, "--gtest_filter=*ReadByTheirReaders"], check=True, stdout=subprocess.DEVNULL,
                       env={**os.environ, "WEFT_TRACE_DIR": cls.folder.name})
        cls.path = pathlib.Path(cls.folder.name)
        cls.traces = {level: json.loads((cls.path / f"{level}.json").read_text(encoding="utf-8"))["traceEvents"]
                      for level in LEVELS}

    @classmethod
    def tearDownClass(cls):
        cls.folder.cleanup()

    def events(self, level, phase):
        return [event for event in self.traces[level] if event["ph"] == phase]

    def test_each_event_has_what_its_phase_needs(self):
        for level in LEVELS:
            for event in self.traces[level]:
                fields = FIELDS[event["ph"]]
                self.assertLessEqual(fields | {"pid", "tid"}, event.keys(), event)
                self.assertLessEqual(event.keys() - fields - {"ph", "pid", "tid"}, {"args"}, event)
                self.assertIn(event["pid"], (THREADS, FIBERS))
                self.assertGreaterEqual(event.get("ts", 0), 0)
                self.assertGreaterEqual(event.get("dur", 0), 0)

    def test_each_track_has_a_name(self):
        for level in LEVELS:
            named = {(e["pid"], e["tid"]) for e in self.events(level, "M") if e["name"] == "thread_name"}
            used = {(e["pid"], e["tid"]) for e in self.traces[level] if e["ph"] != "M"}
            self.assertLessEqual(used, named)
            self.assertEqual({e["pid"] for e in self.events(level, "M") if e["name"] == "process_name"},
                             {THREADS, FIBERS})

    def test_slices_of_a_track_lie_inside_each_other(self):
        for level in LEVELS:
            tracks = collections.defaultdict(list)
            for event in self.events(level, "X"):
                begin = nanoseconds(event["ts"])
                tracks[event["pid"], event["tid"]].append((begin, -nanoseconds(event["dur"]), event["name"]))
            for track, slices in tracks.items():
                open_ends = []
                for begin, minus_length, name in sorted(slices):
                    while open_ends and open_ends[-1] <= begin:
                        open_ends.pop()
                    end = begin - minus_length
                    if open_ends and end - begin > 1:  # One of 1 ns shows a moment, which may be the last one.
                        self.assertLessEqual(end, open_ends[-1], (level, track, name))
                    open_ends.append(end)

    def test_arrows_go_from_a_slice_to_a_later_one(self):
        for level in LEVELS:
            starts = {event["id"]: event for event in self.events(level, "s")}
            ends = {event["id"]: event for event in self.events(level, "f")}
            self.assertEqual(starts.keys(), ends.keys())
            self.assertTrue(starts)
            slices = collections.defaultdict(list)
            for event in self.events(level, "X"):
                begin = nanoseconds(event["ts"])
                slices[event["pid"], event["tid"]].append((begin, begin + nanoseconds(event["dur"])))
            for number, start in starts.items():
                self.assertLessEqual(start["ts"], ends[number]["ts"])
                for point in (start, ends[number]):
                    at = nanoseconds(point["ts"])
                    self.assertTrue(any(begin <= at <= end for begin, end in slices[point["pid"], point["tid"]]), point)

    def test_what_happened_is_in_the_full_one(self):
        names = {event["name"] for event in self.events("full", "X")}
        for part in ("'waiter'", "'setter'", "sleep", "ready", "runs", "sleeps", "wake 'waiter'",
                     "\"quoted\" \\ name;"):
            self.assertTrue(any(part in name for name in names), (part, sorted(names)))
        instants = {event["name"] for event in self.events("full", "i")}
        for part in ("about to set", "timers: ", "cancels a scope"):
            self.assertTrue(any(part in name for name in instants), (part, instants))

    def test_folded_stacks_are_lines_with_a_number(self):
        lines = (self.path / "full.waits.folded").read_text(encoding="utf-8").splitlines()
        self.assertTrue(lines)
        for line in lines:
            self.assertRegex(line, r"^[^;]+;[^;]+ \d+$")

    @unittest.skipUnless(shutil.which("go"), "no Go")
    def test_pprof_reads_profiles(self):
        def read(name):
            # Nothing of the user's settings, and no network.
            environment = {**os.environ, "HOME": self.folder.name, "PPROF_TMPDIR": self.folder.name}
            return subprocess.run(["go", "tool", "pprof", "-top", "-sample_index=time", "-unit=ns", "-nodefraction=0",
                                   self.path / name],
                                  check=True, capture_output=True, text=True, env=environment).stdout
        cpu = read("full.cpu.pb")
        self.assertIn("Type: time", cpu)
        for name in ("waiter", "setter"):
            self.assertRegex(cpu, rf"(?m)^ *\d+ns .* {name}$")
        waits = read("full.waits.pb")
        self.assertRegex(waits, r"(?m)^ *\d+ns .* event 0x[0-9a-f]+$")
        self.assertRegex(waits, r"(?m)^ *\d+ns .* sleep( 0x[0-9a-f]+)?$")
        read("sampled.waits.pb")
        contention = read("contention.pb")
        for frame in ("mutex 0x[0-9a-f]+", "owned by", "made wait"):
            self.assertRegex(contention, rf"(?m)^ *\d+(?:ns)? .* {frame}$")


if __name__ == "__main__":
    unittest.main()
