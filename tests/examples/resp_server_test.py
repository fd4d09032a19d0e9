#!/usr/bin/env python3
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""examples/resp_server from outside: redis-cli, redis-benchmark, and sockets that do what no client should.

resp_server_test.py PROGRAM [--sanitized] [arguments of unittest]
Exit status 77: the tests asked for need redis-tools, which is missing.
"""

import contextlib
import itertools
import random
import re
import resource
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest

from server_process import LIMIT, Server, read_to_end, reset, stopped, wait_for

PROGRAM = sys.argv.pop(1)
# Under a sanitizer everything takes longer, and memory figures mean nothing.
SANITIZED = "--sanitized" in sys.argv and not sys.argv.remove("--sanitized")


def array(*arguments):
    """A request, as clients send it."""
    parts = [b"*%d\r\n" % len(arguments)]
    for argument in arguments:
        argument = argument if isinstance(argument, bytes) else str(argument).encode()
        parts.append(b"$%d\r\n%s\r\n" % (len(argument), argument))
    return b"".join(parts)


def bulk(value):
    return b"$%d\r\n%s\r\n" % (len(value), value)


def read_exactly(connection, size):
    parts = []
    while size:
        part = connection.recv(min(size, 1 << 16))
        assert part, f"the stream ended {size} bytes early"
        parts.append(part)
        size -= len(part)
    return b"".join(parts)


def ask(server, request):
    """Sends, and reads until the server closes."""
    with server.connect() as connection:
        connection.sendall(request)
        return read_to_end(connection)


def ask_and_quit(server, *requests):
    return ask(server, b"".join(requests) + b"QUIT\r\n")


def info(server, field):
    for line in ask_and_quit(server, b"INFO\r\n").decode().splitlines():
        if line.startswith(field + ":"):
            return int(line.split(":", 1)[1])
    raise AssertionError(f"INFO has no {field}")


def counts_of(connection):
    """The numbers of INFO, asked on this connection."""
    connection.sendall(b"INFO\r\n")
    line = b""
    while not line.endswith(b"\r\n"):
        line += read_exactly(connection, 1)
    text = read_exactly(connection, int(line[1:]) + 2).decode()
    return {name: int(value) for name, value in re.findall(r"^(\w+):(\d+)\r$", text, re.MULTILINE)}


def info_keys(server):
    found = re.match(rb":(\d+)\r\n", ask_and_quit(server, b"DBSIZE\r\n"))
    return int(found.group(1))


def run_tool(*command, given=None):
    """One of redis-tools; its output."""
    done = subprocess.run(command, input=given, capture_output=True, text=True, timeout=LIMIT)
    assert done.returncode == 0, f"{command}: status {done.returncode}: {done.stdout}{done.stderr}"
    return done.stdout


def sockets_of(server):
    """The kernel's sockets of accepted connections: for each the client's port, and which timer runs, if any."""
    found = {}
    with open("/proc/net/tcp") as lines:
        for line in list(lines)[1:]:
            fields = line.split()
            port, client = (int(address.split(":")[1], 16) for address in fields[1:3])
            if port == server.port and client != 0:
                found[client] = int(fields[5].split(":")[0], 16)
    return found


def memory_of(server):
    """Bytes of resident memory and of page tables."""
    with open(f"/proc/{server.pid}/status") as status:
        found = re.findall(r"^Vm(?:RSS|PTE):\s+(\d+) kB$", status.read(), re.MULTILINE)
    assert len(found) == 2, found
    return 1024 * sum(int(kilobytes) for kilobytes in found)


class WithServer(unittest.TestCase):
    """One server for the tests of a class; after each no connection and no descriptor is left."""

    @classmethod
    def setUpClass(cls):
        cls.server = Server(PROGRAM, "--bulk_limit=8388608", "--request_limit=16777216", "--fiber_concurrency_hint=4")
        info(cls.server, "connected_clients")  # The first connection makes what stays: the poll.
        cls.wait_until_alone()
        cls.descriptors = cls.server.descriptors()

    @classmethod
    def tearDownClass(cls):
        with cls.server:
            pass  # Status 0.

    @classmethod
    def wait_until_alone(cls):
        wait_for(lambda: info(cls.server, "connected_clients") == 1, "connections are left")

    def setUp(self):
        self.assertEqual(ask_and_quit(self.server, b"FLUSHALL\r\n"), b"+OK\r\n+OK\r\n")

    def tearDown(self):
        self.assertIsNone(self.server.process.poll(), "the server has ended")
        self.wait_until_alone()
        wait_for(lambda: self.server.descriptors() <= self.descriptors, "descriptors are left")


class Cli(WithServer):
    def test_redis_cli_gets_what_it_gets_from_redis(self):
        script = [
            ("PING", "PONG"),
            ("SET greeting 'hello world'", "OK"),
            ("GET greeting", '"hello world"'),
            ("GET nothing", "(nil)"),
            ("SET greeting x NX", "(nil)"),
            ("SET nothing x XX", "(nil)"),
            ("SET greeting x XX", "OK"),
            ("SET greeting y EX", "(error) ERR syntax error"),
            ("SET greeting y EX 0", "(error) ERR invalid expire time in 'set' command"),
            ("SET greeting y PX ten", "(error) ERR value is not an integer or out of range"),
            ("MSET a 1 b 2 c 3", "OK"),
            ("MGET a b nothing c", '1) "1"\n2) "2"\n3) (nil)\n4) "3"'),
            ("INCR a", "(integer) 2"),
            ("INCRBY a 40", "(integer) 42"),
            ("DECR b", "(integer) 1"),
            ("INCR greeting", "(error) ERR value is not an integer or out of range"),
            ("INCRBY a 9223372036854775807", "(error) ERR increment or decrement would overflow"),
            ("EXISTS a b nothing a", "(integer) 3"),
            ("DEL a b nothing", "(integer) 2"),
            ("DBSIZE", "(integer) 2"),
            ("TTL greeting", "(integer) -1"),
            ("TTL nothing", "(integer) -2"),
            ("EXPIRE greeting 100", "(integer) 1"),
            ("TTL greeting", "(integer) 100"),
            ("EXPIRE nothing 100", "(integer) 0"),
            ("PEXPIRE greeting 0", "(integer) 1"),
            ("GET greeting", "(nil)"),
            ("ECHO echo", '"echo"'),
            ("SELECT 0", "OK"),
            ("SELECT 1", "(error) ERR DB index is out of range"),
            ("CONFIG GET appendonly", '1) "appendonly"\n2) "no"'),
            ("GET", "(error) ERR wrong number of arguments for 'get' command"),
            ("MSET a", "(error) ERR wrong number of arguments for 'mset' command"),
            ("NOSUCH a b", "(error) ERR unknown command 'NOSUCH', with args beginning with: 'a' 'b' "),
            ("HELLO 3", "(error) NOPROTO unsupported protocol version"),
            ("FLUSHALL", "OK"),
            ("DBSIZE", "(integer) 0"),
        ]
        given = "".join(command + "\n" for command, _ in script)
        got = run_tool("redis-cli", "-p", str(self.server.port), "--no-raw", given=given)
        self.assertEqual(got.rstrip("\n").split("\n"), "\n".join(answer for _, answer in script).split("\n"))

    def test_redis_cli_starts_and_ends_a_conversation(self):
        got = run_tool("redis-cli", "-p", str(self.server.port), "-i", "0.01", "-r", "5", "incr", "n")
        self.assertEqual(got, "1\n2\n3\n4\n5\n")


class Benchmark(WithServer):
    def test_redis_benchmark_has_no_errors(self):
        requests = "5000"
        for pipeline in ("1", "16"):
            # It ends with an error at the first answer that is an error.
            got = run_tool(
                *("redis-benchmark", "-p", str(self.server.port), "-q", "-P", pipeline, "-c", "50", "-n", requests),
                *("-r", "1000", "-t", "ping,set,get,incr,mset"),
            )
            self.assertEqual(got.count("requests per second"), 6, got)
            self.assertNotIn("rror", got)
        got = ask_and_quit(self.server, b"DBSIZE\r\n")
        self.assertRegex(got, rb"^:[1-9][0-9]+\r\n")


class Pipelines(WithServer):
    def test_the_answers_of_a_pipeline_come_in_order(self):
        count = 20_000
        requests = b"".join(array("SET", f"key{i}", i) + array("GET", f"key{i}") for i in range(count))
        expected = b"".join(b"+OK\r\n$%d\r\n%d\r\n" % (len(str(i)), i) for i in range(count))
        with self.server.connect() as connection:
            sender = threading.Thread(target=connection.sendall, args=(requests + b"QUIT\r\n",))
            sender.start()
            self.assertTrue(read_to_end(connection) == expected + b"+OK\r\n")
            sender.join()

    def test_connections_that_pipeline_take_turns(self):
        turn = 1024  # TcpConnection::kRequestsInATurn
        count = 4_000
        with Server(PROGRAM, "--fiber_concurrency_hint=1") as server:
            clients = [server.connect() for _ in range(2)]
            for client in clients:  # Both have been accepted.
                client.sendall(b"PING\r\n")
                self.assertEqual(read_exactly(client, 7), b"+PONG\r\n")
            with stopped(server):  # So that both have sent all before any of it is read.
                for client in clients:
                    client.sendall(b"INCR n\r\n" * count + b"QUIT\r\n")
            whose = {}
            for number, client in enumerate(clients):
                whose.update({int(answer): number for answer in re.findall(rb":(\d+)", read_to_end(client))})
        self.assertEqual(len(whose), 2 * count)
        in_a_row = [len(list(run)) for _, run in itertools.groupby(whose[n] for n in range(1, 2 * count + 1))]
        self.assertLessEqual(max(in_a_row), turn, in_a_row)

    def test_a_slow_writer_is_answered_as_any_other(self):
        stream = array("SET", "k", b"a\r\nb") + b"GET k\r\n" + array("GET", "k") + b"QUIT\r\n"
        with self.server.connect() as connection:
            for byte in stream:
                connection.send(bytes([byte]))
            self.assertEqual(read_to_end(connection), b"+OK\r\n" + b"$4\r\na\r\nb\r\n" * 2 + b"+OK\r\n")

    def test_long_values_come_back_whole(self):
        value = random.Random(1).randbytes(5_000_000)
        answer = ask_and_quit(self.server, array("SET", "long", value), array("MGET", "long", "nothing", "long"))
        self.assertTrue(answer == b"+OK\r\n*3\r\n" + bulk(value) + b"$-1\r\n" + bulk(value) + b"+OK\r\n")

    def test_who_does_not_read_holds_up_only_itself(self):
        value = b"x" * 1_000_000
        ask_and_quit(self.server, array("SET", "long", value))
        count = 200
        with self.server.connect() as connection:
            connection.sendall(array("GET", "long") * count)
            resident = self.server.resident_bytes()
            for _ in range(20):
                self.assertEqual(ask_and_quit(self.server, b"PING\r\n"), b"+PONG\r\n+OK\r\n")
            # 200 MB of answers are kept nowhere: the value is sent from its place.
            if not SANITIZED:
                self.assertLess(self.server.resident_bytes() - resident, 50_000_000)
            for _ in range(count):
                self.assertTrue(read_exactly(connection, len(bulk(value))) == bulk(value))

    def test_keys_expire(self):
        expired = info(self.server, "expired_keys")
        got = ask_and_quit(self.server, array("SET", "a", "1", "PX", "30"), array("PTTL", "a"))
        self.assertRegex(got, rb"^\+OK\r\n:([12]?[0-9]|30)\r\n\+OK\r\n$")
        wait_for(lambda: info_keys(self.server) == 0, "a key that has expired and that nobody asks for is still there")
        self.assertEqual(info(self.server, "expired_keys"), expired + 1)


class Misbehaviour(WithServer):
    def test_what_is_no_request_is_refused_in_the_words_of_redis_and_closed(self):
        for request, error in [
            (b"*x\r\n", b"invalid multibulk length"),
            (b"*1\r\n$x\r\n", b"invalid bulk length"),
            (b"*1\r\n$-5\r\n", b"invalid bulk length"),
            (b"*1\r\n$8388609\r\n", b"invalid bulk length"),
            (b"*1048577\r\n", b"invalid multibulk length"),
            (b"*1\r\nPING\r\n", b"expected '$', got 'P'"),
            (b"'a\r\n", b"unbalanced quotes in request"),
            (b"x" * 70_000, b"too big inline request"),
            (b"*" + b"1" * 70_000, b"too big mbulk count string"),
            (b"*1\r\n$" + b"1" * 70_000, b"too big bulk count string"),
        ]:
            with self.subTest(request[:20]):
                expected = b"-ERR Protocol error: " + error + b"\r\n"
                self.assertEqual(ask(self.server, request), expected)
                # Requests before it are answered, bytes after it are not read.
                self.assertEqual(
                    ask(self.server, b"PING\r\n" + request + b"\r\nPING\r\n" * 1000), b"+PONG\r\n" + expected
                )

    def test_commands_in_the_body_of_an_http_request_are_not_executed(self):
        body = array("SET", "from a browser", "1")
        get = b"GET / HTTP/1.1\r\n"  # Two arguments too many: answered, as in Redis.
        host = b"Host: localhost:6379\r\n"
        head = b"Content-Length: %d\r\n\r\n" % len(body)
        wrong = b"-ERR wrong number of arguments for 'get' command\r\n"
        self.assertEqual(ask(self.server, b"POST / HTTP/1.1\r\n" + host + head + body), b"")
        self.assertEqual(ask(self.server, b"post / HTTP/1.1\r\n" + head + body), b"")
        self.assertEqual(ask(self.server, get + host + head + body), wrong)
        self.assertEqual(ask(self.server, b"PING\r\n" + get + b"host: x\r\n" + body), b"+PONG\r\n" + wrong)
        self.assertEqual(info_keys(self.server), 0)

    def test_a_request_that_is_too_long_in_all_is_refused(self):
        request = b"*100\r\n" + b"$1000000\r\n%s\r\n" % (b"x" * 1_000_000) * 17
        with self.server.connect() as connection:
            try:
                connection.sendall(request)
            except ConnectionError:
                pass  # It was refused before all had been sent.
            try:
                self.assertEqual(read_to_end(connection), b"-ERR Protocol error: too big request\r\n")
            except ConnectionResetError:
                pass  # It sent more than the server would read.

    def test_pipelined_garbage_ends_only_its_connection(self):
        random_bytes = random.Random(2)
        for _ in range(200):
            garbage = bytearray(array("SET", "k", "v") * 20)
            for _ in range(10):
                garbage[random_bytes.randrange(len(garbage))] = random_bytes.randrange(256)
            with self.server.connect() as connection:
                try:
                    connection.sendall(garbage)
                    connection.shutdown(socket.SHUT_WR)
                    read_to_end(connection)
                except ConnectionError:
                    pass
        self.assertEqual(ask_and_quit(self.server, b"PING\r\n"), b"+PONG\r\n+OK\r\n")

    def test_truncated_requests_end_with_their_connection(self):
        stream = array("SET", "key", b"0123456789")
        for length in range(len(stream)):
            with self.server.connect() as connection:
                connection.sendall(stream[:length])
                connection.shutdown(socket.SHUT_WR)
                self.assertEqual(read_to_end(connection), b"")
        self.assertEqual(info_keys(self.server), 0)

    def test_a_half_closed_client_gets_its_answers(self):
        with self.server.connect() as connection:
            connection.sendall(array("SET", "k", "v") + array("GET", "k"))
            connection.shutdown(socket.SHUT_WR)
            self.assertEqual(read_to_end(connection), b"+OK\r\n$1\r\nv\r\n")

    def test_reset_connections_leave_nothing(self):
        ask_and_quit(self.server, array("SET", "long", b"x" * 1_000_000))
        for sent in [b"", b"*2\r\n$3\r\nGE", array("GET", "long") * 20]:
            for _ in range(20):
                connection = self.server.connect()
                connection.sendall(sent)
                if sent.endswith(b"\n"):
                    connection.recv(100)  # It is sending.
                reset(connection)
        self.assertEqual(ask_and_quit(self.server, b"PING\r\n"), b"+PONG\r\n+OK\r\n")

    def test_many_connections_at_once(self):
        with contextlib.ExitStack() as open_connections:
            connections = [open_connections.enter_context(self.server.connect()) for _ in range(400)]
            for i, connection in enumerate(connections):
                connection.sendall(array("SET", f"key{i}", i))
            for connection in connections:
                self.assertEqual(read_exactly(connection, 5), b"+OK\r\n")
            self.assertEqual(info_keys(self.server), 400)
            # The server may still be closing the connection that asked for the keys.
            wait_for(lambda: info(self.server, "connected_clients") == 401, "it does not count 400 connections")


class TimeLimits(unittest.TestCase):
    """What ends clients that have vanished, or behave as if they had."""

    KEEP_ALIVE_TIMER = 2  # in /proc/net/tcp

    def wait_until_ended(self, server, watcher):
        """Until all have been accepted and none is left but the watcher's, which stays busy meanwhile."""

        def is_alone():
            counts = counts_of(watcher)
            return (counts["total_connections_received"], counts["connected_clients"]) == (len(server.connections), 1)

        wait_for(is_alone, lambda: f"connections are left: {counts_of(watcher)}")

    def test_a_request_that_does_not_come_to_its_end_is_given_up(self):
        with Server(PROGRAM, "--request_timeout_ms=300") as server:
            watcher = server.connect()
            halves = (b"PI", b"*2\r\n$3\r\nGET\r\n$1\r\n", b"PING\r\n*")
            for half in halves:
                connection = server.connect()
                began = time.monotonic()
                connection.sendall(half)
                self.assertEqual(read_to_end(connection), b"+PONG\r\n" if b"\n*" in half else b"")
                self.assertGreaterEqual(time.monotonic() - began, 0.3)
            self.wait_until_ended(server, watcher)
            counts = counts_of(watcher)
            self.assertEqual((counts["timed_out_requests"], counts["timed_out_writes"]), (len(halves), 0))
            self.assertEqual(counts["timed_out_idle"], 0)

    def test_a_request_that_comes_byte_by_byte_is_given_up_as_well(self):
        with Server(PROGRAM, "--request_timeout_ms=500") as server:
            connection, watcher = server.connect(), server.connect()
            connection.sendall(b"*2\r\n$4\r\nECHO\r\n$1000000\r\n")
            connection.settimeout(0.02)
            end = time.monotonic() + LIMIT
            with contextlib.suppress(ConnectionError):
                while time.monotonic() < end:
                    connection.sendall(b"x")
                    with contextlib.suppress(TimeoutError):
                        if not connection.recv(1):
                            break
            self.wait_until_ended(server, watcher)
            self.assertEqual(counts_of(watcher)["timed_out_requests"], 1)

    def test_each_request_of_a_pipeline_has_its_own_time(self):
        with Server(PROGRAM, "--request_timeout_ms=3000") as server:
            connection = server.connect()
            began = time.monotonic()
            connection.sendall(b"PI")
            # At no time is there no half request.
            while time.monotonic() - began < 4:
                connection.sendall(b"NG\r\nPI")
                self.assertEqual(read_exactly(connection, 7), b"+PONG\r\n")
                connection.settimeout(0.05)
                with self.assertRaises(TimeoutError):
                    connection.recv(1)
                connection.settimeout(LIMIT)

    def test_a_client_that_never_reads_its_answers_is_ended(self):
        value = b"x" * 1_000_000
        with Server(PROGRAM, "--write_timeout_ms=300") as server:
            watcher, connection = server.connect(), server.connect()
            watcher.sendall(array("SET", "long", value))
            self.assertEqual(read_exactly(watcher, 5), b"+OK\r\n")
            port = connection.getsockname()[1]
            connection.sendall(array("GET", "long") * 200)
            self.wait_until_ended(server, watcher)
            self.assertEqual(counts_of(watcher)["timed_out_writes"], 1)
            # The kernel does not keep what was sent and not read.
            wait_for(lambda: port not in sockets_of(server), "the kernel still holds the connection")

    def test_idle_clients_are_ended_if_that_is_asked_for_and_others_stay(self):
        with Server(PROGRAM, "--idle_timeout_ms=3000") as server:
            began = time.monotonic()
            watcher, silent, once = (server.connect() for _ in range(3))
            once.sendall(b"PING\r\n")
            self.assertEqual(read_exactly(once, 7), b"+PONG\r\n")
            self.wait_until_ended(server, watcher)
            self.assertGreaterEqual(time.monotonic() - began, 3)
            self.assertEqual((silent.recv(1), once.recv(1)), (b"", b""))
            self.assertEqual(counts_of(watcher)["timed_out_idle"], 2)

    def test_who_is_within_the_limits_stays(self):
        with Server(PROGRAM, "--request_timeout_ms=200", "--write_timeout_ms=200") as server:
            connections = [server.connect() for _ in range(3)]
            for connection in connections[1:]:
                connection.sendall(b"PING\r\n")
                self.assertEqual(read_exactly(connection, 7), b"+PONG\r\n")
            # By default idle clients have no limit, as in Redis.
            connections[0].settimeout(1)
            with self.assertRaises(TimeoutError):
                connections[0].recv(1)
            for connection in connections:
                connection.settimeout(LIMIT)
                connection.sendall(b"PING\r\n")
                self.assertEqual(read_exactly(connection, 7), b"+PONG\r\n")
            counts = counts_of(connections[0])
            self.assertEqual([counts[name] for name in counts if name.startswith("timed_out")], [0, 0, 0])

    def test_the_kernel_asks_silent_clients_whether_they_are_there(self):
        for flags, timer in (((), self.KEEP_ALIVE_TIMER), (("--tcp_keepalive=0",), 0)):
            with self.subTest(flags), Server(PROGRAM, *flags) as server:
                connection = server.connect()
                connection.sendall(b"PING\r\n")
                self.assertEqual(read_exactly(connection, 7), b"+PONG\r\n")
                # Before that another timer waits for the acknowledgement of the answer.
                port = connection.getsockname()[1]
                wait_for(lambda: sockets_of(server).get(port) == timer, lambda: f"{sockets_of(server)}")

    def test_half_requests_take_so_much_memory(self):
        half = b"*2\r\n$3\r\nGET\r\n$1\r\n"
        with Server(PROGRAM, "--max_unfinished_mb=1") as server:
            watcher = server.connect()
            halves = []
            while counts_of(watcher)["refused_unfinished"] == 0:
                self.assertLess(len(halves), 65, "each has a buffer of 16 KiB")
                before = counts_of(watcher)["unfinished_bytes"]
                halves.append(server.connect())
                halves[-1].sendall(half)
                wait_for(lambda: counts_of(watcher)["unfinished_bytes"] != before or
                         counts_of(watcher)["refused_unfinished"] != 0, "it does not count")
            self.assertGreater(len(halves), 60)
            self.assertEqual(read_to_end(halves.pop()), b"-ERR no memory for unfinished requests\r\n")
            # Whole requests are answered; and so are the half ones, with their rest.
            self.assertEqual(ask_and_quit(server, b"PING\r\n"), b"+PONG\r\n+OK\r\n")
            halves[0].sendall(b"k\r\n")
            self.assertEqual(read_exactly(halves[0], 5), b"$-1\r\n")
            # Its memory is another one's then.
            full = 16_384 * len(halves)
            wait_for(lambda: counts_of(watcher)["unfinished_bytes"] < full, "it does not give back")
            halves.append(server.connect())
            halves[-1].sendall(half + b"k\r\n" + half)
            self.assertEqual(read_exactly(halves[-1], 5), b"$-1\r\n")
            wait_for(lambda: counts_of(watcher)["unfinished_bytes"] >= full, "it does not count")
            for connection in halves:
                connection.close()
            wait_for(lambda: counts_of(watcher)["unfinished_bytes"] == 0, "it does not give back")
            # One that is too large alone, whose buffer grows as it comes.
            with server.connect() as connection:
                with contextlib.suppress(ConnectionError):  # It may be closed before all is sent.
                    connection.sendall(array("SET", "long", b"x" * 1_300_000))
                    self.assertEqual(read_to_end(connection), b"-ERR no memory for unfinished requests\r\n")
            wait_for(lambda: counts_of(watcher)["unfinished_bytes"] == 0, "it does not give back")
            self.assertEqual(ask_and_quit(server, array("SET", "long", b"x" * 300_000)), b"+OK\r\n+OK\r\n")
            wait_for(lambda: counts_of(watcher)["unfinished_bytes"] == 0, "it does not give back")
            self.assertEqual(counts_of(watcher)["refused_unfinished"], 2)

    def test_a_host_has_so_many_connections(self):
        with Server(PROGRAM, "--max_connections_per_host=2") as server:
            watcher = server.connect()
            first, second = (server.connect(source="127.0.0.2") for _ in range(2))
            for connection in (first, second):
                connection.sendall(b"PING\r\n")
                self.assertEqual(read_exactly(connection, 7), b"+PONG\r\n")
            # connect() may already see the reset.
            with contextlib.suppress(ConnectionError), server.connect(source="127.0.0.2") as third:
                self.assertEqual(read_to_end(third), b"")
            wait_for(lambda: counts_of(watcher)["rejected_connections"] == 1, "it is not counted")
            counts = counts_of(watcher)
            self.assertEqual((counts["rejected_over_host_limit"], counts["total_connections_received"]), (1, 4))


