# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""The proxy of examples/proxy with its backends, as processes:  proxy_test.py <rpc_proxy> <rpc_backend> [unittest arguments]"""

import concurrent.futures
import contextlib
import http.client
import json
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest
import urllib.parse

PROXY = ""
BACKEND = ""


def expected(query):
    """What the rule in backend.cc makes of a query."""
    found = 0
    for byte in query.encode():
        found = (found * 31 + byte) % 1000003
    ids = [(found + 7919 * n) % 1000003 for n in range(1, 11)]
    ids.sort(key=lambda i: (-(i % 1000), i))
    return {"query": query, "hits": [{"id": i, "score": i % 1000, "title": f"document {i}"} for i in ids]}


class Program:
    """A server that says where it listens; killed at the end of the test."""

    def __init__(self, test, *arguments):
        self.process = subprocess.Popen([*arguments, "--listen=127.0.0.1:0"], stdout=subprocess.PIPE, text=True)
        test.addCleanup(self.kill)
        line = self.process.stdout.readline()
        test.assertTrue(line.startswith("listening on "), line)
        self.address = line.split()[-1]

    def kill(self):
        self.process.kill()
        self.process.wait()
        self.process.stdout.close()

    def terminate(self):
        """Its exit status and the rest of its output, after SIGTERM."""
        self.process.send_signal(signal.SIGTERM)
        text, _ = self.process.communicate(timeout=60)
        return self.process.returncode, text


class Breaking:
    """In front of a backend: closes each connection that brings something, until heal() is called."""

    def __init__(self, test, backend):
        host, port = backend.address.split(":")
        self.backend = (host, int(port))
        self.healed = False
        self.listener = socket.create_server(("127.0.0.1", 0))
        test.addCleanup(self.listener.close)
        self.address = "127.0.0.1:%d" % self.listener.getsockname()[1]
        self.run(self.accept)

    def heal(self):
        self.healed = True

    @staticmethod
    def run(what, *arguments):
        threading.Thread(target=what, args=arguments, daemon=True).start()

    def accept(self):
        with contextlib.suppress(OSError):
            while True:
                self.run(self.serve, self.listener.accept()[0])

    def serve(self, client):
        with client, contextlib.suppress(OSError):
            first = client.recv(1 << 16)
            if first and self.healed:
                with socket.create_connection(self.backend) as backend:
                    backend.sendall(first)
                    self.run(self.pass_on, client, backend)
                    self.pass_on(backend, client)

    @staticmethod
    def pass_on(source, sink):
        with contextlib.suppress(OSError):
            while part := source.recv(1 << 16):
                sink.sendall(part)
            sink.shutdown(socket.SHUT_WR)


def get(address, target, method="GET"):
    connection = http.client.HTTPConnection(address, timeout=60)
    try:
        connection.request(method, target)
        response = connection.getresponse()
        text = response.read()
        is_json = response.getheader("content-type") == "application/json"
        return response.status, json.loads(text) if is_json else text.decode()
    finally:
        connection.close()


def search(address, query):
    return get(address, "/search?q=" + urllib.parse.quote_plus(query))


