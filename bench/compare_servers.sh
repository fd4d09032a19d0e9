#!/usr/bin/env bash
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
#
# The example servers beside Go's net/http, nginx and Redis under the same load, as a Markdown table:
#
#   bench/compare_servers.sh [--rounds=5] [--seconds=3] [--only=http|redis] [--loads=<word of a title>] [--memory] [--bin=build/release/bin]
#
# Installs the others and the load generators where they are missing (tools/install_dependencies.sh servers). Builds
# nothing of Weft: what is not there is left out (cmake --build --preset release --target weft_examples).
# Server and load generator share the machine's CPUs, so the figures are for comparison within a table only.
set -euo pipefail
cd "$(dirname "$0")/.."

tools/install_dependencies.sh servers >&2
exec python3 bench/compare_servers/compare.py "$@"
