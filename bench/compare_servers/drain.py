#!/usr/bin/env python3
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""Stops servers under load, and counts the requests that are lost: Weft's, Go's http.Server.Shutdown, nginx's quit.

    bench/compare_servers/drain.py --runs 20

Lost: a client had a connection and sent a request, or the first half of one, and got no whole answer. A refused
connect is no loss, since the client knows that nothing was done; it ends the client. The loads:

  connection    each request on a new connection
  keep_alive    as many as the server takes on a connection; one that says "Connection: close" is left
  half_header   each client has sent half of a request's header when the stop begins, and sends the rest 50 ms later
  half_body     the same with half of a POST's body
  fresh         each client has connected, and sends its first request 20 ms after the stop began

Restarts: two processes with one listening socket; a new one starts, the old one is stopped, again and again under load.
There a refused connect is a loss, too, and so is a failed call of echo_client.
"""

import argparse
import collections
import contextlib
import os
import pathlib
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

import compare

HERE = pathlib.Path(__file__).resolve().parent
LIMIT = 20  # seconds after which something that should have happened is a failure
GET = b"GET /json HTTP/1.1\r\nHost: x\r\n\r\n"
GET_ONCE = b"GET /json HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"
CLIENTS = 20
# A loopback address of this process's own: another process that listens at the port of a server that has just stopped
# would take its clients, which connect until they are refused.
HOST = f"127.{1 + (os.getpid() >> 16) % 250}.{(os.getpid() >> 8) % 256}.{1 + os.getpid() % 250}"


def fail(why):
    sys.exit(f"drain: {why}")


class Server:
    """A process; `address` is where it listens. Without a port it says which one it has."""

    def __init__(self, command, host=HOST, port=None, pass_fds=(), stop_by=signal.SIGTERM):
        self.stop_by = stop_by
        self.process = subprocess.Popen(
            command, stdout=subprocess.PIPE if port is None else subprocess.DEVNULL, pass_fds=pass_fds, process_group=0
        )
        if port is None:
            line = self.process.stdout.readline().decode()
            found = re.search(r":(\d+)\s*$", line)
            if not found:
                fail(f"{command[0]} did not say where it listens: {line!r}")
            port = int(found.group(1))
        self.address = (host, port)
        end = time.monotonic() + LIMIT
        while True:
            with contextlib.suppress(OSError):
                socket.create_connection(self.address, timeout=LIMIT).close()
                return
            if time.monotonic() > end:
                fail(f"{command[0]} does not listen")
            time.sleep(0.01)

    def ask_to_stop(self):
        self.process.send_signal(self.stop_by)

    def wait(self):
        try:
            self.process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.communicate()
            fail(f"{self.process.args[0]} still runs {LIMIT} s after it was asked to stop")


class Lost(Exception):
    """No whole answer."""


class Refused(Exception):
    """No connection."""


def connect(address):
    try:
        connection = socket.create_connection(address, timeout=LIMIT)
    except OSError as error:
        raise Refused(str(error)) from None
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    # Its close, after the answer, is a reset: connections in TIME_WAIT would use up the machine's ports.
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    return connection


def send(connection, data):
    try:
        connection.sendall(data)
    except OSError as error:
        raise Lost(str(error)) from None


def read_answer(connection):
    """Whether the connection can take another request."""
    got = b""
    try:
        while True:
            head, separator, body = got.partition(b"\r\n\r\n")
            if separator:
                length = int(re.search(rb"(?i)content-length: (\d+)", head).group(1))
                if len(body) >= length:
                    if not head.startswith(b"HTTP/1.1 200"):
                        raise Lost(f"answered {head[:40]!r}")
                    return b"connection: close" not in head.lower()
            part = connection.recv(4096)
            if not part:
                raise Lost(f"the end after {len(got)} bytes")
            got += part
    except OSError as error:
        raise Lost(f"{error} after {len(got)} bytes") from None


# --- Clients: called again and again until Refused ---


def connection_client(address, counts):
    with connect(address) as connection:
        send(connection, GET_ONCE)
        read_answer(connection)
    counts.count_answer()


def keep_alive_client(address, counts):
    with connect(address) as connection:
        while True:
            send(connection, GET)
            more = read_answer(connection)
            counts.count_answer()
            if not more or counts.over:
                return


def half_client(first, second):
    def client(address, counts):
        with connect(address) as connection:
            send(connection, first)
            counts.ready.release()
            counts.stopping.wait(LIMIT)
            time.sleep(0.05)
            send(connection, second)
            read_answer(connection)
        counts.count_answer()

    return client


def fresh_client(address, counts):
    with connect(address) as connection:
        counts.ready.release()
        counts.stopping.wait(LIMIT)
        time.sleep(0.02)
        send(connection, GET)
        read_answer(connection)
    counts.count_answer()


POST = b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 10\r\n\r\n01234"
LOADS = {
    "connection": lambda post: (connection_client, False),
    "keep_alive": lambda post: (keep_alive_client, False),
    "half_header": lambda post: (half_client(GET[:20], GET[20:]), True),
    "half_body": lambda post: (half_client(POST % post, b"56789"), True),
    "fresh": lambda post: (fresh_client, True),
}


class Clients:
    """Threads that make requests until the server refuses them, or over is set."""

    def __init__(self, address, client, once, refused_is_lost=False):
        self.answered = 0
        self.lost = []
        self.over = False
        self.lock = threading.Lock()
        self.ready = threading.Semaphore(0)
        self.stopping = threading.Event()
        self.threads = [
            threading.Thread(target=self.run, args=(address, client, once, refused_is_lost)) for _ in range(CLIENTS)
        ]
        for thread in self.threads:
            thread.start()

    def count_answer(self):
        with self.lock:
            self.answered += 1

    def run(self, address, client, once, refused_is_lost):
        while not self.over:
            try:
                client(address, self)
            except Refused as error:
                if not refused_is_lost:
                    return
                self.lost.append(f"refused: {error}")
            except Lost as error:
                self.lost.append(str(error))
            if once:
                return

    def join(self):
        for thread in self.threads:
            thread.join()


def await_answer(address):
    """A server may listen before the processes run that answer: nginx does."""
    with connect(address) as connection:
        send(connection, GET_ONCE)
        read_answer(connection)


def stop_under_load(server, load, post):
    """Returns (lost, answered, seconds that the stop took)."""
    client, once = LOADS[load](post)
    await_answer(server.address)
    clients = Clients(server.address, client, once)
    if once:
        for _ in range(CLIENTS):
            clients.ready.acquire(timeout=LIMIT)
        time.sleep(0.1)  # Until the server has read what was sent.
    else:
        time.sleep(0.3)
    begin = time.monotonic()
    server.ask_to_stop()
    clients.stopping.set()
    server.wait()
    seconds = time.monotonic() - begin
    clients.join()
    return clients.lost, clients.answered, seconds


def restart_under_load(command, load, restarts, workers):
    client, once = LOADS[load](b"/echo")
    with socket.socket() as listener:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((HOST, 0))
        listener.listen(4096)

        def start():
            return Server(command(f"fd:{listener.fileno()}", workers), pass_fds=(listener.fileno(),))

        server = start()
        clients = Clients(server.address, client, once, refused_is_lost=True)
        for _ in range(restarts):
            time.sleep(0.1)
            new = start()
            server.ask_to_stop()
            server.wait()
            server = new
        clients.over = True
        clients.join()
        server.ask_to_stop()
        server.wait()
    return clients.lost, clients.answered


def restart_rpc(programs, restarts):
    """Returns what echo_client printed last, and its status."""
    with socket.socket() as listener:
        listener.bind((HOST, 0))
        listener.listen(4096)

        def start():
            command = [programs / "echo_server", f"--listen=fd:{listener.fileno()}", "--drain_ms=5000"]
            return Server(command, pass_fds=(listener.fileno(),))

        server = start()
        client = subprocess.Popen(
            [programs / "echo_client", f"--server={HOST}:{server.address[1]}", "--connections=2", "--timeout_ms=10000"]
            + ["--rounds=1", f"--seconds={1 + 0.5 * restarts}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )
        for _ in range(restarts):
            time.sleep(0.1)
            new = start()
            server.ask_to_stop()
            server.wait()
            server = new
        output, _ = client.communicate(timeout=LIMIT + restarts)
        server.ask_to_stop()
        server.wait()
    return client.returncode, output.strip()


# --- Servers ---


def weft_command(programs):
    return lambda where, workers: [programs / "http_server", f"--listen={where}", f"--fiber_concurrency_hint={workers}"]


def make_servers(programs, scratch, only_weft):
    """By name: a function that starts one, and where it takes a POST."""
    weft = weft_command(programs)
    servers = {
        f"weft http_server, {workers} worker{'s'[: workers - 1]}": (
            lambda workers=workers: Server(weft(f"{HOST}:0", workers)),
            b"/echo",
        )
        for workers in (1, 2)
    }
    if only_weft:
        return servers
    if shutil.which("go"):
        program = scratch / "shutdown"
        subprocess.run(
            ["go", "build", "-o", program, HERE / "shutdown.go"],
            check=True,
            timeout=600,
            env={**os.environ, "GOCACHE": str(scratch / "gocache"), "GO111MODULE": "off"},
        )
        servers["Go Shutdown"] = (lambda: Server([program], host="127.0.0.1"), b"/json")
    else:
        print("drain: Go is not installed, and left out", file=sys.stderr)
    nginx = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin")
    if nginx:
        def start_nginx():
            with socket.socket() as probe:
                probe.bind(("127.0.0.1", 0))
                port = probe.getsockname()[1]
            path = compare.write_nginx_conf(scratch, port, protocol="", certificate=None)
            return Server(
                [nginx, "-p", scratch, "-c", path], host="127.0.0.1", port=port, stop_by=signal.SIGQUIT
            )

        servers["nginx quit, 2 workers"] = (start_nginx, b"/json")
    else:
        print("drain: nginx is not installed, and left out", file=sys.stderr)
    return servers


def measure_stops(servers, loads, runs):
    lost = collections.defaultdict(list)
    seconds = collections.defaultdict(list)
    answered = collections.Counter()
    for _ in range(runs):
        for load in loads:
            for name, (start, post) in servers.items():
                run_lost, run_answered, run_seconds = stop_under_load(start(), load, post)
                for why in sorted(set(run_lost)):
                    print(f"drain: {name}, {load}: {run_lost.count(why)} lost: {why}", file=sys.stderr)
                lost[name, load].append(len(run_lost))
                seconds[name, load].append(run_seconds)
                answered[name, load] += run_answered
    print("Requests lost in all stops (most in one; answered in all; median time of a stop, seconds)\n")
    print(f"| server | {' | '.join(loads)} |\n|{'---|' * (len(loads) + 1)}")
    for name in servers:
        cells = [
            f"**{sum(lost[name, load])}** ({max(lost[name, load])}; {answered[name, load]:,}; "
            f"{statistics.median(seconds[name, load]):.2f})"
            for load in loads
        ]
        print(f"| {name} | {' | '.join(cells)} |")
    return sum(sum(counts) for (name, _), counts in lost.items() if name.startswith("weft"))


def measure_restarts(programs, runs):
    bad = 0
    for load in ("connection", "keep_alive"):
        for workers in (1, 2):
            lost, answered = restart_under_load(weft_command(programs), load, runs, workers)
            for why in sorted(set(lost)):
                print(f"drain: restart, {load}: {lost.count(why)} lost: {why}", file=sys.stderr)
            bad += len(lost)
            print(f"http_server, {workers} workers, {load}: {runs} restarts, {len(lost)} lost, {answered:,} answered")
    if (programs / "echo_server").exists():
        status, output = restart_rpc(programs, runs)
        bad += status != 0
        print(f"echo_server: {runs} restarts, echo_client's status {status}\n{output}")
    else:
        print("drain: echo_server is not built, and left out", file=sys.stderr)
    return bad


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--bin", default="build/release/bin", help="where the examples were built (%(default)s)")
    parser.add_argument("--runs", type=int, default=20, help="stops of each server, and restarts (%(default)s)")
    parser.add_argument("--loads", default=",".join(LOADS), help="of the stops (%(default)s); empty: none")
    parser.add_argument("--only_weft", action="store_true", help="without Go and nginx")
    parser.add_argument("--no_restarts", action="store_true")
    parser.add_argument("--allowed", type=int, default=0, help="losses of Weft's for which the status is 0 (%(default)s)")
    options = parser.parse_args()
    loads = [load for load in options.loads.split(",") if load]
    if options.runs < 1 or not set(loads) <= set(LOADS):
        parser.error(f"--runs: 1 or more; --loads: of {', '.join(LOADS)}")
    programs = pathlib.Path(options.bin).resolve()
    bad = 0
    with tempfile.TemporaryDirectory(prefix="drain.") as scratch_name:
        scratch = pathlib.Path(scratch_name)
        scratch.chmod(0o755)  # nginx's workers are another user.
        if loads:
            bad += measure_stops(make_servers(programs, scratch, options.only_weft), loads, options.runs)
    if not options.no_restarts:
        bad += measure_restarts(programs, options.runs)
    sys.exit(1 if bad > options.allowed else 0)


if __name__ == "__main__":
    main()
