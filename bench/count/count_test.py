#!/usr/bin/env python3
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""What callgrind.py and count.py make of the tools' output."""

import unittest

import callgrind
import count
import scaling
from operations import ATOMICS_SLACK, FOUND, INSTRUCTIONS_SLACK, MOST_SYSTEM_CALLS, OPERATIONS, POLICIES, WORKERS

CALLGRIND = """# callgrind format
positions: instr
events: Ir
summary: 60

ob=/lib/libc.so.6
fl=malloc.c
fn=malloc
0x10 7

ob=/bin/program
fl=???
fn=Push(int)
0x20 5
cob=/lib/libc.so.6
cfn=malloc
calls=5 0x10
0x24 700
0x24 5
0x28 0

fn=Push(int)'2
0x20 3
"""


def counts(instructions=0.0, rmw=0.0, fences=0.0, system_calls=0.0):
    return count.Counts(instructions, rmw, fences, system_calls, {})


class Callgrind(unittest.TestCase):
    def test_what_a_callee_took_is_counted_once(self):
        executed = callgrind.parse(CALLGRIND.splitlines())
        self.assertEqual(executed.functions, {"malloc": 7, "Push(int)": 13})
        self.assertEqual(executed.total(), 20)

    def test_an_address_is_counted_on_all_stacks(self):
        executed = callgrind.parse(CALLGRIND.splitlines())
        self.assertEqual(executed.at["/bin/program", 0x20], 8)
        self.assertEqual(executed.at["/lib/libc.so.6", 0x10], 7)

    def test_another_form_is_refused(self):
        with self.assertRaises(callgrind.Failure):
            callgrind.parse(CALLGRIND.replace("positions: instr", "positions: line").splitlines())

    def test_start_and_end_cancel(self):
        short, long = (callgrind.parse(text.splitlines()) for text in
                       (CALLGRIND, CALLGRIND.replace("0x20 5", "0x20 25")))
        self.assertEqual((long - short).total(), 20)
        self.assertEqual(callgrind.Cost(long - short, 10).instructions, 2)
        self.assertEqual(callgrind.Cost(long - short, 10).functions, {"Push(int)": 2})


class Instructions(unittest.TestCase):
    def test_read_modify_writes(self):
        for text in ("lock cmpxchg %rcx,0x8(%rdi)", "lock xadd %eax,(%rdi)", "lock decl 0x4(%rsp)", "lock orl $0x0,(%rdi)",
                     "xchg   %rax,(%rdi)", "xchg   %al,0x1234(%rip)        # 5678 <x>", "lock orl $0x1,(%rsp)"):
            self.assertEqual(callgrind.classify(text), "rmw", text)

    def test_full_fences(self):
        for text in ("mfence", "lock orq $0x0,(%rsp)", "lock orl $0x0,(%rsp)", "lock orq $0x0,-0x8(%rsp)"):
            self.assertEqual(callgrind.classify(text), "fence", text)

    def test_others(self):
        for text in ("xchg   %ax,%ax", "xchg   %rax,%rdx", "call   1234 <lock (x)>", "mov    %rax,(%rdi)", "lfence",
                     "data16 cs nopw 0x0(%rax,%rax,1)", "cmpxchg %rcx,(%rdi)", "jmp 12 <xchg> # (x)"):
            self.assertIsNone(callgrind.classify(text), text)


class Strace(unittest.TestCase):
    def test_the_summary(self):
        text = "syscall               calls\n--------------------- ---------\nfutex                 18\nread   3\n" \
               "--------------------- ---------\ntotal                 21\n"
        self.assertEqual(count.parse_strace(text), {"futex": 18, "read": 3})


