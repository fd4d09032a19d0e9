#!/usr/bin/python3
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""The example server, called by another implementation's client: python3-grpcio.

    grpc_python_test.py <grpc_server or grpc_http2_server> [arguments of unittest]

The messages are written and read here byte by byte (protocol buffers' wire format), so that what the server sends is
compared exactly, and no generated code is needed.  Exit status 77, with the reason, if grpcio is not there.
"""

import os
import pathlib
import shutil
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import unittest

# Without calls under way gRPC for Python checks its connections each 5 seconds only; a server that shuts down would
# wait so long for the answer to its farewell.
os.environ["GRPC_CLIENT_CHANNEL_BACKUP_POLL_INTERVAL_MS"] = "50"
try:
    import grpc
except ImportError as error:
    print(f"skipped: Debian's python3-grpcio is needed: {error}")
    sys.exit(77)

SERVER = sys.argv.pop(1)
BY_GRPCS_LIBRARY = os.path.basename(SERVER) == "grpc_server"
# The other one's is our own.
HAS_TLS = not BY_GRPCS_LIBRARY
# A loaded machine may be slow; a regular run never waits so long.
PATIENCE = 60


def varint(number):
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def field(number, value):
    """One field: bytes as length-delimited, int as varint; nothing for the default value, as proto3 wants it."""
    if not value:
        return b""
    if isinstance(value, bytes):
        return varint(number << 3 | 2) + varint(len(value)) + value
    return varint(number << 3) + varint(value)


def echo_request(payload=b"", delay_ms=0):
    return field(1, payload) + field(2, delay_ms)


def greet_request(name, times, interval_ms=0):
    return field(1, name) + field(2, times) + field(3, interval_ms)


class Server:
    """The example server in a process of its own, on a free port, or where `command` lets it listen."""

    def __init__(self, *flags, command=(SERVER, "--listen=127.0.0.1:0"), pass_fds=()):
        self.process = subprocess.Popen([*command, *flags], stdout=subprocess.PIPE, text=True, pass_fds=pass_fds)
        line = self.process.stdout.readline()
        if not line.startswith("listening on 127.0.0.1:"):
            raise AssertionError(f"the server said: {line!r}")
        # A server that does not end fails its test, it does not hang it.
        self.watchdog = threading.Timer(2 * PATIENCE, self.process.kill)
        self.watchdog.start()
        self.address = line.split()[-1]
        assert not self.address.endswith(":0"), "the server does not print its real port"

    def channel(self):
        return grpc.insecure_channel(self.address)

    def secure_channel(self, trusted):
        """`trusted`: certificates in PEM."""
        return grpc.secure_channel(self.address, grpc.ssl_channel_credentials(trusted))

    def terminate(self):
        self.process.send_signal(signal.SIGTERM)

    def wait_until_drains(self):
        line = self.process.stdout.readline()
        assert line == "draining\n", line

    def end(self):
        """What it said at its end.  It must have ended well, and by itself."""
        rest = self.process.stdout.read()
        status = self.process.wait(PATIENCE)
        assert status == 0, f"exit status {status}"
        return rest

    def kill(self):
        self.watchdog.cancel()
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()


# Without serializers the methods take and give bytes.
def echo(channel):
    return channel.unary_unary("/weft.examples.Greeter/Echo")


def echo_all(channel):
    return channel.stream_stream("/weft.examples.Greeter/EchoAll")


def echo_joined(channel):
    return channel.stream_unary("/weft.examples.Greeter/EchoJoined")


def greet(channel):
    return channel.unary_stream("/weft.examples.Greeter/Greet")


def start_reader(server, method, request):
    """A client in a process of its own, which has got a message of a stream and waits for the next one."""
    program = (
        "import grpc, sys\n"
        "stream = grpc.insecure_channel(sys.argv[1]).unary_stream(sys.argv[2])(bytes.fromhex(sys.argv[3]))\n"
        "next(stream)\n"
        "print('reading', flush=True)\n"
        "next(stream)\n")
    client = subprocess.Popen(
        [sys.executable, "-c", program, server.address, method, request.hex()], stdout=subprocess.PIPE, text=True)
    line = client.stdout.readline()
    if line != "reading\n":
        client.kill()
        raise AssertionError(f"the client said: {line!r}")
    return client


# HealthCheckResponse.status of grpc.health.v1.
SERVING = field(1, 1)
NOT_SERVING = field(1, 2)


def check_health(channel):
    return channel.unary_unary("/grpc.health.v1.Health/Check")


def watch_health(channel):
    return channel.unary_stream("/grpc.health.v1.Health/Watch")


class GrpcServerTest(unittest.TestCase):
    def setUp(self):
        # Longer than any test: a handler that ends with the server has ended by itself.
        self.server = Server("--drain_ms=3600000")
        self.addCleanup(self.server.kill)
        self.channel = self.server.channel()
        self.addCleanup(self.channel.close)

    def test_echoes_are_exact(self):
        for payload in (b"", b"x", bytes(range(256)), os.urandom(1 << 20)):
            self.assertEqual(echo(self.channel)(echo_request(payload), timeout=PATIENCE), field(1, payload))

    def test_a_stream_is_exact_and_in_order(self):
        got = list(greet(self.channel)(greet_request("Grüße".encode(), 300), timeout=PATIENCE))
        want = [field(1, f"hello Grüße, for the {i}. time".encode()) for i in range(1, 301)]
        self.assertEqual(got, want)
        self.assertEqual(list(greet(self.channel)(greet_request(b"nobody", 0), timeout=PATIENCE)), [])

    def test_a_stream_both_ways_answers_each_message_before_the_next(self):
        asked = threading.Semaphore(1)

        def ask():
            for i in range(1, 101):
                self.assertTrue(asked.acquire(timeout=PATIENCE))
                yield echo_request(b"%d" % i)

        answers = echo_all(self.channel)(ask(), timeout=PATIENCE)
        for i, answer in enumerate(answers, 1):
            self.assertEqual(answer, field(1, b"%d" % i))
            asked.release()
        self.assertEqual(i, 100)
        self.assertEqual(answers.code(), grpc.StatusCode.OK)

    def test_a_stream_of_messages_gets_one_answer(self):
        parts = [b"first", b"", *(b"%d," % i for i in range(1000)), os.urandom(1 << 20), b"last"]
        for sent in ([], parts):
            answer = echo_joined(self.channel)((echo_request(part) for part in sent), timeout=PATIENCE)
            self.assertEqual(answer, field(1, b"".join(sent)))

    def test_a_stream_that_is_cancelled_in_the_middle_ends_the_handler(self):
        taken = threading.Event()
        go_on = threading.Event()
        self.addCleanup(go_on.set)

        def ask():
            yield echo_request(b"first")
            taken.set()
            go_on.wait(PATIENCE)

        echo(self.channel)(echo_request(b"connects"), timeout=PATIENCE)
        call = echo_joined(self.channel).future(ask(), timeout=PATIENCE)
        self.assertTrue(taken.wait(PATIENCE))
        # Streams of a connection begin in their order: the server has the call when this one is answered.
        echo(self.channel)(echo_request(b"next"), timeout=PATIENCE)
        self.assertTrue(call.cancel())
        self.server.terminate()
        # None if its handler had not begun.
        self.assertRegex(self.server.end(), "2 calls were answered, [01] were cancelled")

    def test_health_is_told_and_ends_with_the_server(self):
        for service in (b"", b"weft.examples.Greeter"):
            self.assertEqual(check_health(self.channel)(field(1, service), timeout=PATIENCE), SERVING)
        with self.assertRaises(grpc.RpcError) as raised:
            check_health(self.channel)(field(1, b"weft.examples.Nobody"), timeout=PATIENCE)
        self.assertEqual(raised.exception.code(), grpc.StatusCode.NOT_FOUND)
        watch = watch_health(self.channel)(b"", timeout=PATIENCE)
        self.assertEqual(next(watch), SERVING)
        self.server.terminate()
        self.assertEqual(next(watch), NOT_SERVING)
        watch.cancel()
        self.assertIn("0 calls were answered", self.server.end())

    def test_reflection_lists_and_describes_the_service(self):
        reflect = self.channel.stream_stream("/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo")
        questions = [field(7, b"*"), field(4, b"weft.examples.Greeter.Echo"), field(4, b"weft.examples.Nobody")]
        services, file, nobody = reflect(iter(questions), timeout=PATIENCE)
        self.assertIn(b"weft.examples.Greeter", services)
        for name in (b"greeter.proto", b"EchoRequest", b"EchoAll", b"Greet"):
            self.assertIn(name, file)
        self.assertIn(field(1, grpc.StatusCode.NOT_FOUND.value[0]), nobody)

    @unittest.skipIf(BY_GRPCS_LIBRARY, "its version does not have it")
    def test_reflection_has_its_newer_name_too(self):
        reflect = self.channel.stream_stream("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo")
        [services] = reflect(iter([field(7, b"*")]), timeout=PATIENCE)
        self.assertIn(b"weft.examples.Greeter", services)

    def test_many_slow_calls_at_once_take_as_long_as_one(self):
        begin = time.monotonic()
        calls = [echo(self.channel).future(echo_request(b"%d" % i, 500), timeout=PATIENCE) for i in range(200)]
        for i, call in enumerate(calls):
            self.assertEqual(call.result(), field(1, b"%d" % i))
        took = time.monotonic() - begin
        self.assertGreaterEqual(took, 0.5)
        self.assertLess(took, 50)  # One after the other on two workers.

    def test_a_message_that_is_none_is_refused(self):
        with self.assertRaises(grpc.RpcError) as raised:
            echo(self.channel)(b"\xff\xff\xff", timeout=PATIENCE)
        self.assertNotEqual(raised.exception.code(), grpc.StatusCode.OK)
        with self.assertRaises(grpc.RpcError) as raised:
            self.channel.unary_unary("/weft.examples.Greeter/Shout")(b"", timeout=PATIENCE)
        self.assertEqual(raised.exception.code(), grpc.StatusCode.UNIMPLEMENTED)
        self.assertEqual(echo(self.channel)(echo_request(b"on"), timeout=PATIENCE), field(1, b"on"))

    def test_a_deadline_ends_a_call_at_both_ends(self):
        echo(self.channel)(echo_request(b"connects"), timeout=PATIENCE)
        with self.assertRaises(grpc.RpcError) as raised:
            echo(self.channel)(echo_request(b"late", 3600 * 1000), timeout=1)
        self.assertEqual(raised.exception.code(), grpc.StatusCode.DEADLINE_EXCEEDED)
        self.server.terminate()
        self.assertIn("1 calls were answered, 1 were cancelled", self.server.end())

    def test_a_client_that_cancels_ends_the_handler(self):
        stream = greet(self.channel)(greet_request(b"you", 1000, 3600 * 1000))
        self.assertEqual(next(stream), field(1, b"hello you, for the 1. time"))
        stream.cancel()
        self.server.terminate()
        self.assertIn("0 calls were answered, 1 were cancelled", self.server.end())

    def test_a_client_that_dies_ends_the_handler(self):
        with start_reader(self.server, "/weft.examples.Greeter/Greet", greet_request(b"you", 1000, 3600 * 1000)) as client:
            client.kill()
        self.server.terminate()
        self.assertIn("0 calls were answered, 1 were cancelled", self.server.end())

    def test_sigterm_drains(self):
        entered = threading.Event()
        stream = greet(self.channel)(greet_request(b"you", 20, 50), timeout=PATIENCE)
        got = []

        def read():
            for message in stream:
                got.append(message)
                entered.set()

        reader = threading.Thread(target=read)
        reader.start()
        self.assertTrue(entered.wait(PATIENCE))
        self.server.terminate()
        self.server.wait_until_drains()
        # Calls under way continue; the answer counts below show that the server has waited for them.
        reader.join(PATIENCE)
        self.assertEqual(len(got), 20)
        self.assertEqual(stream.code(), grpc.StatusCode.OK)
        self.assertIn("1 calls were answered, 0 were cancelled", self.server.end())
        with self.assertRaises(grpc.RpcError) as raised:
            echo(self.channel)(echo_request(b"too late"), timeout=PATIENCE)
        self.assertEqual(raised.exception.code(), grpc.StatusCode.UNAVAILABLE)

    def test_messages_that_are_sent_in_the_drain_are_read_and_answered(self):
        go_on = threading.Event()
        self.addCleanup(go_on.set)

        def ask(begun):
            yield echo_request(b"before,")
            begun.set()
            go_on.wait(PATIENCE)
            for i in range(100):
                yield echo_request(b"%d," % i)

        begun = threading.Event()
        joined = echo_joined(self.channel).future(ask(begun), timeout=PATIENCE)
        self.assertTrue(begun.wait(PATIENCE))
        each = echo_all(self.channel)(ask(threading.Event()), timeout=PATIENCE)
        # Streams of a connection begin in their order: the server has both calls when the second one is answered.
        self.assertEqual(next(each), field(1, b"before,"))
        ready, told = threading.Event(), threading.Event()

        def note(state):
            if state == grpc.ChannelConnectivity.READY:
                ready.set()
            elif ready.is_set():
                told.set()

        self.channel.subscribe(note)
        self.assertTrue(ready.wait(PATIENCE))
        self.server.terminate()
        self.server.wait_until_drains()
        self.assertTrue(told.wait(PATIENCE), "the client has not learned that the server stops")
        go_on.set()
        parts = [b"%d," % i for i in range(100)]
        self.assertEqual(list(each), [field(1, part) for part in parts])
        self.assertEqual(joined.result(PATIENCE), field(1, b"before," + b"".join(parts)))
        self.assertIn("2 calls were answered, 0 were cancelled", self.server.end())


@unittest.skipIf(BY_GRPCS_LIBRARY, "gRPC's library pings by itself, after two hours")
class GrpcServerPingsTest(unittest.TestCase):
    def setUp(self):
        self.server = Server("--ping_after_ms=2000", "--drain_ms=3600000")
        self.addCleanup(self.server.kill)
        self.before = self.sockets()

    def sockets(self):
        folder = f"/proc/{self.server.process.pid}/fd"
        count = 0
        for name in os.listdir(folder):
            try:
                count += os.readlink(f"{folder}/{name}").startswith("socket:")
            except FileNotFoundError:
                pass
        return count

    def await_connections(self, count):
        end = time.monotonic() + PATIENCE
        while self.sockets() != self.before + count:
            self.assertLess(time.monotonic(), end, f"{self.sockets() - self.before} connections, not {count}")
            time.sleep(0.01)

    def stop_reader(self, method, request):
        client = start_reader(self.server, method, request)
        self.addCleanup(client.communicate)
        self.addCleanup(client.kill)
        client.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, client.pid, os.WSTOPPED | os.WNOWAIT)
        return client

    def test_clients_that_are_stopped_while_a_handler_works_or_watches_for_them_are_let_go(self):
        with self.server.channel() as channel:
            watch = watch_health(channel)(b"")
            self.assertEqual(next(watch), SERVING)
            clients = [self.stop_reader("/weft.examples.Greeter/Greet", greet_request(b"you", 1000, 3600 * 1000)),
                       self.stop_reader("/grpc.health.v1.Health/Watch", b"")]
            self.await_connections(1)  # One that is silent, and answers.
            self.assertTrue(watch.is_active())
            self.assertEqual([client.poll() for client in clients], [None, None])
            self.server.terminate()
            self.assertEqual(next(watch), NOT_SERVING)
            told = self.server.end()
        self.assertIn(" 2 ping_timeouts,", told)
        self.assertIn("0 calls were answered, 1 were cancelled", told)


@unittest.skipIf(BY_GRPCS_LIBRARY, "gRPC's library counts otherwise")
class GrpcServerCountsTest(unittest.TestCase):
    def test_connections_above_the_limit_of_their_host_are_counted(self):
        server = Server("--max_connections_per_host=1")
        self.addCleanup(server.kill)
        with server.channel() as channel:
            self.assertEqual(echo(channel)(echo_request(b"x"), timeout=PATIENCE), field(1, b"x"))
            host, port = server.address.split(":")
            with self.assertRaises(ConnectionResetError):  # By the connect, or after it.
                with socket.create_connection((host, int(port)), timeout=PATIENCE) as other:
                    other.recv(1)
            server.terminate()
        told = server.end()
        self.assertIn("connections: 2 accepted, 1 refused, 1 over_host_limit, ", told)
        self.assertRegex(told, r"http2: 1 connections, 1 requests, 0 handlers, 0 refused, ")


@unittest.skipUnless(HAS_TLS, "the server has no TLS")
@unittest.skipUnless(shutil.which("openssl"), "openssl is not installed")
class GrpcServerTlsTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.certificate, self.key = self.make_certificate(folder.name, "server")
        self.server = Server(f"--tls_certificate={self.certificate}", f"--tls_key={self.key}")
        self.addCleanup(self.server.kill)

    @staticmethod
    def make_certificate(folder, name):
        """The files of a self-signed one for 127.0.0.1, and of its key."""
        certificate, key = (pathlib.Path(folder) / f"{name}_{what}.pem" for what in ("certificate", "key"))
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]
            + ["-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1", "-days", "30"]
            + ["-keyout", key, "-out", certificate],
            check=True, capture_output=True, timeout=PATIENCE)
        return certificate, key

    def test_calls_of_all_kinds_go_over_a_secure_channel(self):
        with self.server.secure_channel(self.certificate.read_bytes()) as channel:
            payload = os.urandom(1 << 20)
            self.assertEqual(echo(channel)(echo_request(payload), timeout=PATIENCE), field(1, payload))
            parts = [b"%d" % i for i in range(100)]
            got = echo_joined(channel)((echo_request(part) for part in parts), timeout=PATIENCE)
            self.assertEqual(got, field(1, b"".join(parts)))
            got = list(echo_all(channel)((echo_request(part) for part in parts), timeout=PATIENCE))
            self.assertEqual(got, [field(1, part) for part in parts])
            self.assertEqual(len(list(greet(channel)(greet_request(b"you", 30), timeout=PATIENCE))), 30)
            self.server.terminate()
            self.assertIn("4 calls were answered, 0 were cancelled", self.server.end())

    def test_clients_that_do_not_trust_it_or_speak_plain_text_make_no_call(self):
        other, _ = self.make_certificate(self.certificate.parent, "other")
        for channel in (self.server.secure_channel(other.read_bytes()), self.server.channel()):
            with channel, self.assertRaises(grpc.RpcError) as raised:
                echo(channel)(echo_request(b"x"), timeout=PATIENCE)
            self.assertEqual(raised.exception.code(), grpc.StatusCode.UNAVAILABLE)
        with self.server.secure_channel(self.certificate.read_bytes()) as channel:
            self.assertEqual(echo(channel)(echo_request(b"x"), timeout=PATIENCE), field(1, b"x"))
        self.server.terminate()
        told = self.server.end()
        self.assertIn("1 calls were answered", told)
        self.assertRegex(told, "[1-9][0-9]* tls_failed")

    def test_a_certificate_that_is_not_there_is_refused(self):
        done = subprocess.run(
            [SERVER, "--listen=127.0.0.1:0", "--tls_certificate=/nowhere", f"--tls_key={self.key}"],
            capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("no TLS: ", done.stderr)


class GrpcServerFlagsTest(unittest.TestCase):
    def test_calls_that_take_longer_than_the_drain_are_cancelled(self):
        server = Server("--drain_ms=100")
        self.addCleanup(server.kill)
        with server.channel() as channel:
            stream = greet(channel)(greet_request(b"you", 1000, 3600 * 1000), timeout=PATIENCE)
            next(stream)
            server.terminate()
            self.assertRaises(grpc.RpcError, next, stream)
            self.assertIn("0 calls were answered, 1 were cancelled", server.end())

    def test_duration_ends_the_server(self):
        server = Server("--duration=1")
        self.addCleanup(server.kill)
        self.assertIn("0 calls were answered", server.end())

    def test_a_port_in_use_is_refused(self):
        server = Server()
        self.addCleanup(server.kill)
        second = subprocess.run(
            [SERVER, f"--listen={server.address}"], capture_output=True, text=True, timeout=PATIENCE, check=False)
        self.assertEqual(second.returncode, 1)
        self.assertRegex(second.stderr, f"cannot listen on (--listen=)?{re.escape(server.address)}")

    @unittest.skipIf(BY_GRPCS_LIBRARY, "gRPC's library listens itself")
    def test_a_socket_that_systemd_has_handed_over_is_served(self):
        with socket.create_server(("127.0.0.1", 0)) as listener:
            fd = listener.fileno()
            as_systemd = f'LISTEN_PID=$$ LISTEN_FDS=1 exec "$0" --listen=systemd 3<&{fd}'
            server = Server(command=("bash", "-c", as_systemd, SERVER), pass_fds=[fd])
            self.addCleanup(server.kill)
            self.assertEqual(server.address, f"127.0.0.1:{listener.getsockname()[1]}")
            with server.channel() as channel:
                self.assertEqual(echo(channel)(echo_request(b"x"), timeout=PATIENCE), field(1, b"x"))
                server.terminate()
            self.assertIn("1 calls were answered", server.end())


if __name__ == "__main__":
    unittest.main(verbosity=2)
