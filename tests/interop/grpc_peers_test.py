#!/usr/bin/python3
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""The example client without gRPC's library, and servers: ours, gRPC for Python's, Go's.

    grpc_peers_test.py <grpc_http2_client> <grpc_http2_server> <folder for Go's cache> [arguments of unittest]

What is not installed is skipped, with the reason; the exit status is then 77. The client compares each answer with its
question. The messages are read and written here byte by byte (protocol buffers' wire format), so that no generated code
is needed.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import unittest
from concurrent import futures

try:
    import grpc
except ImportError:
    grpc = None

CLIENT, OUR_SERVER, GO_CACHE = sys.argv[1:4]
del sys.argv[1:4]
HERE = pathlib.Path(__file__).parent
GO_GRPC = pathlib.Path("/usr/share/gocode/src/google.golang.org/grpc")
PATIENCE = 60  # A loaded machine may be slow; a regular run never waits so long.
ALL_KINDS = ("--calls=300", "--fibers=20", "--messages=40")


def call(address, *flags):
    """The client's status, and what it has said."""
    command = [CLIENT, f"--server={address}", f"--deadline_ms={PATIENCE * 1000}", *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * PATIENCE, check=False)
    return done.returncode, done.stdout + done.stderr


class ServerProcess:
    """Prints "listening on <address>" when it listens."""

    def __init__(self, *command):
        self.process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        assert line.startswith("listening on 127.0.0.1:"), line
        self.address = line.split()[-1]

    def end(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


class OurServer(unittest.TestCase):
    def test_calls_of_each_kind_are_answered(self):
        server = ServerProcess(OUR_SERVER, "--listen=127.0.0.1:0")
        self.addCleanup(server.end)
        status, said = call(server.address, *ALL_KINDS)
        self.assertEqual(status, 0, said)
        self.assertIn("300 of 300 calls were answered", said)

    def test_a_dead_server_beside_it_loses_no_call(self):
        server = ServerProcess(OUR_SERVER, "--listen=127.0.0.1:0")
        self.addCleanup(server.end)
        status, said = call(f"127.0.0.1:1,{server.address}", *ALL_KINDS, "--hedge_ms=1000")
        self.assertEqual(status, 0, said)

    def test_without_a_server_calls_are_unavailable(self):
        status, said = call("127.0.0.1:1", "--ask=x", "--attempts=2")
        self.assertEqual(status, 1)
        self.assertIn("status 14: no connection to 127.0.0.1:1", said)

    def test_flags_that_cannot_be_are_refused(self):
        for flag in ("--fibers=0", "--server=", "more"):
            status, said = call("127.0.0.1:1", flag)
            self.assertEqual((status, "unknown argument" in said), (1, True), flag)


# --- gRPC for Python ---


def varint(number):
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def field(number, value):
    return varint(number << 3 | 2) + varint(len(value)) + value if value else b""


def fields(message):
    """{number: value} of bytes and integers."""
    found, at = {}, 0

    def number():
        nonlocal at
        value, shift = 0, 0
        while True:
            byte = message[at]
            at += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while at < len(message):
        tag = number()
        value = number()
        if tag & 7 == 2:
            value, at = message[at : at + value], at + value
        found[tag >> 3] = value
    return found


class Greeter:
    """The service of examples/grpc_server, and payloads that mean something."""

    def __init__(self):
        self.left = threading.Event()  # a client has gone before its answer
        self.failures = 2

    def echo(self, request, context):
        asked = fields(request)
        payload = asked.get(1, b"")
        if payload == b"fail":
            context.set_trailing_metadata((("x-after", "2"),))
            context.abort(grpc.StatusCode.NOT_FOUND, "100 % of\u00e9")
        if payload == b"flaky" and self.failures > 0:
            self.failures -= 1
            context.abort(grpc.StatusCode.UNAVAILABLE, "not now")
        if asked.get(2, 0):
            context.add_callback(self.left.set)
            self.left.wait(PATIENCE)
        return field(1, payload)

    def handlers(self):
        def greet(request, _):
            asked = fields(request)
            for i in range(1, asked.get(2, 0) + 1):
                yield field(1, b"hello %s, for the %d. time" % (asked[1], i))

        return {
            "Echo": grpc.unary_unary_rpc_method_handler(self.echo),
            "EchoAll": grpc.stream_stream_rpc_method_handler(lambda all, _: (field(1, fields(m).get(1)) for m in all)),
            "EchoJoined": grpc.stream_unary_rpc_method_handler(
                lambda all, _: field(1, b"".join(fields(message).get(1, b"") for message in all))
            ),
            "Greet": grpc.unary_stream_rpc_method_handler(greet),
        }


@unittest.skipIf(grpc is None, "Debian's python3-grpcio is not installed")
class PythonsServer(unittest.TestCase):
    def serve(self, **options):
        server = grpc.server(futures.ThreadPoolExecutor(16), **options)
        self.greeter = Greeter()
        handler = grpc.method_handlers_generic_handler("weft.examples.Greeter", self.greeter.handlers())
        server.add_generic_rpc_handlers((handler,))
        port = server.add_insecure_port("127.0.0.1:0")
        server.start()
        self.addCleanup(server.stop, None)
        return f"127.0.0.1:{port}"

    def test_calls_of_each_kind_are_answered(self):
        status, said = call(self.serve(), *ALL_KINDS)
        self.assertEqual(status, 0, said)

    def test_large_messages_are_whole(self):
        status, said = call(self.serve(), "--calls=4", "--fibers=2", "--payload=1000000", "--messages=200")
        self.assertEqual(status, 0, said)

    def test_compressed_answers_are_unpacked(self):
        status, said = call(self.serve(compression=grpc.Compression.Gzip), *ALL_KINDS, "--payload=5000")
        self.assertEqual(status, 0, said)

    def test_connections_that_end_lose_no_call(self):
        age = (("grpc.max_connection_age_ms", 30), ("grpc.max_connection_age_grace_ms", PATIENCE * 1000))
        status, said = call(self.serve(options=age), "--calls=2000", "--fibers=10", "--messages=40")
        self.assertEqual(status, 0, said)

    def test_a_status_has_its_text_and_trailers(self):
        status, said = call(self.serve(), "--ask=fail")
        self.assertEqual(status, 1)
        self.assertEqual(said, "status 5: 100 % of\u00e9\nx-after: 2\n")

    def test_the_deadline_ends_the_call_here_and_there(self):
        status, said = call(self.serve(), "--ask=late", "--delay_ms=1", "--deadline_ms=300")
        # Who sees it first: the client, or grpcio, whose answer says it in these words.
        self.assertEqual(status, 1)
        self.assertIn(said, ("status 4: the deadline has passed\n", "status 4: Deadline Exceeded\n"))
        self.assertTrue(self.greeter.left.wait(PATIENCE))

    def test_what_is_unavailable_is_asked_again(self):
        status, said = call(self.serve(), "--ask=flaky")
        self.assertEqual((status, said), (0, "status 0: flaky\n"))


# --- Go ---


@unittest.skipUnless(shutil.which("go") and GO_GRPC.is_dir(), "no Go with gRPC (golang-go golang-google-grpc-dev)")
class GosServer(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        folder = tempfile.TemporaryDirectory()
        cls.addClassCleanup(folder.cleanup)
        cls.program = os.path.join(folder.name, "grpc_peer")
        # Of Debian's packages, without the network. Slow, but for the cache.
        environment = {**os.environ, "GOCACHE": GO_CACHE, "GO111MODULE": "off", "GOPATH": "/usr/share/gocode"}
        subprocess.run(
            ["go", "build", "-o", cls.program, HERE / "grpc_peer.go"], check=True, timeout=900, env=environment
        )

    def serve(self, *flags):
        server = ServerProcess(self.program, *flags)
        self.addCleanup(server.end)
        return server.address

    def test_calls_of_each_kind_are_answered(self):
        status, said = call(self.serve(), *ALL_KINDS)
        self.assertEqual(status, 0, said)

    def test_connections_that_end_lose_no_call(self):
        status, said = call(self.serve("-age=30ms"), "--calls=2000", "--fibers=10", "--messages=40")
        self.assertEqual(status, 0, said)

    def test_a_status_has_its_text(self):
        status, said = call(self.serve(), "--ask=fail")
        self.assertEqual((status, said), (1, "status 5: 100 % of\u00e9\n"))


if __name__ == "__main__":
    result = unittest.main(verbosity=2, exit=False).result
    sys.exit(1 if not result.wasSuccessful() else 77 if result.skipped else 0)