class ProxyTest(unittest.TestCase):
    def backend(self, delays="0:1", *flags):
        return Program(self, BACKEND, "--delays_us=" + delays, "--fiber_concurrency_hint=1", *flags)

    def proxy(self, *backends, **flags):
        return Program(
            self,
            PROXY,
            "--backends=" + ",".join(backend if isinstance(backend, str) else backend.address for backend in backends),
            "--fiber_concurrency_hint=2",
            *(f"--{flag}={value}" for flag, value in flags.items()),
        )

    def test_merges_the_answers_of_both_backends(self):
        proxy = self.proxy(self.backend(), self.backend(), deadline_ms=30000)
        for query in ["fibers", "", "a b&c=d/ü\"\\\n", "x" * 5000]:
            self.assertEqual(search(proxy.address, query), (200, expected(query)))
        status, stats = get(proxy.address, "/stats")
        self.assertEqual((status, stats["searches"], stats["failed"]), (200, 4, 0))
        self.assertGreaterEqual(stats["groups"][0]["fibers_begun"], 4)

    def test_says_what_is_wrong_with_a_request(self):
        proxy = self.proxy(self.backend(), self.backend())
        for target in ["/search", "/search?p=1", "/search?q=%zz", "/search?q=%2"]:
            status, body = get(proxy.address, target)
            self.assertEqual((target, status), (target, 400))
            self.assertIn("/search?q=", body["error"])
        self.assertEqual(get(proxy.address, "/elsewhere")[0], 404)
        self.assertEqual(get(proxy.address, "/search?q=1", method="DELETE")[0], 405)
        self.assertEqual(get(proxy.address, "/" + "x" * 20000)[0], 414)
        metrics = get(proxy.address, "/metrics")[1]
        self.assertIn("\nweft_fibers ", metrics)
        self.assertIn('\nweft_server_accepted_total{server="http"} ', metrics)
        self.assertRegex(metrics, r'\nhttp_requests_total{version="1"} [1-9]')

    def test_a_connection_serves_many_requests(self):
        proxy = self.proxy(self.backend(), self.backend(), deadline_ms=30000)
        connection = http.client.HTTPConnection(proxy.address, timeout=60)
        for n in range(100):
            connection.request("GET", f"/search?q={n}")
            self.assertEqual(json.loads(connection.getresponse().read()), expected(str(n)))
        connection.close()

    def test_a_slow_backend_is_made_up_for_by_the_other(self):
        slow = self.backend("60000000:1")
        proxy = self.proxy(slow, self.backend(), deadline_ms=59000, hedge_ms=5)
        before = time.monotonic()
        for n in range(10):
            self.assertEqual(search(proxy.address, f"q{n}"), (200, expected(f"q{n}")))
        self.assertLess(time.monotonic() - before, 50)
        stats = get(proxy.address, "/stats")[1]
        self.assertGreaterEqual(stats["hedges_won"], 10)  # One shard of each search asks the slow one first.
        self.assertEqual(stats["failed"], 0)
        # The calls that lost were cancelled, so nothing holds the end up.
        self.assertEqual(proxy.terminate()[0], 0)

    def test_a_backend_that_dies_under_load_costs_no_answer(self):
        backends = [self.backend("1000:1"), self.backend("1000:1")]
        proxy = self.proxy(*backends, deadline_ms=30000, hedge_ms=200)
        go_on = threading.Event()
        go_on.set()
        answered = [0] * 8

        def load(number):
            n = 0
            while go_on.is_set() or n < 20:
                query = f"{number} {n}"
                result = search(proxy.address, query)
                if result != (200, expected(query)):
                    return f"{query}: {result}"
                n += 1
                answered[number] = n
            return None

        with concurrent.futures.ThreadPoolExecutor(8) as pool:
            loads = [pool.submit(load, number) for number in range(8)]
            while min(answered) < 5 and not any(one.done() for one in loads):
                time.sleep(0.001)
            backends[0].kill()
            at_the_kill = list(answered)
            while any(now < then + 20 for now, then in zip(answered, at_the_kill)) and not any(one.done() for one in loads):
                time.sleep(0.001)
            go_on.clear()
            self.assertEqual([one.result() for one in loads], [None] * 8)

    def test_a_backend_that_loses_each_call_is_left_alone_until_it_works(self):
        breaking = Breaking(self, self.backend())
        # Longer than a call takes: else each one would be a probe.
        flags = {"deadline_ms": 30000, "hedge_ms": 0, "breaker_failures": 3, "breaker_open_ms": 300}
        proxy = self.proxy(breaking, self.backend(), **flags)

        def search_until(what, condition):
            end = time.monotonic() + 60
            number = 0
            while not condition(*get(proxy.address, "/stats")[1]["backends"]):
                self.assertLess(time.monotonic(), end, what)
                query = f"{what} {number}"
                self.assertEqual(search(proxy.address, query), (200, expected(query)))
                number += 1

        search_until("it is left alone", lambda broken, _: broken["breaker"] != "closed")
        search_until("others are asked instead", lambda broken, _: broken["refused"] >= 3)
        breaking.heal()
        search_until("it is asked again", lambda broken, _: broken["breaker"] == "closed")
        broken, good = get(proxy.address, "/stats")[1]["backends"]
        self.assertEqual(broken["address"], breaking.address)
        self.assertEqual((good["breaker"], good["refused"], good["under_way"]), ("closed", 0, 0))

    def test_a_backend_that_hangs_is_left_alone_although_hedges_cut_its_calls_short(self):
        hangs, good = self.backend("60000000:1"), self.backend()
        flags = {"deadline_ms": 59000, "hedge_ms": 2, "hedge_reserve": 1000000, "breaker_silence_ms": 50}
        proxy = self.proxy(hangs, good, breaker_open_ms=60000, **flags)
        number = 0
        while get(proxy.address, "/stats")[1]["backends"][0]["refused"] < 3:
            self.assertLess(number, 1000)
            self.assertEqual(search(proxy.address, f"q{number}"), (200, expected(f"q{number}")))
            number += 1
        hanging, other = get(proxy.address, "/stats")[1]["backends"]
        self.assertEqual((hanging["breaker"], other["breaker"], other["refused"]), ("open", "closed", 0))

    def test_clients_that_give_no_time_do_not_make_a_backend_look_as_if_it_hung(self):
        proxy = self.proxy(self.backend("60000000:1"), deadline_ms=59000, hedge_ms=0, breaker_silence_ms=200)
        end = time.monotonic() + 0.4
        searches = 0
        while time.monotonic() < end or searches < 20:
            connection = http.client.HTTPConnection(proxy.address, timeout=60)
            connection.request("GET", "/search?q=x", headers={"Request-Timeout-Ms": "1"})
            self.assertIn(connection.getresponse().status, (502, 504))  # 502: while it connects to the backend.
            connection.close()
            searches += 1
        (backend,) = get(proxy.address, "/stats")[1]["backends"]
        self.assertEqual((backend["breaker"], backend["refused"]), ("closed", 0))

    def test_hedges_have_a_budget(self):
        slow = [self.backend("20000:1") for _ in range(2)]
        proxy = self.proxy(*slow, deadline_ms=59000, hedge_ms=1, hedge_percent=10, hedge_reserve=4)
        searches = 15
        for n in range(searches):
            self.assertEqual(search(proxy.address, f"q{n}"), (200, expected(f"q{n}")))
        stats = get(proxy.address, "/stats")[1]
        self.assertLessEqual(stats["hedged"], 4 + 2 * searches // 10)  # Two shards.
        self.assertGreater(stats["not_hedged"], 0)

    def test_without_backends_it_says_so(self):
        backends = [self.backend(), self.backend()]
        proxy = self.proxy(*backends, deadline_ms=30000)
        self.assertEqual(search(proxy.address, "x")[0], 200)
        for backend in backends:
            backend.kill()
        status, body = search(proxy.address, "x")
        self.assertEqual(status, 502)
        self.assertNotEqual(body["error"], "")

    def test_the_deadline_ends_a_search(self):
        slow = [self.backend("60000000:1"), self.backend("60000000:1")]
        proxy = self.proxy(*slow, deadline_ms=50, hedge_ms=5)
        before = time.monotonic()
        self.assertEqual(search(proxy.address, "x")[0], 504)
        self.assertLess(time.monotonic() - before, 50)

    def test_the_clients_time_ends_a_search_and_its_backends_give_up(self):
        slow = [self.backend("60000000:1"), self.backend("60000000:1")]
        proxy = self.proxy(*slow, deadline_ms=59000, hedge_ms=5)
        before = time.monotonic()
        connection = http.client.HTTPConnection(proxy.address, timeout=60)
        connection.request("GET", "/search?q=x", headers={"Request-Timeout-Ms": "500"})
        self.assertEqual(connection.getresponse().status, 504)
        connection.close()
        for backend in slow:  # Each was asked for both shards. Their handlers would sleep for a minute.
            status, text = backend.terminate()
            self.assertEqual(status, 0)
            self.assertRegex(text, "given up [12]")
        self.assertLess(time.monotonic() - before, 50)

    def test_a_client_that_goes_away_ends_its_search_at_the_backends(self):
        # Their handlers sleep for a minute, and the end of the process waits for them, unless they are given up.
        slow = [self.backend("60000000:1", "--drain_ms=60000") for _ in range(2)]
        proxy = self.proxy(*slow, deadline_ms=59000, hedge_ms=5)
        before = time.monotonic()
        connection = http.client.HTTPConnection(proxy.address, timeout=60)
        connection.request("GET", "/search?q=x")
        while get(proxy.address, "/stats")[1]["hedged"] < 2:  # Both have been asked, for one shard at least 5 ms ago.
            time.sleep(0.001)
        connection.close()
        while get(proxy.address, "/stats")[1]["given_up"] < 1:
            time.sleep(0.001)
        for backend in slow:
            self.assertEqual(backend.terminate()[0], 0)
        self.assertLess(time.monotonic() - before, 50)

    def test_what_outlives_the_time_to_drain_is_ended(self):
        slow = [self.backend("60000000:1"), self.backend("60000000:1")]
        proxy = self.proxy(*slow, deadline_ms=59000, hedge_ms=0, drain_ms=50)
        before = time.monotonic()
        connection = http.client.HTTPConnection(proxy.address, timeout=60)
        connection.request("GET", "/search?q=x")
        while get(proxy.address, "/stats")[1]["searches"] < 1:
            time.sleep(0.001)
        self.assertEqual(proxy.terminate()[0], 0)
        self.assertLess(time.monotonic() - before, 50)
        connection.close()

    def test_requests_in_work_are_answered_after_sigterm(self):
        proxy = self.proxy(self.backend("1000000:1"), self.backend("1000000:1"), deadline_ms=30000, hedge_ms=0, drain_ms=30000)
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            searches = [pool.submit(search, proxy.address, f"q{n}") for n in range(4)]
            while get(proxy.address, "/stats")[1]["searches"] < 4:
                time.sleep(0.001)
            status, text = proxy.terminate()
            self.assertEqual([one.result() for one in searches], [(200, expected(f"q{n}")) for n in range(4)])
        self.assertEqual(status, 0)
        self.assertIn("searches 4, failed 0", text)

    def test_a_header_that_is_half_there_at_sigterm_is_read_to_its_end_and_answered(self):
        proxy = self.proxy(self.backend(), self.backend(), deadline_ms=30000, drain_ms=30000)
        request = b"GET /search?q=x HTTP/1.1\r\nHost: a\r\n\r\n"

        def connect():
            host, port = proxy.address.split(":")
            connection = socket.create_connection((host, int(port)), timeout=60)
            self.addCleanup(connection.close)
            return connection

        def receive(connection):
            response = http.client.HTTPResponse(connection)
            response.begin()
            return response.status, response.getheader("Connection"), json.loads(response.read())

        begun = []
        for size in (1, 10, len(request) - 2):
            for before in (b"", request):
                connection = connect()
                connection.sendall(before + request[:size])
                if before:
                    self.assertEqual(receive(connection), (200, None, expected("x")))
                begun.append((connection, request[size:]))
        idle = connect()
        idle.sendall(request)
        receive(idle)
        proxy.process.send_signal(signal.SIGTERM)
        self.assertEqual(idle.recv(1), b"")  # The drain has ended what waits for a request.
        time.sleep(1.2)  # Longer than one may wait that has sent nothing.
        for connection, rest in begun:
            connection.sendall(rest[:1])
        for connection, rest in begun:
            connection.sendall(rest[1:])
            self.assertEqual(receive(connection), (200, "close", expected("x")))
            self.assertEqual(connection.recv(1), b"")
        text, _ = proxy.process.communicate(timeout=60)
        self.assertEqual(proxy.process.returncode, 0)
        self.assertIn("searches 10, failed 0", text)

    def test_ends_by_itself_after_its_duration(self):
        program = self.proxy(self.backend(), duration=0.2)
        text, _ = program.process.communicate(timeout=60)
        self.assertEqual(program.process.returncode, 0)
        self.assertIn("group 0", text)

    def test_refuses_flags_that_cannot_be(self):
        for program, flag in [
            (PROXY, "--listen=nowhere"),
            (PROXY, "--backends="),
            (PROXY, "--backends=127.0.0.1:1,x"),
            (PROXY, "--deadline_ms=0"),
            (PROXY, "--breaker_failures=0"),
            (PROXY, "--breaker_open_ms=0"),
            (BACKEND, "--delays_us=1"),
            (BACKEND, "--delays_us=1:0"),
            (BACKEND, "--delays_us=x:1"),
        ]:
            done = subprocess.run([program, flag], capture_output=True, text=True, timeout=60, check=False)
            self.assertEqual((flag, done.returncode), (flag, 2))
            self.assertIn("--", done.stderr)


if __name__ == "__main__":
    PROXY, BACKEND = sys.argv[1:3]
    unittest.main(argv=[sys.argv[0], *sys.argv[3:]], verbosity=2)
