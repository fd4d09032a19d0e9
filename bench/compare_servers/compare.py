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
import functools
import io
import math
import os
import pathlib
import random
import re
import resource
import shutil
import signal
import socket
import ssl
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from concurrent import futures
from typing import Callable, NamedTuple

HERE = pathlib.Path(__file__).resolve().parent
BODY = b'{"message":"Hello, World!"}'
RAW_EPOLL = "bare epoll loop, 1 thread"
IDLE_CONNECTIONS = 10_000


class Figures(NamedTuple):
    """One measurement."""

    rate: float  # requests a second
    p50: float  # milliseconds
    p99: float
    p999: float = math.nan  # not all load generators say it


class Server(NamedTuple):
    name: str
    command: Callable[[int], list]  # of the port
    chooses_port: bool = False  # it is started with port 0, and its first line ends with the port


class Load(NamedTuple):
    title: str
    check: Callable[[int], None]  # of the port; ends the program if the answers are not as they should be
    measure: Callable[[int], Figures]
    servers: list
    compared: str = "rate"  # the field of Figures whose ratios are shown


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
    """Yields the port and the process."""
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
        yield port, process
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
        fail(f"{' '.join(map(str, command))}: status {done.returncode}\n{done.stdout}{done.stderr}")
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


def check_bytes(port):
    with urllib.request.urlopen(f"http://127.0.0.1:{port}/bytes?n=65536", timeout=5) as answer:
        body = answer.read()
    if body != 65536 * b"x":
        fail(f"GET /bytes?n=65536 on port {port}: {len(body)} bytes, expected 65536 times x")


def wrk(seconds, *options, path="/json"):
    def measure(port):
        text = run(
            ["wrk", "-t1", *options, f"-d{seconds}", "--timeout=20s", "--latency", f"http://127.0.0.1:{port}{path}"],
            seconds=seconds + 60,
        )
        if "Socket errors" in text or "Non-2xx" in text:
            fail(f"wrk saw errors:\n{text}")
        return figures_of_wrk(text)

    return measure


def open_loop(program, rate_of, seconds):
    """Requests come at `rate_of(port)` a second."""

    def measure(port):
        text = run([program, f"--port={port}", f"--rate={rate_of(port)}", f"--seconds={seconds}"], seconds=seconds + 60)
        found = dict(pair.split("=") for pair in text.split())
        return Figures(float(found["rate"]), *(float(found[name]) / 1e3 for name in ("p50_us", "p99_us", "p999_us")))

    return measure


def most(port):
    """The rate at which wrk gets its requests answered."""
    return wrk(1, "-c50")(port).rate


def most_of_the_slowest(servers):
    """The median of three measurements of each, each in a fresh process."""
    rates = []
    for server in servers:
        of_server = []
        for _ in range(3):
            with running(server) as (port, _):
                of_server.append(most(port))
        rates.append(statistics.median(of_server))
    return min(rates)


def weft_servers(name, program):
    return [
        Server(
            f"weft {name}, {workers} worker{'s'[: workers - 1]}",
            lambda port, workers=workers: [
                program,
                f"--listen=127.0.0.1:{port}",
                f"--fiber_concurrency_hint={workers}",
            ],
            chooses_port=True,
        )
        for workers in (1, 2)
    ]


class Certificate(NamedTuple):
    """PEM files."""

    certificate: pathlib.Path
    key: pathlib.Path

    @staticmethod
    def make(folder):
        made = Certificate(folder / "certificate.pem", folder / "key.pem")
        key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-keyout", made.key]
        run(["openssl", "req", "-x509", *key, "-subj", "/CN=localhost", "-days", "30", "-out", made.certificate], 30)
        return made


def write_nginx_conf(folder, port, protocol, certificate):
    """Returns its path. Fills in the names between @ of nginx.conf."""
    (folder / "bytes").write_bytes(65536 * b"x")
    tls = ""
    if certificate:
        tls = f"ssl_certificate {certificate.certificate}; ssl_certificate_key {certificate.key};"
    filled_in = {"@PORT@": str(port), "@FOLDER@": str(folder), "@PROTOCOL@": protocol, "@TLS@": tls}
    path = folder / "nginx.conf"
    path.write_text(re.sub("@[A-Z]+@", lambda name: filled_in[name[0]], (HERE / "nginx.conf").read_text()))
    return path


