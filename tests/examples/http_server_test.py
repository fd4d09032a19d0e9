#!/usr/bin/env python3
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""examples/http_server from outside: curl, wrk, and sockets that do what no client should.

http_server_test.py PROGRAM [--sanitized] [arguments of unittest]
"""

import contextlib
import json
import os
import pathlib
import random
import re
import resource
import shlex
import shutil
import signal
import socket
import struct
import subprocess
import sys
import tempfile
import time
import unittest

from server_process import LIMIT, Server, least, read_to_end, reset, stopped, wait_for

PROGRAM = sys.argv.pop(1)
# Under a sanitizer everything takes longer and a fiber needs more: fewer connections, and no figures.
SANITIZED = "--sanitized" in sys.argv and not sys.argv.remove("--sanitized")

GREETING = b'{"message":"Hello, World!"}'
GET = b"GET /plaintext HTTP/1.1\r\nHost: a\r\n\r\n"
HELLO = b"Hello, World!"


def serve(*flags, **options):
    return Server(PROGRAM, *flags, **options)


def parse(stream, head_only=False):
    """The responses in `stream`, as (status, headers, body)."""
    responses = []
    while stream:
        head, separator, rest = stream.partition(b"\r\n\r\n")
        assert separator, f"no end of the header in {head[:200]!r}"
        lines = head.decode().split("\r\n")
        status = int(re.fullmatch(r"HTTP/1\.1 (\d{3}) [A-Z].*", lines[0]).group(1))
        headers = {}
        for line in lines[1:]:
            name, _, value = line.partition(": ")
            assert name.lower() not in headers, f"{name} twice"
            headers[name.lower()] = value
        size = 0 if status == 100 or head_only else int(headers["content-length"])
        assert len(rest) >= size, f"{len(rest)} of {size} bytes of a body"
        responses.append((status, headers, rest[:size]))
        stream = rest[size:]
    return responses


def ask(server, request, half_close=False):
    """Sends, and reads until the server closes."""
    with server.connect() as connection:
        connection.sendall(request)
        if half_close:
            connection.shutdown(socket.SHUT_WR)
        return parse(read_to_end(connection))


def receive(connection, responses):
    """As many as told, of a connection that stays open."""
    stream = b""
    while True:
        with contextlib.suppress(AssertionError, KeyError):
            found = parse(stream)
            if len(found) >= responses:
                return found
        part = connection.recv(1 << 16)
        if not part:
            raise AssertionError(f"closed after {stream!r}")
        stream += part


def stats(server):
    ((status, _, body),) = ask(server, b"GET /stats HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
    assert status == 200
    return json.loads(body)


def refuses(server):
    """The listener is closed: others may have its address. A connect might be told so a second later."""
    with socket.socket() as other:
        other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        with contextlib.suppress(OSError):
            other.bind(("127.0.0.1", server.port))
            return True
    return False


def settled(server, fibers=4):
    """Once only those that accept, sweep, trim memory and answer this are there: (fibers, descriptors without it)."""
    curl(f"http://127.0.0.1:{server.port}/json")  # What is made for the first connection is there.
    wait_for(lambda: stats(server)["fibers"] == fibers, lambda: f"{stats(server)['fibers']} fibers")

    def quiet():
        before = server.descriptors()
        return before if stats(server)["connections"]["open"] == 1 and server.descriptors() == before else None

    return fibers, wait_for(quiet, lambda: f"{server.descriptors()} descriptors")


def data_segments_in(connection):
    # tcp_info::tcpi_data_segs_in, linux/tcp.h.
    return struct.unpack_from("I", connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 232), 152)[0]


def curl(*arguments, stdin=None):
    done = subprocess.run(
        ["curl", "--silent", "--show-error", "--max-time", str(LIMIT), *arguments],
        input=stdin,
        capture_output=True,
        timeout=LIMIT,
    )
    if done.returncode != 0:
        raise AssertionError(f"curl {arguments}: {done.returncode} {done.stderr.decode()}")
    return done.stdout


class RealClients(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = serve()
        cls.url = f"http://127.0.0.1:{cls.server.port}"
        cls.addClassCleanup(cls.server.__exit__, None, None, None)

    def test_curl_gets_the_exact_bytes(self):
        self.assertEqual(curl(f"{self.url}/json"), GREETING)
        self.assertEqual(curl(f"{self.url}/plaintext"), b"Hello, World!")
        self.assertEqual(curl("--http1.0", f"{self.url}/json"), GREETING)

    def test_curl_sees_the_headers_that_it_should(self):
        ((status, headers, _),) = parse(curl("--include", f"{self.url}/json"))
        self.assertEqual(status, 200)
        self.assertEqual(headers["content-type"], "application/json")
        self.assertEqual(headers["content-length"], "27")
        date = time.mktime(time.strptime(headers["date"], "%a, %d %b %Y %H:%M:%S GMT")) - time.timezone
        self.assertLess(abs(time.time() - date), LIMIT)
        ((status, headers, _),) = parse(curl("--head", f"{self.url}/json"), head_only=True)
        self.assertEqual((status, headers["content-length"]), (200, "27"))

    def test_a_connection_is_kept_for_the_next_request(self):
        connects = curl("-w", "\n%{num_connects}\n", f"{self.url}/json", f"{self.url}/plaintext")
        self.assertEqual(connects, GREETING + b"\n1\nHello, World!\n0\n")
        connects = curl("-w", "\n%{num_connects}\n", "-H", "Connection: close", f"{self.url}/json", f"{self.url}/json")
        self.assertEqual(connects, GREETING + b"\n1\n" + GREETING + b"\n1\n")

    def test_a_body_comes_back_whole(self):
        for size in (0, 1, 1023, 1024, 70_000, 1024 * 1024):
            body = random.Random(size).randbytes(size)
            for way in ([], ["-H", "Expect: 100-continue"], ["-H", "Transfer-Encoding: chunked"]):
                with self.subTest(size=size, way=way):
                    got = curl("--data-binary", "@-", *way, f"{self.url}/echo", stdin=body)
                    self.assertEqual(got, body)

    def test_curl_waits_for_continue_and_gets_it(self):
        with tempfile.NamedTemporaryFile() as trace:
            arguments = ["-H", "Expect: 100-continue", "--expect100-timeout", str(LIMIT), "--stderr", trace.name, "-v"]
            began = time.monotonic()
            self.assertEqual(curl(*arguments, "-d", "hello", f"{self.url}/echo"), b"hello")
            self.assertLess(time.monotonic() - began, LIMIT - 10)
            self.assertIn(b"< HTTP/1.1 100 Continue", trace.read())

    def test_a_body_beyond_the_limit_is_refused_before_it_is_sent(self):
        answer = curl(
            "-d",
            "@-",
            "-w",
            "%{http_code} %{size_upload}",
            "-o",
            "/dev/null",
            "-H",
            "Expect: 100-continue",
            f"{self.url}/echo",
            stdin=bytes(2 * 1024 * 1024).replace(b"\0", b"x"),
        )
        self.assertEqual(answer, b"413 0")

    def test_fan_out_answers_with_what_has_come_by_the_deadline(self):
        all_of_it = json.loads(curl(f"{self.url}/fanout?n=4&deadline_ms=10000"))
        # Primes below 100, 200, 300, 400.
        self.assertEqual(all_of_it["got"], {"0": 25, "1": 46, "2": 62, "3": 78})
        self.assertEqual(all_of_it["late"], [])
        self.assertGreaterEqual(all_of_it["took_us"], 80_000)
        self.assertLess(all_of_it["took_us"], 5_000_000)
        part = json.loads(curl(f"{self.url}/fanout?deadline_ms=50"))
        self.assertEqual(part["asked"], 8)
        got = {int(service) for service in part["got"]}
        self.assertEqual(sorted(got | set(part["late"])), list(range(8)))
        self.assertGreaterEqual(set(part["late"]), {2, 3, 4, 5, 6, 7})  # 60 ms and more: not by 50 ms.
        self.assertEqual(json.loads(curl(f"{self.url}/fanout?n=256&deadline_ms=0"))["got"], {})
        for query in ("n=257", "n=-1", "n=x", "n=", "deadline_ms=10001", "n=99999999999999999999"):
            with self.subTest(query=query):
                self.assertEqual(curl("-o", "/dev/null", "-w", "%{http_code}", f"{self.url}/fanout?{query}"), b"400")

    def test_prometheus_reads_the_metrics(self):
        curl(f"{self.url}/json")
        text = curl("--include", f"{self.url}/metrics").decode()
        self.assertIn("content-type: text/plain; version=0.0.4", text)
        self.assertRegex(text, r'\nhttp_requests_total\{version="1"\} [1-9]')
        self.assertRegex(text, r'\nweft_server_accepted_total\{server="http"\} [1-9]')
        self.assertRegex(text, r"\nweft_fibers [1-9]")

    def test_stats_count_fibers_and_connections(self):
        before = stats(self.server)
        curl(f"{self.url}/fanout?n=100&deadline_ms=0")
        after = stats(self.server)
        self.assertEqual(after["connections"]["accepted"], before["connections"]["accepted"] + 2)

        def begun(counts):
            return sum(worker["begun"] for group in counts["groups"] for worker in group["workers"])

        self.assertGreaterEqual(begun(after) - begun(before), 101)

    @unittest.skipUnless(shutil.which("wrk"), "wrk is not installed")
    def test_wrk_sees_no_error(self):
        for path in ("/json", "/fanout?n=2&deadline_ms=5", "/stats"):
            with self.subTest(path=path):
                done = subprocess.run(
                    ["wrk", "-t1", "-c50", "-d1", "--timeout", "15", self.url + path],
                    capture_output=True,
                    text=True,
                    timeout=LIMIT,
                    check=True,
                )
                self.assertNotIn("Socket errors", done.stdout)
                self.assertNotIn("Non-2xx", done.stdout)
                self.assertGreater(int(re.search(r"(\d+) requests in", done.stdout).group(1)), 50)


class Protocol(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = serve("--body_limit=1000")
        cls.addClassCleanup(cls.server.__exit__, None, None, None)

    def test_what_is_wrong_gets_the_status_that_says_so_and_the_connection_is_closed(self):
        host = b"Host: a\r\n"
        for status, request in [
            (400, b"\0\1\2\3\r\n\r\n"),
            (400, b"GET\r\n\r\n"),
            (400, b"GET /json\r\n\r\n"),
            (400, b"GET /json HTTP/1.1 \r\n" + host + b"\r\n"),
            (505, b"GET /json HTTP/2.0\r\n" + host + b"\r\n"),
            (505, b"GET /json HTTP/0.9\r\n" + host + b"\r\n"),
            (400, b"GET /json HTTP/1.1x\r\n" + host + b"\r\n"),
            (400, b"GET /json HTTP/1.x\r\n" + host + b"\r\n"),
            (400, b"GET /json HTTP/11.1\r\n" + host + b"\r\n"),
            (400, b"GET /js on HTTP/1.1\r\n" + host + b"\r\n"),
            (400, b"GET /json HTTP/1.1\r\nHost a\r\n\r\n"),
            (400, b"GET /json HTTP/1.1\r\nHost : a\r\n\r\n"),
            (400, b"GET /json HTTP/1.1\r\n\r\n"),
            (400, b"GET /json HTTP/1.1\r\n" + host + host + b"\r\n"),
            (400, b"GET /json HTTP/1.1\r\n" + host + b"X: \x01\r\n\r\n"),
            (400, b"GET /json HTTP/1.1\n" + b"Host: a\n\n"),
            (400, b"\r\n\r\n\r\nGET /json HTTP/1.1\r\n" + host + b"\r\n"),
            (400, b"POST /echo HTTP/1.1\r\n" + host + b"Content-Length: x\r\n\r\n"),
            (400, b"POST /echo HTTP/1.1\r\n" + host + b"Content-Length: -1\r\n\r\n"),
            (400, b"POST /echo HTTP/1.1\r\n" + host + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\nab"),
            (
                400,
                b"POST /echo HTTP/1.1\r\n" + host + b"Content-Length: 3\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
            ),
            (
                400,
                b"POST /echo HTTP/1.1\r\n" + host + b"Transfer-Encoding: chunked\r\nContent-Length: 3\r\n\r\n0\r\n\r\n",
            ),
            (400, b"POST /echo HTTP/1.0\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"),
            (400, b"POST /echo HTTP/1.1\r\n" + host + b"Transfer-Encoding: chunked\r\n\r\nx\r\n"),
            (400, b"POST /echo HTTP/1.1\r\n" + host + b"Transfer-Encoding: chunked\r\n\r\n1\r\nabc\r\n0\r\n\r\n"),
            (501, b"POST /echo HTTP/1.1\r\n" + host + b"Transfer-Encoding: gzip\r\n\r\n"),
            (501, b"POST /echo HTTP/1.1\r\n" + host + b"Transfer-Encoding: gzip, chunked\r\n\r\n0\r\n\r\n"),
            (417, b"POST /echo HTTP/1.1\r\n" + host + b"Content-Length: 1\r\nExpect: a miracle\r\n\r\n"),
            (413, b"POST /echo HTTP/1.1\r\n" + host + b"Content-Length: 1001\r\n\r\n" + bytes(1001)),
            (413, b"POST /echo HTTP/1.1\r\n" + host + b"Content-Length: 18446744073709551615\r\n\r\n"),
            (
                413,
                b"POST /echo HTTP/1.1\r\n"
                + host
                + b"Transfer-Encoding: chunked\r\n\r\n"
                + b"1f4\r\n"
                + bytes(500)
                + b"\r\n1f5\r\n"
                + bytes(501)
                + b"\r\n0\r\n\r\n",
            ),
            (414, b"GET /" + 10_000 * b"x" + b" HTTP/1.1\r\n" + host + b"\r\n"),
            (431, b"GET /json HTTP/1.1\r\n" + host + b"X: " + 10_000 * b"x" + b"\r\n\r\n"),
            (431, b"GET /json HTTP/1.1\r\n" + host + 3_000 * b"X: y\r\n" + b"\r\n"),
            (400, b"POST /echo HTTP/1.1\r\n" + host + b"Transfer-Encoding: chunked\r\n\r\n1;" + 200_000 * b"x"),
            (
                431,
                b"POST /echo HTTP/1.1\r\n" + host + b"Transfer-Encoding: chunked\r\n\r\n0\r\n" + 50_000 * b"X: y\r\n",
            ),
        ]:
            with self.subTest(request=request[:100]):
                ((got, headers, _),) = ask(self.server, request, half_close=True)
                self.assertEqual(got, status)
                if status != 413:  # The handler's, whose connection goes on if it can.
                    self.assertEqual(headers["connection"], "close")

    def test_what_is_wrong_is_refused_before_it_ends(self):
        for status, request in [
            (431, b"GET /json HTTP/1.1\r\n" + 1_500 * b"X: y\r\n"),  # Just above the limit of 8,192.
            (431, b"GET /json HTTP/1.1\r\n" + 2_000 * b"X: y\r\n"),
            (414, b"GET /" + 9_000 * b"x"),
            (414, b"GET /" + 20_000 * b"x"),
        ]:
            # However it comes: its fields were counted only where the parser had many of them at once.
            for piece in (7, 100, 1_000, 5_000, len(request)):
                with self.subTest(status=status, size=len(request), piece=piece):
                    with self.server.connect() as connection:
                        with contextlib.suppress(ConnectionError):
                            for at in range(0, len(request), piece):
                                connection.sendall(request[at : at + piece])
                        self.assertEqual(receive(connection, 1)[0][0], status)

    def test_fields_that_come_one_by_one_are_limited_too(self):
        with self.server.connect() as connection:
            connection.sendall(b"GET /json HTTP/1.1\r\n")
            sent = 0
            with contextlib.suppress(ConnectionError):
                while sent < 12_000:  # Above the limit of 8,192, also without what each field counts beside its bytes.
                    connection.sendall(b"X-Field: y\r\n")
                    sent += 12
                    time.sleep(0.0005)  # So that most come in reads of their own: whole lines, parsed at once.
            self.assertEqual(receive(connection, 1)[0][0], 431)
            self.assertGreater(sent, 2_000)

    def test_paths_and_methods_that_are_not_there_leave_the_connection_open(self):
        requests = (
            b"GET /nothing HTTP/1.1\r\nHost: a\r\n\r\n"
            b"POST /json HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc"
            b"DELETE /json HTTP/1.1\r\nHost: a\r\n\r\n"
            b"GET /echo HTTP/1.1\r\nHost: a\r\n\r\n"
            b"GET http://a.example/json?x=1 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        )
        responses = ask(self.server, requests)
        self.assertEqual([status for status, _, _ in responses], [404, 405, 405, 405, 200])
        self.assertEqual(
            [headers.get("allow") for _, headers, _ in responses], [None, "GET, HEAD", "GET, HEAD", "POST", None]
        )

    def test_a_method_that_nobody_knows_is_not_implemented_anywhere(self):
        requests = b"".join(
            b"%s %s HTTP/1.1\r\nHost: a\r\nContent-Length: 3\r\n\r\nabc" % (method, path)
            for method, path in ((b"BREW", b"/json"), (b"get", b"/nothing"), (b"X", b"/fanout?n=1"))
        )
        responses = ask(self.server, requests + GET, half_close=True)
        self.assertEqual([status for status, _, _ in responses], [501, 501, 501, 200])
        self.assertEqual({headers.get("allow") for _, headers, _ in responses}, {None})

    def test_a_host_is_one_name_or_address_with_a_port(self):
        names = (b"", b"a", b"a.example:80", b"a.example:", b"127.0.0.1:8080", b"[::1]", b"[fe80::1.2.3.4]:80", b"a%2Fb")
        for host in (*names, b"sub-delims!$&'()*+;=", b"  a\t "):
            with self.subTest(host=host):
                request = b"GET /plaintext HTTP/1.1\r\nHost: %s\r\n\r\n" % host
                self.assertEqual(ask(self.server, request, half_close=True)[0][0], 200)
        wrong = (b"a b", b"a\tb", b"a/b", b"a/", b"a,b", b"a, a", b"a@b", b"a?b", b"a#b", b"a\\b", b"a\xe4", b"http://a")
        addresses = (b"[", b"[]", b"[::1", b"[::1]a", b"[::g]", b"::1", b"a:b", b"a:80:80", b"a:-1", b"a%2", b"a%zz")
        # A line that goes on in the next one, as nobody writes it any more.
        folded = (b"a\r\n b", b"a\r\n\tb", b"a\r\n :80", b"\r\n a", b"a\r\n ", b"\r\n \r\n a")
        for version in (b"1.1", b"1.0"):
            for host in wrong + addresses + folded:
                with self.subTest(host=host, version=version):
                    request = b"GET /plaintext HTTP/%s\r\nHost: %s\r\nX: y\r\n\r\n" % (version, host)
                    ((status, headers, _),) = ask(self.server, request, half_close=True)
                    self.assertEqual((status, headers["connection"]), (400, "close"))
        # Other fields may still be folded.
        folded = GET.replace(b"\r\n\r\n", b"\r\nX:\r\n y\r\n z\r\n\r\n")
        self.assertEqual(ask(self.server, folded, half_close=True)[0][0], 200)

    def test_a_target_as_for_a_proxy_is_understood(self):
        def ask_for(target):
            return ask(self.server, b"GET %s HTTP/1.1\r\nHost: b\r\n\r\n" % target, half_close=True)[0]

        for scheme in (b"http", b"HTTP", b"hTtP", b"https", b"HTTPS"):
            for host in (b"a", b"a.example:8080", b"[::1]:80"):
                with self.subTest(scheme=scheme, host=host):
                    self.assertEqual(ask_for(scheme + b"://" + host + b"/plaintext?x=http://c/")[2], HELLO)
        for target in (b"http://a", b"http://a?x=/plaintext", b"https://a/", b"/http://a/plaintext"):
            with self.subTest(target=target):  # There is nothing at "/".
                self.assertEqual(ask_for(target)[0], 404)
        for target in (b"http:///plaintext", b"http://", b"http://:80/plaintext", b"http://u@a/plaintext",
                       b"http://a,b/plaintext", b"HTTPS://a:b/plaintext", b"http://[a/plaintext"):
            with self.subTest(target=target):
                self.assertEqual(ask_for(target)[0], 400)

    def test_bytes_has_as_many_as_it_is_asked_for(self):
        for query, size in (("?n=0", 0), ("?n=1", 1), ("", 65536), ("?n=1048576", 1048576)):
            request = f"GET /bytes{query} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode()
            ((status, _, body),) = ask(self.server, request)
            self.assertEqual((status, body), (200, size * b"x"))
        for query in ("?n=1048577", "?n=", "?n=-1"):
            request = f"GET /bytes{query} HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n".encode()
            self.assertEqual(ask(self.server, request)[0][0], 400)

    def test_http_1_0_closes_unless_asked_to_keep(self):
        ((status, headers, body),) = ask(self.server, b"GET /json HTTP/1.0\r\n\r\n")
        self.assertEqual((status, headers["connection"], body), (200, "close", GREETING))
        kept = b"GET /json HTTP/1.0\r\nConnection: keep-alive\r\n\r\n"
        responses = ask(self.server, kept + kept + b"GET /json HTTP/1.0\r\n\r\n")
        self.assertEqual([headers["connection"] for _, headers, _ in responses], ["keep-alive", "keep-alive", "close"])

    def test_a_later_minor_version_is_answered_as_ours(self):
        later = GET.replace(b"HTTP/1.1", b"HTTP/1.2")
        responses = ask(self.server, later + later.replace(b"1.2", b"1.9") + GET, half_close=True)
        self.assertEqual([(status, body) for status, _, body in responses], 3 * [(200, HELLO)])
        with self.server.connect() as connection:
            for at in range(len(later)):
                connection.sendall(later[at : at + 1])
            self.assertEqual(receive(connection, 1)[0][0], 200)

    def test_an_empty_line_before_a_request_is_forgiven(self):
        responses = ask(self.server, GET + b"\r\n" + GET, half_close=True)
        self.assertEqual([status for status, _, _ in responses], [200, 200])

    def test_pipelined_requests_are_answered_in_order_with_few_writes(self):
        requests = b"".join(
            b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n%d" % (len(str(i)), i) for i in range(200)
        )
        with self.server.connect() as connection:
            connection.sendall(requests)
            responses = receive(connection, 200)
            self.assertEqual([int(body) for _, _, body in responses], list(range(200)))
            # 12 KB come in reads of 1, 2, 4 and 8 KiB; each is one write. A few more if the kernel cut it.
            self.assertLessEqual(data_segments_in(connection), 8)
            # The buffer has the right size by now.
            before = data_segments_in(connection)
            connection.sendall(50 * GET)
            self.assertEqual(len(receive(connection, 50)), 50)
            self.assertLessEqual(data_segments_in(connection) - before, 3)

    def test_a_pipeline_lets_others_have_their_turn(self):
        turn = 1024  # TcpConnection::kRequestsInATurn
        count = 1600  # More than a turn, and no more than a socket takes at once.
        with serve("--fiber_concurrency_hint=1") as server, server.connect() as pipeline, server.connect() as other:
            for connection in (pipeline, other):  # Both have been accepted.
                connection.sendall(GET)
                receive(connection, 1)
            with stopped(server):  # So that all has come before any of it is read.
                pipeline.sendall(count * GET)
                other.sendall(b"GET /stats HTTP/1.1\r\nHost: a\r\n\r\n")
            ((_, _, body),) = receive(other, 1)
            self.assertLessEqual(json.loads(body)["requests"], 3 + turn)  # With this one.
            self.assertEqual(len(receive(pipeline, count)), count)

    def test_answers_before_one_that_waits_go_out_at_once(self):
        def seconds_to_the_first():
            with self.server.connect() as connection:
                began = time.monotonic()
                connection.sendall(GET + b"GET /fanout?n=200&deadline_ms=3000 HTTP/1.1\r\nHost: a\r\n\r\n" + GET)
                self.assertEqual(receive(connection, 1)[0][2], b"Hello, World!")
                first = time.monotonic() - began
                self.assertEqual([status for status, _, _ in receive(connection, 2)], [200, 200])
                self.assertGreaterEqual(time.monotonic() - began, 3)
                return first

        self.assertLess(least(seconds_to_the_first, 2.5), 2.5)

    def test_garbage_behind_good_requests_is_refused_after_they_are_answered(self):
        responses = ask(self.server, 3 * GET + b"garbage\r\n\r\n" + GET)
        self.assertEqual([status for status, _, _ in responses], [200, 200, 200, 400])

    def test_what_follows_a_request_with_close_is_not_answered(self):
        last = b"GET /json HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        self.assertEqual(len(ask(self.server, GET + last + GET)), 2)

    def test_a_request_cut_anywhere_is_refused(self):
        for request in (
            b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\n\r\nhello",
            b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5;x=y\r\nhello\r\n0\r\nT: v\r\n\r\n",
        ):
            self.assertEqual(ask(self.server, b"", half_close=True), [])
            for size in range(1, len(request)):
                responses = ask(self.server, request[:size], half_close=True)
                self.assertEqual([status for status, _, _ in responses], [400], f"after {size} bytes")
            self.assertEqual(ask(self.server, request, half_close=True)[0][2], b"hello")

    def test_a_request_in_single_bytes_is_understood(self):
        request = b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n0\r\n\r\n"
        with self.server.connect() as connection:
            for i in range(len(request)):
                connection.sendall(request[i : i + 1])
            self.assertEqual(receive(connection, 1)[0][2], b"hello")

    def test_a_peer_that_has_finished_sending_gets_all_answers(self):
        # Also one that is waited for, if the peer has said that it is the last.
        fan_out = b"GET /fanout?n=1&deadline_ms=5000 HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n"
        responses = ask(self.server, 20 * GET + fan_out, half_close=True)
        self.assertEqual([status for status, _, _ in responses], 21 * [200])
        (answer,) = ask(self.server, b"GET /fanout?n=1&deadline_ms=5000 HTTP/1.0\r\n\r\n", half_close=True)
        self.assertEqual(answer[0], 200)

    def test_the_time_that_the_client_gives_is_the_requests(self):
        fan_out = "GET /fanout?n=200&deadline_ms=10000 HTTP/1.1\r\nHost: a\r\nrequest-timeout-ms: {}\r\n\r\n"
        with self.server.connect() as connection:
            for ms in (0, 30):
                connection.sendall(fan_out.format(ms).encode())
                ((status, _, body),) = receive(connection, 1)
                self.assertEqual((status, "error" in json.loads(body)), (504, True))
            connection.sendall(fan_out.format(60000).replace("n=200", "n=1").encode() + GET)  # It goes on.
            self.assertEqual([status for status, _, _ in receive(connection, 2)], [200, 200])
        for wrong in ("", "-1", "1.5", "soon", "5000000000"):
            with self.subTest(wrong=wrong):
                self.assertEqual(ask(self.server, fan_out.format(wrong).encode(), half_close=True)[0][0], 400)

    def test_a_client_that_goes_away_ends_its_request_and_what_that_has_started(self):
        # 256 services need 5 s; only its client can end it sooner.
        fan_out = b"GET /fanout?n=256&deadline_ms=10000 HTTP/1.1\r\nHost: a\r\n\r\n"

        def seconds_to_the_end(leave):
            before = stats(self.server)
            connection = self.server.connect()
            connection.sendall(fan_out)
            # Its services end one by one, every 20 ms, and a busy machine may come to ask late.
            wait_for(lambda: stats(self.server)["fibers"] > before["fibers"] + 50, "the fan-out begins")
            begin = time.monotonic()
            leave(connection)
            wait_for(lambda: stats(self.server)["fibers"] < before["fibers"] + 20, "the fan-out ends")
            took = time.monotonic() - begin
            # The handler counts it when its fan-out has ended.
            wait_for(lambda: stats(self.server)["given_up"] == before["given_up"] + 1, "it is given up")
            return took

        for leave in (socket.socket.close, reset):
            with self.subTest(leave=leave):
                self.assertLess(least(lambda leave=leave: seconds_to_the_end(leave), 3), 3)

    def test_noise_kills_nothing(self):
        noise = random.Random(1)
        good = b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 5\r\nX: y\r\n\r\nhello"
        for _ in range(300):
            request = bytearray(good)
            for _ in range(noise.randrange(1, 4)):
                request[noise.randrange(len(request))] = noise.randrange(256)
            with self.subTest(request=bytes(request)):
                for status, _, _ in ask(self.server, bytes(request), half_close=True):
                    self.assertIn(status, (200, 400, 404, 405, 413, 417, 501, 505))


class TimeLimits(unittest.TestCase):
    def test_slow_writers_are_told_and_idle_ones_are_closed(self):
        with serve("--request_timeout_ms=400", "--idle_timeout_ms=700") as server, contextlib.ExitStack() as stack:
            began = time.monotonic()
            header, body, idle = (stack.enter_context(server.connect()) for _ in range(3))
            idle.sendall(GET)
            self.assertEqual(len(receive(idle, 1)), 1)
            body.sendall(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 900\r\n\r\n")
            slow = [(header, GET), (body, bytes(900))]
            closed = {}
            at = 0
            while len(closed) < 2 and time.monotonic() - began < LIMIT:
                for connection, text in slow:
                    if connection in closed:
                        continue
                    connection.settimeout(0.02)
                    with contextlib.suppress(OSError):
                        connection.sendall(text[at : at + 1])
                    with contextlib.suppress(TimeoutError):
                        closed[connection] = (receive(connection, 1)[0][0], time.monotonic() - began)
                at += 1
            for connection, _ in slow:
                status, after = closed[connection]
                self.assertEqual(status, 408)
                self.assertGreaterEqual(after, 0.4)
            self.assertEqual(read_to_end(idle), b"")
            self.assertGreaterEqual(time.monotonic() - began, 0.7)
            silent = server.connect()  # Nothing at all.
            self.assertEqual(read_to_end(silent), b"")
            counts = stats(server)
            self.assertEqual((counts["refused_requests"]["408"], counts["timed_out_writes"]), (2, 0))

    def test_a_peer_that_does_not_read_its_answers_is_dropped(self):
        with serve("--request_timeout_ms=500") as server:
            _, before = settled(server)
            connection = server.connect()
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            connection.settimeout(LIMIT)
            body = bytes(1024 * 1024)
            with self.assertRaises(ConnectionError):
                while True:
                    connection.sendall(
                        b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body) + body
                    )
            connection.close()
            wait_for(
                lambda: server.descriptors() <= before, lambda: f"{server.descriptors()} descriptors, {before} before"
            )
            counts = stats(server)
            self.assertEqual((counts["timed_out_writes"], counts["refused_requests"]["408"]), (1, 0))


class Refusals(unittest.TestCase):
    def test_connections_above_the_limit_of_their_host_are_in_the_stats(self):
        def connections(client):
            client.sendall(b"GET /stats HTTP/1.1\r\nHost: a\r\n\r\n")
            return json.loads(receive(client, 1)[0][2])["connections"]

        with serve("--max_connections_per_host=1") as server:
            client = server.connect()
            other = server.connect("127.0.0.2")
            other.sendall(GET)
            receive(other, 1)
            self.assertEqual(connections(client)["over_host_limit"], 0)
            for _ in range(3):
                with contextlib.suppress(OSError):  # The reset may come to any call.
                    self.assertEqual(server.connect("127.0.0.2").recv(1), b"no answer")
            wait_for(lambda: connections(client)["over_host_limit"] == 3, lambda: f"{connections(client)}")
            self.assertEqual(connections(client)["refused"], 3)
            self.assertEqual(connections(client)["timed_out"], 0)

    def test_requests_above_a_limit_of_their_size_are_in_the_stats_by_their_status(self):
        host = b"Host: a\r\n"
        with serve("--body_limit=1000") as server:
            for times, status, request in [
                (1, 413, b"POST /echo HTTP/1.1\r\n" + host + b"Content-Length: 1001\r\n\r\n" + bytes(1001)),
                (2, 414, b"GET /" + 10_000 * b"x" + b" HTTP/1.1\r\n" + host + b"\r\n"),
                (3, 431, b"GET /json HTTP/1.1\r\n" + host + b"X: " + 10_000 * b"x" + b"\r\n\r\n"),
                (4, 400, b"GET /json HTTP/1.1\r\n\r\n"),
            ]:
                for _ in range(times):
                    ((got, _, _),) = ask(server, request, half_close=True)
                    self.assertEqual(got, status)
            self.assertEqual(stats(server)["refused_requests"], {"408": 0, "413": 1, "414_431": 2 + 3})

    def test_requests_above_the_budget_are_answered_503_and_are_in_the_stats(self):
        fan_out = b"GET /fanout?n=256&deadline_ms=10000 HTTP/1.1\r\nHost: a\r\n\r\n"
        with serve("--max_waiting_requests=2") as server:
            busy = [server.connect() for _ in range(2)]
            for connection in busy:
                connection.sendall(fan_out)
            wait_for(lambda: stats(server)["waiting"] == 2, lambda: f"{stats(server)}")
            with server.connect() as other:
                other.sendall(b"POST /json HTTP/1.1\r\nHost: a\r\n\r\n" + fan_out + GET)
                answers = receive(other, 3)
                self.assertEqual([status for status, _, _ in answers], [405, 503, 200])  # The connection stays.
                self.assertEqual(["allow" in headers for _, headers, _ in answers], [True, False, False])
                for connection in busy:
                    reset(connection)
                wait_for(lambda: stats(server)["waiting"] == 0, "the fan-outs end")
                other.sendall(fan_out.replace(b"256", b"1"))
                self.assertEqual(receive(other, 1)[0][0], 200)
            self.assertEqual(stats(server)["over_waiting_requests"], 1)

    def test_bodies_above_the_budget_are_answered_503_and_are_in_the_stats(self):
        part = b"x" * 700_000
        post = b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 700001\r\n\r\n"
        chunked = b"POST /echo HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n%x\r\n" % len(part)
        with serve("--max_body_mb=1") as server:

            def held_is(size):
                wait_for(lambda: stats(server)["body_bytes"] == size, lambda: f"{stats(server)}, not {size}")

            for head in (post, chunked):
                first, second = server.connect(), server.connect()
                first.sendall(post + part)
                held_is(len(part))
                with contextlib.suppress(OSError):  # The answer comes before its end.
                    second.sendall(head + part)
                # It stays open, and the server reads what still comes: but it holds nothing.
                self.assertEqual(receive(second, 1)[0][0], 503)
                held_is(len(part))
                # The next request begins: the former one's body is not held any more, in no place.
                first.sendall(b"xG")
                ((status, _, body),) = receive(first, 1)
                self.assertEqual((status, len(body)), (200, 700001))
                held_is(0)
                first.sendall(GET[1:])
                self.assertEqual(receive(first, 1)[0][0], 200)
            self.assertEqual(stats(server)["over_body_memory"], 2)

    def test_a_body_that_is_echoed_is_not_kept_for_the_next_request(self):
        size = 1_000_000
        post = b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % size + b"x" * size
        with serve("--max_body_mb=2") as server:
            connections = [server.connect() for _ in range(30)]
            before = server.resident_bytes()
            for connection in connections:
                connection.sendall(post + b"G")  # The next one has begun.
                self.assertEqual(receive(connection, 1)[0][0], 200)
            if not SANITIZED:
                self.assertLess(server.resident_bytes() - before, 15 * size)

    def test_connections_that_were_idle_for_too_long_are_in_the_stats(self):
        with serve("--idle_timeout_ms=1000") as server:
            silent = server.connect()
            self.assertEqual(read_to_end(silent), b"")
            # On a slow machine one that asks is closed, too.
            connections = stats(server)["connections"]
            self.assertGreaterEqual(connections["timed_out"], 1)
            self.assertEqual(connections["refused"], 0)


class Endings(unittest.TestCase):
    def test_a_signal_lets_requests_finish_and_idle_connections_go(self):
        for sent in (signal.SIGTERM, signal.SIGINT):
            with self.subTest(signal=sent), serve() as server:
                idle = server.connect()
                idle.sendall(GET)
                receive(idle, 1)
                busy = server.connect()
                busy.sendall(b"GET /fanout?n=256&deadline_ms=1500 HTTP/1.1\r\nHost: a\r\n\r\n" + GET)
                wait_for(lambda: stats(server)["fibers"] > 50, "the fan-out begins")
                server.process.send_signal(sent)
                self.assertEqual(read_to_end(idle), b"")
                # The request that it was at; not the one behind it.
                ((status, headers, _),) = parse(read_to_end(busy))
                self.assertEqual((status, headers["connection"]), (200, "close"))
                status, output = server.stop()
                self.assertEqual(status, 0)
                self.assertRegex(output, r"http_server: connections: \d+ accepted, 0 refused, ")
                with self.assertRaises(ConnectionRefusedError):
                    server.connect()

    def test_those_that_do_not_end_are_ended_at_the_deadline(self):
        def seconds_to_the_end():
            with serve("--drain=0.3") as server:
                half = server.connect()
                half.sendall(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 100\r\n\r\nhalf")
                busy = server.connect()
                busy.sendall(b"GET /fanout?n=250&deadline_ms=10000 HTTP/1.1\r\nHost: a\r\n\r\n")
                wait_for(lambda: stats(server)["fibers"] > 50, "the fan-out begins")
                begin = time.monotonic()
                self.assertEqual(server.stop()[0], 0)
                return time.monotonic() - begin

        self.assertLess(least(seconds_to_the_end, 4), 4)  # Of the 5 s that the request would take.

    def test_requests_that_have_begun_are_read_to_their_end_and_answered(self):
        with serve(f"--drain={LIMIT}") as server:
            header = server.connect()
            header.sendall(GET[:10])
            body = server.connect()
            body.sendall(b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 8\r\n\r\nhalf")
            fresh = server.connect()
            wait_for(lambda: stats(server)["connections"]["open"] == 4, "all are accepted")
            server.process.send_signal(signal.SIGTERM)
            wait_for(lambda: refuses(server), "no more is accepted")
            fresh.sendall(GET)
            header.sendall(GET[10:])
            body.sendall(b"half")
            for connection, answer in ((fresh, HELLO), (header, HELLO), (body, b"halfhalf")):
                ((status, headers, got),) = parse(read_to_end(connection))
                self.assertEqual((status, headers["connection"], got), (200, "close", answer))
            begin = time.monotonic()
            self.assertEqual(server.stop()[0], 0)
            self.assertLess(time.monotonic() - begin, LIMIT - 10)  # Of the time of --drain.

    def test_a_duration_ends_it(self):
        with serve("--duration=3") as server:  # In which a busy machine must come to ask.
            self.assertEqual(curl(f"http://127.0.0.1:{server.port}/json"), GREETING)
            self.assertEqual(server.process.wait(timeout=LIMIT), 0)

    def test_the_admin_pages_are_where_they_are_asked_for_and_nowhere_else(self):
        with serve("--admin=127.0.0.1:0") as server:
            line = server.process.stdout.readline().decode()
            (url,) = re.findall(r"^http_server: admin pages at (http://127\.0\.0\.1:\d+/)\n$", line)
            self.assertIn(b'<script type="module" src="app.js">', curl(url))
            self.assertIn(b'"title":"http_server"', curl(url + "api/overview"))
            self.assertIn(b"http_server_given_up_total 0", curl(url + "metrics"))
            self.assertEqual(curl("-o", "/dev/null", "-w", "%{http_code}", f"http://127.0.0.1:{server.port}/admin/"), b"404")
            other = [f"--admin={url[7:-1]}", "--listen=127.0.0.1:0"]
            done = subprocess.run([PROGRAM, *other], capture_output=True, text=True, timeout=LIMIT)
            self.assertEqual((done.returncode, done.stdout), (1, ""))
            self.assertEqual(done.stderr, f"http_server: --admin: cannot listen on {url[7:-1]}: Address already in use\n")

    def test_flags_that_cannot_be_are_refused(self):
        for flags, status, text in [
            (["--admin=here"], 1, "http_server: --admin: here: expected 127.0.0.1:port"),
            (["--admin=0.0.0.0:0"], 1, "http_server: --admin: 0.0.0.0:0: others can reach this address"),
            (["--listen=localhost:80"], 2, "--listen=localhost:80: expected"),
            (["--listen=127.0.0.1:0", "--duration=-1"], 2, "--duration"),
            (["--listen=127.0.0.1:0", "--header_limit=0"], 2, "--header_limit=0: expected 1 to 65536"),
            (["--listen=192.0.2.1:80"], 1, "cannot listen on 192.0.2.1:80: "),
            (["--listen=fd:x"], 2, "--listen=fd:x: expected"),
            (["--listen=fd:0"], 1, "--listen=fd:0: it is no listening stream socket: "),
            (["--listen=fd:99"], 1, "--listen=fd:99: it is no listening stream socket: Bad file descriptor"),
            (["--listen=systemd"], 1, "--listen=systemd: no listening socket was handed over"),
        ]:
            with self.subTest(flags=flags):
                done = subprocess.run(
                    [PROGRAM, *flags], stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=LIMIT
                )
                self.assertEqual(done.returncode, status)
                self.assertIn(text, done.stderr)


class HandOver(unittest.TestCase):
    """The listening socket is older than the server."""

    def setUp(self):
        self.listener = socket.create_server(("127.0.0.1", 0), backlog=100)
        self.addCleanup(self.listener.close)
        self.fd = self.listener.fileno()

    def test_connections_wait_from_one_process_for_the_next(self):
        for _ in range(2):
            early = socket.create_connection(self.listener.getsockname(), timeout=LIMIT)
            early.sendall(b"GET /json HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n")
            with early, Server(PROGRAM, f"--listen=fd:{self.fd}", pass_fds=(self.fd,)) as server:
                self.assertEqual(parse(read_to_end(early))[0][2], GREETING)
                self.assertEqual(curl(f"http://127.0.0.1:{server.port}/json"), GREETING)
                self.assertEqual(server.port, self.listener.getsockname()[1])

    def test_systemd_hands_a_socket_over(self):
        command = f'LISTEN_PID=$$ LISTEN_FDS=1 exec "$0" --listen=systemd 3<&{self.fd}'
        with subprocess.Popen(
            ["sh", "-c", command, PROGRAM], pass_fds=(self.fd,), stdout=subprocess.PIPE, text=True
        ) as process:
            port = self.listener.getsockname()[1]
            self.assertEqual(process.stdout.readline(), f"http_server: listening on 127.0.0.1:{port}\n")
            try:
                self.assertEqual(curl(f"http://127.0.0.1:{port}/json"), GREETING)
            finally:
                process.terminate()
            self.assertEqual(process.wait(timeout=LIMIT), 0)

    def test_a_unix_socket_is_made_again_by_the_next_process(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "socket")

            def start():
                process = subprocess.Popen(
                    [PROGRAM, f"--listen=unix:{path}"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
                )
                self.addCleanup(process.communicate)
                return process, process.stdout.readline()

            for end in (signal.SIGKILL, signal.SIGTERM):
                server, line = start()
                self.assertEqual(line, f"http_server: listening on unix:{path}\n")
                self.assertEqual(curl("--unix-socket", path, "http://a/json"), GREETING)
                second, line = start()
                self.assertEqual((line, second.wait(LIMIT)), ("", 1))
                self.assertIn("Address already in use", second.stderr.read())
                self.assertEqual(curl("--unix-socket", path, "http://a/json"), GREETING)
                server.send_signal(end)
                server.wait(LIMIT)
                self.assertEqual(os.path.exists(path), end == signal.SIGKILL)


class Systemd(unittest.TestCase):
    """The units of examples/systemd, without a systemd that runs."""

    FOLDER = pathlib.Path(__file__).resolve().parents[2] / "examples/systemd"

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)
        self.units = []
        for unit in self.FOLDER.glob("weft-http.*"):
            self.units.append(self.folder / unit.name)
            self.units[-1].write_text(unit.read_text().replace("/usr/local/bin/http_server", os.path.abspath(PROGRAM)))

    def verify(self):
        return subprocess.run(
            ["systemd-analyze", "verify", "--man=no", *self.units],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=LIMIT,
        ).stdout

    @unittest.skipUnless(shutil.which("systemd-analyze"), "systemd is not installed")
    def test_systemd_finds_no_fault_in_the_units(self):
        self.assertEqual(len(self.units), 2)
        self.assertEqual(self.verify(), "")
        with open(self.folder / "weft-http.service", "a") as service:
            service.write("Restarts=always\n")
        self.assertIn("Restarts", self.verify())

    @unittest.skipUnless(shutil.which("systemd-socket-activate"), "systemd is not installed")
    def test_the_first_connection_starts_the_service_and_is_served(self):
        (command,) = re.findall(r"^ExecStart=(.*)$", (self.folder / "weft-http.service").read_text(), re.MULTILINE)
        path = self.folder / "socket"
        with subprocess.Popen(
            ["systemd-socket-activate", f"--listen={path}", *shlex.split(command)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            try:
                self.assertIn("Listening on", process.stderr.readline())
                self.assertEqual(curl("--unix-socket", str(path), "http://a/json"), GREETING)
                self.assertEqual(process.stdout.readline(), f"http_server: listening on unix:{path}\n")
            finally:
                process.terminate()
            self.assertEqual(process.wait(timeout=LIMIT), 0)


class Many(unittest.TestCase):
    def test_more_connections_than_allowed_wait_their_turn(self):
        with serve("--max_connections=2") as server:
            first, second, third = (server.connect() for _ in range(3))
            for connection in (first, second, third):
                connection.sendall(GET)
            self.assertEqual(len(receive(first, 1)), 1)
            self.assertEqual(len(receive(second, 1)), 1)
            third.settimeout(0.3)
            with self.assertRaises(TimeoutError):
                third.recv(1)
            third.settimeout(LIMIT)
            first.close()
            self.assertEqual(len(receive(third, 1)), 1)

    def test_ten_thousand_connections_come_and_go(self):
        total = 1_000 if SANITIZED else 10_000
        with serve() as server:
            fibers, descriptors = settled(server)
            requests = [
                b"",
                GET,
                GET[:20],
                b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: 9\r\n\r\nhalf",
                GET + GET,
            ]
            opened = []
            for i in range(total):
                # Of several addresses: there are fewer ports than that where earlier ones are in TIME_WAIT.
                connection = server.connect(source=f"127.0.0.{2 + i % 8}")
                connection.sendall(requests[i % len(requests)])
                opened.append(connection)
                if len(opened) == 200:
                    for number, one in enumerate(opened):
                        reset(one) if number % 3 == 0 else one.close()
                    opened.clear()

            def is_back():
                counts = stats(server)
                return (
                    counts["connections"]["accepted"] >= total
                    and counts["fibers"] == fibers
                    and server.descriptors() == descriptors
                )

            wait_for(is_back, lambda: f"{stats(server)['fibers']} fibers, {server.descriptors()} descriptors")
            self.assertEqual(curl(f"http://127.0.0.1:{server.port}/json"), GREETING)

    def test_idle_connections_cost_no_cpu_time_and_little_memory(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        total = 500 if SANITIZED else 5_000
        if hard < total + 200:
            total = hard - 200
            print(f"{total} connections: the hard limit of descriptors is {hard}")
        with serve() as server:
            fibers, descriptors = settled(server)
            resident = server.resident_bytes()
            connections = []
            for i in range(total):
                connection = server.connect()
                connection.sendall(GET)
                connections.append(connection)
            for connection in connections:
                self.assertEqual(len(receive(connection, 1)), 1)
            self.assertEqual(server.descriptors(), descriptors + total)
            wait_for(lambda: stats(server)["fibers"] == fibers, lambda: f"{stats(server)['fibers']} fibers")
            each = (server.resident_bytes() - resident) / total
            # The workers search for a moment before they sleep, and stacks are given back.
            used = []
            for _ in range(10):  # The best: others use this machine, and a clock tick's work lands on whoever runs.
                before = server.cpu_seconds()
                time.sleep(2)
                used.append(server.cpu_seconds() - before)
                if used[-1] < 0.002:
                    break
            print(
                f"{total} idle connections: {each:.0f} bytes each;",
                f"CPU time of 2 s: {[f'{seconds * 1e3:.3f} ms' for seconds in used]}",
            )
            self.assertLess(min(used), 0.002)
            if not SANITIZED:
                # No stack and no buffer.
                self.assertLess(each, 2_000)
            # All of them still work.
            for connection in connections[:: max(1, total // 100)]:
                connection.sendall(GET)
                self.assertEqual(len(receive(connection, 1)), 1)
            for connection in connections:
                connection.close()
            wait_for(lambda: stats(server)["fibers"] == fibers, lambda: f"{stats(server)['fibers']} fibers")
            wait_for(lambda: server.descriptors() == descriptors, lambda: f"{server.descriptors()} descriptors")

    @unittest.skipIf(SANITIZED, "AddressSanitizer gives no memory back")
    def test_the_memory_of_closed_connections_goes_back_to_the_system(self):
        total = 3_000
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        if hard < total + 200:
            self.skipTest(f"the hard limit of descriptors is {hard}")
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, (soft, hard))
        # glibc has a heap for each thread: one of several may not shrink.
        cpus = os.sched_getaffinity(0)
        self.addCleanup(os.sched_setaffinity, 0, cpus)
        os.sched_setaffinity(0, {min(cpus)})
        with serve("--fiber_concurrency_hint=1", "--trim_memory_ms=0") as server:
            os.sched_setaffinity(0, cpus)
            settled(server, fibers=3)
            before = server.resident_bytes()
            connections = []
            for _ in range(total):
                connection = server.connect()
                connection.sendall(GET)
                self.assertEqual(len(receive(connection, 1)), 1)
                connections.append(connection)
            grown = server.resident_bytes() - before
            for connection in connections:
                connection.close()
            # Slots of descriptors stay, a fifth of it.
            wait_for(
                lambda: server.resident_bytes() - before < 0.7 * grown,
                lambda: f"{server.resident_bytes() - before} of {grown} bytes stay",
            )

    @unittest.skipIf(SANITIZED, "AddressSanitizer does not reuse memory at once")
    def test_an_idle_connection_keeps_no_buffer_of_a_large_request(self):
        body = bytes(60_000)
        request = b"POST /echo HTTP/1.1\r\nHost: a\r\nContent-Length: %d\r\n\r\n" % len(body) + body
        with serve("--fiber_concurrency_hint=1") as server:  # glibc has a heap for each thread.
            settled(server)

            def grow(connections):
                """By how many bytes the server grows with connections that have had such a body and echo, and stay."""
                before = server.resident_bytes()
                for _ in range(connections):
                    connection = server.connect()
                    connection.sendall(request)
                    self.assertEqual(len(receive(connection, 1)[0][2]), len(body))
                return server.resident_bytes() - before

            grow(8)  # The buffers of those that are served at a time.
            self.assertLess(grow(100), 10 * len(body))

    @unittest.skipIf(
        SANITIZED, "UndefinedBehaviorSanitizer needs a pipe to look at an object, and blames the object without"
    )
    def test_out_of_descriptors_it_waits_says_so_and_goes_on(self):
        with serve(nofile=64) as server:
            connections = [server.connect() for _ in range(150)]
            for connection in connections:
                connection.sendall(GET)
            # As many as there are descriptors; the others wait in the kernel.
            served = 0
            wait_for(lambda: "has to wait" in server.read_log(), "a line in the log")
            while True:
                connections[served].settimeout(2)
                try:
                    receive(connections[served], 1)
                except TimeoutError:
                    break
                served += 1
            self.assertGreater(served, 30)
            self.assertLess(served, 64)
            # Waiting is cheap: it tries again each 50 ms.
            before = server.cpu_seconds()
            time.sleep(1)
            used = server.cpu_seconds() - before
            self.assertLess(used, 0.1)
            self.assertRegex(server.read_log(), r"raise the limit \(ulimit -n")
            for i, connection in enumerate(connections):
                connection.settimeout(LIMIT)
                if i >= served:
                    self.assertEqual(len(receive(connection, 1)), 1)
                connection.close()
            self.assertLess(server.read_log().count("has to wait"), 40)  # Not a line for each try.


if __name__ == "__main__":
    if not os.access(PROGRAM, os.X_OK):
        sys.exit(f"{PROGRAM} is not there")
    unittest.main(verbosity=2)
