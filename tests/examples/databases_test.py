#!/usr/bin/env python3
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""Clients that block, on fibers, against the real servers: databases_test.py <folder of the examples' programs>

Each of two workers would serve one blocked call at a time. Without the servers (Debian: redis-server, postgresql,
nginx-light) it ends with status 77."""

import ctypes
import pathlib
import re
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent.parent / "examples" / "databases"))
import servers  # pylint: disable=wrong-import-position

FOLDER = pathlib.Path(sys.argv.pop(1))
LIMIT = 120  # seconds
TWO_WORKERS = "--fiber_concurrency_hint=2"


def output_of(program, *arguments):
    done = subprocess.run([FOLDER / program, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True,
                          timeout=LIMIT, check=False)
    return done.returncode, done.stdout


class Databases(unittest.TestCase):
    def load(self, *arguments):
        status, said = output_of("database_load", TWO_WORKERS, "--fibers=100", "--connections=40", "--seconds=0.5",
                                 "--server_ms=20", *arguments)
        self.assertEqual(status, 0, said)
        rate, threads = re.search(r": (\d+) queries/s.* (\d+) threads", said).groups()
        return int(rate), int(threads)

    def hook_outruns_its_workers(self, *server):
        # Forty connections that answer within 20 ms each give 2,000 a second; two workers that block give 100.
        hooked, threads = self.load("--how=hook", *server)
        plain, _ = self.load("--how=plain", *server)
        self.assertGreater(hooked, 2 * plain)
        pooled, pool_threads = self.load("--how=blocking", *server)
        self.assertGreater(pooled, 0)
        self.assertGreaterEqual(pool_threads, threads + 10)

    def test_hiredis(self):
        with servers.Redis() as redis:
            status, said = output_of("redis_client", TWO_WORKERS, f"--port={redis.port}")
            self.assertEqual(status, 0, said)
            self.assertIn("100 of 100 fibers", said)
            self.assertRegex(said, r"read: \d+, \d+ parked")
            self.hook_outruns_its_workers("--client=redis", f"--server={redis.address}")

    def test_libpq(self):
        with servers.Postgres() as postgres:
            status, said = output_of("postgres_client", TWO_WORKERS, f"--connect={postgres.address}")
            self.assertEqual(status, 0, said)
            self.assertEqual(said.count("20 of 20 fibers"), 2, said)
            self.hook_outruns_its_workers("--client=postgres", f"--server={postgres.address}")

    def test_libcurl(self):
        try:
            ctypes.CDLL("libcurl.so.4")
        except OSError as error:
            self.skipTest(str(error))
        with servers.Nginx(wait_ms=20) as nginx:
            self.hook_outruns_its_workers("--client=http", f"--server={nginx.address}")


if __name__ == "__main__":
    if servers.missing():
        print("not installed:", *servers.missing())
        sys.exit(77)
    unittest.main()
