#!/usr/bin/env python3
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""bench/compare_servers: what it reads out of the load generators' reports, and how it runs nginx."""

import http.client
import os
import pathlib
import shutil
import sys
import tempfile
import unittest
from unittest import mock

sys.dont_write_bytecode = True
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "bench" / "compare_servers"))

import compare  # pylint: disable=wrong-import-position
import drain  # pylint: disable=wrong-import-position

WRK = """Running 1s test @ http://127.0.0.1:8000/json
  1 threads and 50 connections
  Thread Stats   Avg      Stdev     Max   +/- Stdev
    Latency   412.68us    1.04ms  20.31ms   {latency}%
    Req/Sec   125.63k     9.89k  141.38k    {rate}%
  Latency Distribution
     50%  190.00us
     75%  251.00us
     90%  422.00us
     99%    1.21s 
  126551 requests in 1.00s, 17.98MB read
Requests/sec: 126550.25
Transfer/sec:     17.98MB
"""


class Wrk(unittest.TestCase):
    def test_percentiles_are_not_taken_for_the_part_within_one_deviation(self):
        for latency, rate in (("93.11", "70.00"), ("92.50", "70.00"), ("92.99", "80.50"), ("93.11", "66.99")):
            with self.subTest(latency=latency, rate=rate):
                figures = compare.figures_of_wrk(WRK.format(latency=latency, rate=rate))
                self.assertEqual(figures, compare.Figures(rate=126550.25, p50=0.19, p99=1210))


H2LOAD = """starting benchmark...
progress of requests: 10% done
finished in 3.00s, 102345.67 req/s, 5.12MB/s
requests: 307037 total, 307037 started, 307037 done, {done} succeeded, {failed} failed, 0 errored, 0 timeout
status codes: 307037 2xx, 0 3xx, 0 4xx, 0 5xx
"""


# When it began, its status, how long it took.
H2LOAD_LOG = "".join(f"1718000000000000\t200\t{1000 * number}\n" for number in range(1000, 0, -1))


class H2load(unittest.TestCase):
    def test_the_rate_and_the_times_are_read(self):
        figures = compare.figures_of_h2load(H2LOAD.format(done=307037, failed=0), H2LOAD_LOG)
        self.assertEqual(figures, compare.Figures(rate=102345.67, p50=500, p99=990, p999=999))

    def test_failures_end_the_comparison(self):
        with self.assertRaises(SystemExit):
            compare.figures_of_h2load(H2LOAD.format(done=307036, failed=1), H2LOAD_LOG)


class Tables(unittest.TestCase):
    def table(self, compared, ours, theirs):
        servers = [compare.Server(name, lambda port: []) for name in ("weft x", "peer")]
        load = compare.Load("title", None, None, servers, compared)
        return compare.table(load, [{"weft x": ours, "peer": theirs}]).splitlines()[2:]

    def test_ratios_are_of_what_is_compared(self):
        ours = compare.Figures(rate=300, p50=1, p99=2, p999=3)
        theirs = compare.Figures(rate=100, p50=1, p99=8, p999=9)
        self.assertEqual(
            self.table("rate", ours, theirs),
            [
                "| server | requests/s | p50 ms | p99 ms | p999 ms | to peer |",
                "|---|---|---|---|---|---|",
                "| weft x | 300 | 1.00 | 2.00 | 3.00 | **3.00** (3.00 to 3.00) |",
                "| peer | 100 | 1.00 | 8.00 | 9.00 |  |",
            ],
        )
        self.assertIn("**0.25** (0.25 to 0.25)", self.table("p99", ours, theirs)[2])

    def test_p999_is_left_out_where_it_is_not_known(self):
        ours = compare.Figures(rate=300, p50=1, p99=2)
        self.assertEqual(
            self.table("rate", ours, ours)[:1] + self.table("rate", ours, ours)[2:3],
            [
                "| server | requests/s | p50 ms | p99 ms | to peer |",
                "| weft x | 300 | 1.00 | 2.00 | **1.00** (1.00 to 1.00) |",
            ],
        )


# It reads the configuration as far as it must, answers one request on each connection, and ends by SIGQUIT.
STAND_IN = f"""#!{sys.executable}
import re, signal, socket, sys
text = open(sys.argv[sys.argv.index("-c") + 1]).read()
host, port = re.search(r"listen ([0-9.]+):([0-9]+);", text).groups()
signal.signal(signal.SIGQUIT, lambda *_: sys.exit(0))
with socket.create_server((host, int(port))) as listener:
    while True:
        connection, _ = listener.accept()
        with connection:
            if connection.recv(4096):
                connection.sendall(b"HTTP/1.1 200 OK\\r\\nContent-Length: 2\\r\\n\\r\\nok")
"""


class DrainOfNginx(unittest.TestCase):
    def start_ask_and_stop(self, path):
        with tempfile.TemporaryDirectory() as name, mock.patch.dict(os.environ, PATH=path):
            scratch = pathlib.Path(name)
            scratch.chmod(0o755)  # nginx's workers are another user.
            start, _ = drain.make_servers(scratch, scratch, only_weft=False)["nginx quit, 2 workers"]
            server = start()
            self.addCleanup(server.process.kill)
            connection = http.client.HTTPConnection(*server.address, timeout=drain.LIMIT)
            connection.request("GET", "/json")
            answer = connection.getresponse()
            self.assertEqual(answer.status, 200)
            self.assertNotEqual(answer.read(), b"")
            connection.close()
            server.ask_to_stop()
            server.wait()
            self.assertEqual(server.process.returncode, 0)

    def test_a_stand_in_starts_answers_and_quits(self):
        with tempfile.TemporaryDirectory() as name:
            program = pathlib.Path(name) / "nginx"
            program.write_text(STAND_IN)
            program.chmod(0o755)
            self.start_ask_and_stop(name)

    @unittest.skipUnless(shutil.which("nginx", path="/usr/sbin"), "nginx is not installed")
    def test_nginx_starts_answers_and_quits(self):
        with tempfile.TemporaryDirectory() as empty:  # drain.py looks in /usr/sbin, too.
            self.start_ask_and_stop(empty)


if __name__ == "__main__":
    unittest.main()