def nginx_servers(scratch, protocol="", certificate=None):
    nginx = shutil.which("nginx", path=os.environ["PATH"] + ":/usr/sbin")
    if not nginx:
        return []

    def command(port):
        folder = scratch / f"nginx.{port}"
        folder.mkdir(exist_ok=True)
        return [nginx, "-p", folder, "-c", write_nginx_conf(folder, port, protocol, certificate)]

    return [Server("nginx, 2 workers", command)]


def build_go(scratch, name):
    """Of Debian's Go packages, without the network."""
    program = scratch / name
    subprocess.run(
        ["go", "build", "-o", program, HERE / f"{name}.go"],
        check=True,
        timeout=300,
        env={
            **os.environ,
            "GOCACHE": str(scratch / "gocache"),
            "GO111MODULE": "off",
            "GOPATH": "/usr/share/gocode",
        },
    )
    return program


def http_servers(programs, scratch):
    servers = []
    if programs["http_server"]:
        servers += weft_servers("http_server", programs["http_server"])
    if shutil.which("go"):
        hello = build_go(scratch, "hello")
        servers.append(Server("Go net/http", lambda port: [hello], chooses_port=True))
    return servers + nginx_servers(scratch)


def http_loads(programs, seconds, scratch):
    servers = http_servers(programs, scratch)
    if not shutil.which("wrk"):
        return []
    # It does nothing but read and write.
    floor = []
    if programs["raw_epoll"]:
        floor = [Server(RAW_EPOLL, lambda port: [programs["raw_epoll"]], chooses_port=True)]
    loads = [
        Load("GET /json, `wrk -t1 -c50`", check_json, wrk(seconds, "-c50"), servers + floor),
        Load("GET /json, `wrk -t1 -c1000`", check_json, wrk(seconds, "-c1000"), servers + floor),
        Load(
            "GET /json, a connection for each request, `wrk -t1 -c50 -H 'Connection: close'`",
            check_json,
            wrk(seconds, "-c50", "-HConnection: close"),
            servers + floor,
        ),
        Load(
            "GET /bytes?n=65536, `wrk -t1 -c50`", check_bytes, wrk(seconds, "-c50", path="/bytes?n=65536"), servers
        ),
    ]
    if programs["open_loop"]:
        common = functools.cache(lambda: most_of_the_slowest(servers))  # When it is first asked for.
        for title, rate_of in (
            ("what wrk gets", most),
            ("what wrk gets from the slowest server", lambda port: common()),
        ):
            loads += [
                Load(
                    f"GET /json, open loop, 50 connections, {100 * part:.0f} % of {title}; ratios of p99",
                    check_json,
                    open_loop(programs["open_loop"], lambda port, part=part, of=rate_of: part * of(port), seconds),
                    servers,
                    compared="p99",
                )
                for part in (0.5, 0.8)
            ]
    return loads


# --- HTTP/2, and gRPC over it ---


def check_http2(port, scheme="http"):
    version = "--http2-prior-knowledge" if scheme == "http" else "--http2"
    body = run(["curl", "--silent", "--insecure", version, f"{scheme}://127.0.0.1:{port}/json"], seconds=10)
    if body.encode() != BODY:
        fail(f"GET /json over HTTP/2 on port {port}: {body!r}, expected {BODY!r}")


def percentile(ordered, part):
    return ordered[min(len(ordered) - 1, math.ceil(part * len(ordered)) - 1)]


def figures_of_h2load(text, log):
    """`log`: a line for each request: when it began, its status, its time in microseconds."""
    failed = re.search(r"(\d+) failed, (\d+) errored, (\d+) timeout", text)
    if not failed or any(int(number) for number in failed.groups()):
        fail(f"h2load saw errors:\n{text}")
    times = sorted(int(line.split("\t")[2]) / 1e3 for line in log.splitlines())
    rate = float(re.search(r"^finished in .*, ([\d.]+) req/s", text, re.MULTILINE).group(1))
    return Figures(rate, *(percentile(times, part) for part in (0.5, 0.99, 0.999)))


