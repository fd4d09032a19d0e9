#!/usr/bin/env python3
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""Clients that vanish: real ones, stopped by SIGSTOP in the middle of a request or of an answer. Their connections stay
open, and nothing comes. The server must let them go, and serve others meanwhile.

vanishing_peers_test.py PROGRAM [--sanitized] CLASS

PROGRAM: examples/http_server for the class Http1, examples/http2_server for Http2, Http2Tls and Http2Pings,
examples/tls_echo for Tls, examples/rpc/echo_server for Rpc, whose client is beside it. Without curl (with HTTP/2),
nghttp and h2load (Debian: curl, nghttp2-client), or openssl, it ends with status 77.
"""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import threading
import unittest

from server_process import LIMIT, Server, wait_for

PROGRAM = sys.argv.pop(1)
sys.argv = [argument for argument in sys.argv if argument != "--sanitized"]  # It makes no difference.
SOON = 2_000  # Milliseconds. A client that runs is not silent for so long.


def sockets(server):
    count = 0
    for number in os.listdir(f"/proc/{server.pid}/fd"):
        try:
            count += os.readlink(f"/proc/{server.pid}/fd/{number}").startswith("socket:")
        except FileNotFoundError:
            pass
    return count


class Clients:
    """What all have in common. `version`: curl's options."""

    scheme = "http"
    version = ()
    flags = ()

    def setUp(self):
        self.server = Server(PROGRAM, *self.flags)
        self.addCleanup(self.end_server)
        self.ended = None
        self.address = f"127.0.0.1:{self.server.port}"
        self.url = f"{self.scheme}://127.0.0.1:{self.server.port}"
        self.listening = sockets(self.server)

    def end_server(self):
        """What it has said at its end."""
        if self.ended is None:
            status, self.ended = self.server.stop()
            self.server.__exit__(None, None, None)
            self.assertEqual(status, 0, self.ended)
        return self.ended

    def start(self, *command):
        client = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        watchdog = threading.Timer(LIMIT, client.kill)  # Then it says nothing more, and the test fails.
        watchdog.start()

        def end():
            watchdog.cancel()
            client.kill()
            client.communicate()

        self.addCleanup(end)
        return client

    def curl(self, *options):
        return self.start("curl", "--no-progress-meter", *self.version, *options)

    def connections(self):
        return sockets(self.server) - self.listening

    def assert_another_is_served(self):
        other = self.curl(f"{self.url}/json")
        output, errors = other.communicate(timeout=LIMIT)
        self.assertEqual((other.returncode, output), (0, b'{"message":"Hello, World!"}'), errors)

    def assert_let_go(self, client):
        """Stops it, and waits until the server has let it go. Others are served before and after."""
        client.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, client.pid, os.WSTOPPED | os.WNOWAIT)
        for _ in range(2):  # Served after the client's connections have been accepted: these came first.
            self.assert_another_is_served()
            wait_for(lambda: self.connections() == 0, lambda: f"{self.connections()} connections")
        self.assertIsNone(client.poll())


class Vanishing(Clients):
    """`upload`: takes a body; `much`: more than is ever read."""

    upload = None
    much = None

    def test_in_the_middle_of_a_request(self):
        client = self.curl("--verbose", "--request", "POST", "--header", "Expect:", "-T", ".", self.url + self.upload)
        client.stdin.write(b"half of it")
        client.stdin.flush()
        while not (line := client.stderr.readline()).startswith(b"> POST "):  # It has been sent.
            self.assertNotEqual(line, b"", "curl has ended")
        self.assert_let_go(client)

    def test_in_the_middle_of_the_answers_to_curl(self):
        client = self.curl(self.url + self.much)
        self.assertEqual(len(client.stdout.read(3_000_000)), 3_000_000)
        self.assert_let_go(client)

    def test_in_the_middle_of_the_answers_to_h2load(self):
        # Over HTTP/1.1 it sends up to 32 requests without waiting for answers.
        some = ["-n", "1000000", "-c", "4", "-m", "32", *(["--h1"] if "--http1.1" in self.version else [])]
        client = self.start("h2load", *some, f"{self.url}/bytes?n=1048576")

        def has_read():
            with open(f"/proc/{client.pid}/io") as io:
                return int(io.readline().split()[1])  # rchar

        wait_for(lambda: has_read() > 20_000_000, lambda: f"h2load has read {has_read()} bytes")
        self.assert_let_go(client)


class Http1(Vanishing, unittest.TestCase):
    version = ("--http1.1",)
    upload = "/echo"
    much = "/bytes?n=1048576&i=[1-1000000]"  # As many requests, one after the other.
    flags = (f"--request_timeout_ms={SOON}", f"--idle_timeout_ms={SOON}")


class Http2(Vanishing, unittest.TestCase):
    version = ("--http2-prior-knowledge",)
    upload = "/count"
    much = "/bytes?n=1000000000"  # Debian's curl 7.88.1 makes one request only on such a connection.
    flags = (f"--stream_timeout_ms={SOON}", f"--write_timeout_ms={SOON}", f"--idle_timeout_ms={SOON}")

    def test_in_the_middle_of_an_answer_for_which_it_gives_no_more_room(self):
        # The server waits for a window, not for the kernel.
        client = self.start("nghttp", "--window-bits=14", f"{self.url}/bytes?n=1000000000")
        self.assertEqual(len(client.stdout.read(3_000_000)), 3_000_000)
        self.assert_let_go(client)


