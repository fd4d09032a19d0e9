#!/usr/bin/env bash
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Builds Weft (g++, optimised), runs programs of examples/ that show one thing each, and then the main job: the middle
# tier of a search (an HTTP server that calls two protobuf RPC backends, examples/proxy) under load, where each answer is
# checked.  The other examples are servers and event loops to start by hand; ./test.sh all runs them.  Missing Debian
# packages are installed first.  The exit status is 0 if all went well.
#
#   ./demo.sh --admin[=127.0.0.1:8081]   builds, runs the main job until Ctrl-C, and prints where its admin pages are
#                                        (docs/how-to/look-inside.md)
set -euo pipefail
cd "$(dirname "$0")"

admin=""
case "$#${1:-}" in
  0) ;;
  1--admin) admin=127.0.0.1:0 ;;
  1--admin=?*) admin=${1#--admin=} ;;
  *)
    echo "usage: ./demo.sh [--admin[=127.0.0.1:8081]]" >&2
    exit 2
    ;;
esac

tools/install_dependencies.sh demo
# A build tree of its own: here neither the test nor the benchmark libraries are needed.
build=build/demo
mkdir -p build/logs
if ! cmake --preset release -B "$build" -DWEFT_BUILD_TESTS=OFF -DWEFT_BUILD_BENCHMARKS=OFF >build/logs/demo.log 2>&1; then
  cat build/logs/demo.log
  exit 1
fi
CCACHE_BASEDIR=$PWD CCACHE_NOHASHDIR=1 cmake --build "$build" --parallel "${JOBS:-$(nproc)}" --target weft_demo

if [ -n "$admin" ]; then
  exec examples/proxy/run.sh "$build/bin" --admin="$admin"
fi

while read -r example arguments; do
  printf '\n== %s\n' "$example"
  # shellcheck disable=SC2086  # One word for each argument.
  timeout 60 "$build/bin/$example" $arguments
done <"$build/demo.list"

printf '\n== proxy: HTTP in front, hedged RPC to two backends behind, 50 connections\n'
timeout 120 examples/proxy/run.sh "$build/bin" 5
printf '\nall ran\n'
