# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""A server among the examples as a process: started, watched from outside, ended."""

import contextlib
import os
import re
import resource
import select
import signal
import socket
import subprocess
import tempfile
import time

LIMIT = 60  # Seconds after which something that should have happened is a failure: only what hangs takes that long.


def wait_for(condition, what, seconds=LIMIT):
    """Asks until `condition()` is true."""
    end = time.monotonic() + seconds
    while True:
        found = condition()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"not within {seconds} s: {what() if callable(what) else what}")
        time.sleep(0.01)


def least(measure, enough, tries=5):
    """The least of some measurements, up to the first below `enough`.

    Others use this machine. What is wrong is so each time.
    """
    found = measure()
    while found >= enough and (tries := tries - 1) > 0:
        found = min(found, measure())
    return found


class Server:
    """Runs from construction to stop(). `port` is where it listens; `nofile`: its limit of descriptors; `pass_fds`:
    descriptors that it inherits.

    As a context it stops at the end, must have status 0, and closes the connections that were made.
    """

    def __init__(self, program, *flags, nofile=None, pass_fds=()):
        def limit():
            if nofile:
                resource.setrlimit(resource.RLIMIT_NOFILE, (nofile, nofile))

        self.connections = []
        self.log = tempfile.TemporaryFile()
        self.process = subprocess.Popen(
            [program, "--listen=127.0.0.1:0", "--logtostderr", *flags],
            stdout=subprocess.PIPE,
            stderr=self.log,
            preexec_fn=limit,
            pass_fds=pass_fds,
        )
        ready, _, _ = select.select([self.process.stdout], [], [], LIMIT)
        line = self.process.stdout.readline().decode() if ready else ""
        found = re.search(r"(?:^|: )listening on 127\.0\.0\.1:(\d+)\n$", line)
        if not found:
            self.process.kill()
            raise AssertionError(f"{program} did not say where it listens, but {line!r}; log:\n{self.read_log()}")
        self.port = int(found.group(1))

    @property
    def pid(self):
        return self.process.pid

    def read_log(self):
        return os.pread(self.log.fileno(), 1 << 20, 0).decode()

    def connect(self, source="127.0.0.1"):
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=LIMIT, source_address=(source, 0))
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.connections.append(connection)
        return connection

    def descriptors(self):
        return len(os.listdir(f"/proc/{self.pid}/fd"))

    def cpu_seconds(self):
        """Of all threads, to the nanosecond (the times in stat are ticks of 10 ms)."""
        total = 0
        for task in os.listdir(f"/proc/{self.pid}/task"):
            with contextlib.suppress(FileNotFoundError), open(f"/proc/{self.pid}/task/{task}/schedstat") as stat:
                total += int(stat.read().split()[0])
        return total / 1e9

    def resident_bytes(self):
        with open(f"/proc/{self.pid}/statm") as statm:
            return int(statm.read().split()[1]) * resource.getpagesize()

    def stop(self, sent=signal.SIGTERM):
        """Ends it; returns status and what it has printed since it began to listen."""
        if self.process.poll() is None:
            self.process.send_signal(sent)
        try:
            output, _ = self.process.communicate(timeout=LIMIT)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            raise AssertionError(f"still runs {LIMIT} s after signal {sent}; log:\n{self.read_log()}") from None
        return self.process.returncode, output.decode()

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        try:
            if kind is not None:
                self.process.kill()
                self.process.communicate()
                print(f"log of the server:\n{self.read_log()}")
            elif self.process.returncode is None:
                status, output = self.stop()
                assert status == 0, f"ended with status {status}: {output}\n{self.read_log()}"
        finally:
            for connection in self.connections:
                connection.close()
            self.process.stdout.close()
            self.log.close()


@contextlib.contextmanager
def stopped(server):
    """Its process does not run meanwhile; the kernel takes what it is sent."""
    server.process.send_signal(signal.SIGSTOP)
    wait_for(lambda: state_of(server.pid) == "T", "it does not stop")
    try:
        yield
    finally:
        server.process.send_signal(signal.SIGCONT)


def state_of(pid):
    with open(f"/proc/{pid}/stat") as stat:
        return stat.read().rpartition(")")[2].split()[0]


def read_to_end(connection):
    """All bytes until the peer closes; a reset is an error."""
    parts = []
    while part := connection.recv(1 << 16):
        parts.append(part)
    return b"".join(parts)


def reset(connection):
    """Closes with a RST."""
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
    connection.close()