class Http2Tls(Http2):
    scheme = "https"
    version = ("--http2", "--insecure")
    flags = (*Http2.flags, "--tls")

    def test_after_its_handshake(self):
        client = self.start("openssl", "s_client", "-connect", self.address, "-alpn", "h2", "-nocommands")
        while not (line := client.stdout.readline()).startswith(b"ALPN protocol: h2"):
            self.assertNotEqual(line, b"", "openssl has ended")
        self.assert_let_go(client)
        self.assertIn(" 1 idle_timeouts,", self.end_server())


class Http2Pings(Clients, unittest.TestCase):
    """Other time-outs do not count."""

    version = ("--http2-prior-knowledge",)
    flags = (f"--ping_after_ms={SOON}",)

    def stats(self):
        output, errors = self.curl(f"{self.url}/stats").communicate(timeout=LIMIT)
        self.assertEqual(errors, b"")
        return json.loads(output)["http2"]

    def test_while_a_handler_works_for_it(self):
        client = self.curl(f"{self.url}/sleep?ms=3600000")
        wait_for(lambda: self.stats()["handlers"] == 2, "the handler begins")  # The other one is that of /stats.
        self.assert_let_go(client)
        counts = self.stats()
        self.assertEqual((counts["ping_timeouts"], counts["handlers"]), (1, 1))

    def test_one_that_runs_is_waited_for(self):
        client = self.curl(f"{self.url}/sleep?ms={3 * SOON}")
        self.assertEqual(client.communicate(timeout=LIMIT)[0], b"Awake.\n")
        self.assertEqual(self.stats()["ping_timeouts"], 0)


class Tls(Clients, unittest.TestCase):
    flags = (f"--handshake_timeout_ms={SOON}", f"--idle_timeout_ms={SOON}")

    def s_client(self):
        return self.start("openssl", "s_client", "-connect", self.address, "-quiet", "-nocommands")

    def assert_echoes(self, client):
        client.stdin.write(b"hello\n")
        client.stdin.flush()
        self.assertEqual(client.stdout.readline(), b"hello\n")

    def assert_another_is_served(self):
        other = self.s_client()
        self.assert_echoes(other)
        other.kill()
        other.wait()

    def test_while_it_is_silent(self):
        client = self.s_client()
        self.assert_echoes(client)
        self.assert_let_go(client)
        self.assertIn(" 1 timed out,", self.end_server())

    def test_in_the_middle_of_its_echoes(self):
        client = self.s_client()

        def send():
            with contextlib.suppress(BrokenPipeError):  # At its end.
                while True:
                    client.stdin.write(100_000 * b"x")

        sender = threading.Thread(target=send)
        sender.start()
        try:
            self.assertEqual(len(client.stdout.read(3_000_000)), 3_000_000)
            self.assert_let_go(client)
        finally:
            client.kill()
            sender.join()
        self.assertIn(" 1 timed out,", self.end_server())


class Rpc(Clients, unittest.TestCase):
    flags = (f"--ping_after_ms={SOON // 2}", f"--ping_timeout_ms={SOON // 2}")

    def echo_client(self, *flags):
        program = os.path.join(os.path.dirname(PROGRAM), "echo_client")
        return self.start(program, f"--server={self.address}", "--timeout_ms=0", *flags)

    def calling_client(self, *flags):
        client = self.echo_client("--seconds=0.1", "--rounds=1000000", *flags)
        for _ in range(2):  # A line at the end of each round.
            self.assertIn(b" calls/s ", client.stdout.readline())
        return client

    def assert_another_is_served(self):
        other = self.echo_client("--callers=1", "--seconds=0.01", "--rounds=1")
        output, errors = other.communicate(timeout=LIMIT)
        self.assertEqual(other.returncode, 0, output + errors)

    def test_while_it_calls(self):
        self.assert_let_go(self.calling_client())
        self.assertIn(" vanished 1,", self.end_server())

    def test_in_the_middle_of_large_answers(self):
        self.assert_let_go(self.calling_client("--attachment=1000000"))
        self.assertIn(" vanished 1,", self.end_server())


if __name__ == "__main__":
    of_class = {"Tls": ["openssl"], "Rpc": [], "Http2Tls": ["curl", "nghttp", "h2load", "openssl"]}
    needs = of_class.get(sys.argv[-1].split(".")[0], ["curl", "nghttp", "h2load"])
    missing = [program for program in needs if shutil.which(program) is None]
    if "curl" in needs and not missing and b"HTTP2" not in subprocess.run(["curl", "--version"], capture_output=True).stdout:
        missing = ["curl with HTTP/2"]
    if missing:
        print(f"skipped: {', '.join(missing)} not found (Debian: curl, nghttp2-client, openssl)")
        sys.exit(77)
    unittest.main(verbosity=2)
