#!/usr/bin/env python3
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""examples/tls_echo from outside: openssl s_client, Python's ssl, and peers that do not speak TLS.

tls_echo_test.py PROGRAM [--sanitized] [arguments of unittest]
"""

import contextlib
import os
import random
import re
import signal
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import time
import unittest

from server_process import LIMIT, Server, read_to_end, reset, wait_for

PROGRAM = sys.argv.pop(1)
sys.argv = [argument for argument in sys.argv if argument != "--sanitized"]  # It makes no difference.
ENDS = re.compile(r"(\d+) closed cleanly, (\d+) cut short, (\d+) timed out, (\d+) stopped, (\d+) handshakes failed\n$")


def serve(*flags):
    return Server(PROGRAM, *flags)


def secure(connection):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    # Without an end by close_notify, recv() fails instead of returning nothing.
    return context.wrap_socket(connection, suppress_ragged_eofs=False)


def echo(tls, data):
    """Sends all, then reads as much. Not more than the buffers of two sockets hold: Python's cannot do both at once."""
    tls.sendall(data)
    got = b""
    while len(got) < len(data) and (part := tls.recv(1 << 16)):
        got += part
    return got


def s_client(server, *options):
    """An echo by openssl s_client. Whether the session was "New" or "Reused", and its version."""
    client = subprocess.Popen(
        ["openssl", "s_client", "-connect", f"127.0.0.1:{server.port}", "-nocommands", *options],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
    )
    with client:
        client.stdin.write(b"hello\n")
        client.stdin.flush()
        output = b""
        # The server sends its tickets before it reads: with the echo they are there.
        while not output.endswith(b"hello\n") and (line := client.stdout.readline()):
            output += line
        client.stdin.close()  # It says close_notify.
        output += client.stdout.read()
        assert client.wait(timeout=LIMIT) == 0, output
    found = re.search(rb"^(New|Reused), (TLSv1\.\d), Cipher is", output, re.MULTILINE)
    assert found, output
    return found.group(1), found.group(2)


def ends(server):
    """Stops it; how connections have ended, in the order of the regular expression."""
    status, output = server.stop()
    assert status == 0, f"status {status}: {output}"
    return [int(number) for number in ENDS.search(output).groups()]


def worker_names(pid):
    """Of the threads that are called as workers are."""
    names = []
    for task in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{task}/comm") as comm:
            names.append(comm.read().strip())
    return [name for name in names if name.startswith("FiberWorker")]


