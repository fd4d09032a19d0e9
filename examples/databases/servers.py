# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""Redis, PostgreSQL and nginx of this machine, each on a free port of 127.0.0.1, in a folder that goes with it.

    with servers.Redis() as redis: ... redis.address ...

missing(): what is not installed. For measure.py and tests/examples/databases_test.py."""

import glob
import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time

PATH = ":".join([os.environ.get("PATH", ""), "/usr/sbin", *sorted(glob.glob("/usr/lib/postgresql/*/bin"), reverse=True)])
CONNECTIONS = 300  # that PostgreSQL takes
PATIENCE = 60  # seconds


def missing():
    return [program for program in ("redis-server", "postgres", "initdb", "nginx") if shutil.which(program, path=PATH) is None]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Server:
    """A process that ends by `end`."""

    def __init__(self, end):
        self.folder = tempfile.mkdtemp(prefix="weft_")
        self.port = free_port()
        self.end = end
        self.process = None

    def start(self, command, **more):
        self.process = subprocess.Popen(command, cwd=self.folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **more)
        limit = time.monotonic() + PATIENCE
        while not self.is_ready():
            if self.process.poll() is not None or time.monotonic() > limit:
                self.stop()
                raise RuntimeError(f"{command[0]} does not serve: {command}")
            time.sleep(0.02)

    def stop(self):
        if self.process.poll() is None:
            self.process.send_signal(self.end)
            self.process.wait(PATIENCE)
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.stop()


class Redis(Server):
    def __init__(self):
        super().__init__(signal.SIGTERM)
        self.address = f"127.0.0.1:{self.port}"
        self.start([shutil.which("redis-server", path=PATH), "--bind", "127.0.0.1", "--port", str(self.port), "--save", "",
                    "--maxclients", "1000", "--hz", "500"])  # BLPOP's time-outs are looked at so often.

    def is_ready(self):
        try:
            with socket.create_connection(("127.0.0.1", self.port)) as client:
                client.sendall(b"PING\r\n")
                return client.recv(7) == b"+PONG\r\n"
        except OSError:
            return False


class Postgres(Server):
    """Without durability. It refuses to run as root, so it runs as postgres then."""

    def __init__(self):
        super().__init__(signal.SIGINT)
        self.address = f"host=127.0.0.1 port={self.port} dbname=postgres user=postgres sslmode=disable"
        who = {}
        if os.getuid() == 0:
            user = pwd.getpwnam("postgres")
            os.chown(self.folder, user.pw_uid, user.pw_gid)
            who = {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}
        data = os.path.join(self.folder, "data")
        subprocess.run([shutil.which("initdb", path=PATH), "--auth=trust", "--username=postgres", "--no-sync", "--no-locale",
                        "--pgdata", data], cwd=self.folder, stdout=subprocess.DEVNULL, check=True, **who)
        self.start([shutil.which("postgres", path=PATH), "-D", data, "-F", "-h", "127.0.0.1", "-p", str(self.port),
                    "-k", self.folder, "-c", f"max_connections={CONNECTIONS}", "-c", "shared_buffers=32MB"], **who)

    def is_ready(self):
        try:
            with socket.create_connection(("127.0.0.1", self.port)) as client:
                # An SSLRequest, which a server that listens answers by a letter.
                client.sendall(bytes([0, 0, 0, 8, 4, 210, 22, 47]))
                return client.recv(1) in (b"N", b"S") and os.path.exists(os.path.join(self.folder, "data", "postmaster.pid"))
        except OSError:
            return False


class Nginx(Server):
    """Answers at once; below wait after wait_ms, by 401."""

    CONFIGURATION = """daemon off; master_process off; pid nginx.pid; error_log stderr error;
events {{ worker_connections 1000; }}
http {{
  access_log off; keepalive_requests 1000000;
  client_body_temp_path body; proxy_temp_path proxy; fastcgi_temp_path fastcgi; uwsgi_temp_path uwsgi; scgi_temp_path scgi;
  server {{
    listen 127.0.0.1:{port};
    location / {{ return 200 "hello"; }}
    location /wait {{ auth_basic "nobody"; auth_basic_user_file nobody; auth_delay {wait_ms}ms; }}
  }}
}}
"""

    def __init__(self, wait_ms=20):
        super().__init__(signal.SIGTERM)
        self.address = f"http://127.0.0.1:{self.port}/"
        for name, text in (("nginx.conf", self.CONFIGURATION.format(port=self.port, wait_ms=wait_ms)), ("nobody", "")):
            with open(os.path.join(self.folder, name), "w", encoding="utf-8") as file:
                file.write(text)
        self.start([shutil.which("nginx", path=PATH), "-p", self.folder, "-c", "nginx.conf"])

    def is_ready(self):
        try:
            with socket.create_connection(("127.0.0.1", self.port)) as client:
                client.sendall(b"GET / HTTP/1.0\r\n\r\n")
                return client.recv(8) == b"HTTP/1.1"
        except OSError:
            return False