class Scaling(unittest.TestCase):
    def test_the_line_of_counts(self):
        self.assertEqual(scaling.parse_counts("spawn x 1 ns\n# counts: begun=12 wakes=0\n"), {"begun": 12, "wakes": 0})
        with self.assertRaises(callgrind.Failure):
            scaling.parse_counts("spawn x 1 ns\n")

    def test_counts_are_divided_by_the_operations(self):
        self.assertEqual(scaling.per_operation({"wakes": 6, "begun": 3}, 3), {"wakes": 2, "begun": 1})
        with self.assertRaises(scaling.Failure):
            scaling.per_operation({"wakes": 6}, 0)

    def test_numbers_have_two_digits_or_no_fraction(self):
        self.assertEqual([scaling.number(value) for value in (0, 0.0314, 3.14, 99.4, 99.6, 1405.4)],
                         ["0", "0.031", "3.1", "99", "100", "1405"])

    def test_each_count_has_a_median_of_its_own(self):
        runs = [{"wakes": 1, "spins": 9}, {"wakes": 2, "spins": 7}, {"wakes": 3, "spins": 8}]
        self.assertEqual(scaling.medians(runs), {"wakes": 2, "spins": 8})

    def test_a_group_is_not_larger_than_asked_for(self):
        self.assertEqual([scaling.groups_of(workers, 8) for workers in (1, 8, 9, 512)], [1, 1, 2, 64])

    def test_lines_are_of_the_group_but_for_the_pool_and_what_is_stolen(self):
        counts = {"queue_visits": 0.5, "queue_fibers": 1, "peer_takes": 0, "wakes": 0, "stolen": 0, "pool_locks": 0}
        self.assertEqual(scaling.lines_moved(counts), {"inside": 4.25, "node": 0, "across": 0})
        self.assertEqual(scaling.lines_moved({**counts, "stolen": 2}), {"inside": 4.25, "node": 0, "across": 14})
        self.assertEqual(scaling.lines_moved({**counts, "pool_locks": 0.5}), {"inside": 4.25, "node": 5, "across": 0})
        self.assertEqual(scaling.lines_moved(counts, "spawn_ext"), {"inside": 6, "node": 0, "across": 0})


class Bounds(unittest.TestCase):
    def test_what_was_found_is_within(self):
        for found in FOUND.values():
            self.assertEqual(count.exceeded(found, counts(*found), steady=True), [])

    def test_each_kind_can_be_exceeded(self):
        found = (100, 2, 1)
        within = (100 * INSTRUCTIONS_SLACK[1], 2 + ATOMICS_SLACK[1], 1 + ATOMICS_SLACK[1], MOST_SYSTEM_CALLS)
        self.assertEqual(count.exceeded(found, counts(*within), steady=True), [])
        for which, what in enumerate(("instructions", "read-modify-writes", "full fences", "system calls")):
            above = [value * 1.01 if i == which else value for i, value in enumerate(within)]
            problems = count.exceeded(found, counts(*above), steady=True)
            self.assertEqual(len(problems), 1)
            self.assertIn(what, problems[0])

    def test_what_is_exceeded_once_is_counted_again(self):
        def judged(*instructions):
            left = list(instructions)
            found, problems = count.count_again(lambda: counts(left.pop(0)),
                                                lambda found: ["too much"] if found.instructions > 100 else [])
            return found.instructions, problems, left

        self.assertEqual(judged(99, 50), (99, [], [50]))
        self.assertEqual(judged(101, 100, 50), (100, [], [50]))
        self.assertEqual(judged(101, 102, 103, 50), (103, ["too much"], [50]))

    def test_one_more_atomic_is_above_each_bound(self):
        for found in FOUND.values():
            more = counts(found[0], found[1] + 1, found[2] + 1)
            self.assertEqual(len(count.exceeded(found, more, steady=True)), 2)

    def test_system_calls_of_what_waits_for_the_kernel_are_not_judged(self):
        self.assertEqual(count.exceeded((1, 1, 1), counts(1, 1, 1, 3), steady=False), [])

    def test_system_calls_of_its_own_are_allowed(self):
        self.assertEqual(count.exceeded((1, 1, 1), counts(1, 1, 1, 0.5), steady=True, system_calls=0.5), [])
        self.assertEqual(len(count.exceeded((1, 1, 1), counts(1, 1, 1, 0.6), steady=True, system_calls=0.5)), 1)

    def test_the_table_is_of_what_there_is(self):
        for key, workers, policy in FOUND:
            self.assertIn(key, OPERATIONS)
            self.assertIn(workers, WORKERS)
            self.assertIn(policy, POLICIES)


if __name__ == "__main__":
    unittest.main()
