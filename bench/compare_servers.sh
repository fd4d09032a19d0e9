#!/usr/bin/env bash
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
#
# The example servers beside Go's net/http, nginx and Redis under the same load, as a Markdown table:
#
#   bench/compare_servers.sh [--rounds=5] [--seconds=3] [--only=http|redis] [--bin=build/release/bin]
#
# Installs the others and the load generators from Debian, where they are missing. Builds nothing of Weft: what is not
# there is left out (cmake --build --preset release --target weft_examples).
# Server and load generator share the machine's CPUs, so the figures are for comparison within a table only.
set -euo pipefail
cd "$(dirname "$0")/.."

packages=(golang-go nginx-light redis-server redis-tools wrk python3)
missing=()
for package in "${packages[@]}"; do
  [ "$(dpkg-query --show --showformat='${db:Status-Status}' "$package" 2>/dev/null || true)" = installed ] || missing+=("$package")
done
if [ ${#missing[@]} -ne 0 ]; then
  as_root=()
  [ "$(id -u)" -eq 0 ] || as_root=(sudo)
  echo "installing: ${missing[*]}" >&2
  install=("${as_root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install --yes --quiet --no-install-recommends)
  "${install[@]}" "${missing[@]}" >&2 || { "${as_root[@]}" apt-get update --quiet >&2 && "${install[@]}" "${missing[@]}" >&2; }
fi

exec python3 bench/compare_servers/compare.py "$@"
