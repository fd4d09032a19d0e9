#!/usr/bin/env python3
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""Weft's example servers beside others, under the same load: see bench/compare_servers.sh, which starts this.

All servers are measured in each round, one after the other in random order, each in a fresh process: what else happens
on the machine hits all of them. A ratio is the median over the rounds of the ratios within a round.
"""

import argparse
import contextlib
import csv
import io
import os
import pathlib
import random
import re
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from typing import Callable, NamedTuple

HERE = pathlib.Path(__file__).resolve().parent
BODY = b'{"message":"Hello, World!"}'


class Figures(NamedTuple):
    """One measurement."""

    rate: float  # requests a second
    p50: float  # milliseconds
    p99: float


class Server(NamedTuple):
    name: str
    command: Callable[[int], list]  # of the port
    chooses_port: bool = False  # it is started with port 0, and its first line ends with the port


class Load(NamedTuple):
    title: str
    check: Callable[[int], None]  # of the port; ends the program if the answers are not as they should be
    measure: Callable[[int], Figures]
    servers: list


def fail(why):
    sys.exit(f"compare_servers: {why}")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def await_port(port, process, seconds=10):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if process.poll() is not None:
            fail(f"{process.args[0]} ended with status {process.returncode} before it listened")
        with contextlib.suppress(OSError):
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
            return
        time.sleep(0.01)
    fail(f"{process.args[0]} does not listen on port {port} after {seconds} s")


@contextlib.contextmanager
def running(server):
    """Yields the port."""
    port = 0 if server.chooses_port else free_port()
    # A process group of its own: nginx's workers end with it.
    process = subprocess.Popen(
        server.command(port),
        stdout=subprocess.PIPE if server.chooses_port else subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        process_group=0,
    )
    try:
        if server.chooses_port:
            line = process.stdout.readline().decode()
            found = re.search(r":(\d+)\s*$", line)
            if not found:
                fail(f"{process.args[0]} did not say where it listens: {line!r}")
            port = int(found.group(1))
        await_port(port, process)
        yield port
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        try:
            process.communicate(timeout=10)
        except subprocess.TimeoutExpired:
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()


def run(command, seconds):
    done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    if done.returncode != 0:
        fail(f"{' '.join(command)}: status {done.returncode}\n{done.stdout}{done.stderr}")
    return done.stdout


# --- HTTP ---


def check_json(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/json", timeout=5) as answer:
        body = answer.read()
    if body != BODY:
        fail(f"GET /json on port {port}: {body!r}, expected {BODY!r}")


def figures_of_wrk(text):
    def percentile_in_ms(percent):
        # At the beginning of a line: "+/- Stdev" is a percentage, too.
        number, unit = re.search(rf"^ *{percent}% +([\d.]+)(us|ms|s) *$", text, re.MULTILINE).groups()
        return float(number) * {"us": 1e-3, "ms": 1, "s": 1e3}[unit]

    return Figures(
        rate=float(re.search(r"Requests/sec:\s+([\d.]+)", text).group(1)),
        p50=percentile_in_ms(50),
        p99=percentile_in_ms(99),
    )


def wrk(seconds):
    def measure(port):
        text = run(
            ["wrk", "-t1", "-c50", f"-d{seconds}", "--timeout=20s", "--latency", f"http://127.0.0.1:{port}/json"],
            seconds=seconds + 60,
        )
        if "Socket errors" in text or "Non-2xx" in text:
            fail(f"wrk saw errors:\n{text}")
        return figures_of_wrk(text)

    return measure


def http_loads(programs, seconds, scratch):
    servers = []
    if programs["http_server"]:
        for workers in (1, 2):
            servers.append(
                Server(
                    f"weft http_server, {workers} worker{'s'[: workers - 1]}",
                    lambda port, workers=workers: [
                        programs["http_server"],
                        f"--listen=127.0.0.1:{port}",
                        f"--fiber_concurrency_hint={workers}",
                    ],
                    chooses_port=True,
                )
            )
    if shutil.which("go"):
        hello = scratch / "hello"
        subprocess.run(
            ["go", "build", "-o", hello, HERE / "hello.go"],
            check=True,
            timeout=300,
            env={**os.environ, "GOCACHE": str(scratch / "gocache"), "GO111MODULE": "off"},
        )
        servers.append(Server("Go net/http", lambda port: [hello], chooses_port=True))
    nginx = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin")
    if nginx:
        conf = (HERE / "nginx.conf").read_text()

        def nginx_command(port):
            path = scratch / "nginx.conf"
            path.write_text(conf.replace("@PORT@", str(port)))
            return [nginx, "-p", scratch, "-c", path]

        servers.append(Server("nginx, 2 workers", nginx_command))
    if not shutil.which("wrk"):
        return []
    return [Load("GET /json, `wrk -t1 -c50`", check_json, wrk(seconds), servers)]


# --- Redis ---


def check_redis(port):
    with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
        connection.sendall(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$1\r\nv\r\n*2\r\n$3\r\nGET\r\n$1\r\nk\r\n")
        expected = b"+OK\r\n$1\r\nv\r\n"
        answer = b""
        while len(answer) < len(expected) and (part := connection.recv(100)):
            answer += part
    if answer != expected:
        fail(f"SET and GET on port {port}: {answer!r}, expected {expected!r}")


def redis_benchmark(command, pipeline, seconds):
    # The number of requests is found once for each server's port: about `seconds` long.
    def rate(port, requests):
        text = run(
            ["redis-benchmark", "-p", str(port), "-t", command, "-n", str(requests)]
            + ["-P", str(pipeline), "-c", "50", "--csv"],
            seconds=120,
        )
        rows = [row for row in csv.DictReader(io.StringIO(text)) if row["test"].lower() == command]
        if len(rows) != 1:
            fail(f"redis-benchmark -t {command} printed no such row:\n{text}")
        return rows[0]

    def measure(port):
        first = float(rate(port, 20_000)["rps"])
        row = rate(port, max(20_000, int(first * seconds)))
        return Figures(rate=float(row["rps"]), p50=float(row["p50_latency_ms"]), p99=float(row["p99_latency_ms"]))

    return measure


def redis_loads(programs, seconds):
    servers = []
    if programs["resp_server"]:
        for workers in (1, 2):
            servers.append(
                Server(
                    f"weft resp_server, {workers} worker{'s'[: workers - 1]}",
                    lambda port, workers=workers: [
                        programs["resp_server"],
                        f"--listen=127.0.0.1:{port}",
                        f"--fiber_concurrency_hint={workers}",
                    ],
                )
            )
    if shutil.which("redis-server"):
        servers.append(
            Server(
                "redis-server",
                lambda port: ["redis-server", "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
                + ["--appendonly", "no"],
            )
        )
    if not shutil.which("redis-benchmark"):
        return []
    return [
        Load(
            f"{command.upper()}, `redis-benchmark -P {pipeline} -c 50`",
            check_redis,
            redis_benchmark(command, pipeline, seconds),
            servers,
        )
        for pipeline in (1, 16)
        for command in ("get", "set")
    ]


# --- Rounds and tables ---


def median(values):
    return statistics.median(list(values))


def table(load, rounds):
    """`rounds`: for each a dict of name to Figures."""
    ours = [server.name for server in load.servers if server.name.startswith("weft")]
    lines = [f"### {load.title}", ""]
    head = ["server", "requests/s", "p50 ms", "p99 ms"] + [
        f"to {peer.name}" for peer in load.servers if peer.name not in ours
    ]
    lines += [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for server in load.servers:
        figures = [measured[server.name] for measured in rounds]
        cells = [
            server.name,
            f"{median(f.rate for f in figures):,.0f}",
            f"{median(f.p50 for f in figures):.2f}",
            f"{median(f.p99 for f in figures):.2f}",
        ]
        for peer in load.servers:
            if peer.name in ours:
                continue
            ratios = sorted(measured[server.name].rate / measured[peer.name].rate for measured in rounds)
            cells.append("" if server is peer else f"**{median(ratios):.2f}** ({ratios[0]:.2f} to {ratios[-1]:.2f})")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(prog="bench/compare_servers.sh", description=__doc__.splitlines()[0])
    parser.add_argument("--bin", default="build/release/bin", help="where the examples were built (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="how often each server is measured (%(default)s)")
    parser.add_argument("--seconds", type=int, default=3, help="of each measurement (%(default)s)")
    parser.add_argument("--only", choices=["http", "redis"], help="one of the two")
    options = parser.parse_args()
    if options.rounds < 1 or options.seconds < 1:
        parser.error("--rounds and --seconds: expected 1 or more")

    programs = {}
    for name in ("http_server", "resp_server"):
        path = pathlib.Path(options.bin) / name
        programs[name] = path if path.exists() else None
        if programs[name] is None:
            print(f"compare_servers: {path} is not built, and left out", file=sys.stderr)

    with tempfile.TemporaryDirectory(prefix="compare_servers.") as scratch_name:
        scratch = pathlib.Path(scratch_name)
        scratch.chmod(0o755)  # nginx's workers are another user.
        loads = []
        if options.only != "redis":
            loads += http_loads(programs, options.seconds, scratch)
        if options.only != "http":
            loads += redis_loads(programs, options.seconds)
        loads = [load for load in loads if any(server.name.startswith("weft") for server in load.servers)]
        if not loads:
            fail("there is nothing to measure: build http_server or resp_server, and install wrk or redis-tools")

        results = [[] for _ in loads]
        for number in range(options.rounds):
            for load, rounds in zip(loads, results):
                measured = {}
                for server in random.sample(load.servers, len(load.servers)):
                    with running(server) as port:
                        load.check(port)
                        measured[server.name] = load.measure(port)
                rounds.append(measured)
            print(f"compare_servers: round {number + 1} of {options.rounds}", file=sys.stderr)

    print(
        f"{options.rounds} rounds of {options.seconds} s, {os.cpu_count()} CPUs; medians, and the median of the ratios "
        "of requests/s within a round (smallest to largest).\n"
    )
    print("\n".join(table(load, rounds) for load, rounds in zip(loads, results)))


if __name__ == "__main__":
    main()
