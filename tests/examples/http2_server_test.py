#!/usr/bin/env python3
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""examples/http2_server from outside: curl, nghttp and h2load.

http2_server_test.py PROGRAM [--sanitized] [arguments of unittest]

Without curl (with HTTP/2), nghttp and h2load (Debian: curl, nghttp2-client) it ends with status 77.

h2spec, the conformance test of HTTP/2, is not among them, because Debian has no package of it. What it said:
docs/decisions/023-http2-conformance.md.
"""

import contextlib
import email.utils
import json
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

from server_process import LIMIT, Server, read_to_end, wait_for

PROGRAM = sys.argv.pop(1)
SANITIZED = "--sanitized" in sys.argv
sys.argv = [argument for argument in sys.argv if argument != "--sanitized"]
# Of the counts: no refusals.
USUAL = ("connections", "requests", "handlers")


def run(*command, **how):
    return subprocess.run(command, capture_output=True, timeout=LIMIT, **how)


def curl(server, path, *options, scheme="http"):
    """Standard output, which must be that of a success over HTTP/2."""
    version = "--http2-prior-knowledge" if scheme == "http" else "--http2"
    done = run("curl", "-sS", "--insecure", version, *options, f"{scheme}://127.0.0.1:{server.port}{path}")
    assert done.returncode == 0, f"curl: status {done.returncode}: {done.stderr.decode()}"
    return done.stdout


def ends(server):
    status, output = server.stop()
    assert status == 0, f"status {status}: {output}"
    return counts(output)


def counts(output):
    """Of its last line: the requests, and those of the refusals that are not 0."""
    line = re.search(r"http2_server: http2: (.*)\n$", output).group(1)
    found = {name: int(count) for count, name in (part.split() for part in line.split(", "))}
    return found["requests"], {name: count for name, count in found.items() if name not in USUAL and count != 0}


def stats(server, scheme="http"):
    return json.loads(curl(server, "/stats", scheme=scheme))


def load(server, *options, scheme="http", path="/"):
    """How many requests have succeeded, and how many have failed."""
    done = run("h2load", *options, f"{scheme}://127.0.0.1:{server.port}{path}", text=True)
    _, succeeded, failed, errored = report(done.stdout)
    return succeeded, failed + errored


def report(output):
    """Of h2load: requests in all, those answered with success, failed, and of these errored."""
    found = re.search(r"requests: (\d+) total, .* (\d+) succeeded, (\d+) failed, (\d+) errored", output)
    assert found, output
    return [int(number) for number in found.groups()]


class Http2Server(unittest.TestCase):
    def test_curl_gets_and_posts(self):
        body = random.Random(1).randbytes(2_000_000)
        with tempfile.NamedTemporaryFile() as file:
            file.write(body)
            file.flush()
            for scheme, flags in (("http", []), ("https", ["--tls"])):
                with self.subTest(scheme=scheme), Server(PROGRAM, *flags) as server:
                    self.assertEqual(curl(server, "/", scheme=scheme), b"Hello from a fiber.\n")
                    version = curl(server, "/", "-o", "/dev/null", "-w", "%{http_version}", scheme=scheme)
                    self.assertEqual(version, b"2")
                    post = ["-X", "POST", "--data-binary", f"@{file.name}"]
                    self.assertEqual(curl(server, "/echo", *post, scheme=scheme), body)
                    self.assertEqual(curl(server, "/count", *post, scheme=scheme), b"2000000\n")
                    self.assertEqual(len(curl(server, "/bytes?n=3000000", scheme=scheme)), 3_000_000)
                    self.assertEqual(curl(server, "/none", "-o", "/dev/null", "-w", "%{http_code}", scheme=scheme), b"404")
                    self.assertEqual(curl(server, "/", "--head", "-w", "%{size_download}", scheme=scheme)[-1:], b"0")
                    self.assertEqual(ends(server)[1], {})

    def test_each_answer_has_the_date(self):
        with Server(PROGRAM) as server:
            for path in ("/", "/json", "/stats", "/bytes?n=1", "/echo", "/count", "/sleep?ms=0", "/none"):
                with self.subTest(path=path):
                    post = ("-X", "POST", "-d", "x") if path in ("/echo", "/count") else ()  # The others do not read it.
                    fields = curl(server, path, *post, "-o", "/dev/null", "-D", "-").decode()
                    (told,) = re.findall(r"^date: (.*)\r$", fields, re.MULTILINE)
                    date = email.utils.parsedate_to_datetime(told)
                    self.assertEqual(email.utils.format_datetime(date, usegmt=True), told)
                    self.assertLess(abs(time.time() - date.timestamp()), LIMIT)

    def test_prometheus_reads_the_metrics(self):
        with Server(PROGRAM) as server:
            curl(server, "/json")
            text = curl(server, "/metrics").decode()
            self.assertRegex(text, r'\nhttp_requests_total\{version="2"\} [1-9]')
            self.assertRegex(text, r"\nweft_fibers [1-9]")

    def test_clients_of_http1_are_served_too_and_others_turned_away(self):
        with Server(PROGRAM, "--tls") as server:
            for version in ("--http1.1", "--no-alpn"):
                done = run("curl", "-sS", "--insecure", version, f"https://127.0.0.1:{server.port}/")
                self.assertEqual((done.returncode, done.stdout), (0, b"Hello from a fiber.\n"), version)
            self.assertEqual(curl(server, "/", scheme="https"), b"Hello from a fiber.\n")
            self.assertEqual(stats(server, "https")["http1"], 2)
            plain = server.connect()
            plain.sendall(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
            with contextlib.suppress(ConnectionError):
                read_to_end(plain)
            wait_for(lambda: stats(server, "https")["http2"]["tls_failed"] == 1, lambda: f"{stats(server, 'https')}")
            self.assertEqual(ends(server)[1], {"tls_failed": 1})
        with Server(PROGRAM) as server:
            done = run("curl", "-sS", "--http1.1", f"http://127.0.0.1:{server.port}/")
            self.assertEqual(done.stdout, b"Hello from a fiber.\n")
            self.assertEqual(ends(server), (0, {}))

    def test_nghttp_gets_many_pages_at_once_and_trailers(self):
        with Server(PROGRAM) as server:
            url = f"http://127.0.0.1:{server.port}"
            pages = [f"{url}/bytes?n={size}" for size in (0, 1, 16_384, 100_000, 1_000_000)]
            done = run("nghttp", "-nsy", "--timeout=60", *pages, text=True)
            self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
            self.assertEqual(done.stdout.count(" 200 "), len(pages), done.stdout)
            with tempfile.NamedTemporaryFile() as file:
                file.write(b"body")
                file.flush()
                done = run("nghttp", "-v", f"--data={file.name}", "--trailer=x-last: word", f"{url}/echo", text=True)
            self.assertRegex(done.stdout, r"recv \(stream_id=\d+\) x-last: word")

    def test_h2load_loses_no_request(self):
        requests = 2_000 if SANITIZED else 40_000
        for scheme, flags in (("http", []), ("https", ["--tls"])):
            with self.subTest(scheme=scheme), Server(PROGRAM, *flags) as server:
                for streams in (1, 32, 100):
                    some = ["-n", str(requests), "-c", "10", "-m", str(streams)]
                    self.assertEqual(load(server, *some, scheme=scheme), (requests, 0))
                some = ["-n", "50", "-c", "5", "-m", "5"]
                self.assertEqual(load(server, *some, scheme=scheme, path="/bytes?n=300000"), (50, 0))
                self.assertEqual(ends(server), (3 * requests + 50, {}))

    def test_a_stop_answers_what_has_begun(self):
        with Server(PROGRAM) as server:
            client = subprocess.Popen(
                ["nghttp", "-v", f"http://127.0.0.1:{server.port}/sleep?ms=5000"], stdout=subprocess.PIPE, text=True
            )
            # nghttp says that it has sent a request before it sends it.
            wait_for(lambda: stats(server)["http2"]["handlers"] == 2, "its handler runs, and that of /stats")
            server.process.send_signal(signal.SIGTERM)
            output, _ = client.communicate(timeout=LIMIT)
            self.assertIn("Awake.", output)
            self.assertIn("recv GOAWAY", output)
            self.assertEqual(ends(server)[1], {})

    def test_a_stop_under_load_loses_nothing_that_was_begun(self):
        # More requests than there is time for. h2load counts those that it has not sent after the GOAWAY as errors.
        requests = 4_000_000
        for path in ("/", "/bytes?n=50000"):
            with self.subTest(path=path), Server(PROGRAM) as server:
                client = subprocess.Popen(
                    ["h2load", "-n", str(requests), "-c", "8", "-m", "8", f"http://127.0.0.1:{server.port}{path}"],
                    stdout=subprocess.PIPE,
                    text=True,
                )
                wait_for(lambda: connections(server) >= 8, "eight connections")
                status, output = server.stop()
                told, _ = client.communicate(timeout=LIMIT)
                self.assertEqual(status, 0)
                begun, refusals = counts(output)
                self.assertEqual(refusals, {})
                total, succeeded, failed, errored = report(told)
                self.assertEqual(succeeded, begun, "answers that have come, requests that have begun")
                self.assertEqual([total, failed], [requests, errored], "an answer that is no success")

    def test_what_is_refused_is_in_the_stats(self):
        with Server(PROGRAM, "--max_connections_per_host=8", "--idle_timeout_ms=1000") as server:
            for _ in range(8):
                server.connect("127.0.0.2")
            with contextlib.suppress(OSError):  # The reset may come to any call.
                self.assertEqual(server.connect("127.0.0.2").recv(1), b"no answer")
            wait_for(lambda: stats(server)["connections"]["over_host_limit"] == 1, lambda: f"{stats(server)}")
            long = curl(server, "/", "-H", f"x: {'y' * 20_000}", "-o", "/dev/null", "-w", "%{http_code}")
            self.assertEqual(long, b"431")
            self.assertEqual(stats(server)["http2"]["too_large"], 1)
            # They have not said which version they speak.
            wait_for(lambda: stats(server)["connections"]["timed_out"] == 8, lambda: f"{stats(server)}")
            wait_for(lambda: stats(server)["http2"]["handlers"] == 1, lambda: f"{stats(server)}")  # That of /stats.
            self.assertEqual(stats(server)["connections"]["refused"], 1)
            status, output = server.stop()
            self.assertEqual(status, 0)
            self.assertRegex(output, r"http2_server: connections: \d+ accepted, 1 refused, 1 over_host_limit, ")
            self.assertEqual(counts(output)[1], {"too_large": 1})

    def test_flags_that_cannot_be_are_refused(self):
        for flag in ("--max_streams=0", "--stream_window=2147483648"):
            done = run(PROGRAM, flag, text=True)
            self.assertEqual(done.returncode, 2, flag)
            self.assertIn("--max_streams is at least 1", done.stderr)


def connections(server):
    """Sockets of the server beside the one that listens."""
    count = 0
    for number in os.listdir(f"/proc/{server.pid}/fd"):
        try:
            count += os.readlink(f"/proc/{server.pid}/fd/{number}").startswith("socket:")
        except FileNotFoundError:
            pass
    return count - 1


if __name__ == "__main__":
    missing = [program for program in ("curl", "nghttp", "h2load") if shutil.which(program) is None]
    if not missing and b"HTTP2" not in run("curl", "--version").stdout:
        missing = ["curl with HTTP/2"]
    if missing:
        print(f"skipped: {', '.join(missing)} not found (Debian: curl, nghttp2-client)")
        sys.exit(77)
    if not os.access(PROGRAM, os.X_OK):
        sys.exit(f"{PROGRAM} is not there")
    unittest.main(verbosity=2)
