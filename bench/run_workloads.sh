#!/usr/bin/env bash
# Copyright 2026 The Weft Authors.
# SPDX-License-Identifier: Apache-2.0
#
# Runs the short workloads many times in a row, each time in a fresh process, at 1, 2 and 8 workers: the hunt for hangs.
#
#   bench/run_workloads.sh [path of the program workload] [times] [further flags of the program...]
#
# Environment: WORKLOADS (names separated by commas), WORKERS (numbers separated by blanks), SCALE, LIMIT (a factor on each
# workload's own time limit). Stops at the first run that fails and prints it, with the stacks of all threads if gdb is there.
set -euo pipefail

program=${1:-build/bench/workload}
times=${2:-50}
shift $(($# > 2 ? 2 : $#))

workloads=${WORKLOADS:-spawn,spawn_ext,skynet,yield,pingpong,pingpong_semaphore,pingpong_cv,mutex,mutex_yield,wake,wake_park,chan,timers,sleepers}
scale=${SCALE:-0.05}
limit=${LIMIT:-1}
log=$(mktemp)
trap 'rm -f "$log"' EXIT

for workers in ${WORKERS:-1 2 8}; do
  started=$SECONDS
  for ((i = 1; i <= times; ++i)); do
    if ! "$program" --workload="$workloads" --workers="$workers" --scale="$scale" --rounds=1 --limit_factor="$limit" \
      --backtrace_on_hang "$@" >"$log" 2>&1; then
      printf 'workers=%s: run %s of %s failed\n' "$workers" "$i" "$times"
      cat "$log"
      exit 1
    fi
  done
  printf 'workers=%s: %s runs of %s at scale %s without a hang, %s s\n' \
    "$workers" "$times" "$workloads" "$scale" $((SECONDS - started))
done
