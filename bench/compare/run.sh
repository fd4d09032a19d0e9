#!/usr/bin/env bash
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Weft beside Go, Boost.Fiber, oneTBB, tokio and std::thread, as Debian 12 has them: installs what is missing, builds,
# runs, and writes tables and plots.
#
#   bench/compare/run.sh [--runs N] [--workers N] [--workloads a,b] [--runtimes a,b] [--out DIR] [further flags: --help]
#
# Written to --out (default build/release/compare): report.md, results.json, throughput.svg, latency.svg.
# A run of all workloads takes minutes, longer the less of the machine is free. Environment: JOBS (parallel compilers, default: the CPUs).
set -euo pipefail
cd "$(dirname "$0")/../.."

tools/install_dependencies.sh compare
export CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1
cmake --preset release
targets=(weft_workload weft_workload_peers weft_bare_switch)
# Peers that Debian had no packages for are left out; the report says so.
for target in weft_workload_one_tbb weft_workload_go weft_workload_tokio; do
  if ninja -C build/release -t query "$target" >/dev/null 2>&1; then targets+=("$target"); fi
done
cmake --build build/release --parallel "${JOBS:-$(nproc)}" --target "${targets[@]}"
exec python3 -B bench/compare/compare.py "$@"