class StoppedClients(unittest.TestCase):
    """Clients that stand still as a whole: the kernel goes on to acknowledge what is sent to them."""

    LIMITS = ("--idle_timeout_ms=4000", "--request_timeout_ms=4000", "--write_timeout_ms=4000")

    def start_and_stop(self, server, watcher, connections, program, *flags):
        """A client that is stopped when so many connections of it are there."""
        command = (program, "-p", str(server.port), *flags)
        client = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)

        def end():
            client.kill()
            client.communicate()

        self.addCleanup(end)
        wait_for(lambda: counts_of(watcher)["connected_clients"] > connections, f"{program} connects")
        client.send_signal(signal.SIGSTOP)

        def is_stopped():
            with open(f"/proc/{client.pid}/stat") as stat:
                return stat.read().rsplit(")", 1)[1].split()[0] == "T"

        wait_for(is_stopped, f"{program} stops")

    def others_are_served_and_it_is_ended(self, server):
        """Returns how many connections the limits have ended: which limit depends on where each stood."""
        got = run_tool("redis-benchmark", "-p", str(server.port), "-q", "-t", "set,incr", "-c", "10", "-n", "2000")
        self.assertEqual(got.count("requests per second"), 2, got)
        watcher = server.connect()  # A former one might have been ended meanwhile.
        wait_for(lambda: counts_of(watcher)["connected_clients"] == 1, "connections are left")
        counts = counts_of(watcher)
        return sum(counts[name] for name in counts if name.startswith("timed_out"))

    def test_a_stopped_redis_cli_is_ended_and_holds_up_nobody(self):
        with Server(PROGRAM, *self.LIMITS) as server:
            with server.connect() as watcher:
                self.start_and_stop(server, watcher, 1, "redis-cli")
            self.assertEqual(self.others_are_served_and_it_is_ended(server), 1)

    def test_a_stopped_redis_benchmark_is_ended_and_holds_up_nobody(self):
        with Server(PROGRAM, *self.LIMITS) as server:
            with server.connect() as watcher:
                watcher.sendall(array("SET", "key:__rand_int__", b"x" * 100_000))
                self.assertEqual(read_exactly(watcher, 5), b"+OK\r\n")
                # 20 MB of answers at a time: more than the kernel takes for a client that does not read.
                flags = ("-t", "get", "-n", "1000000000", "-c", "5", "-P", "200")
                self.start_and_stop(server, watcher, 5, "redis-benchmark", *flags)
            # One of the five it may have closed itself: that by which it asked for the configuration.
            self.assertGreaterEqual(self.others_are_served_and_it_is_ended(server), 4)