def h2load(seconds, scratch, *options, target="http://127.0.0.1:{}/json"):
    def measure(port):
        log = scratch / f"h2load.{port}.log"
        log.unlink(missing_ok=True)  # It appends.
        command = ["h2load", "-t1", *options, f"--duration={seconds}", f"--log-file={log}", target.format(port)]
        return figures_of_h2load(run(command, seconds=seconds + 60), log.read_text())

    return measure


def http2_loads(programs, seconds, scratch):
    if not shutil.which("h2load"):
        return []
    servers = []
    if programs["http2_server"]:
        servers += weft_servers("http2_server", programs["http2_server"])
    servers += nginx_servers(scratch, protocol=" http2")
    return [
        Load(
            f"GET /json over HTTP/2, `h2load -t1 -c50 -m{streams}`",
            check_http2,
            h2load(seconds, scratch, "-c50", f"-m{streams}"),
            servers,
        )
        for streams in (1, 32)
    ]


def tls_servers(programs, scratch):
    if not shutil.which("openssl"):
        return []
    pem = Certificate.make(scratch)
    servers = []
    if programs["http2_server"]:
        servers += [
            server._replace(
                command=lambda port, of=server.command: of(port)
                + ["--tls", f"--tls_certificate={pem.certificate}", f"--tls_key={pem.key}"]
            )
            for server in weft_servers("http2_server", programs["http2_server"])
        ]
    if shutil.which("go"):
        command = [build_go(scratch, "hello"), f"-certificate={pem.certificate}", f"-key={pem.key}"]
        servers.append(Server("Go net/http", lambda port: command, chooses_port=True))
    return servers + nginx_servers(scratch, protocol=" ssl http2", certificate=pem)


def tls_loads(programs, seconds, scratch):
    servers = tls_servers(programs, scratch)
    if not shutil.which("h2load"):
        return []
    return [
        Load(
            f"GET /json over HTTP/2 and TLS, `h2load -t1 -c50 -m{streams}`",
            lambda port: check_http2(port, "https"),
            h2load(seconds, scratch, "-c50", f"-m{streams}", target="https://127.0.0.1:{}/json"),
            servers,
        )
        for streams in (1, 32)
    ]


# Of the field `payload`; in a frame of gRPC.
GRPC_MESSAGE = b"\x0a\x10" + 16 * b"x"
GRPC_FRAME = b"\0" + len(GRPC_MESSAGE).to_bytes(4, "big") + GRPC_MESSAGE
GRPC_TARGET = "http://127.0.0.1:{}/weft.examples.Greeter/Echo"
GRPC_HEADERS = ["-H", "content-type: application/grpc", "-H", "te: trailers"]


def check_grpc(port, frame_file):
    got = subprocess.run(
        ["curl", "--silent", "--http2-prior-knowledge", *GRPC_HEADERS, "--data-binary", f"@{frame_file}"]
        + [GRPC_TARGET.format(port)],
        capture_output=True,
        timeout=10,
        check=False,
    ).stdout
    if got != GRPC_FRAME:
        fail(f"Echo on port {port}: {got!r}, expected {GRPC_FRAME!r}")


def grpc_loads(programs, seconds, scratch):
    if not shutil.which("h2load"):
        return []
    frame = scratch / "grpc_frame"
    frame.write_bytes(GRPC_FRAME)
    servers = []
    for name in ("grpc_http2_server", "grpc_server"):
        if programs[name]:
            servers += weft_servers(name, programs[name])
    if shutil.which("go") and pathlib.Path("/usr/share/gocode/src/google.golang.org/grpc").is_dir():
        echo = build_go(scratch, "grpc_echo")
        servers.append(Server("Go gRPC", lambda port: [echo], chooses_port=True))
    return [
        Load(
            f"gRPC, a unary call with 16 bytes, `h2load -t1 -c10 -m{streams}`",
            lambda port: check_grpc(port, frame),
            h2load(seconds, scratch, "-c10", f"-m{streams}", "-d", str(frame), *GRPC_HEADERS, target=GRPC_TARGET),
            servers,
        )
        for streams in (1, 16)
    ]


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


