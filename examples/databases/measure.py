#!/usr/bin/env python3
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""The table of docs/how-to/databases.md: measure.py <database_load> [--seconds=5] [--rounds=3]

Servers and clients share this machine's CPUs. Each line is the median of the rounds, which go through all lines by
turns."""

import argparse
import re
import statistics
import subprocess

import servers

LINE = re.compile(r"(\d+) queries/s, answer p50 ([\d.]+) p99 ([\d.]+) ms, late p99 ([\d.]+) ms, (\d+) threads, (\d+) failed")
WAYS = [("hook", "hook", []), ("plain, without the hook", "plain", []),
        ("`FiberBlocking()`, 64 threads", "blocking", []),
        ("`FiberBlocking()`, 200 threads", "blocking", ["--fiber_blocking_threads=200"])]


def measure(program, client, server, how, server_ms, more, seconds):
    answer = subprocess.run(
        [program, f"--client={client}", f"--server={server}", f"--how={how}", f"--server_ms={server_ms}",
         f"--seconds={seconds}", "--fiber_concurrency_hint=2", *more],
        stdout=subprocess.PIPE, text=True, check=True).stdout
    return [float(number) for number in LINE.search(answer).groups()]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("program")
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--rounds", type=int, default=3)
    arguments = parser.parse_args()
    print("| server | query | how | queries/s | answer p50 ms | p99 ms | other fiber late p99 ms | threads |")
    print("|---|---|---|--:|--:|--:|--:|--:|")
    for client, start in (("redis", servers.Redis), ("postgres", servers.Postgres)):
        with start() as server:
            for server_ms in (0, 20):
                found = {title: [] for title, _, _ in WAYS}
                for _ in range(arguments.rounds):
                    for title, how, more in WAYS:
                        found[title].append(measure(arguments.program, client, server.address, how, server_ms, more, arguments.seconds))
                for title, rows in found.items():
                    rate, p50, p99, late, threads, _ = (statistics.median(column) for column in zip(*rows))
                    query = f"waits {server_ms} ms" if server_ms else "answers at once"
                    print(f"| {client} | {query} | {title} | {rate:.0f} | {p50:.1f} | {p99:.1f} | {late:.1f} | {threads:.0f} |", flush=True)


if __name__ == "__main__":
    main()