class TlsEcho(unittest.TestCase):
    def test_s_client_gets_back_the_bytes_that_it_sends(self):
        data = random.Random(1).randbytes(3_000_000)
        for version in ("-tls1_2", "-tls1_3"):
            with self.subTest(version=version), serve() as server:
                client = subprocess.Popen(
                    [
                        "openssl",
                        "s_client",
                        "-connect",
                        f"127.0.0.1:{server.port}",
                        "-quiet",
                        "-no_ign_eof",
                        "-nocommands",
                        version,
                    ],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                )

                def send(client=client):
                    client.stdin.write(data)
                    client.stdin.flush()

                sender = threading.Thread(target=send)
                sender.start()
                self.assertEqual(client.stdout.read(len(data)), data)
                sender.join()
                client.stdin.close()  # It says close_notify.
                self.assertEqual(client.wait(timeout=LIMIT), 0)
                client.stdout.close()
                self.assertEqual(ends(server), [1, 0, 0, 0, 0])

    def test_s_client_resumes_its_session(self):
        for option, version in (("-tls1_2", b"TLSv1.2"), ("-tls1_3", b"TLSv1.3")):
            with self.subTest(version=version), tempfile.TemporaryDirectory() as folder:
                session = os.path.join(folder, "session")
                with serve() as server:
                    self.assertEqual(s_client(server, option, "-sess_out", session), (b"New", version))
                    self.assertEqual(s_client(server, option, "-sess_in", session), (b"Reused", version))
                    self.assertEqual(ends(server), [2, 0, 0, 0, 0])
                with serve() as another:  # Its tickets have other keys.
                    self.assertEqual(s_client(another, option, "-sess_in", session), (b"New", version))
                    self.assertEqual(ends(another), [1, 0, 0, 0, 0])

    def test_versions_before_1_2_are_refused(self):
        with serve() as server:
            for version in ("-tls1", "-tls1_1"):
                done = subprocess.run(
                    ["openssl", "s_client", "-connect", f"127.0.0.1:{server.port}", version]
                    + ["-cipher", "DEFAULT@SECLEVEL=0"],  # Else the client itself refuses to try.
                    stdin=subprocess.DEVNULL,
                    capture_output=True,
                    timeout=LIMIT,
                )
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(b"alert protocol version", done.stderr)
            self.assertEqual(ends(server), [0, 0, 0, 0, 2])

    def test_the_certificate_is_for_the_name_and_on_p_256(self):
        with serve("--name=weft.example") as server:
            pem = ssl.get_server_certificate(("127.0.0.1", server.port), timeout=LIMIT)
            text = subprocess.run(
                ["openssl", "x509", "-noout", "-text", "-checkend", "80000"],
                input=pem.encode(),
                capture_output=True,
                check=True,  # Good for that many seconds at least.
            ).stdout.decode()
            for part in ("CN = weft.example", "DNS:weft.example", "ASN1 OID: prime256v1", "ecdsa-with-SHA256"):
                self.assertIn(part, text)
            # A client that knows the certificate and asks for the name is satisfied.
            context = ssl.create_default_context(cadata=pem)
            with server.connect() as connection, context.wrap_socket(connection, server_hostname="weft.example") as tls:
                self.assertEqual(echo(tls, b"hello"), b"hello")

    def test_close_notify_is_answered(self):
        with serve() as server:
            with secure(server.connect()) as tls:
                self.assertEqual(echo(tls, b"hello"), b"hello")
                # Sends ours, and fails unless the server's comes.
                plain = tls.unwrap()
                self.assertEqual(plain.recv(1), b"")
                plain.close()
            self.assertEqual(ends(server), [1, 0, 0, 0, 0])

    def test_many_at_the_same_time_get_each_its_own(self):
        with serve() as server:
            errors = []

            def talk(seed):
                try:
                    with secure(server.connect()) as tls:
                        for size in (1, 100, 20_000, 100_000):
                            data = random.Random(seed).randbytes(size)
                            assert echo(tls, data) == data
                        tls.unwrap().close()
                except Exception as error:  # pylint: disable=broad-except
                    errors.append(error)

            threads = [threading.Thread(target=talk, args=(seed,)) for seed in range(50)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            self.assertEqual(errors, [])
            self.assertEqual(ends(server), [50, 0, 0, 0, 0])

    def test_no_threads_are_started_for_connections(self):
        with serve() as server:
            with secure(server.connect()) as tls:
                self.assertEqual(echo(tls, b"hello"), b"hello")
                # A thread has its starter's name until it sets its own: others would keep it.
                deadline = time.monotonic() + LIMIT
                while len(set(names := worker_names(server.pid))) != len(names) and time.monotonic() < deadline:
                    time.sleep(0.01)
            self.assertGreater(len(names), 0)
            self.assertEqual(sorted(set(names)), sorted(names))

    def test_a_handshake_has_a_deadline(self):
        with serve("--handshake_timeout_ms=300") as server:
            began = time.monotonic()
            silent = server.connect()
            half = server.connect()
            half.sendall(b"\x16\x03\x01\x02\x00\x01")  # A ClientHello begins.
            self.assertEqual(read_to_end(silent), b"")
            self.assertEqual(read_to_end(half), b"")
            self.assertGreaterEqual(time.monotonic() - began, 0.3)
            self.assertEqual(ends(server), [0, 0, 0, 0, 2])

    def test_peers_that_speak_something_else_are_turned_away(self):
        with serve() as server:
            for garbage in (b"GET / HTTP/1.1\r\nHost: a\r\n\r\n", bytes(1000), random.Random(1).randbytes(1000)):
                connection = server.connect()
                connection.sendall(garbage)
                with contextlib.suppress(ConnectionResetError):  # It has not read all of it.
                    read_to_end(connection)
            connection = server.connect()
            connection.close()
            with secure(server.connect()) as tls:
                self.assertEqual(echo(tls, b"hello"), b"hello")
                tls.unwrap().close()
            self.assertEqual(ends(server), [1, 0, 0, 0, 4])

    def test_connections_that_are_cut_are_told_from_those_that_end(self):
        with serve() as server:
            kept = secure(server.connect())
            self.assertEqual(echo(kept, b"hello"), b"hello")
            before = server.descriptors()
            for cut in (socket.socket.close, reset):
                tls = secure(server.connect())
                self.assertEqual(echo(tls, b"hello"), b"hello")
                cut(socket.socket(fileno=tls.detach()))
            wait_for(
                lambda: server.descriptors() == before, lambda: f"{server.descriptors()} descriptors, {before} before"
            )
            self.assertEqual(echo(kept, b"hello"), b"hello")
            kept.unwrap().close()
            self.assertEqual(ends(server), [1, 2, 0, 0, 0])

    def test_silent_peers_are_sent_a_close_notify(self):
        with serve("--idle_timeout_ms=300") as server:
            began = time.monotonic()
            with secure(server.connect()) as tls:
                self.assertEqual(echo(tls, b"hello"), b"hello")
                self.assertEqual(tls.recv(1), b"")  # An end without close_notify would be an error.
                self.assertGreaterEqual(time.monotonic() - began, 0.3)
                tls.unwrap().close()
            self.assertEqual(ends(server), [0, 0, 1, 0, 0])

    def test_a_signal_sends_all_a_close_notify(self):
        for sent in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(signal=sent), serve() as server:
                peers = [secure(server.connect()) for _ in range(5)]
                for tls in peers:
                    self.assertEqual(echo(tls, b"hello"), b"hello")
                server.process.send_signal(sent)
                for tls in peers:
                    self.assertEqual(tls.recv(1), b"")
                    tls.close()
                self.assertEqual(ends(server), [0, 0, 0, 5, 0])

    def test_a_name_that_cannot_be_is_refused(self):
        done = subprocess.run([PROGRAM, "--name=" + 65 * "x"], capture_output=True, text=True, timeout=LIMIT)
        self.assertEqual(done.returncode, 2)
        self.assertIn("no certificate for --name=xxx", done.stderr)


if __name__ == "__main__":
    if not os.access(PROGRAM, os.X_OK):
        sys.exit(f"{PROGRAM} is not there")
    unittest.main(verbosity=2)
