# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
"""Beast's asynchronous client in fibers against the example HTTP server: beast_client_test.py <client> <http_server>"""

import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "examples"))
from server_process import Server  # pylint: disable=wrong-import-position

CLIENT, SERVER = sys.argv[1:3]
del sys.argv[1:3]


class BeastClient(unittest.TestCase):
    def test_each_answer_is_right(self):
        with Server(SERVER) as server:
            for workers, policy, threads in ((1, "v1", 1), (1, "v2", 3), (2, "v1", 3), (2, "v2", 1), (4, "v1", 3), (4, "v2", 3)):
                with self.subTest(workers=workers, policy=policy, threads=threads):
                    command = [CLIENT, str(server.port), str(workers), policy, str(threads)]
                    client = subprocess.run(command, capture_output=True, text=True, check=False, timeout=100)
                    self.assertEqual(client.returncode, 0, client.stdout + client.stderr)


if __name__ == "__main__":
    unittest.main()
