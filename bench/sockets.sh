#!/usr/bin/env bash
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
#
# What a machine with several NUMA nodes shows: checks binding, placement, steal order and rates against the kernel's answers, runs workloads on one
# node and on several, beside Go where it is installed, and sets the model's predictions (bench/results/scaling.md) beside what it measured.
#
#   bench/sockets.sh [--out DIR] [--runs N] [--scale X] [further flags: --help]
#
# Written to --out (default build/release/sockets): report.md and, with gnuplot, a plot for each workload. Whoever has such a machine runs it there and
# sends that folder. A machine with one node will do: the report says what it cannot show. Minutes; nothing else should run.
# Environment: JOBS (parallel compilers, default: the CPUs).
set -euo pipefail
cd "$(dirname "$0")/.."

tools/install_dependencies.sh compare
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
cmake --preset release
targets=(weft_workload weft_topology)
for target in weft_scaling guest_tests weft_workload_go; do  # The report says what is missing.
  if ninja -C build/release -t query "$target" >/dev/null 2>&1; then targets+=("$target"); fi
done
cmake --build build/release --parallel "${JOBS:-$(nproc)}" --target "${targets[@]}"
exec python3 -B bench/sockets/sockets.py "$@"