def redis_servers(programs):
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
    return servers


def redis_loads(programs, seconds):
    servers = redis_servers(programs)
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


# --- Memory ---


def memory_of(group):
    """Bytes of resident memory and page tables of the processes of a group."""
    total = 0
    for status in pathlib.Path("/proc").glob("[0-9]*/status"):
        with contextlib.suppress(OSError, ProcessLookupError):
            if os.getpgid(int(status.parent.name)) == group:
                found = re.findall(r"^Vm(?:RSS|PTE):\s+(\d+) kB", status.read_text(), re.MULTILINE)
                total += sum(int(kilobytes) for kilobytes in found)
    return 1024 * total


class Idle(NamedTuple):
    connections: int
    seconds: int  # from their end to the last look


class Question(NamedTuple):
    """What each idle connection has asked."""

    request: bytes
    answer: bytes  # the last thing that comes
    tls: ssl.SSLContext | None = None


def question_over_tls():
    """GET /json over HTTP/2: the preface, no settings, the acknowledgement of the server's, without which it ends the
    connection in the end, and HEADERS that end stream 1 (RFC 9113, RFC 7541)."""
    tls = ssl.create_default_context()
    tls.check_hostname = False
    tls.verify_mode = ssl.CERT_NONE
    tls.set_alpn_protocols(["h2"])
    fields = b"\x82\x87\x04\x05/json\x01\x01a"  # GET, https, /json, a
    headers = len(fields).to_bytes(3, "big") + b"\x01\x05" + (1).to_bytes(4, "big") + fields
    return Question(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0\0\0\x04\0" + bytes(4) + b"\0\0\0\x04\x01" + bytes(4) + headers,
                    BODY, tls)


class IdleMemory(NamedTuple):
    """Bytes."""

    per_connection: float
    left: float  # a while after the last has closed, above what it was before the first

    @staticmethod
    def measure(server, question, idle):
        """Each connection asks once, and waits."""

        def ask(connection):
            connection.sendall(question.request)
            answer = b""
            while question.answer not in answer:
                part = connection.recv(65536)
                if not part:
                    fail(f"{server.name} closed a connection after {answer!r}")
                answer += part

        def one(port):
            connection = socket.create_connection(("127.0.0.1", port), timeout=10)
            if question.tls:
                connection = question.tls.wrap_socket(connection)
            ask(connection)
            return connection

        with running(server) as (port, process):
            one(port).close()
            before = memory_of(process.pid)
            waiting = [one(port) for _ in range(idle.connections)]
            time.sleep(1)
            full = memory_of(process.pid)
            for connection in waiting:
                connection.close()
            time.sleep(idle.seconds)
            return IdleMemory((full - before) / idle.connections, memory_of(process.pid) - before)


def memory_table(title, servers, question, idle):
    head = f"| server | KB a connection | MB left {idle.seconds} s after all have closed |"
    lines = [f"### {title}", "", head, "|---|---|---|"]
    for server in servers:
        used = IdleMemory.measure(server, question, idle)
        lines.append(f"| {server.name} | {used.per_connection / 1e3:.2f} | {used.left / 1e6:.1f} |")
    return "\n".join(lines) + "\n"


def memory_tables(programs, scratch, only, idle):
    tables = []
    if only != "redis":
        title = f"Memory (resident and page tables) of {idle.connections:,} idle HTTP connections, each after a GET /json"
        question = Question(b"GET /json HTTP/1.1\r\nHost: a\r\n\r\n", BODY)
        tables.append(memory_table(title, http_servers(programs, scratch), question, idle))
        title = f"Memory of {idle.connections:,} idle connections of HTTP/2 over TLS, each after a GET /json"
        tables.append(memory_table(title, tls_servers(programs, scratch), question_over_tls(), idle))
    if only != "http":
        title = f"Memory of {idle.connections:,} idle Redis connections, each after a PING"
        tables.append(memory_table(title, redis_servers(programs), Question(b"PING\r\n", b"+PONG\r\n"), idle))
    return tables


# --- Rounds and tables ---


def median(values):
    return statistics.median(list(values))