@unittest.skipIf(SANITIZED, "AddressSanitizer gives no memory back")
class Memory(unittest.TestCase):
    CONNECTIONS = 4_000

    def setUp(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard < self.CONNECTIONS + 200:
            self.skipTest(f"the hard limit of descriptors is {hard}")
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))

    def test_silent_connections_take_little_memory_and_the_next_ones_the_same(self):
        with Server(PROGRAM, "--fiber_concurrency_hint=1") as server:  # glibc has a heap for each thread.
            watcher = server.connect()
            counts_of(watcher)  # The first request makes what stays.
            before = memory_of(server)
            grown = []
            for _ in range(3):
                connections = [server.connect() for _ in range(self.CONNECTIONS)]
                for connection in connections:
                    connection.sendall(b"PING\r\n")
                    self.assertEqual(read_exactly(connection, 7), b"+PONG\r\n")
                grown.append(memory_of(server) - before)
                for connection in connections:
                    connection.close()
                wait_for(lambda: counts_of(watcher)["connected_clients"] == 1, "connections are left")
            # Resident memory and page tables. How much goes back to the system is up to malloc(): what lies last in its
            # heap may keep all below it. 870 were seen; a stack or a buffer for each would take 4,096 at least.
            print(f"{[round(bytes / self.CONNECTIONS) for bytes in grown]} bytes each; {memory_of(server) - before} stay")
            self.assertLess(grown[0] / self.CONNECTIONS, 2_500)
            self.assertLess(grown[2], grown[0] + 1_000 * self.CONNECTIONS)

    def test_a_quiet_server_gives_back_what_half_requests_have_taken(self):
        half = b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$50000\r\n" + bytes(20_000)
        with Server(PROGRAM) as server:
            watcher = server.connect()
            counts_of(watcher)
            before = memory_of(server)
            connections = [server.connect() for _ in range(2_000)]
            for connection in connections:
                connection.sendall(half)
            wait_for(lambda: memory_of(server) - before > 2_000 * len(half), "the requests have not come")
            for connection in connections:
                reset(connection)  # In TIME_WAIT they would keep their ports.
            # Without the trims four fifths of it stay.
            wait_for(lambda: memory_of(server) - before < 2_000 * len(half) / 2, lambda: f"{memory_of(server) - before} bytes stay")


