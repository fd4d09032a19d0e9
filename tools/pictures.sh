#!/usr/bin/env bash
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Draws the pictures of docs/ anew:  tools/pictures.sh <weft_topology> [--check]
# With --check nothing is written: it fails, and says which, if one is not as the tool would draw it now.
set -euo pipefail
if [ $# -lt 1 ]; then
  sed -n '5,6s/^# \{0,1\}//p' "$0" >&2
  exit 2
fi
tool=$(realpath "$1")
cd "$(dirname "$0")/../docs"
drawn=$(mktemp -d)
trap 'rm -rf "$drawn"' EXIT

draw() {  # draw <name> <title> <topology> <more flags>
  local name=$1 title=$2 topology=$3
  shift 3
  "$tool" --fiber_topology="$topology" --title="$title" --svg="$drawn/topology-$name.svg" "$@" >/dev/null
}
draw epyc-9654-2p "Two AMD EPYC 9654" "pack:2 numa:1 l3:12 core:8 pu:2(indexes=2*192:1*2)"
draw ryzen-9950x "AMD Ryzen 9950X" "pack:1 numa:1 l3:2 core:8 pu:2(indexes=2*16:1*2)"
draw xeon-8480-2p "Two Xeon 8480+, stealing across nodes" "pack:2 numa:1 l3:1 core:56 pu:2(indexes=2*112:1*2)" \
  --fiber_cross_numa_work_stealing_ratio=64
draw few-workers "90 workers on two AMD EPYC 9654, four nodes per socket" \
  "pack:2 numa:4 l3:3 core:8 pu:2(indexes=2*192:1*2)" --fiber_concurrency_hint=90

status=0
for picture in "$drawn"/*.svg; do
  name=$(basename "$picture")
  if [ "${2:-}" = --check ]; then
    cmp "$picture" "$name" || { echo "docs/$name is out of date: run tools/pictures.sh" >&2; status=1; }
  else
    cp "$picture" "$name"
    echo "docs/$name"
  fi
done
exit $status