def measure_round(load):
    """Name to Figures."""
    measured = {}
    for server in random.sample(load.servers, len(load.servers)):
        with running(server) as (port, _):
            load.check(port)
            measured[server.name] = load.measure(port)
    return measured


def table(load, rounds):
    """`rounds`: for each a dict of name to Figures."""
    ours = [server.name for server in load.servers if server.name.startswith("weft")]
    lines = [f"### {load.title}", ""]
    def milliseconds(values):
        value = median(values)
        return "" if math.isnan(value) else f"{value:.2f}"

    with_p999 = not any(math.isnan(figures.p999) for measured in rounds for figures in measured.values())
    head = ["server", "requests/s", "p50 ms", "p99 ms"] + with_p999 * ["p999 ms"] + [
        f"to {peer.name}" for peer in load.servers if peer.name not in ours
    ]
    lines += [f"| {' | '.join(head)} |", "|" + "---|" * len(head)]
    for server in load.servers:
        figures = [measured[server.name] for measured in rounds]
        cells = [
            server.name,
            f"{median(f.rate for f in figures):,.0f}",
            milliseconds(f.p50 for f in figures),
            milliseconds(f.p99 for f in figures),
        ]
        if with_p999:
            cells.append(milliseconds(f.p999 for f in figures))
        for peer in load.servers:
            if peer.name in ours:
                continue
            ratios = sorted(
                getattr(measured[server.name], load.compared) / getattr(measured[peer.name], load.compared)
                for measured in rounds
            )
            cells.append("" if server is peer else f"**{median(ratios):.2f}** ({ratios[0]:.2f} to {ratios[-1]:.2f})")
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def main():
    parser = argparse.ArgumentParser(prog="bench/compare_servers.sh", description=__doc__.splitlines()[0])
    parser.add_argument("--bin", default="build/release/bin", help="where the examples were built (%(default)s)")
    parser.add_argument("--rounds", type=int, default=5, help="how often each server is measured (%(default)s)")
    parser.add_argument("--seconds", type=int, default=3, help="of each measurement (%(default)s)")
    parser.add_argument("--only", choices=["http", "redis"], help="one of the two")
    parser.add_argument("--loads", default="", metavar="WORD", help="only those whose title contains it")
    parser.add_argument("--memory", action="store_true", help="also the memory of idle connections")
    parser.add_argument("--idle", type=int, default=IDLE_CONNECTIONS, help="how many, for --memory (%(default)s)")
    parser.add_argument("--settle", type=int, default=10, help="seconds after their end, for --memory (%(default)s)")
    parser.add_argument("--at_once", type=int, default=1, help="loads at once: quick, and the figures mean nothing")
    options = parser.parse_args()
    if min(options.rounds, options.seconds, options.idle, options.at_once) < 1:
        parser.error("--rounds, --seconds, --idle and --at_once: expected 1 or more")
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))  # The servers inherit it.

    programs = {}
    for name in ("http_server", "http2_server", "grpc_http2_server", "grpc_server", "resp_server", "raw_epoll", "open_loop"):
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
            for make in (http2_loads, tls_loads, grpc_loads):
                loads += make(programs, options.seconds, scratch)
        if options.only != "http":
            loads += redis_loads(programs, options.seconds)
        loads = [
            load
            for load in loads
            if options.loads in load.title and any(server.name.startswith("weft") for server in load.servers)
        ]
        if not loads:
            fail("there is nothing to measure: build http_server or resp_server, and install wrk or redis-tools")

        results = [[] for _ in loads]
        for number in range(options.rounds):
            with futures.ThreadPoolExecutor(options.at_once) as threads:
                for measured, rounds in zip(threads.map(measure_round, loads), results):
                    rounds.append(measured)
            print(f"compare_servers: round {number + 1} of {options.rounds}", file=sys.stderr)
        memory = memory_tables(programs, scratch, options.only, Idle(options.idle, options.settle)) if options.memory else []

    print(
        f"{options.rounds} rounds of {options.seconds} s, {os.cpu_count()} CPUs; medians, and the median of the ratios "
        "of requests/s within a round (smallest to largest).\n"
    )
    print("\n".join([table(load, rounds) for load, rounds in zip(loads, results)] + memory))


if __name__ == "__main__":
    main()
