# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""A small program stays small: python3 hello_size_test.py <strip> <hello_fiber, linked with the static libraries>"""

import pathlib
import subprocess
import sys
import tempfile
import unittest

STRIP, HELLO = sys.argv[1:]
del sys.argv[1:]

# 678,816 with g++ 12 and the preset release; docs/decisions/018 says what most of it consists of. Plans, groups by
# name and what a parked fiber waits for are some 40,000 of it, the dump of all fibers and their cycles (observe/) is
# 115,000, what the Watchdog says of workers that are stuck, timers in dumps and the flight recorder's rings are 33,000,
# samples of contention, further lines of the Watchdog and metrics 20,000, timers that
# idle workers keep and one more line of the Watchdog 16,000.
MOST_BYTES = 684_000


class HelloSize(unittest.TestCase):
    def test_a_stripped_program_has_few_bytes(self):
        with tempfile.TemporaryDirectory() as folder:
            stripped = pathlib.Path(folder) / "hello"
            subprocess.run([STRIP, "-o", stripped, HELLO], check=True)
            self.assertGreater(stripped.stat().st_size, 50_000, "it is linked with a shared libweft.so")
            self.assertLess(stripped.stat().st_size, MOST_BYTES)


if __name__ == "__main__":
    unittest.main()
