# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""What examples/rpc/echo_server says of its clients at its end:  echo_server_test.py <echo_server> [unittest arguments]"""

import contextlib
import resource
import signal
import socket
import subprocess
import sys
import unittest

SERVER = ""
SANITIZED = "--sanitized" in sys.argv and not sys.argv.remove("--sanitized")
LIMIT = 60  # Seconds after which something that should have happened is a failure.
PING = b"WEFT\1\5\0\0" + bytes(16)
PONG = b"WEFT\1\6\0\0" + bytes(16)


class EchoServerTest(unittest.TestCase):
    def serve(self, *flags):
        self.process = subprocess.Popen([SERVER, "--listen=127.0.0.1:0", *flags], stdout=subprocess.PIPE, text=True)
        self.addCleanup(self.kill)
        line = self.process.stdout.readline()
        self.assertTrue(line.startswith("listening on "), line)
        self.port = int(line.split(":")[-1])

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def connect(self):
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=LIMIT)
        self.addCleanup(connection.close)
        return connection

    def resident_bytes(self):
        with open(f"/proc/{self.process.pid}/statm") as statm:
            return int(statm.read().split()[1]) * resource.getpagesize()

    def report(self):
        self.process.send_signal(signal.SIGTERM)
        text, _ = self.process.communicate(timeout=LIMIT)
        self.assertEqual(self.process.returncode, 0)
        return text

    def test_connections_above_the_limit_of_their_host_are_reported(self):
        self.serve("--max_connections_per_host=1")
        first = self.connect()
        for _ in range(2):
            with contextlib.suppress(OSError):  # The reset may come to any call.
                self.assertEqual(self.connect().recv(1), b"no answer")
        first.close()
        self.assertIn("connections 3, refused 2 (of their host too many 2), vanished 0, idle 0\n", self.report())

    def test_idle_connections_are_reported(self):
        self.serve("--idle_timeout_ms=20")
        idle = self.connect()
        while idle.recv(4096):  # The farewell, and the end.
            pass
        report = self.report()
        self.assertIn("connections 1, refused 0 (of their host too many 0), vanished 0, idle 1\n", report)
        self.assertIn("requests 0, overloaded 0 (of their connection too many 0, memory 0), late 0, bad 0, after the stop 0", report)

    def test_idle_connections_take_little_memory(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        total = min(5_000, hard - 200)
        self.serve("--ping_after_ms=0")
        before = self.resident_bytes()
        connections = []
        for _ in range(total):
            connection = self.connect()
            connection.sendall(PING)
            connections.append(connection)
        for connection in connections:
            self.assertEqual(connection.recv(len(PONG), socket.MSG_WAITALL), PONG)
        # No stack and no block.
        each = (self.resident_bytes() - before) / total
        print(f"{total} idle connections: {each:.0f} bytes each")
        if not SANITIZED:
            self.assertLess(each, 2_000)
        for connection in connections[::50]:
            connection.sendall(PING)
            self.assertEqual(connection.recv(len(PONG), socket.MSG_WAITALL), PONG)
        self.assertIn(f"connections {total}, ", self.report())


if __name__ == "__main__":
    SERVER = sys.argv.pop(1)
    unittest.main()
