# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""Sick programs (examples/sick) show what is wrong with them:  sick_test.py <program> <class>"""

import os
import re
import signal
import subprocess
import sys
import tempfile
import unittest

from server_process import wait_for

PROGRAM = sys.argv.pop(1)
POLICIES = ("v1", "v2")


class Sick:
    """The program while it hangs, or as it dies. `shows(text)` waits until its outputs have the text, and returns all of them."""

    FLAGS = ("--fiber_concurrency_hint=2", "--fiber_slice_warning_ms=100", "--logtostderr")

    def __init__(self, policy):
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen([PROGRAM, f"--fiber_scheduling_name={policy}", *self.FLAGS], stdout=self.log, stderr=self.log)

    def output(self):
        return os.pread(self.log.fileno(), 1 << 20, 0).decode()

    def shows(self, text):
        def found():
            if self.process.poll() is not None:
                raise AssertionError(f"it has ended with {self.process.returncode}:\n{self.output()}")
            return re.search(text, self.output())

        wait_for(found, lambda: f"{text}\nin\n{self.output()}")
        return self.output()

    def dump(self, shows=r"Worker::FiberMain"):
        """What a dump adds to the outputs."""
        before = len(self.output())
        self.process.send_signal(signal.SIGQUIT)
        wait_for(lambda: re.search(r"weft: \d+ fibers: .*\n(.*\n)*.*" + shows, self.output()[before:]), self.output)
        return self.output()[before:]

    def dies(self, of):
        """All that it shows until it has died of this signal."""
        wait_for(lambda: self.process.poll() is not None, self.output)
        if self.process.returncode != -of:
            raise AssertionError(f"it has ended with {self.process.returncode}:\n{self.output()}")
        return self.output()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.log.close()


def under_each_policy(test):
    """test(self, sick)"""
    def run(self):
        for policy in POLICIES:
            with self.subTest(policy=policy), Sick(policy) as sick:
                test(self, sick)

    return run


class MutexCycle(unittest.TestCase):
    @under_each_policy
    def test_the_watch_names_the_three_fibers_and_what_they_hold(self, sick):
        text = sick.shows(r"the stack of fiber 'third transfer'")
        self.assertRegex(text, r"weft: 3 fibers wait for each other in a cycle:\n")
        for waits, owns in (("first", "second"), ("second", "third"), ("third", "first")):
            self.assertRegex(text, rf"fiber '{waits} transfer' \(id \d+\): mutex 0x[0-9a-f]+, for [0-9.e+-]+ s, "
                                   rf"owned by fiber '{owns} transfer' \(id \d+\)\n")
        self.assertRegex(text, r"namespace\)::Transfer\(")

    @under_each_policy
    def test_a_dump_shows_the_cycle(self, sick):
        sick.shows(r"in a cycle")
        sick.process.send_signal(signal.SIGQUIT)
        text = sick.shows(r"weft: 3 fibers: 3 parked(.*\n)*weft: 3 fibers wait for each other in a cycle:\n")
        self.assertRegex(text, r"parked: mutex")


class LostNotify(unittest.TestCase):
    @under_each_policy
    def test_the_watch_says_that_all_are_asleep_and_names_the_consumer(self, sick):
        self.assertTrue(sick.shows(r"weft: all fibers are asleep: nothing can wake any\n"
                                   r"weft: 1 fibers: 1 parked, 0 ready, 0 new, 0 running\n"
                                   r"(.*\n)*?fiber 'consumer' \(id \d+\), parked: condition_variable 0x[0-9a-f]+"
                                   r"(.*\n)*?.*namespace\)::WaitForMail\("))

    @under_each_policy
    def test_a_dump_names_the_consumer(self, sick):
        sick.shows(r"all fibers are asleep(.*\n)*.*'consumer'")
        before = len(sick.output())
        sick.process.send_signal(signal.SIGQUIT)
        wait_for(lambda: re.search(r"fiber 'consumer' \(id \d+\), parked: condition_variable", sick.output()[before:]), sick.output)


class StdMutex(unittest.TestCase):
    @under_each_policy
    def test_the_watch_names_the_mutex_who_wants_it_and_who_has_it(self, sick):
        self.assertTrue(sick.shows(r"thread 'FiberWorker_0_0' \(tid \d+\) waits for another thread: fiber 'report' \(id \d+\) wants the "
                                   r"std::mutex 0x[0-9a-f]+, which that thread has locked itself: a fiber has suspended with it, "
                                   r"it seems fiber 'save' \(id \d+\)(.*\n)*?.*namespace\)::Save\("))


