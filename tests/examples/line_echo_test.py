#!/usr/bin/env python3
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""examples/line_echo from outside: line_echo_test.py PROGRAM [--sanitized] [arguments of unittest]"""

import subprocess
import sys
import unittest

from server_process import LIMIT, Server, read_to_end, reset

PROGRAM = sys.argv.pop(1)
sys.argv = [argument for argument in sys.argv if argument != "--sanitized"]  # It makes no difference.


class LineEcho(unittest.TestCase):

    def test_each_line_comes_back_until_one_says_quit(self):
        with Server(PROGRAM) as server:
            client = server.connect()
            lines = client.makefile("rb")
            for line in (b"hello\n", b"\n", b"two words\n"):
                client.sendall(line)
                self.assertEqual(lines.readline(), b">>>you sent: " + line)
            client.sendall(b"please Quit now\nnot read any more\n")
            self.assertEqual(lines.readline(), b">>>you sent: please Quit now\n")
            try:  # A reset, if what was not read had come before the end.
                self.assertEqual(lines.readline(), b"")
            except ConnectionResetError:
                pass

    def test_lines_come_in_pieces_and_together(self):
        with Server(PROGRAM) as server:
            client = server.connect()
            lines = client.makefile("rb")
            for byte in b"slow\n":
                client.sendall(bytes([byte]))
            self.assertEqual(lines.readline(), b">>>you sent: slow\n")
            client.sendall(b"one\ntwo\nthree")
            client.shutdown(1)
            self.assertEqual(lines.read(), b">>>you sent: one\n>>>you sent: two\n>>>you sent: three")

    def test_many_clients_are_served_at_once(self):
        with Server(PROGRAM) as server:
            clients = [server.connect() for _ in range(100)]
            for i, client in enumerate(clients):
                client.sendall(b"%d\n" % i)
            for i, client in reversed(list(enumerate(clients))):
                self.assertEqual(client.makefile("rb").readline(), b">>>you sent: %d\n" % i)

    def test_clients_that_vanish_harm_nobody(self):
        with Server(PROGRAM) as server:
            for _ in range(20):
                client = server.connect()
                client.sendall(b"hello\n" * 100)
                reset(client)
            client = server.connect()
            client.sendall(b"quit\n")
            self.assertEqual(read_to_end(client), b">>>you sent: quit\n")

    def test_a_line_without_end_is_cut_off(self):
        with Server(PROGRAM) as server:
            client = server.connect()
            try:
                client.sendall(b"x" * 1_000_000)
                self.assertEqual(read_to_end(client), b"")
            except (ConnectionResetError, BrokenPipeError):
                pass

    def test_the_demo_talks_to_it(self):
        done = subprocess.run([PROGRAM, "--listen=127.0.0.1:0", "--demo"], capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual(done.returncode, 0, done.stderr)
        for name in ("one", "two"):
            self.assertIn(f">>>you sent: how are you, says {name}\n", done.stdout)

    def test_an_address_that_cannot_be_is_refused(self):
        done = subprocess.run([PROGRAM, "--listen=nowhere"], capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual(done.returncode, 1)
        self.assertIn("line_echo: cannot listen on nowhere", done.stderr)


if __name__ == "__main__":
    unittest.main()
