#!/usr/bin/env python3
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""Http2Client against nghttpd (Debian: nghttp2-server): nghttpd_test.py <nghttpd_client> [arguments of unittest]

Without nghttpd it ends with status 77.
"""

import contextlib
import os
import pathlib
import random
import shutil
import signal
import subprocess
import sys
import tempfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "examples"))
from server_process import LIMIT, wait_for  # pylint: disable=wrong-import-position

CLIENT = sys.argv.pop(1)
NGHTTPD = shutil.which("nghttpd", path=os.environ["PATH"] + ":/usr/sbin")
PATIENCE = 5 * LIMIT  # As the client's.
LISTENS = "0A"


def sockets_of(pid):
    found = set()
    for number in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):
            found.add(os.readlink(f"/proc/{pid}/fd/{number}"))
    return found


def listening_port(pid):
    """0: it does not listen yet."""
    sockets = sockets_of(pid)
    with open(f"/proc/{pid}/net/tcp") as table:
        for row in list(table)[1:]:
            fields = row.split()
            if fields[3] == LISTENS and f"socket:[{fields[9]}]" in sockets:
                return int(fields[1].partition(":")[2], 16)
    return 0


class Nghttpd:
    """On a port that the kernel chooses; killed at the end."""

    def __init__(self, folder, *flags):
        command = [NGHTTPD, "--no-tls", "--address=127.0.0.1", f"--htdocs={folder}", "--echo-upload", *flags, "0"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
        self.port = wait_for(lambda: listening_port(self.process.pid), "nghttpd listens")

    def send(self, number):
        self.process.send_signal(number)

    def kill(self):
        self.process.kill()
        self.process.wait()

    def stop(self):
        """Returns when it does nothing any more."""
        self.send(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOWAIT)


class Client:
    def __init__(self, server, *arguments, workers=2):
        self.process = subprocess.Popen(
            [CLIENT, str(server.port), str(workers), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def await_word(self, word):
        line = self.process.stdout.readline()
        assert line == word + "\n", line + self.end()[1]

    def go_on(self):
        self.process.stdin.write("\n")
        self.process.stdin.flush()

    def end(self):
        """Its status and what it has said."""
        try:
            output, errors = self.process.communicate(timeout=PATIENCE)
        except subprocess.TimeoutExpired:
            self.process.kill()
            output, errors = self.process.communicate()
            errors += "it did not end"
        return self.process.returncode, output + errors


class Http2Client(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        (self.folder / "mebibyte").write_bytes(random.Random(1).randbytes(1 << 20))
        (self.folder / "small").write_bytes(b"small")
        (self.folder / "empty").write_bytes(b"")

    def serve(self, *flags):
        server = Nghttpd(self.folder, *flags)
        self.addCleanup(server.kill)
        return server

    def assert_ends_well(self, client):
        status, said = client.end()
        self.assertEqual(status, 0, said)

    def test_bodies_go_both_ways_on_many_streams(self):
        few_and_padded = ("--max-concurrent-streams=3", "--padding=200")
        without_a_table = ("--header-table-size=0", "--trailer=x-last: a")
        for flags in ((), few_and_padded, without_a_table):
            server = self.serve(*flags)
            for workers in (1, 2):
                for name in ("small", "empty", "mebibyte"):
                    with self.subTest(flags=flags, workers=workers, name=name):
                        file = str(self.folder / name)
                        self.assert_ends_well(Client(server, "ask", "/" + name, file, workers=workers))

    def test_a_server_that_dies_ends_the_call_and_the_connection(self):
        server = self.serve()
        client = Client(server, "interrupted", "/mebibyte")
        client.await_word("reading")
        server.kill()
        client.go_on()
        self.assert_ends_well(client)

    def test_a_server_that_stands_still_is_given_up(self):
        server = self.serve()
        client = Client(server, "interrupted", "/mebibyte")
        client.await_word("reading")
        server.stop()
        client.go_on()
        self.assert_ends_well(client)

    def test_a_late_answer_ends_its_call_only(self):
        server = self.serve()
        client = Client(server, "late", "/mebibyte")
        client.await_word("answered")
        server.stop()
        client.go_on()
        client.await_word("late")
        server.send(signal.SIGCONT)
        client.go_on()
        self.assert_ends_well(client)


if __name__ == "__main__":
    if NGHTTPD is None:
        print("skipped: nghttpd not found (Debian: nghttp2-server)")
        sys.exit(77)
    unittest.main(verbosity=2)
