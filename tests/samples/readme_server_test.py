#!/usr/bin/env python3
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""The server in README.md.

  readme_server_test.py --extract <README.md> <file>   writes its source
  readme_server_test.py <program>                      runs it: requests are answered, also a slow one while it stops
"""

import http.client
import pathlib
import re
import socket
import subprocess
import sys
import threading


def extract(readme, target):
    blocks = re.findall(r"^```cpp\n(.*?)^```$", pathlib.Path(readme).read_text(), re.MULTILINE | re.DOTALL)
    servers = [block for block in blocks if "TcpServer" in block and "int main" in block]
    if len(servers) != 1:
        raise SystemExit(f"{readme}: {len(servers)} blocks are a server with a main()")
    lines = servers[0].count("\n")
    if lines > 32:
        raise SystemExit(f"{readme}: the server has {lines} lines; about 30 are meant")
    pathlib.Path(target).write_text(servers[0])


def ask(host, port, path):
    connection = http.client.HTTPConnection(host, port, timeout=60)
    connection.request("GET", path)
    response = connection.getresponse()
    assert response.status == 200, response.status
    body = response.read().decode()
    assert body == f"You asked: GET {path} HTTP/1.1\n", body
    connection.close()


def refused(program, address, why):
    result = subprocess.run([program, address], capture_output=True, text=True, timeout=60, check=False)
    assert (result.returncode, result.stdout, result.stderr) == (1, "", why), result


def test(program):
    server = subprocess.Popen([program, "127.0.0.1:0"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        host, port = re.match(r"http://([\d.]+):(\d+)/", server.stdout.readline()).groups()
        port = int(port)
        ask(host, port, "/")
        # A second one on the same port says why it cannot.
        refused(program, f"127.0.0.1:{port}", "cannot listen: Address already in use\n")
        threads = [threading.Thread(target=ask, args=(host, port, f"/{i}")) for i in range(20)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        # One that has half a request when the server is told to stop: it sees the end, and the server ends in time.
        slow = socket.create_connection((host, port), timeout=60)
        slow.sendall(b"GET /slow HTTP/1.0\r\n")
        ask(host, port, "/after")
        server.stdin.write("\n")
        server.stdin.close()
        assert slow.recv(1000) == b""
        assert server.wait(timeout=60) == 0, server.returncode
    finally:
        server.kill()
        server.wait()
    refused(program, "nowhere", "cannot listen: Invalid argument\n")


if __name__ == "__main__":
    if sys.argv[1] == "--extract":
        extract(sys.argv[2], sys.argv[3])
    else:
        test(sys.argv[1])