class UnreadChannel(unittest.TestCase):
    @under_each_policy
    def test_a_dump_shows_the_putters_of_one_channel_together(self, sick):
        sick.shows("order handler has ended")
        wait_for(lambda: re.search(r"fibers, parked: channel_put 0x[0-9a-f]+, .*\n  ('order client' \(id \d+\)(, |\n)?)+"
                                   r"(.*\n)*?.*namespace\)::TakeOrder\(", sick.dump()), sick.output)
        self.assertNotIn("channel_get", sick.output())


class JoinCycle(unittest.TestCase):
    @under_each_policy
    def test_it_dies_with_the_cycle(self, sick):
        text = sick.dies(of=signal.SIGABRT)
        self.assertRegex(text, r"fibers join each other in a cycle, so that none can end: fiber '(\w+)' \(id \d+\) is in .*Join\(\) of "
                               r"fiber '(?!\1)(reader|writer)' \(id \d+\), which is in .*Join\(\) of fiber '\1'")
        self.assertRegex(text, r"fiber 'reader'(.*\n)*.*Fiber::Join")


class StackOverflow(unittest.TestCase):
    @under_each_policy
    def test_it_dies_with_the_fiber_and_the_function(self, sick):
        text = sick.dies(of=signal.SIGSEGV)
        self.assertRegex(text, r"weft: stack overflow in fiber parser \(id \d+\), stack size 131072 bytes")
        self.assertRegex(text, r"DepthOf")


class BlockingCall(unittest.TestCase):
    @under_each_policy
    def test_the_log_names_the_system_call_of_each_worker_and_the_fibers(self, sick):
        text = sick.shows(r"stands still: \d+ fibers are ready(.*\n)*.*'query' \(id \d+\)")
        self.assertRegex(text, r"scheduling group 0 stands still: \d+ fibers are ready, and no worker has switched for \d+ ms: "
                               r"worker \d \(thread \d+\) is blocked in read\(\), worker \d \(thread \d+\) is blocked in read\(\); "
                               r"a call that blocks belongs into FiberBlocking\(\) \(--fiber_stall_warning_ms\)\n")
        self.assertRegex(text, r"fibers?,? .*running")


class CpuHog(unittest.TestCase):
    @under_each_policy
    def test_the_log_says_that_workers_compute_and_shows_where(self, sick):
        text = sick.shows(r"stands still: \d+ fibers are ready(.*\n)*.*namespace\)::SearchForPrimes\(")
        self.assertRegex(text, r"worker \d \(thread \d+\) computes, worker \d \(thread \d+\) computes; "
                               r"a long computation needs FiberYield\(\)")
        self.assertRegex(text, r"'search' \(id \d+\)")


class SlowHandler(unittest.TestCase):
    @under_each_policy
    def test_the_warning_names_the_handler_that_others_wait_for(self, sick):
        self.assertTrue(sick.shows(r"worker \d of scheduling group 0 has run fiber 'report handler' \(id \d+\) for \d+ ms"))
        self.assertNotRegex(sick.output(), r"has run fiber 'page handler'")


class LeakingTimers(unittest.TestCase):
    @under_each_policy
    def test_a_dump_shows_the_function_that_sets_them(self, sick):
        sick.shows("All requests are answered")
        self.assertTrue(sick.dump(r"\n20000 timers with callbacks are set\n"
                                  r"  20000 with .*::Serve\(.*\)::.*, due in 3\.\d+e\+03 s"))


class FullRunQueue(unittest.TestCase):
    @under_each_policy
    def test_the_log_says_that_starts_are_refused_and_a_dump_what_the_queue_is_full_of(self, sick):
        self.assertTrue(sick.shows(r"SchedulingGroup 0: refused to start a fiber, the run queue of 64 was full for 100 ms"))
        self.assertTrue(sick.dump(r"\n\d\d fibers, new, in group 0\n  ('importer' \(id \d+\)(, |\n)?)+"))


class Imbalance(unittest.TestCase):
    @under_each_policy
    def test_the_log_says_who_works_alone_and_what_waits_there(self, sick):
        text = sick.shows(r"scheduling group 0 works alone: (.*\n)*?.*'compressor' \(id \d+\)")
        self.assertRegex(text, r"works alone: for \d+ ms fibers have been ready at each look \(\d+ now\) and no worker was idle, while "
                               r"all workers of group 1 slept; group 1 may steal from it, but not fibers that are local")

    @under_each_policy
    def test_a_dump_shows_all_that_is_ready_in_one_group(self, sick):
        sick.shows("compressors have been started")
        text = sick.dump(r"fibers, (ready|new), in group 0\n  ('compressor' \(id \d+\)(, |\n)?)+")
        self.assertNotIn("in group 1", text)


if __name__ == "__main__":
    unittest.main()