class Endings(unittest.TestCase):
    def test_signals_end_it_with_success(self):
        for sent in (signal.SIGTERM, signal.SIGINT):
            with Server(PROGRAM) as server:
                self.assertEqual(ask_and_quit(server, b"PING\r\n"), b"+PONG\r\n+OK\r\n")
                self.assertEqual(server.stop(sent)[0], 0)

    def test_what_has_come_is_answered_before_the_end(self):
        value = b"x" * 100_000
        with Server(PROGRAM) as server:
            ask_and_quit(server, array("SET", "long", value))
            idle, reader = server.connect(), server.connect()
            reader.sendall(array("GET", "long") * 100)
            self.assertTrue(read_exactly(reader, len(bulk(value))) == bulk(value))
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(idle.recv(1), b"")
            self.assertTrue(read_to_end(reader) == bulk(value) * 99)

    def test_requests_that_have_begun_are_read_to_their_end_and_answered(self):
        request = array("SET", "key", b"x" * 1000)
        with Server(PROGRAM) as server:
            # In the number of its arguments, behind the size of one, in the last one; alone, and behind another one.
            begun = []
            for size in (1, request.index(b"SET"), len(request) - 2):
                for before, answer in ((b"", b""), (b"PING\r\n", b"+PONG\r\n")):
                    connection = server.connect()
                    connection.sendall(before + request[:size])
                    self.assertEqual(read_exactly(connection, len(answer)), answer)
                    begun.append((connection, request[size:]))
            idle = server.connect()
            idle.sendall(b"PING\r\n")
            self.assertEqual(read_exactly(idle, 7), b"+PONG\r\n")
            server.process.send_signal(signal.SIGTERM)
            self.assertEqual(idle.recv(1), b"")  # The drain has ended what waits for a request.
            time.sleep(1.2)  # Longer than one may wait that has sent nothing.
            for connection, rest in begun:
                connection.sendall(rest[:1])
            for connection, rest in begun:
                connection.sendall(rest[1:] + b"PING\r\n")
                self.assertEqual(read_to_end(connection), b"+OK\r\n+PONG\r\n")
            self.assertEqual(server.stop()[0], 0)

    def test_who_does_not_read_does_not_keep_it_from_ending(self):
        with Server(PROGRAM, "--drain=0.3") as server:
            ask_and_quit(server, array("SET", "long", b"x" * 100_000))
            connection = server.connect()
            connection.sendall(array("GET", "long") * 1000)
            connection.recv(1)
            self.assertEqual(server.stop()[0], 0)

    def test_shutdown_ends_it(self):
        with Server(PROGRAM) as server:
            self.assertEqual(ask(server, b"SHUTDOWN NOSAVE\r\n"), b"")
            self.assertEqual(server.process.wait(LIMIT), 0)

    def test_limits_that_cannot_be_are_refused(self):
        for flag, value in (("--bulk_limit", 0), ("--tcp_keepalive", 32768)):
            done = subprocess.run([PROGRAM, f"{flag}={value}"], capture_output=True, text=True, timeout=LIMIT)
            self.assertEqual(done.returncode, 2)
            self.assertIn(flag, done.stderr)


if __name__ == "__main__":
    missing = [tool for tool in ("redis-cli", "redis-benchmark") if shutil.which(tool) is None]
    if missing and {"Cli", "Benchmark", "StoppedClients"} & set(sys.argv):
        print(f"skipped: no {' and no '.join(missing)} (Debian: redis-tools)")
        sys.exit(77)
    unittest.main(verbosity=2)
